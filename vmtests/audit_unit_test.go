//go:build systemd

package vmtests

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meshgen/internal/audit"
)

// logged returns the fields of each entry of the journal in which an audit told of a
// finding.
func (v *Machine) logged(match ...string) []map[string]string {
	v.t.Helper()
	var entries []map[string]string
	out := v.Run(append([]string{"journalctl", "--output=json", "--unit=meshgen-audit.service"}, match...)...)
	for line := range strings.Lines(out) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			v.t.Fatal(err)
		}
		fields := map[string]string{}
		for key, value := range entry {
			if text, ok := value.(string); ok && (key == "MESSAGE" || key == "PRIORITY" || strings.HasPrefix(key, "MESHGEN_")) {
				fields[key] = text
			}
		}
		if fields["MESHGEN_TARGET"] != "" {
			entries = append(entries, fields)
		}
	}
	return entries
}

// As a unit, within its sandbox, an audit sees what it sees without, and tells the
// journal of each thing once.
func TestAuditAsAUnit(t *testing.T) {
	v := Boot(t)
	v.WriteManifest("package mesh\nnode: adopted: true\n" + `modules: m: {
	containers: db: {Container: {Image: "localhost/probe:1", Network: "host", Exec: "probe store :5432"}, holds: [5432]}
	containers: port: {Container: {Image: "localhost/probe:1", Network: ["net"], PublishPort: ["8080:80"], Exec: "probe serve :80"}}
	networks: net: {}
	files: home: {path: "/root/conf", content: "x"}
	files: tmp: {path: "/tmp/m/conf", content: "x"}
}
`)
	v.Switch()
	v.Run("podman", "run", "--detach", "--name=late", "--network=host", "localhost/probe:2", "probe", "front", "127.0.0.1:5432", ":3000")
	v.Run("podman", "run", "--detach", "--name=inside", "--network=m-net", "localhost/probe:2", "probe", "serve", ":81")
	v.Run("sh", "-ec", "echo y >/root/conf; touch /tmp/m/late")
	v.Await("late is connected", func() bool { return v.Run("ss", "-Htn", "state", "established", "dport", "5432") != "" })

	v.WriteFile("/etc/systemd/system/meshgen-audit.service.d/prometheus.conf",
		"[Service]\nExecStart=\nExecStart=/usr/bin/meshgen audit --journal --prometheus /srv/metrics/meshgen.prom\nReadWritePaths=/srv/metrics\n")
	v.Run("mkdir", "-p", "/srv/metrics")
	v.Run("systemctl", "daemon-reload")
	v.Run("systemctl", "start", "meshgen-audit.service") // with findings, and succeeds
	entries := v.logged()
	var told []string
	for _, e := range entries {
		told = append(told, e["MESHGEN_CLASS"]+" "+e["MESHGEN_TARGET"])
	}
	slices.Sort(told)
	bare := v.auditOf(10)
	if diff := cmp.Diff(classes(bare.Findings), told); diff != "" {
		t.Errorf("the sandbox makes a difference (-bare +unit):\n%s", diff)
	}
	foreign := v.logged("MESHGEN_CLASS=foreign", "MESHGEN_TARGET=container:late")
	if len(foreign) != 1 || foreign[0]["PRIORITY"] != "4" || foreign[0]["MESHGEN_FIX"] != "podman rm --force --volumes late" ||
		!strings.HasPrefix(foreign[0]["MESHGEN_LISTENS"], "tcp [::]:3000, every address, by probe (") {
		t.Errorf("entries of the container: %q", foreign)
	}
	metrics := v.ReadFile("/srv/metrics/meshgen.prom")
	if !strings.Contains(metrics, "\nmeshgen_audit_findings{class=\"foreign\"} 3\n") || !strings.Contains(metrics, "\nmeshgen_audit_partial 0\n") {
		t.Errorf("metrics:\n%s", metrics)
	}

	// The whole document is the same, within the sandbox and without.
	v.WriteFile("/etc/systemd/system/meshgen-audit.service.d/prometheus.conf",
		"[Service]\nExecStart=\nExecStart=/usr/bin/meshgen audit --json\nStandardOutput=truncate:/srv/report\n")
	v.Run("systemctl", "daemon-reload")
	v.Run("systemctl", "start", "meshgen-audit.service")
	var boxed audit.Report
	if err := json.Unmarshal([]byte(v.ReadFile("/srv/report")), &boxed); err != nil {
		t.Fatal(err)
	}
	boxed.At = bare.At
	if diff := cmp.Diff(bare, boxed); diff != "" {
		t.Errorf("the sandbox makes a difference (-bare +unit):\n%s", diff)
	}
	v.Run("rm", "/etc/systemd/system/meshgen-audit.service.d/prometheus.conf")
	v.Run("systemctl", "daemon-reload")

	// Nothing is told twice; what is settled is told once.
	v.Run("systemctl", "start", "meshgen-audit.service")
	if again := v.logged(); len(again) != len(entries) {
		t.Errorf("%d entries, and %d after a second audit", len(entries), len(again))
	}
	v.Run("podman", "rm", "--force", "late")
	v.Run("systemctl", "start", "meshgen-audit.service")
	if settled := v.logged(); len(settled) != len(entries)+1 || settled[len(settled)-1]["MESSAGE"] != "settled container:late" {
		t.Errorf("after a container went: %q", settled[len(entries):])
	}

	out := v.Run("systemd-analyze", "security", "--no-pager", "meshgen-audit.service")
	exposure := regexp.MustCompile(`Overall exposure level for meshgen-audit.service: ([0-9.]+)`).FindStringSubmatch(out)
	if exposure == nil {
		t.Fatal(out)
	}
	if level, err := strconv.ParseFloat(exposure[1], 64); err != nil || level > 4.5 {
		t.Errorf("systemd-analyze security: %s", out)
	}

	v.Run("systemctl", "enable", "--now", "meshgen-audit.timer")
	if state := v.Show("meshgen-audit.timer", "ActiveState")["ActiveState"]; state != "active" {
		t.Errorf("the timer is %s", state)
	}
	if got := v.auditOf(10); len(got.Findings) != len(bare.Findings)-1 {
		t.Errorf("its own units are told: %q", classes(got.Findings))
	}
}
