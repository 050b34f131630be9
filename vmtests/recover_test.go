//go:build systemd

package vmtests

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// diary declares a container that says at its start what it reads in its two
// config files, and beside them a file of one set alone.
func diary(name, says string) string {
	return fmt.Sprintf(`package mesh

modules: m: {
	containers: x: {
		name: %[1]q
		Container: {
			Image:   "localhost/probe:1"
			Network: ["net"]
			Environment: IS: %[2]q
			Volume: ["/etc/m/a:/a:ro", "/etc/m/b:/b:ro"]
			Exec: "sh -c 'cat /a /b; exec probe sleep'"
		}
	}
	networks: net: {}
	files: {
		a: {path: "/etc/m/a", content: "%[2]s a\n", notify: x: "restart"}
		b: {path: "/etc/m/b", content: "%[2]s b\n", notify: x: "restart"}
		own: {path: "/etc/m/%[2]s/deep/own", content: "%[2]s\n"}
	}
}
`, name, says)
}

// cutBeforeFlip runs a switch that ends in the middle of its flip: all config
// files are renamed into place, and the link to the generation is not.
func (v *Machine) cutBeforeFlip() {
	v.t.Helper()
	v.cutAt("rename,renameat,renameat2", "/etc/meshgen/current")
}

// cutAt runs a switch that is killed at the first of these system calls on a
// path, which does not take effect.
func (v *Machine) cutAt(calls, path string) {
	v.t.Helper()
	r := v.Exec("strace", "-f", "-qq", "-o", "/dev/null", "-P", path,
		"-e", "trace="+calls, "-e", "inject="+calls+":error=EINTR:signal=KILL", "meshgen", "switch")
	if r.Code != 137 && r.Code != -1 {
		v.t.Fatalf("the switch was not killed: %+v", r)
	}
}

// cutAfterFlip runs a switch, with these arguments, whose power goes once its
// generation is in force, and nothing else done.
func (v *Machine) cutAfterFlip(generation string, args ...string) {
	v.t.Helper()
	const renames = "rename,renameat,renameat2"
	c := v.Command(append([]string{
		"strace", "-f", "-qq", "-o", "/dev/null", "-P", "/etc/meshgen/current",
		"-e", "trace=" + renames, "-e", "inject=" + renames + ":delay_exit=600000000", "meshgen", "switch",
	}, args...)...)
	if err := c.Start(); err != nil {
		v.t.Fatal(err)
	}
	v.Await("the flip", func() bool { return v.inForce() == generation })
	v.PowerCut()
	_ = c.Wait() // gone with the power
}

// inForce returns the number of the generation in force, "" where there is none.
func (v *Machine) inForce() string {
	v.t.Helper()
	return strings.TrimSpace(strings.TrimPrefix(v.Exec("readlink", "/etc/meshgen/current").Stdout, "generations/"))
}

// mustHaveRead sees what a unit's container has read since the boot, in all its
// starts.
func (v *Machine) mustHaveRead(unit, want string) {
	v.t.Helper()
	v.Run("journalctl", "--sync")
	var said []string
	for line := range strings.Lines(v.Run("journalctl", "--boot", "--output=cat", "--no-pager", "_SYSTEMD_UNIT="+unit+".service")) {
		if strings.HasSuffix(line, " a\n") || strings.HasSuffix(line, " b\n") {
			said = append(said, strings.TrimSpace(line))
		}
	}
	if got := strings.Join(said, ", "); got != want {
		v.t.Errorf("since the boot %s has read %q, want %q", unit, got, want)
	}
}

// awaitUp waits until a unit is up.
func (v *Machine) awaitUp(unit string) {
	v.t.Helper()
	v.Await(unit+" is up", func() bool { return v.Show(unit, "ActiveState")["ActiveState"] == "active" })
}

// mustBeRecovered sees that the boot finishes or undoes the switch by itself: the
// files before anything starts, the rest once all is up.
func (v *Machine) mustBeRecovered() {
	v.t.Helper()
	for _, unit := range []string{"meshgen-recover", "meshgen-confirm"} {
		if got := v.Show(unit, "Result", "ConditionTimestampMonotonic"); got["Result"] != "success" || got["ConditionTimestampMonotonic"] == "0" {
			v.t.Errorf("%s: %v", unit, got)
		}
	}
	v.mustBeSwept()
	if r := v.Exec("meshgen", "recover"); r.Code != 0 || r.Stdout != "no switch is unfinished: nothing to do\n" {
		v.t.Errorf("recover after the boot: %+v", r)
	}
}

