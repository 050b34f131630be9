//go:build systemd

package vmtests

import (
	"fmt"
	"strings"
	"testing"
)

// backup declares a timer and its service by the name that both have, and what
// the service writes.
func backup(name, every, word string) string {
	return fmt.Sprintf(`package mesh

modules: m: units: {
	"backup.timer": {name: "%[1]s.timer", Timer: OnUnitInactiveSec: %[2]q, Timer: OnActiveSec: %[2]q, Timer: OnCalendar: "yearly", Timer: Persistent: true, Install: WantedBy: "timers.target"}
	"backup.service": {name: "%[1]s.service", Service: {Type: "oneshot", ExecStart: "/bin/sh -c 'echo %[3]s >>/srv/backup'"}}
}
`, name, every, word)
}

// A timer runs its service; both change, and get another name together, and go.
func TestTimerWithItsService(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(backup("night", "100ms", "one"))
	v.Switch()
	v.Await("the service has run", func() bool { return v.Exec("grep", "-q", "one", "/srv/backup").Code == 0 })
	if got := v.Show("night.timer", "ActiveState", "UnitFileState", "Triggers")["Triggers"]; got != "night.service" {
		t.Errorf("night.timer triggers %q", got)
	}
	if r := v.Exec("meshgen", "plan", "--exit-code"); r.Code != 0 {
		t.Errorf("with nothing to do: %+v", r)
	}

	v.WriteManifest(backup("night", "100ms", "two"))
	v.Switch()
	v.Await("the changed service has run", func() bool { return v.Exec("grep", "-q", "two", "/srv/backup").Code == 0 })

	v.WriteManifest(backup("night", "1h", "two"))
	v.Switch()
	if got := v.Show("night.timer", "TimersMonotonic")["TimersMonotonic"]; !strings.Contains(got, "=1h ") {
		t.Errorf("the changed timer has %s", got)
	}

	v.WriteManifest(backup("dawn", "100ms", "three"))
	v.Switch()
	v.mustBeGone("night.timer", "night.service")
	v.Await("the service has run by its other name", func() bool { return v.Exec("grep", "-q", "three", "/srv/backup").Code == 0 })
	if got := v.Show("dawn.timer", "ActiveState")["ActiveState"]; got != "active" {
		t.Errorf("dawn.timer is %s", got)
	}
	v.mustBeSwept()

	v.PowerCut()
	v.Boot()
	if got := v.Show("dawn.timer", "ActiveState")["ActiveState"]; got != "active" {
		t.Errorf("after a boot dawn.timer is %s", got)
	}

	v.WriteManifest("package mesh\n")
	v.Switch("--allow-empty")
	v.mustBeGone("dawn.timer", "dawn.service")
	v.mustNotBeWanted("dawn.timer")
	v.mustBeSwept()
	if left := v.Run("find", "/var/lib/systemd/timers", "-name", "stamp-dawn*", "-o", "-name", "stamp-night*"); left != "" {
		t.Errorf("stamps are left: %s", left)
	}
}

// mustNotBeWanted sees that no unit pulls one in that is gone.
func (v *Machine) mustNotBeWanted(unit string) {
	v.t.Helper()
	for _, dir := range []string{"/run/systemd/generator", "/run/systemd/system", "/etc/systemd/system"} {
		if r := v.Exec("grep", "-rl", "--", unit, dir); r.Stdout != "" {
			v.t.Errorf("%s is named in %s", unit, strings.Fields(r.Stdout))
		}
		if out := v.Run("find", dir, "-name", unit); out != "" {
			v.t.Errorf("%s is there: %s", unit, out)
		}
	}
}

// echo declares a socket, whose service answers with a word.
func echo(name, port, word string) string {
	return fmt.Sprintf(`package mesh

modules: m: units: {
	"echo.socket": {name: "%[1]s.socket", Socket: {ListenStream: ["127.0.0.1:%[2]s", "/run/%[1]s.sock"]}, Install: WantedBy: "sockets.target"}
	"echo.service": {name: "%[1]s.service", Service: ExecStart: "/bin/sh -c 'echo %[3]s >>/srv/echo; sleep infinity'"}
}
`, name, port, word)
}

