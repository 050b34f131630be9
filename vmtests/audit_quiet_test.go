//go:build systemd

package vmtests

import (
	"slices"
	"strings"
	"testing"

	"meshgen/internal/audit"
)

// mustBeQuiet wants an audit that finds nothing, and lists what is found alone.
func (v *Machine) mustBeQuiet(when string, found ...string) {
	v.t.Helper()
	r := v.Exec("meshgen", "audit")
	if r.Code != 0 {
		v.t.Errorf("%s: exit %d\n%s%s", when, r.Code, r.Stdout, r.Stderr)
		return
	}
	report := v.auditOf(0)
	if got := classes(slices.Concat(report.Found, report.Held, report.Retained)); !slices.Equal(got, found) {
		v.t.Errorf("%s: listed %q, want %q", when, got, found)
	}
}

// What is down and right to be, what is not ours, and what was there: no finding, at
// any time of a node's life.
func TestAuditRaisesNoFalseAlarm(t *testing.T) {
	v := Boot(t)
	v.Run("podman", "network", "create", "theirs")
	v.Run("podman", "pod", "create", "--name=their-pod", "--network=theirs")
	v.Run("podman", "create", "--name=shop_web_1", "--label=com.docker.compose.project=shop", "--network=none", "localhost/probe:1")
	v.WriteFile("/etc/systemd/system/theirs.service", "[Service]\nExecStart=sleep inf\n")
	v.Run("systemctl", "daemon-reload")
	theirs := []string{"found container:shop_web_1", "found network:theirs", "found pod:their-pod", "found unit:theirs.service"}
	v.mustBeQuiet("before the first switch", theirs...)

	const installed = `Install: WantedBy: ["multi-user.target"]`
	manifest := func(content string) string {
		return single(`
	containers: {
		app: Container: {Image: "localhost/probe:1", Network: ["net"], Volume: ["/etc/app:/config", "/anonymous"], HealthCmd: "probe exit 0", HealthInterval: "1s", PublishPort: ["8081:80"]}
		gone: {Container: {Image: "localhost/probe:1", Network: "none"}, Unit: ConditionPathExists: "/run/wanted"}
	}
	pods: crew: Pod: PublishPort: ["8080:80"]
	containers: joined: Container: {Image: "localhost/probe:1", Pod: "crew", Volume: "/anonymous"}
	networks: net: {}
	files: conf: {path: "/etc/app/conf", content: "` + content + `", notify: app: "restart"}
	files: plain: {path: "/etc/plain/conf", content: "x"}
	units: {
		"once.service": {Service: {Type: "oneshot", ExecStart: "/usr/bin/true"}, ` + installed + `}
		"again.service": {Service: {ExecStart: "/usr/bin/sleep 2", Restart: "always", RestartSec: "3600"}, ` + installed + `}
		"idle.socket": {Socket: ListenStream: "7070", Install: WantedBy: ["sockets.target"]}
		"idle.service": Service: ExecStart: "/usr/bin/sleep inf"
		"tick.timer": {Timer: OnCalendar: "daily", Install: WantedBy: ["timers.target"]}
		"tick.service": Service: {Type: "oneshot", ExecStart: "/usr/bin/true"}
	}`)
	}
	v.WriteManifest(manifest("1"))
	v.WriteFile("/run/wanted", "")
	v.Switch()
	v.Run("rm", "/run/wanted")
	v.Run("systemctl", "restart", "m-gone.service")
	v.Await("what is started again waits for that", func() bool {
		return v.Show("m-again.service", "SubState")["SubState"] == "auto-restart"
	})
	v.mustBeQuiet("after the first switch", theirs...)

	// Others see to their own, and containers to theirs.
	for _, script := range []string{
		"podman rm --force shop_web_1; podman run --detach --name=shop_web_1 --label=com.docker.compose.project=shop --network=none localhost/probe:2",
		"mkdir -p /run/systemd/system/dbus.service.d; printf '[Service]\\nNice=1\\n' >/run/systemd/system/dbus.service.d/override.conf",
		"touch /etc/app/written-by-the-container",
		"systemctl daemon-reload; systemctl start theirs; systemctl restart m-app",
		"systemctl start user@0.service || true; systemd-run --unit=passing sleep infinity",
	} {
		v.Run("sh", "-ec", script)
	}
	v.Await("health checks run", func() bool { return strings.Contains(v.Run("podman", "ps"), "(healthy)") })
	v.mustBeQuiet("with others at work", theirs...)

	v.WriteManifest(manifest("2"))
	v.Switch()
	v.Run("meshgen", "rollback")
	v.mustBeQuiet("after a rollback", theirs...)
	v.PowerCut()
	v.Boot()
	v.mustBeQuiet("after a boot", theirs...)
}

// While a switch is under way, what it moves is nobody's finding; what it does not is.
func TestAuditBesideASwitch(t *testing.T) {
	v := Boot(t)
	manifest := func(name string) string {
		return single(`containers: c: {name: "` + name + `", Container: {Image: "localhost/probe:1", Network: "none"}, Service: ExecStartPre: "/usr/bin/sh -c 'while test -e /run/wait; do sleep 0.1; done'"}
	files: f: {path: "/etc/` + name + `/f", content: "x"}`)
	}
	v.WriteManifest(manifest("ant"))
	v.Switch()
	v.Run("podman", "volume", "create", "late")
	v.WriteFile("/run/wait", "")
	v.WriteManifest(manifest("bat"))
	v.Run("systemd-run", "--unit=moving", "--property=Type=exec", "meshgen", "switch")
	v.Await("the successor is about to start", func() bool {
		return v.Show("bat.service", "ActiveState")["ActiveState"] == "activating"
	})
	report := v.auditOf(10)
	if got := classes(report.Findings); !slices.Equal(got, []string{"foreign volume:late"}) {
		t.Errorf("findings: %q", got)
	}
	if !slices.ContainsFunc(report.Notes, func(s string) bool { return strings.Contains(s, "a switch to generation 2 is under way") }) {
		t.Errorf("notes: %q", report.Notes)
	}
	v.Run("rm", "/run/wait")
	v.Await("the switch has ended", func() bool { return v.Show("moving", "ActiveState")["ActiveState"] == "inactive" })
	report = v.auditOf(10)
	if got := classes(report.Findings); !slices.Equal(got, []string{"foreign volume:late"}) || len(report.Notes) > 0 {
		t.Errorf("findings: %q, notes %q", got, report.Notes)
	}
}

// What an adoption keeps is held, and not counted; its leftovers are no finding.
func TestAuditLetsBeWhatAnAdoptionKeeps(t *testing.T) {
	v := Boot(t)
	v.WriteFile("/etc/a/conf", "theirs")
	v.Run("podman", "run", "--detach", "--name=app", "--network=none", "localhost/probe:2")
	v.WriteManifest(`package mesh
node: adopted: true
modules: m: {
	containers: c: {name: "app", Container: {Image: "localhost/probe:1", Network: "none"}}
	files: f: {path: "/etc/a/conf", content: "ours"}
}
`)
	v.Switch()
	held := v.auditOf(0)
	if got := classes(held.Held); !slices.Equal(got, []string{"held container:app", "held file:/etc/a/conf"}) {
		t.Errorf("held: %q", got)
	}
	v.Run("meshgen", "adopt", "container:app", "file:/etc/a/conf")
	report := v.auditOf(0)
	for _, f := range report.Held {
		if f.Class != audit.Held || !strings.HasPrefix(string(f.Target), "container:app.adopted-") {
			t.Errorf("held: %+v", f)
		}
	}
}