// mustStand sees that a switch finds nothing to do after the boot, and that what
// the boot has started is its owner's to stop.
func (v *Machine) mustStand(unit string) {
	v.t.Helper()
	before := v.invocation(unit)
	if out := v.Switch(); !strings.Contains(out, "nothing to do") || v.invocation(unit) != before {
		v.t.Errorf("the switch after the boot: %s", out)
	}
	v.Run("systemctl", "stop", unit)
	v.Switch()
	v.mustRun()
	v.Run("systemctl", "start", unit)
}

func (v *Machine) mustHaveFiles(want ...string) {
	v.t.Helper()
	got := strings.Fields(v.Exec("sh", "-c", "cd /etc/m && find . -mindepth 1 | sort").Stdout)
	if !slices.Equal(got, want) {
		v.t.Errorf("in /etc/m lies %q, want %q", got, want)
	}
}

// The power goes when all config files of the new set are in place and the old
// set is still in force. The boot runs the old set with the old files: what
// starts never sees the new ones.
func TestPowerCutBeforeTheFlipBootsTheOldSet(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(diary("x", "old"))
	v.Switch()
	v.WriteManifest(diary("x", "new"))
	v.cutBeforeFlip()
	if v.ReadFile("/etc/m/a") != "new a\n" || v.inForce() != "1" {
		t.Fatal("the switch was not cut short in the window")
	}
	v.PowerCut()
	v.Boot()
	v.awaitUp("x")
	v.mustBeRecovered()
	v.mustHaveRead("x", "old a, old b")
	v.mustBe("x", "old")
	v.mustHaveFiles("./a", "./b", "./old", "./old/deep", "./old/deep/own")
	v.WriteManifest(diary("x", "old"))
	v.mustStand("x")
	v.WriteManifest(diary("x", "new"))
	v.Switch()
	v.mustBe("x", "new")
	v.mustHaveFiles("./a", "./b", "./new", "./new/deep", "./new/deep/own")
}

// The power goes once the new set is in force, with all names changed and
// nothing of it started. The boot runs the new set, and what the old one leaves
// is gone before that.
func TestPowerCutAfterTheFlipBootsTheNewSet(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(diary("x", "old"))
	v.Switch()
	v.WriteManifest(strings.Replace(diary("y", "new"), `"net"`, `"web"`, 1) + "modules: m: networks: web: {}\n")
	v.WriteManifest(strings.Replace(v.ReadFile(Manifest+"/mesh.cue"), "	networks: net: {}\n", "", 1))
	v.cutAfterFlip("2")
	v.Boot()
	v.awaitUp("y")
	v.mustBeRecovered()
	v.mustHaveRead("y", "new a, new b")
	v.mustRun("y")
	v.mustBe("y", "new")
	v.mustBeGone("x.service", "m-net-network.service")
	v.mustHaveFiles("./a", "./b", "./new", "./new/deep", "./new/deep/own")
	if networks := v.Run("podman", "network", "ls", "--format={{.Name}}"); networks != "m-web\npodman\n" {
		t.Errorf("networks: %q", networks)
	}
	v.mustStand("y")
}

// The first switch of all is cut short in the middle of its flip: nothing of it
// is left, and nothing runs.
func TestPowerCutInTheFirstSwitchLeavesNothing(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(diary("x", "new"))
	v.cutBeforeFlip()
	v.mustHaveFiles("./a", "./b", "./new", "./new/deep", "./new/deep/own")
	v.PowerCut()
	v.Boot()
	v.mustRun()
	v.mustBeGone("x.service")
	if v.Exists("/etc/m") {
		t.Error("files of the switch are still there")
	}
	v.mustBeRecovered()
	v.Switch()
	v.mustBe("x", "new")
	v.mustStand("x")
}

const recoverDropIn = "/etc/systemd/system/meshgen-recover.service.d/test.conf"

// recoverBy has the recovery of the boots to come run in a shell, as
// $recover.
func (v *Machine) recoverBy(script string) {
	v.t.Helper()
	v.WriteFile("/usr/local/bin/recovery", "set -eu\nrecover='meshgen recover --boot'\n"+script+"\n")
	v.WriteFile(recoverDropIn, "[Service]\nExecStart=\nExecStart=/bin/sh /usr/local/bin/recovery\n")
}