// A socket starts its service; both change, and get another name together, and
// go.
func TestSocketWithItsService(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(echo("echo", "7001", "one"))
	v.Switch()
	if got := v.Show("echo.service", "ActiveState")["ActiveState"]; got != "inactive" {
		t.Errorf("before anyone asks the service is %s", got)
	}
	v.connect("7001")
	v.Await("the service runs", func() bool { return v.Exec("grep", "-q", "one", "/srv/echo").Code == 0 })
	v.Await("the service is up", func() bool { return v.Show("echo.service", "ActiveState")["ActiveState"] == "active" })

	v.WriteManifest(echo("echo", "7002", "two"))
	v.Switch()
	v.connect("7002")
	v.Await("the changed service runs", func() bool { return v.Exec("grep", "-q", "two", "/srv/echo").Code == 0 })
	if v.Exec("busybox", "nc", "-w", "1", "127.0.0.1", "7001", "-e", "true").Code == 0 {
		t.Error("the former port is still open")
	}

	v.WriteManifest(echo("call", "7002", "three"))
	v.Switch()
	v.mustBeGone("echo.socket", "echo.service")
	v.connect("7002")
	v.Await("the service runs by its other name", func() bool { return v.Exec("grep", "-q", "three", "/srv/echo").Code == 0 })
	v.mustBeSwept()

	v.WriteManifest("package mesh\n")
	v.Switch("--allow-empty")
	v.mustBeGone("call.socket", "call.service")
	v.mustNotBeWanted("call.socket")
	v.mustBeSwept()
	if left := v.Run("find", "/run", "-maxdepth", "1", "-name", "*.sock"); left != "" {
		t.Errorf("sockets are left: %s", left)
	}
	if listening := v.Run("ss", "-Hltn", "sport = :7002"); listening != "" {
		t.Errorf("still listening: %s", listening)
	}
}

// connect opens a connection, and closes it.
func (v *Machine) connect(port string) {
	v.t.Helper()
	v.Run("busybox", "nc", "127.0.0.1", port, "-e", "true")
}

// drop declares a path that starts a service when something is put there.
func drop(name, path string) string {
	return fmt.Sprintf(`package mesh

modules: m: units: {
	"drop.path": {name: "%[1]s.path", Path: PathExists: %[2]q, Install: WantedBy: "multi-user.target"}
	"drop.service": {name: "%[1]s.service", Service: {Type: "oneshot", ExecStart: "/bin/rm %[2]s"}}
}
`, name, path)
}

// A path starts its service; both change, and get another name together, and go.
func TestPathWithItsService(t *testing.T) {
	v := Boot(t)
	taken := func(path string) {
		t.Helper()
		v.Run("touch", path)
		v.Await(path+" is taken away", func() bool { return !v.Exists(path) })
	}
	v.WriteManifest(drop("drop", "/srv/a"))
	v.Switch()
	taken("/srv/a")
	v.WriteManifest(drop("drop", "/srv/b"))
	v.Switch()
	taken("/srv/b")
	v.WriteManifest(drop("catch", "/srv/b"))
	v.Switch()
	v.mustBeGone("drop.path", "drop.service")
	taken("/srv/b")
	v.WriteManifest("package mesh\n")
	v.Switch("--allow-empty")
	v.mustBeGone("catch.path", "catch.service")
	v.mustNotBeWanted("catch.path")
	v.mustBeSwept()
}

