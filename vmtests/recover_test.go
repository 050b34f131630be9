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
	const renames = "rename,renameat,renameat2"
	if r := v.Exec("strace", "-f", "-qq", "-o", "/dev/null", "-P", "/etc/meshgen/current",
		"-e", "trace="+renames, "-e", "inject="+renames+":error=EINTR:signal=KILL", "meshgen", "switch"); r.Code != 137 && r.Code != -1 {
		v.t.Fatalf("the switch was not killed: %+v", r)
	}
}

// cutAfterFlip runs a switch whose power goes once its generation is in force,
// and nothing else done.
func (v *Machine) cutAfterFlip(generation string) {
	v.t.Helper()
	const renames = "rename,renameat,renameat2"
	c := v.Command("strace", "-f", "-qq", "-o", "/dev/null", "-P", "/etc/meshgen/current",
		"-e", "trace="+renames, "-e", "inject="+renames+":delay_exit=600000000", "meshgen", "switch")
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

// said returns what a unit's container has said since the boot.
func (v *Machine) said(unit string) string {
	v.t.Helper()
	v.Run("journalctl", "--sync")
	var said []string
	for line := range strings.Lines(v.Run("journalctl", "--boot", "--output=cat", "--no-pager", "_SYSTEMD_UNIT="+unit+".service")) {
		if strings.HasSuffix(line, " a\n") || strings.HasSuffix(line, " b\n") {
			said = append(said, strings.TrimSpace(line))
		}
	}
	return strings.Join(said, ", ")
}

// awaitUp waits until a unit is up.
func (v *Machine) awaitUp(unit string) {
	v.t.Helper()
	v.Await(unit+" is up", func() bool { return v.Show(unit, "ActiveState")["ActiveState"] == "active" })
}

// mustBeRecovered sees that the boot finished or undid the switch by itself.
func (v *Machine) mustBeRecovered() {
	v.t.Helper()
	if got := v.Show("meshgen-recover", "ActiveState", "Result"); got["ActiveState"] != "active" || got["Result"] != "success" {
		v.t.Errorf("meshgen-recover.service: %v", got)
	}
	v.mustBeSwept()
	if r := v.Exec("meshgen", "recover"); r.Code != 0 || r.Stdout != "no switch is unfinished: nothing to do\n" {
		v.t.Errorf("recover after the boot: %+v", r)
	}
}

// mustConfirm sees that the next switch takes what the boot has started for what
// it is, and that the one after finds nothing to do.
func (v *Machine) mustConfirm(unit string) {
	v.t.Helper()
	before := v.invocation(unit)
	v.Switch()
	if v.invocation(unit) != before {
		v.t.Errorf("the switch after the boot restarted %s", unit)
	}
	if r := v.Exec("meshgen", "plan", "--exit-code"); r.Code != 0 {
		v.t.Errorf("plan after the switch: %+v", r)
	}
	// What is confirmed is its owner's to stop.
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
	if said := v.said("x"); said != "old a, old b" {
		t.Errorf("at the boot the container read %q", said)
	}
	v.mustBe("x", "old")
	v.mustHaveFiles("./a", "./b", "./old", "./old/deep", "./old/deep/own")
	v.mustBeRecovered()
	v.WriteManifest(diary("x", "old"))
	v.mustConfirm("x")
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
	if said := v.said("y"); said != "new a, new b" {
		t.Errorf("at the boot the container read %q", said)
	}
	v.mustRun("y")
	v.mustBe("y", "new")
	v.mustBeGone("x.service", "m-net-network.service")
	v.mustHaveFiles("./a", "./b", "./new", "./new/deep", "./new/deep/own")
	if networks := v.Run("podman", "network", "ls", "--format={{.Name}}"); networks != "m-web\npodman\n" {
		t.Errorf("networks: %q", networks)
	}
	v.mustBeRecovered()
	v.mustConfirm("y")
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
	v.mustConfirm("x")
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
		{"unlink,unlinkat", "/etc/meshgen/pending"},
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
		if said := v.said("x"); said != "old a, old b" {
			t.Errorf("at the boot the container read %q", said)
		}
		v.mustHaveFiles("./a", "./b", "./old", "./old/deep", "./old/deep/own")
		v.mustBeRecovered()
		v.Run("rm", "/cut", recoverDropIn)
		v.WriteManifest(diary("x", "old"))
		v.mustConfirm("x")
	}
}