// The recovery itself is cut short, at each of its writes in turn, and the boot
// after it ends where an unbroken one would.
func TestPowerCutDuringTheRecovery(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(diary("x", "old"))
	v.Switch()
	for _, at := range []struct{ calls, path string }{ // as the call has it
		{"renameat", "b"},
		{"renameat", "/etc/meshgen/current"},
		{"unlinkat", "own"},
		{"fsync", "/var/lib/meshgen/ledger"},
	} {
		t.Logf("the recovery ends at a %s of %s", at.calls, at.path)
		v.WriteManifest(diary("x", "new"))
		v.cutBeforeFlip()
		// The machine goes with the recovery: reboot(2) kills its PID 1.
		v.recoverBy(fmt.Sprintf(`[ ! -e /cut ] || exec $recover
code=0
strace -f -qq -o /dev/null -P %s -e trace=%[2]s -e inject=%[2]s:error=EINTR:signal=KILL $recover || code=$?
echo $code >/cut
busybox poweroff -f -n`, at.path, at.calls))
		v.PowerCut()
		if err := v.m.Boot(t.Context()); err == nil {
			t.Fatal("the recovery was not cut short")
		}
		v.Boot()
		if code := v.ReadFile("/cut"); code != "137\n" {
			t.Fatalf("the recovery ended with %s", code)
		}
		v.awaitUp("x")
		v.mustBeRecovered()
		v.mustHaveRead("x", "old a, old b")
		v.mustHaveFiles("./a", "./b", "./old", "./old/deep", "./old/deep/own")
		v.Run("rm", "/cut", recoverDropIn)
		v.WriteManifest(diary("x", "old"))
		v.mustStand("x")
	}
}

// Where the recovery cannot do its work the boot goes on and says so. What would
// read the wrong files stays down, all else runs, and the next recovery ends it.
func TestBootGoesOnWhereTheRecoveryFails(t *testing.T) {
	v := Boot(t)
	const calm = `
modules: n: containers: calm: {name: "calm", Container: {Image: "localhost/probe:1", Network: "none"}}
`
	v.WriteManifest(diary("x", "old") + calm)
	v.Switch()
	for name, c := range map[string]struct {
		damage, mend []string
		recovery     string // how the recovery is run
		says         string
	}{
		"a damaged ledger": {
			damage: []string{"sed", "-i.kept", "2s/emit/omit/", "/var/lib/meshgen/ledger"},
			mend:   []string{"mv", "/var/lib/meshgen/ledger.kept", "/var/lib/meshgen/ledger"},
			says:   "/var/lib/meshgen/ledger:2: ",
		},
		"a disk that takes nothing": {recovery: "ulimit -f 0; exec $recover", says: "file too large"},
		"a read-only /etc":          {recovery: "mount --bind -o ro /etc /etc; exec $recover", says: "read-only file system"},
		"no podman":                 {recovery: "PATH=/nowhere; exec /usr/bin/$recover", says: "podman: "},
	} {
		t.Log(name)
		v.WriteManifest(diary("x", "new") + calm)
		v.cutBeforeFlip()
		if c.damage != nil {
			v.Run(c.damage...)
		}
		if c.recovery == "" {
			c.recovery = "exec $recover"
		}
		v.recoverBy(c.recovery)
		v.Run("systemctl", "mask", "meshgen-confirm") // which would mend it
		// So that the machine counts as booted.
		v.WriteFile("/etc/systemd/system/meshgen-recover.service.d/fails.conf",
			"[Service]\nPrivateMounts=yes\nSuccessExitStatus=1\n")
		v.PowerCut()
		v.Boot()
		v.mustRun("calm")
		if status := v.Show("meshgen-recover", "ExecMainStatus")["ExecMainStatus"]; status != "1" {
			t.Errorf("the recovery ended with %s", status)
		}
		log := v.Run("journalctl", "--boot", "--output=cat", "--unit=meshgen-recover")
		for _, says := range []string{c.says, "x.service: not started: a config file is not of the generation in force"} {
			if !strings.Contains(log, says) {
				t.Errorf("the recovery says nothing of %q:\n%s", says, log)
			}
		}
		if !v.Exists("/etc/meshgen/pending") {
			t.Error("the switch does not count as unfinished any more")
		}

		v.Run("systemctl", "unmask", "meshgen-confirm")
		v.Run("rm", "-r", "/etc/systemd/system/meshgen-recover.service.d")
		if c.mend != nil { // and a person does the rest
			v.Run(c.mend...)
			v.Run("meshgen", "recover")
		} else {
			v.PowerCut()
			v.Boot()
			v.awaitUp("x")
			v.mustBeRecovered()
		}
		v.mustRun("calm", "x")
		v.mustBe("x", "old")
		v.mustHaveRead("x", "old a, old b")
		v.WriteManifest(diary("x", "old") + calm)
		before := v.invocation("x")
		v.Switch()
		if v.invocation("x") != before {
			t.Error("the switch after restarted x")
		}
	}
}

