//go:build systemd

package vmtests

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// forge is the manifest of the story: its container has a name or none, and its
// config file a path.
func forge(name, path string) string {
	return fmt.Sprintf(`package mesh

modules: forge: {
	containers: "gitea.server": {
		%s
		Container: {
			Image:   "localhost/probe:1"
			Exec:    "probe serve :3000"
			Network: "host"
			Volume: ["data:/data", "%[2]s:/app.ini:ro"]
		}
		holds: [3000]
	}
	volumes: data: {}
	files: "app.ini": {
		path:    "%[2]s"
		mode:    "0640"
		content: "[server]\nHTTP_PORT = 3000\n"
		notify: "gitea.server": "restart"
	}
}
`, nameField(name), path)
}

func nameField(name string) string {
	if name == "" {
		return ""
	}
	return "name: " + strconv.Quote(name)
}

// A container that ran under the name that follows from its address is given
// another, and its config file moves. What people use today leaves both
// running.
func TestForgeIsRenamed(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(forge("", "/etc/gitea/app.ini"))
	v.Switch()
	v.mustRun("forge-gitea-server")

	v.WriteManifest(forge("gitea", "/etc/gitea/gitea.ini"))
	v.Switch()

	v.mustRun("gitea")
	v.mustBeGone("forge-gitea-server.service")
	v.mustNotOverlap("forge-gitea-server", "gitea")
	if v.Exists("/etc/gitea/app.ini") || !v.Exists("/etc/gitea/gitea.ini") {
		t.Error("the config file did not move")
	}
	for _, target := range []string{"unit:forge-gitea-server.service", "container:forge-gitea-server", "file:/etc/gitea/app.ini"} {
		if !strings.Contains(v.ReadFile("/var/lib/meshgen/ledger"), target) {
			t.Errorf("the ledger does not know %s any more", target)
		}
	}
	if r := v.Exec("meshgen", "plan", "--exit-code"); r.Code != 0 || r.Stdout != "nothing to do\n" {
		t.Errorf("plan --exit-code after the switch: %+v", r)
	}
	v.mustBeSwept()
	// By hand, too, the two would never run side by side.
	if fence := v.Show("gitea", "Conflicts", "After"); !strings.Contains(fence["Conflicts"], "forge-gitea-server.service") || !strings.Contains(fence["After"], "forge-gitea-server.service") {
		t.Errorf("gitea.service has no fence against its predecessor: %v", fence)
	}
}

// As a unit of systemd a switch logs what it does with fields to search by.
func TestSwitchAsAUnitLogsWithFields(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(forge("gitea", "/etc/gitea/app.ini"))
	v.Run("systemd-run", "--wait", "--quiet", "--unit=apply-it", "meshgen", "switch")
	v.mustRun("gitea")
	v.Run("journalctl", "--sync")
	if out := v.Run("journalctl", "--output=cat", "--no-pager", "MESHGEN_OP=start", "MESHGEN_TARGET=unit:gitea.service"); out != "start gitea.service\n" {
		t.Errorf("the journal has %q", out)
	}
}

// A second switch restarts nothing and writes nothing.
func TestSwitchWithNothingToDoDoesNothing(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(forge("gitea", "/etc/gitea/app.ini"))
	v.Switch()
	before, written := v.invocation("gitea"), v.written()
	v.Switch()
	if v.invocation("gitea") != before {
		t.Error("the container was restarted")
	}
	if now := v.written(); now != written {
		t.Errorf("something was written:\n%s\nwas\n%s", now, written)
	}
}

// A comment, and the order of keys, are nothing to do either.
func TestSwitchAfterAnEditThatSaysTheSameDoesNothing(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(forge("gitea", "/etc/gitea/app.ini"))
	v.Switch()
	before, written := v.invocation("gitea"), v.written()
	v.WriteManifest("// The forge.\n" + forge("gitea", "/etc/gitea/app.ini"))
	v.Switch()
	if v.invocation("gitea") != before || v.written() != written {
		t.Error("something was done")
	}
}

// What its owner stopped by hand stays stopped, until its declaration changes.
func TestUnitStoppedByHandStaysStopped(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(forge("gitea", "/etc/gitea/app.ini"))
	v.Switch()
	v.Run("systemctl", "stop", "gitea")
	v.Switch()
	v.mustRun()

	v.WriteManifest(forge("gitea", "/etc/gitea/app.ini") + "modules: other: volumes: more: {}\n")
	v.Switch()
	v.mustRun()

	v.WriteManifest(strings.Replace(forge("gitea", "/etc/gitea/app.ini"), "probe:1", "probe:2", 1))
	v.Switch()
	v.mustRun("gitea")
}

