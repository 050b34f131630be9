//go:build systemd

package vmtests

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meshgen/internal/audit"
)

// auditOf runs meshgen audit, which must end with a code, and returns its report.
func (v *Machine) auditOf(code int, args ...string) audit.Report {
	v.t.Helper()
	r := v.Exec(append([]string{"meshgen", "audit", "--json"}, args...)...)
	if r.Code != code {
		v.t.Fatalf("audit: exit %d, want %d\n%s%s", r.Code, code, r.Stdout, r.Stderr)
	}
	var report audit.Report
	if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil {
		v.t.Fatalf("audit: %v\n%s", err, r.Stdout)
	}
	return report
}

// classes returns a line for each of the findings.
func classes(findings []audit.Finding) []string {
	lines := []string{}
	for _, f := range findings {
		lines = append(lines, string(f.Class)+" "+string(f.Target))
	}
	slices.Sort(lines)
	return lines
}

// The case that meshgen was made for: other tools rename a container, and it runs on
// under its old name, on the host's network, listening on every interface, with an
// open connection to the store that its successor uses. The audit names all of it,
// and the command that it prints ends it.
func TestAuditTellsOfTheContainerThatARenameLeftBehind(t *testing.T) {
	v := Boot(t)
	quadlet := func(name, port string) string {
		return fmt.Sprintf("[Container]\nImage=localhost/probe:1\nContainerName=%s\nNetwork=host\nExec=probe front 127.0.0.1:5432 :%s\n", name, port)
	}
	v.WriteManifest("package mesh\nnode: adopted: true\n" + `modules: forge: containers: db: {
	Container: {Image: "localhost/probe:1", Network: "host", Exec: "probe store :5432"}
	holds: [5432]
}
`)
	v.WriteFile(quadlets+"old.container", quadlet("forge-gitea-server", "3000"))
	v.Run("systemctl", "daemon-reload")
	v.Switch()
	v.Run("systemctl", "start", "old")
	v.Run("rm", quadlets+"old.container")
	v.WriteFile(quadlets+"new.container", quadlet("gitea", "3001"))
	v.Run("systemctl", "daemon-reload")
	v.Run("systemctl", "start", "new")
	v.Await("both are connected to the store", func() bool {
		return strings.Count(v.Run("ss", "-Htn", "state", "established", "dport", "5432"), "\n") == 2
	})

	report := v.auditOf(10)
	if got, want := classes(report.Findings), []string{"foreign container:forge-gitea-server", "foreign container:gitea"}; !slices.Equal(got, want) {
		t.Fatalf("findings: %q, want %q", got, want)
	}
	f := report.Findings[slices.IndexFunc(report.Findings, func(f audit.Finding) bool { return f.Target == "container:forge-gitea-server" })]
	for _, words := range []string{"localhost/probe:1, runs", "old.service runs, and systemd has lost its definition", "there before the first switch, defined by /etc/containers/systemd/old.container"} {
		if !strings.Contains(f.Detail, words) {
			t.Errorf("detail lacks %q: %s", words, f.Detail)
		}
	}
	if len(f.Listens) != 1 || f.Listens[0].Address != "::" || f.Listens[0].Port != 3000 || f.Listens[0].Process != "probe" || f.Listens[0].PID == 0 {
		t.Errorf("listens: %+v", f.Listens)
	}
	if len(f.Connects) != 1 || f.Connects[0].To != "127.0.0.1:5432" || f.Connects[0].Of.String() != "forge/container/db" || f.Connects[0].PID != f.Listens[0].PID {
		t.Errorf("connects: %+v", f.Connects)
	}
	if f.Since.IsZero() || f.Generation != 1 || !slices.Contains(f.Also, "unit:old.service") {
		t.Errorf("%+v", f)
	}

	begin := time.Now()
	v.Run("sh", "-ec", f.Fix)
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("%s took %s", f.Fix, took)
	}
	v.Await("its unit has gone with it", func() bool { return v.Show("old.service", "ActiveState")["ActiveState"] == "inactive" })
	v.mustBeGone("old.service")
	v.mustRun("forge-db", "gitea")
	if open := v.Run("ss", "-Htn", "state", "established", "dport", "5432"); strings.Count(open, "\n") != 1 {
		t.Errorf("connections to the store:\n%s", open)
	}
	for _, f := range v.auditOf(10).Findings {
		v.Run("sh", "-ec", f.Fix)
	}
	v.auditOf(0)
}

// crowd is a manifest of containers that run, with one of each kind that the test
// damages.
func crowd(n int) string {
	return fmt.Sprintf(`package mesh

import "list"

node: adopted: true
modules: {
	m: containers: {for i in list.Range(0, %d, 1) {"c\(i)": Container: {Image: "localhost/probe:1", Network: "none"}}}
	m: files: {for f in ["content", "mode", "owner", "link", "gone"] {(f): {path: "/etc/m/\(f)", content: "as declared\n"}}}
	m: volumes: {left: {}}
	m: units: "late.service": {Service: {Type: "exec", ExecStart: "/usr/bin/sleep infinity"}}
}
`, n)
}