// A person recovers a machine that runs: what was in force is finished, what was
// not is undone, with the units that were taken down for it.
func TestRecoverByHand(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(diary("x", "old"))
	v.Switch()
	v.WriteManifest(diary("x", "new"))
	v.cutBeforeFlip()
	if r := v.Exec("meshgen", "recover", "--boot"); r.Code != 1 || !strings.Contains(r.Stderr, "this is no boot") {
		t.Errorf("recover --boot on a machine that runs: %+v", r)
	}
	if v.ReadFile("/etc/m/a") != "new a\n" {
		t.Error("recover --boot wrote on a machine that runs")
	}
	if out := v.Run("meshgen", "recover"); out != "undone: generation 1 is in force, as before\n" {
		t.Errorf("recover: %q", out)
	}
	v.mustBe("x", "old")
	v.mustHaveFiles("./a", "./b", "./old", "./old/deep", "./old/deep/own")

	// Killed where the switch waits for the new set's start.
	v.WriteManifest(strings.Replace(diary("x", "new"), "Container: {", `Service: ExecStartPre: "sh -c 'test -e /go || (touch /held; exec sleep infinity)'", Container: {`, 1))
	c := v.Command("meshgen", "switch")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	v.Await("the new set starts", func() bool { return v.Exists("/held") })
	if r := v.Exec("meshgen", "recover"); r.Code != 6 {
		t.Errorf("recover beside a switch: %+v", r)
	}
	v.Run("pkill", "--signal=KILL", "--exact", "meshgen")
	_ = c.Wait() // killed
	v.Run("touch", "/go")
	if out := v.Run("meshgen", "recover", "--json"); !strings.Contains(out, `"result": "done"`) {
		t.Errorf("recover --json: %s", out)
	}
	v.mustBe("x", "new")
	v.mustHaveFiles("./a", "./b", "./new", "./new/deep", "./new/deep/own")
	if r := v.Exec("meshgen", "plan", "--exit-code"); r.Code != 0 {
		t.Errorf("plan: %+v", r)
	}
}

// Somebody reloads systemd all through a switch, and starts the targets that
// pull the recovery in: none runs beside the switch, and the switch waits for
// none.
func TestReloadsDuringASwitchRunNoRecovery(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(diary("x", "old"))
	v.Switch()
	storm := v.Command("sh", "-c", "while systemctl daemon-reload; do :; done")
	if err := storm.Start(); err != nil {
		t.Fatal(err)
	}
	v.WriteManifest(diary("x", "new"))
	v.Switch()
	v.mustBe("x", "new")
	v.WriteManifest(diary("y", "newer"))
	v.Switch()
	v.mustBe("y", "newer")
	for _, unit := range []string{"meshgen-recover", "meshgen-confirm"} {
		if at := v.Show(unit, "ConditionTimestampMonotonic")["ConditionTimestampMonotonic"]; at != "0" {
			t.Errorf("%s was started", unit)
		}
	}
	_ = storm.Process.Kill() // nsenter dies, and the shell with it
	_ = storm.Wait()

	v.WriteManifest(strings.Replace(diary("y", "newest"), "Container: {", `Service: ExecStartPre: "sh -c 'touch /held; until test -e /go; do sleep 0.1; done'", Container: {`, 1))
	c := v.Command("meshgen", "switch")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	v.Await("the new set starts", func() bool { return v.Exists("/held") })
	v.Run("systemctl", "daemon-reload")
	v.Run("systemctl", "start", "--no-block", "multi-user.target")
	v.awaitUp("meshgen-recover") // beside the switch, which still waits
	if got := v.Show("meshgen-recover", "ExecMainStatus", "Result"); got["ExecMainStatus"] != "6" || got["Result"] != "success" {
		t.Errorf("the recovery beside a switch: %v", got)
	}
	v.Run("touch", "/go")
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	v.mustBe("y", "newest")
	v.mustBeSwept()
}