// What is no longer declared is removed; a volume stays.
func TestWhatIsTakenAwayLeavesNothingBehind(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(forge("gitea", "/etc/gitea/app.ini") + `
modules: web: {
	containers: front: Container: {Image: "localhost/probe:1", Network: ["net"]}
	networks: net: {}
	files: conf: {path: "/etc/web/deep/er/web.conf", content: "x"}
}
`)
	v.Switch()
	v.mustRun("gitea", "web-front")

	v.WriteManifest(forge("gitea", "/etc/gitea/app.ini"))
	v.Switch()
	v.mustRun("gitea")
	v.mustBeGone("web-front.service", "web-net-network.service")
	if v.Exists("/etc/web") {
		t.Error("a directory that was made for a file is still there")
	}
	if networks := v.Run("podman", "network", "ls", "--format={{.Name}}"); networks != "podman\n" {
		t.Errorf("networks: %q", networks)
	}

	v.WriteManifest("package mesh\n")
	if r := v.Exec("meshgen", "switch"); r.Code != 3 {
		t.Errorf("an empty manifest: exit %d", r.Code)
	}
	v.mustRun("gitea")
	v.Switch("--allow-empty")
	v.mustRun()
	v.mustBeGone("gitea.service")
	if volumes := v.Run("podman", "volume", "ls", "--format={{.Name}}"); volumes != "forge-data\n" {
		t.Errorf("volumes: %q", volumes)
	}

	v.WriteManifest(forge("gitea", "/etc/gitea/app.ini"))
	v.Switch() // the volume was ours, and is again
	v.mustRun("gitea")
}

// A file that other hands changed is put right, and what they made of it kept.
func TestDriftedFileIsRestored(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(forge("gitea", "/etc/gitea/app.ini"))
	v.Switch()
	before := v.invocation("gitea")
	v.WriteFile("/etc/gitea/app.ini", "by hand\n")
	v.Switch()
	if text := v.ReadFile("/etc/gitea/app.ini"); text != "[server]\nHTTP_PORT = 3000\n" {
		t.Errorf("the file is %q", text)
	}
	if v.invocation("gitea") == before {
		t.Error("the container was not told of it")
	}
	if kept := v.Run("sh", "-c", "cat /var/lib/meshgen/backups/*"); kept != "by hand\n" {
		t.Errorf("kept: %q", kept)
	}
	v.Run("chmod", "0600", "/etc/gitea/app.ini")
	v.Switch()
	if mode := v.Run("stat", "--format=%a", "/etc/gitea/app.ini"); mode != "640\n" {
		t.Errorf("the mode is %s", mode)
	}
}

// mustRun sees that just these containers run.
func (v *Machine) mustRun(names ...string) {
	v.t.Helper()
	if names == nil {
		names = []string{}
	}
	if got := v.Containers(); !slices.Equal(got, names) {
		v.t.Fatalf("containers %q run, want %q", got, names)
	}
}

// mustBeGone sees that systemd has no trace of units.
func (v *Machine) mustBeGone(names ...string) {
	v.t.Helper()
	for _, name := range names {
		if got := v.Show(name, "LoadState", "ActiveState"); got["LoadState"] != "not-found" || got["ActiveState"] != "inactive" {
			v.t.Errorf("%s is %v", name, got)
		}
	}
}

// mustBeSwept sees that no switch left anything half-done.
func (v *Machine) mustBeSwept() {
	v.t.Helper()
	litter := v.Run("sh", "-c", "ls -A /run/systemd/system /run/meshgen 2>/dev/null | grep -v -e : -e '^$' -e '^lock$'; find /etc -name '.meshgen-*'; ls -A /etc/meshgen | grep -x pending; true")
	if litter != "" {
		v.t.Errorf("left behind: %s", litter)
	}
}

func (v *Machine) invocation(unit string) string {
	v.t.Helper()
	return v.Show(unit, "InvocationID")["InvocationID"]
}

// written returns the time of the last change of all that meshgen writes.
func (v *Machine) written() string {
	v.t.Helper()
	return v.Run("find", "/etc/meshgen/generations", "/etc/meshgen/current", "/var/lib/meshgen/ledger", "/etc/gitea", "/run/systemd/generator",
		"-printf", "%p %C@ %i\n")
}

// mustNotOverlap sees in podman's own record that no two of the containers ever
// ran at once.
func (v *Machine) mustNotOverlap(names ...string) {
	v.t.Helper()
	out := v.Run("podman", "events", "--stream=false", "--since=1h", "--format=json",
		"--filter=type=container", "--filter=event=start", "--filter=event=died")
	running := ""
	for line := range strings.Lines(out) {
		var e struct{ Name, Status string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			v.t.Fatal(err)
		}
		if !slices.Contains(names, e.Name) {
			continue
		}
		switch {
		case e.Status == "died" && running == e.Name:
			running = ""
		case e.Status == "start" && running != "":
			v.t.Errorf("%s started while %s ran", e.Name, running)
		case e.Status == "start":
			running = e.Name
		}
	}
}