// Two hundred containers of ours, and among them one of each thing that can be wrong:
// the report has exactly these.
func TestAuditHasEachOfEverythingAndNothingElse(t *testing.T) {
	v := Boot(t)
	v.Run("podman", "run", "--detach", "--name=was-there", "--network=none", "localhost/probe:2")
	v.Run("podman", "run", "--detach", "--name=m-held", "--network=none", "localhost/probe:2")
	manifest := crowd(200)
	for _, n := range []int{50, 100, 150} { // podman starts no more at once
		v.WriteManifest(crowd(n) + `modules: m: containers: held: ` + probe + "\n")
		v.Switch()
	}
	v.WriteManifest(manifest + `modules: m: containers: {held: ` + probe + `, gone: ` + probe + `}` + "\n")
	v.Switch()
	v.WriteManifest(strings.Replace(manifest, "left: {}", "", 1) + `modules: m: containers: held: ` + probe + "\n")
	v.Switch()
	v.auditOf(0)

	for _, script := range []string{
		"systemctl stop m-c0", "systemctl kill --signal=KILL m-c1", "podman rm --force m-c2",
		"mkdir /etc/systemd/system/m-c3.service.d && printf '[Service]\\nNice=5\\n' >/etc/systemd/system/m-c3.service.d/nice.conf",
		"printf '[Service]\\nExecStart=sleep inf\\n' >/etc/systemd/system/m-c4.service", "systemctl mask m-c5",
		"echo otherwise >/etc/m/content", "chmod 600 /etc/m/mode", "chown 7 /etc/m/owner", "ln -sf /etc/hostname /etc/m/link", "rm /etc/m/gone",
		"podman run --detach --name=m-gone --network=none --label=io.meshgen.resource=m/container/gone localhost/probe:1", // from a script of old
		"podman run --detach --name=late --network=none localhost/probe:2", "podman pod create late-pod", "podman volume create late-volume",
		"podman network create late-network", "echo x | podman secret create late-secret -", "echo x >/etc/m/late-file",
		"printf '[Service]\\nExecStart=sleep inf\\n' >/etc/systemd/system/late-unit.service",
		"printf '[Container]\\nImage=localhost/probe:1\\n' >/etc/containers/systemd/late-quadlet.container",
		"systemctl daemon-reload",
	} {
		v.Run("sh", "-ec", script)
	}
	v.Await("what was killed has failed", func() bool { return v.Show("m-c1", "ActiveState")["ActiveState"] == "failed" })

	report := v.auditOf(10)
	want := []string{
		"drifted file:/etc/m/content", "drifted file:/etc/m/link", "drifted file:/etc/m/mode", "drifted file:/etc/m/owner", "drifted unit:m-c3.service",
		"foreign container:late", "foreign file:/etc/m/late-file", "foreign network:late-network", "foreign pod:late-pod",
		"foreign secret:late-secret", "foreign unit:late-quadlet.service", "foreign unit:late-unit.service", "foreign volume:late-volume",
		"missing file:/etc/m/gone",
		"shadowed unit:m-c4.service", "shadowed unit:m-c5.service",
		"stale container:m-gone", "stopped unit:m-c0.service", "stopped unit:m-c1.service", "stopped unit:m-c2.service",
	}
	if diff := cmp.Diff(want, classes(report.Findings)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	listed := slices.Concat(classes(report.Held), classes(report.Found), classes(report.Retained))
	if diff := cmp.Diff([]string{"held container:m-held", "found container:was-there", "retained volume:m-left"}, listed); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
	if len(report.Unseen) > 0 {
		t.Errorf("unseen: %q", report.Unseen)
	}
	for _, f := range report.Findings {
		if (f.Since.IsZero() && f.Class != audit.Missing) || f.Detail == "" || f.Fix == "" {
			t.Errorf("something is not known: %+v", f)
		}
	}

	// Each command, typed as it is printed, settles what it is for.
	for _, f := range report.Findings {
		if r := v.Exec("sh", "-ec", f.Fix); r.Code != 0 {
			t.Errorf("%s: exit %d\n%s%s", f.Fix, r.Code, r.Stdout, r.Stderr)
		}
	}
	if left := v.auditOf(0); len(left.Findings) > 0 {
		t.Errorf("left: %q", classes(left.Findings))
	}
}

// What a distribution ships, what podman makes for itself, and what is none of
// meshgen's business: an audit has no word on it.
func TestAuditOfACleanMachineFindsNothing(t *testing.T) {
	v := Boot(t)
	v.auditOf(0)
	v.WriteManifest(single(`
	containers: {
		x: Container: {Image: "localhost/probe:1", HealthCmd: "none"}
		healthy: Container: {Image: "localhost/probe:1", HealthCmd: "probe exit 0", HealthInterval: "1s"}
		joined: Container: {Image: "localhost/probe:1", Pod: "crew", Volume: "/anonymous"}
	}
	pods: crew: Pod: PublishPort: ["8080:80"]
	networks: net: {}
	volumes: data: {}
	secrets: word: content: "x"
	files: a: {path: "/etc/m/below/a", content: "a"}
	units: "tick.timer": {Timer: OnCalendar: "daily"}
	units: "tick.service": {Service: {Type: "oneshot", ExecStart: "/usr/bin/true"}}
	units: "listening.socket": {Socket: ListenStream: "7070"}
	units: "listening.service": {Service: ExecStart: "/usr/bin/sleep inf"}`))
	v.Switch()
	v.Run("systemd-run", "--unit=passing", "sleep", "infinity")
	v.Exec("systemctl", "start", "user@0.service")
	v.Exec("systemd-run", "--scope", "--slice=user.slice", "--unit=session-9", "sh", "-c", "setsid sleep 100 >/dev/null 2>&1 &")
	if report := v.auditOf(0); len(report.Found)+len(report.Held)+len(report.Retained) > 0 {
		t.Errorf("listed: %+v", report)
	}
}