// The link and the ledger's line are two writes. Between them, at the begin and
// at the end of a switch, a boot runs what is in force, and the next switch
// finds what it has to do.
func TestPowerCutBetweenTheLedgerAndTheLink(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(diary("x", "old"))
	v.Switch()
	v.WriteManifest(diary("x", "new"))
	v.cutAt("rename,renameat,renameat2", "/etc/meshgen/pending")
	if v.Exists("/etc/meshgen/pending") {
		t.Fatal("the switch was not cut short before the link")
	}
	v.PowerCut()
	v.Boot()
	v.awaitUp("x")
	v.mustBe("x", "old")
	if at := v.Show("meshgen-recover", "ConditionTimestampMonotonic")["ConditionTimestampMonotonic"]; at != "0" {
		t.Error("a recovery was started")
	}
	v.Switch()
	v.mustBe("x", "new")
	v.mustHaveFiles("./a", "./b", "./new", "./new/deep", "./new/deep/own")

	v.WriteManifest(diary("x", "newer"))
	v.cutAt("unlink,unlinkat", "/etc/meshgen/pending")
	if !v.Exists("/etc/meshgen/pending") {
		t.Fatal("the switch was not cut short before the link was removed")
	}
	v.PowerCut()
	v.Boot()
	v.awaitUp("x")
	v.mustBe("x", "newer")
	v.mustBeRecovered()
	v.mustStand("x")
}

// The power goes once the new set is in force, and at the boot it does not come
// up: the old set is brought back, as by a switch that was not cut short.
func TestBootGoesBackWhereTheNewSetFails(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(diary("x", "old"))
	v.Switch()
	broken := strings.Replace(diary("y", "new"), "exec probe sleep", "exec probe exit 1", 1)
	// So that it is not failed, and the machine counts as booted.
	v.WriteManifest(strings.Replace(broken, "Container: {", `Service: {Restart: "always", RestartSec: "1h"}, Container: {`, 1))
	v.WriteFile("/etc/systemd/system/meshgen-confirm.service.d/back.conf", "[Service]\nSuccessExitStatus=5\n")
	v.cutAfterFlip("2")
	v.Boot()
	v.mustBeRecovered()
	if status := v.Show("meshgen-confirm", "ExecMainStatus")["ExecMainStatus"]; status != "5" {
		t.Errorf("meshgen-confirm.service ended with %s", status)
	}
	if n := v.inForce(); n != "1" {
		t.Errorf("generation %s is in force", n)
	}
	v.mustHaveRead("y", "new a, new b")
	v.mustHaveRead("x", "old a, old b")
	v.mustRun("x")
	v.mustBe("x", "old")
	v.mustBeGone("y.service")
	v.mustHaveFiles("./a", "./b", "./old", "./old/deep", "./old/deep/own")
	v.WriteManifest(diary("x", "old"))
	v.mustStand("x")
}

// The power goes once a set is in force that does not come up, and that was never
// to go back: the boot leaves it in force, says what failed, and each switch tries
// it again.
func TestBootGoesOnWhereTheNewSetIsNeverToGoBack(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(diary("x", "old"))
	v.Switch()
	good := diary("y", "new")
	broken := strings.Replace(good, "exec probe sleep", "exec probe exit 1", 1)
	v.WriteManifest(strings.Replace(broken, "Container: {", `Service: {Restart: "always", RestartSec: "1h"}, Container: {`, 1))
	v.WriteFile("/etc/systemd/system/meshgen-confirm.service.d/stay.conf", "[Service]\nSuccessExitStatus=4\n")
	v.cutAfterFlip("2", "--rollback=never")
	v.Boot()
	v.mustBeRecovered()
	if status := v.Show("meshgen-confirm", "ExecMainStatus")["ExecMainStatus"]; status != "4" {
		t.Errorf("meshgen-confirm.service ended with %s", status)
	}
	if n := v.inForce(); n != "2" {
		t.Errorf("generation %s is in force", n)
	}
	v.mustBeGone("x.service")
	v.mustHaveFiles("./a", "./b", "./new", "./new/deep", "./new/deep/own")
	if r := v.Exec("meshgen", "switch"); r.Code != 4 || v.inForce() != "2" {
		t.Errorf("the switch after: %+v", r)
	}
	v.WriteManifest(good)
	v.Switch()
	v.mustRun("y")
	v.mustBe("y", "new")
}
