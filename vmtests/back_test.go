//go:build systemd

package vmtests

import (
	"fmt"
	"strings"
	"testing"
)

// A rollback follows what moved since the other way: nothing restarts for it, and
// no data is lost sight of.
func TestRollbackFollowsWhatMoved(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(smithy("forge", "x", "ant", ""))
	v.Switch()
	before := v.invocation("ant")
	v.WriteManifest(smithy("smithy", "x", "ant", `moved: [{from: "forge", to: "smithy"}]`))
	v.Switch()
	v.Run("meshgen", "rollback")
	v.mustRun("ant")
	if v.invocation("ant") != before {
		t.Error("it was restarted")
	}
	v.Switch()
	v.mustBeDone()
}

// A rollback past a migration would run on the data of before it: it is refused,
// also where module and ids are others by now.
func TestRollbackPastAMigrationIsRefused(t *testing.T) {
	v := Boot(t)
	manifest := func(module, id, moved string) string {
		return fmt.Sprintf(`package mesh

modules: %s: {
	policy: rename: "migrate"
	containers: %s: Container: {Image: "localhost/probe:1", Network: "none", Volume: "data:/data"}
	volumes: data: {}
}
%s
`, module, id, moved)
	}
	v.WriteManifest(manifest("forge", "server", ""))
	v.Switch()
	v.WriteManifest(manifest("smithy", "app", `moved: [for k in ["volume/data", "container/server"] {from: "forge/\(k)", to: {"volume/data": "smithy/volume/data", "container/server": "smithy/container/app"}[k]}]`))
	v.Switch()
	v.Run("sh", "-c", "echo new > $(podman volume inspect --format={{.Mountpoint}} smithy-data)/db")
	if r := v.Exec("meshgen", "rollback"); r.Code != 3 {
		t.Errorf("rollback: %+v", r)
	}
	v.mustRun("smithy-app")
	v.mustBeDone()
}

// The link to the set in force is gone, or the set itself: the next switch puts it
// back, and what boot could not start is started.
func TestLostSetIsPutBack(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(one("ant"))
	v.Switch()
	for _, loss := range []string{"rm /etc/meshgen/current", "rm -r /etc/meshgen/generations/*"} {
		before := v.invocation("ant")
		v.Run("sh", "-c", loss)
		v.Run("systemctl", "daemon-reload")
		if r := v.Exec("meshgen", "plan", "--exit-code"); r.Code != 10 {
			t.Errorf("%s: plan: %+v", loss, r)
		}
		v.Switch()
		if got := v.Show("ant", "LoadState", "ActiveState"); got["LoadState"] != "loaded" || got["ActiveState"] != "active" || v.invocation("ant") != before {
			t.Errorf("%s: ant.service is %v", loss, got)
		}
		v.mustBeDone()
		v.Run("sh", "-c", loss)
		v.PowerCut()
		v.Boot()
		v.Switch()
		v.mustRun("ant")
		v.mustBeDone()
	}
}

// What changes while its unit is masked comes once it is not.
func TestChangeOfAMaskedUnitIsNotLost(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(one("ant"))
	v.Switch()
	v.Run("systemctl", "mask", "--now", "ant")
	v.WriteManifest(strings.Replace(one("ant"), `Network: "none"`, `Network: "none", Environment: IS: "new"`, 1))
	v.Switch()
	v.mustRun()
	v.mustBeDone()
	v.Run("systemctl", "unmask", "ant")
	v.Switch()
	v.mustRun("ant")
	v.mustBe("ant", "new")
	v.mustBeDone()
}

// One that is masked while it is down stays down under another name as well.
func TestMaskedUnitStaysDownWhenRenamed(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(one("ant"))
	v.Switch()
	v.Run("systemctl", "mask", "--now", "ant")
	v.WriteManifest(one("bat"))
	v.Switch()
	v.mustRun()
}