// Plain units and a container know one another: a target holds them together, a
// slice, a mount and a notified service are of it.
func TestPlainUnitsBesideAContainer(t *testing.T) {
	v := Boot(t)
	manifest := func(content string) {
		v.WriteManifest(fmt.Sprintf(`package mesh

modules: m: {
	units: {
		"all.target": {Unit: Wants: ["container/web", "unit/side.service"], Install: WantedBy: "multi-user.target"}
		"web.slice": Slice: MemoryMax: "100M"
		"tmp.mount": {Mount: {What: "tmpfs", Where: "/srv/my-tmp", Type: "tmpfs"}, Install: WantedBy: "local-fs.target"}
		"side.service": {Unit: After: "unit/tmp.mount", Service: {ExecStart: "/bin/sleep infinity", Slice: "unit/web.slice", ExecReload: "/bin/cp /etc/side.conf /srv/my-tmp/reloaded"}}
	}
	containers: web: {Container: {Image: "localhost/probe:1", Network: "none"}, Install: {}}
	files: conf: {path: "/etc/side.conf", content: %q, notify: "side.service": "reload"}
}
`, content))
	}
	manifest("one")
	v.Switch()
	v.mustRun("m-web")
	if v.Run("stat", "-f", "-c", "%T", "/srv/my-tmp") != "tmpfs\n" {
		t.Error("nothing is mounted")
	}
	v.Await("the service that the target wants runs", func() bool { return v.Show("m-side.service", "ActiveState")["ActiveState"] == "active" })
	if got := v.Show("m-side.service", "Slice")["Slice"]; got != "m-web.slice" {
		t.Errorf("the service is in %s", got)
	}
	manifest("two")
	v.Switch()
	if got := v.Exec("cat", "/srv/my-tmp/reloaded").Stdout; got != "two" {
		t.Errorf("the service has reloaded %q", got)
	}
	before := v.invocation("m-side.service")
	v.WriteManifest(strings.NewReplacer("100M", "200M", `Type: "tmpfs"`, `Type: "tmpfs", Options: "size=2m"`,
		`"unit/side.service"]`, `"unit/side.service", "unit/late.service"]`,
		`"web.slice":`, `"late.service": Service: ExecStart: "/bin/sleep infinity"
		"web.slice":`).Replace(v.ReadFile(Manifest + "/mesh.cue")))
	v.Switch()
	if after := v.invocation("m-side.service"); after != before {
		t.Error("what is in a slice, on a mount and of a target was restarted with them")
	}
	if got := v.Show("m-web.slice", "MemoryMax")["MemoryMax"]; got != "209715200" {
		t.Errorf("the slice's limit is %s", got)
	}
	if mounts := v.ReadFile("/proc/self/mounts"); !strings.Contains(mounts, "/srv/my-tmp tmpfs rw,relatime,size=2048k") {
		t.Errorf("mounted as before: %s", mounts)
	}
	v.Await("what the target has come to want runs", func() bool { return v.Show("m-late.service", "ActiveState")["ActiveState"] == "active" })
	if r := v.Exec("meshgen", "plan", "--exit-code"); r.Code != 0 {
		t.Errorf("with nothing to do: %+v", r)
	}
	v.WriteManifest("package mesh\n")
	v.Switch("--allow-empty")
	v.mustBeGone("m-late.service", "m-all.target", `srv-my\x2dtmp.mount`, "m-side.service", "m-web.service")
	// systemd has a slice of any name.
	if got := v.Show("m-web.slice", "ActiveState", "FragmentPath"); got["ActiveState"] != "inactive" || got["FragmentPath"] != "" {
		t.Errorf("m-web.slice is %v", got)
	}
	if v.Exists("/srv/my-tmp") {
		t.Error("the directory that systemd made to mount at is still there")
	}
	v.mustBeSwept()
}

// An image that was made where there is no quadlet: at boot the generator gives
// the plain units, and has the machine's own quadlet make the others.
func TestImageWithPlainUnits(t *testing.T) {
	v := Boot(t)
	v.Run("mkdir", "-p", "/srv/root")
	v.WriteFile("/srv/manifest/mesh.cue", `package mesh

modules: m: containers: web: Container: {Image: "localhost/probe:1", Network: "none"}
modules: m: units: "side.service": {Service: ExecStart: "/bin/sleep infinity", Install: WantedBy: "multi-user.target"}
`)
	v.Run("meshgen", "switch", "--root", "/srv/root", "--manifest", "/srv/manifest")
	v.Run("cp", "-a", "/srv/root/etc/meshgen", "/etc/meshgen")
	v.PowerCut()
	v.Boot()
	v.mustRun("m-web")
	if got := v.Show("m-side.service", "ActiveState")["ActiveState"]; got != "active" {
		t.Errorf("m-side.service is %s", got)
	}
}

