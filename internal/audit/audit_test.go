package audit

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meshgen/units"
)

func TestOperandIsNoOption(t *testing.T) {
	if got := operand("-x y.service"); got != "-- '-x y.service'" {
		t.Error(got)
	}
	if got := operand("x.service"); got != "x.service" {
		t.Error(got)
	}
}

func TestIgnore(t *testing.T) {
	r := Report{Findings: []Finding{
		{Class: Foreign, Target: "container:ci-1", Also: []units.Target{"unit:runner.service"}},
		{Class: Foreign, Target: "container:web"},
		{Class: Drifted, Target: "file:/etc/m/a"},
	}}
	r.Ignore([]string{"unit:runner.*", "file:/etc/*/?"})
	if len(r.Findings) != 1 || r.Findings[0].Target != "container:web" || len(r.Ignored) != 2 {
		t.Errorf("%+v", r)
	}
}

func FuzzFits(f *testing.F) {
	for _, pattern := range []string{"container:ci-*", "*", "", "a*b*c", "??", "*.?*"} {
		f.Add(pattern, "container:ci-1")
		f.Add(pattern, "a.b.c")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		var re strings.Builder
		for i := range len(pattern) {
			switch c := pattern[i]; c {
			case '*':
				re.WriteString(`[\x00-\x{ff}]*`)
			case '?':
				re.WriteString(`[\x00-\x{ff}]`)
			default:
				fmt.Fprintf(&re, `\x{%02x}`, c)
			}
		}
		want := regexp.MustCompile("^(?:" + re.String() + ")$").MatchString(latin(text))
		if got := fits(pattern, text); got != want {
			t.Fatalf("%q and %q: %v, and the regexp says %v", pattern, text, got, want)
		}
	})
}

// latin has a rune for each byte of a text.
func latin(text string) string {
	runes := make([]rune, len(text))
	for i := range len(text) {
		runes[i] = rune(text[i])
	}
	return string(runes)
}

// A pattern of many stars takes no longer than others.
func TestFitsIsQuick(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	done := make(chan bool)
	go func() { done <- fits(strings.Repeat("*a", 500), strings.Repeat("a", 499)+strings.Repeat("b", 5000)) }()
	select {
	case got := <-done:
		if got {
			t.Error("it fits")
		}
	case <-ctx.Done():
		t.Error("no end within 5s")
	}
}

func TestGather(t *testing.T) {
	r := Report{}
	for i := range 30 {
		r.add(Finding{Class: Foreign, Target: units.Of(units.TargetFile, fmt.Sprintf("/etc/m/%02d", i)), Since: begin.Add(time.Duration(i) * time.Hour), Generation: i})
	}
	r.add(Finding{Class: Foreign, Target: "file:/etc/n/a"})
	r.add(Finding{Class: Drifted, Target: "file:/etc/m/ours"})
	r.Ignore([]string{"file:/etc/m/00"})
	r.Gather()
	want := []Finding{
		{
			Class: Foreign, Target: "dir:/etc/m", Since: begin.Add(time.Hour), Generation: 1, Listens: []Listener{},
			Detail: "29 files and directories lie in it that are not meshgen's: 01, 02, 03 …",
		},
		{Class: Foreign, Target: "file:/etc/n/a", Listens: []Listener{}},
		{Class: Drifted, Target: "file:/etc/m/ours", Listens: []Listener{}},
	}
	if diff := cmp.Diff(want, r.Findings); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestPrometheus(t *testing.T) {
	r := Report{
		At: begin, Generation: 3, Findings: []Finding{{Class: Stale}, {Class: Foreign}, {Class: Foreign}}, Found: make([]Finding, 4),
		Ignored: make([]Finding, 1), Unseen: []string{"podman"},
	}
	var got strings.Builder
	if err := WritePrometheus(&got, r); err != nil {
		t.Fatal(err)
	}
	const want = `# HELP meshgen_audit_findings What is on the machine and not as the manifest says, by class.
# TYPE meshgen_audit_findings gauge
meshgen_audit_findings{class="stale"} 1
meshgen_audit_findings{class="foreign"} 2
meshgen_audit_findings{class="missing"} 0
meshgen_audit_findings{class="stopped"} 0
meshgen_audit_findings{class="shadowed"} 0
meshgen_audit_findings{class="drifted"} 0
# HELP meshgen_audit_listed What is listed and does not count, by class.
# TYPE meshgen_audit_listed gauge
meshgen_audit_listed{class="held"} 0
meshgen_audit_listed{class="found"} 4
meshgen_audit_listed{class="retained"} 0
meshgen_audit_listed{class="ignored"} 1
# HELP meshgen_audit_partial 1 where something could not be looked at.
# TYPE meshgen_audit_partial gauge
meshgen_audit_partial 1
# HELP meshgen_audit_time_seconds When the machine was looked at, in seconds since 1970.
# TYPE meshgen_audit_time_seconds gauge
meshgen_audit_time_seconds 1796119200
# HELP meshgen_generation The generation in force; 0 where there is none.
# TYPE meshgen_generation gauge
meshgen_generation 3
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What is new is told once, and what is gone too; but what was not seen is not gone.
func TestNews(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.json")
	report := func(partial bool, targets ...units.Target) Report {
		r := Report{}
		for _, t := range targets {
			r.Findings = append(r.Findings, Finding{Class: Foreign, Target: t})
		}
		if partial {
			r.Unseen = []string{"podman"}
		}
		return r
	}
	for i, c := range []struct {
		r     Report
		fresh string
		gone  string
	}{
		{report(false, "a", "b"), "a b", ""},
		{report(false, "a", "b"), "", ""},
		{report(true, "b", "c"), "c", ""},
		{report(true, "c"), "", ""},
		{report(false, "c"), "", "a b"},
		{report(false, "a", "c"), "a", ""},
	} {
		fresh, gone, err := News(path, c.r)
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, f := range fresh {
			words = append(words, string(f.Target))
		}
		if got := strings.Join(words, " "); got != c.fresh {
			t.Errorf("audit %d: new %q, want %q", i, got, c.fresh)
		}
		if want := strings.Fields(c.gone); !slices.EqualFunc(gone, want, func(t units.Target, s string) bool { return string(t) == s }) {
			t.Errorf("audit %d: gone %q, want %q", i, gone, want)
		}
		if err := Remember(path, c.r); err != nil {
			t.Fatal(err)
		}
	}
}