// A rollback cannot bring a unit back that its owner has defined by now: it says
// so, brings back the rest, and a manifest that is right again goes on from there.
func TestBarredWayBackIsNoDeadEnd(t *testing.T) {
	v := Boot(t)
	manifest := func(name, more string) string {
		return single(fmt.Sprintf(`containers: {
	x: {name: %q, Container: {Image: "localhost/probe:1", Network: "none"%s}}
	y: {Container: {Image: "localhost/probe:1", Network: "none"}}
}`, name, more))
	}
	v.WriteManifest(manifest("ant", ""))
	v.Switch()
	v.WriteFile("/etc/systemd/system/ant.service", "[Service]\nExecStart=/bin/sleep infinity\n")
	v.WriteManifest(manifest("bat", `, Exec: "no-such-program"`))
	r := v.Exec("meshgen", "switch")
	if r.Code == 0 || !strings.Contains(r.Stderr, "ant.service") {
		t.Errorf("switch: %+v", r)
	}
	v.WriteManifest(manifest("bat", ""))
	v.Switch()
	v.mustRun("bat", "m-y")
	v.mustBeDone()
	if !v.Exists("/etc/systemd/system/ant.service") {
		t.Error("the owner's unit is gone")
	}
}

// A switch dies after a migration came into force, what it brought works on for
// days, and then a unit of it fails: to finish the switch must not bring back the
// volume of before.
func TestFinishedMigrationDoesNotGoBack(t *testing.T) {
	v := Boot(t)
	manifest := func(name string) string {
		return single(fmt.Sprintf(`policy: rename: "migrate"
volumes: data: {name: %q}
containers: x: {name: "ant", Container: {Image: "localhost/probe:1", Network: "none", Volume: "data:/data"}}
units: "z.service": {Service: ExecStart: "/bin/sh -c 'test ! -e /run/fail && exec sleep infinity'", Install: WantedBy: "multi-user.target"}`, name))
	}
	v.WriteManifest(manifest("old"))
	v.Switch()
	v.WriteManifest(manifest("new"))
	v.Switch()
	v.Run("sh", "-c", "echo days > $(podman volume inspect --format={{.Mountpoint}} new)/db")
	// As a kill before the units were confirmed leaves it.
	v.Run("sed", "-i", "-e", "$d", "/var/lib/meshgen/ledger")
	v.Run("sed", "-i", "-e", "$d", "/var/lib/meshgen/ledger")
	v.Run("sh", "-c", "ln -s $(readlink /etc/meshgen/current) /etc/meshgen/pending; touch /run/fail; systemctl restart m-z || true")
	if r := v.Exec("meshgen", "switch"); r.Code == 5 {
		t.Errorf("switch: %+v", r)
	}
	if mounted := v.Run("podman", "inspect", "--format={{range .Mounts}}{{.Name}}{{end}}", "ant"); mounted != "new\n" {
		t.Errorf("the container is on %s", mounted)
	}
}

// A resource that comes back under another name does not find an empty volume in
// place of the one that it left.
func TestVolumeThatComesBackUnderAnotherName(t *testing.T) {
	v := Boot(t)
	manifest := func(name, policy string) string {
		return single(fmt.Sprintf(`volumes: data: {name: %q%s}
containers: x: {name: "ant", Container: {Image: "localhost/probe:1", Network: "none", Volume: "data:/data"}}`, name, policy))
	}
	v.WriteManifest(manifest("one", ""))
	v.Switch()
	v.Run("sh", "-c", "echo data > $(podman volume inspect --format={{.Mountpoint}} one)/db")
	v.WriteManifest("package mesh\n")
	v.Switch("--allow-empty")
	v.WriteManifest(manifest("two", ""))
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "volume:one") {
		t.Errorf("switch: %+v", r)
	}
	v.WriteManifest(manifest("two", `, policy: rename: "migrate"`))
	v.Switch()
	if data := v.Run("sh", "-c", "cat $(podman volume inspect --format={{.Mountpoint}} two)/db"); data != "data\n" {
		t.Errorf("the volume holds %q", data)
	}
	v.mustRun("ant")
	v.mustBeDone()
}