// The bus keeps so many calls of one connection waiting, and no more: a switch that
// has to do with more units than that asks in turns.
func TestManyUnitsAtOnce(t *testing.T) {
	v := Boot(t)
	manifest := func(environment string) string {
		var units strings.Builder
		for i := range 150 {
			fmt.Fprintf(&units, "\"many-%d.service\": {Service: {ExecStart: \"/usr/bin/sleep inf\", Environment: E: %q}, Install: WantedBy: [\"multi-user.target\"]}\n", i, environment)
		}
		return single("units: {\n" + units.String() + "\"one.service\": Service: ExecStart: \"/usr/bin/sleep inf\"\n}")
	}
	up := func() string {
		return strings.TrimSpace(v.Run("sh", "-c", "systemctl list-units --plain --no-legend --state=active 'm-many-*' 'many-*' | wc -l"))
	}
	for _, environment := range []string{"one", "other"} {
		v.WriteManifest(manifest(environment))
		v.Switch()
		if n := up(); n != "150" {
			t.Errorf("%s units are up", n)
		}
	}
	v.WriteManifest(single("units: \"one.service\": Service: ExecStart: \"/usr/bin/sleep inf\""))
	v.Switch()
	if n := up(); n != "0" {
		t.Errorf("%s units are up", n)
	}
}

// A unit whose conditions do not hold is not started, as its owner wrote it: the set
// stands, and there is nothing more to do.
func TestUnitWhoseConditionsDoNotHold(t *testing.T) {
	v := Boot(t)
	manifest := func(n int) string {
		return single(fmt.Sprintf(`
	containers: x: {Unit: ConditionPathExists: "/root/go", Container: {Image: "localhost/probe:1", Network: "none", Environment: N: "%d"}}
	units: "y.socket": {Unit: ConditionPathExists: "/root/go", Socket: ListenStream: "7070"}
	units: "y.service": Service: ExecStart: "/usr/bin/sleep infinity"`, n))
	}
	for n := range 2 {
		v.WriteManifest(manifest(n))
		v.Switch()
		v.mustRun()
		if r := v.Exec("meshgen", "plan", "--exit-code"); r.Code != 0 {
			t.Errorf("plan: %+v", r)
		}
		if report := v.auditOf(0); len(report.Findings) > 0 {
			t.Errorf("audit: %+v", report.Findings)
		}
	}
	v.Run("touch", "/root/go")
	v.WriteManifest(manifest(2))
	v.Switch()
	v.mustRun("m-x")
}

// A unit that is taken away ends and leaves processes, as its KillMode has it: its name
// is not recorded as gone before they are, and somebody is told.
func TestUnitThatLeavesProcessesIsNotSeenGone(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`units: "fork.service": Service: {
		Type: "forking", KillMode: "process", GuessMainPID: "no"
		ExecStart: "/bin/sh -c 'setsid sleep infinity & sleep infinity & sleep 0.1'"
	}
	units: "fork.service": Install: WantedBy: "multi-user.target"`))
	v.Switch()
	v.WriteManifest(single(""))
	for range 2 {
		r := v.Exec("meshgen", "switch", "--allow-empty")
		if r.Code != 4 || !strings.Contains(r.Stderr, "m-fork.service: has ended, and left sleep (") || !strings.Contains(r.Stderr, "systemctl kill m-fork.service") {
			t.Fatalf("switch: %+v", r)
		}
		if text := v.ReadFile("/var/lib/meshgen/ledger"); strings.Contains(text, `"event":"retire"`) && strings.Contains(text, `"retire","generation":2,"target":"unit:m-fork.service"`) {
			t.Error("the ledger has it gone")
		}
	}
	v.Run("systemctl", "kill", "m-fork.service")
	v.Await("they have ended", func() bool { return v.Exec("pgrep", "--exact", "sleep").Code != 0 })
	v.Switch("--allow-empty")
	if told := v.Run("meshgen", "explain", "unit:m-fork.service"); !strings.Contains(told, "was seen gone") {
		t.Errorf("explain:\n%s", told)
	}
	v.mustBeGone("m-fork.service")
}
