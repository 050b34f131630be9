package audit

import (
	"fmt"
	"io"
	"strings"
)

// WritePrometheus writes the counts of a report in the text format of Prometheus, as
// node_exporter reads it from a file in its textfile directory.
func WritePrometheus(w io.Writer, r Report) error {
	var b strings.Builder
	gauge := func(name, help string) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %[1]s gauge\n", name, help)
	}
	gauge("meshgen_audit_findings", "What is on the machine and not as the manifest says, by class.")
	counts := r.Counts()
	for _, c := range Counted() {
		fmt.Fprintf(&b, "meshgen_audit_findings{class=%q} %d\n", c, counts[c])
	}
	gauge("meshgen_audit_listed", "What is listed and does not count, by class.")
	for _, l := range []struct {
		class Class
		list  []Finding
	}{{Held, r.Held}, {Found, r.Found}, {Retained, r.Retained}, {"ignored", r.Ignored}} {
		fmt.Fprintf(&b, "meshgen_audit_listed{class=%q} %d\n", l.class, len(l.list))
	}
	gauge("meshgen_audit_partial", "1 where something could not be looked at.")
	fmt.Fprintf(&b, "meshgen_audit_partial %d\n", map[bool]int{true: 1}[r.Partial()])
	gauge("meshgen_audit_time_seconds", "When the machine was looked at, in seconds since 1970.")
	fmt.Fprintf(&b, "meshgen_audit_time_seconds %d\n", r.At.Unix())
	gauge("meshgen_generation", "The generation in force; 0 where there is none.")
	fmt.Fprintf(&b, "meshgen_generation %d\n", r.Generation)
	_, err := io.WriteString(w, b.String())
	return err
}