// The set in force is lost, and a unit of what is to be put in its place fails: there
// is nothing to go back to, and all else runs on.
func TestLostSetIsNotRolledBackToNothing(t *testing.T) {
	v := Boot(t)
	manifest := func(more string) string {
		return single(fmt.Sprintf(`containers: x: {name: "ant", Container: {Image: "localhost/probe:1", Network: "none"}}
containers: y: Container: {Image: "localhost/probe:1", Network: "none"%s}
files: f: {path: "/etc/lost.conf", content: "x"}`, more))
	}
	v.WriteManifest(manifest(""))
	v.Switch()
	before := v.invocation("ant")
	v.Run("rm", "/etc/meshgen/current")
	v.WriteManifest(manifest(`, Exec: "no-such-program"`))
	if r := v.Exec("meshgen", "switch"); r.Code != 4 {
		t.Errorf("switch: %+v", r)
	}
	if v.invocation("ant") != before || !v.Exists("/etc/lost.conf") {
		t.Error("what ran was taken away")
	}
	v.WriteManifest(manifest(""))
	v.Switch()
	v.mustRun("ant", "m-y")
	// Cut short before it is in force, it is finished, and takes nothing away.
	v.Run("rm", "/etc/meshgen/current")
	v.Run("sh", "-c", "nth -only=/etc/meshgen/current -kill=1 meshgen switch || true")
	v.Switch()
	v.mustRun("ant", "m-y")
	if v.invocation("ant") != before {
		t.Error("it was restarted")
	}
	v.mustBeDone()
	// So too where its own generation is gone.
	v.Run("rm", "/etc/meshgen/current")
	v.Run("sh", "-c", "nth -only=/etc/meshgen/current -kill=1 meshgen switch || true; rm -r /etc/meshgen/generations/*")
	v.Switch()
	v.mustRun("ant", "m-y")
	if v.invocation("ant") != before || !v.Exists("/etc/lost.conf") {
		t.Error("what ran was taken away")
	}
	v.mustBeDone()
}

// The power goes in a switch, and the set in force is lost with it: the recovery of
// the boot has nothing to go by, says so and takes nothing away. The next switch
// makes the set anew.
func TestBootWithALostSetRefusesToRecover(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(diary("x", "old"))
	v.Switch()
	v.WriteManifest(diary("x", "new"))
	v.cutBeforeFlip()
	v.Run("rm", "/etc/meshgen/current")
	v.Run("systemctl", "mask", "meshgen-confirm") // which would finish it
	// So that the machine counts as booted.
	v.WriteFile(recoverDropIn, "[Service]\nSuccessExitStatus=1\n")
	ledger := v.ReadFile("/var/lib/meshgen/ledger")
	v.PowerCut()
	v.Boot()
	if status := v.Show("meshgen-recover", "ExecMainStatus")["ExecMainStatus"]; status != "1" {
		t.Errorf("the recovery ended with %s", status)
	}
	log := v.Run("journalctl", "--boot", "--output=cat", "--unit=meshgen-recover")
	if !strings.Contains(log, "/etc/meshgen/current: nothing is in force, and the ledger has a set") || !strings.Contains(log, "hint: meshgen switch") {
		t.Errorf("the recovery says:\n%s", log)
	}
	if v.ReadFile("/var/lib/meshgen/ledger") != ledger || !v.Exists("/etc/meshgen/pending") || !v.Exists("/etc/m/old/deep/own") {
		t.Error("the recovery did something")
	}
	v.Run("rm", recoverDropIn)
	v.Switch()
	v.mustRun("x")
	v.mustBe("x", "new")
	v.mustHaveFiles("./a", "./b", "./new", "./new/deep", "./new/deep/own")
	v.mustBeDone()
}
