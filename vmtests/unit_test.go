//go:build systemd

package vmtests

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// An image boots for the first time, with a manifest and nothing in force: the boot
// brings it into force, and the boots after do nothing.
func TestFirstBootBringsTheManifestIntoForce(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(pair("ant", "bat"))
	v.PowerCut()
	v.Boot()
	v.mustRun("ant", "bat")
	first := v.Show("meshgen-switch", "Result", "ActiveState", "StatusText")
	if first["Result"] != "success" || first["ActiveState"] != "active" {
		t.Errorf("meshgen-switch.service: %v", first)
	}
	before := v.invocation("ant")
	if out := v.Switch(); !strings.Contains(out, "nothing to do") || v.invocation("ant") != before {
		t.Errorf("the switch after: %s", out)
	}
	v.PowerCut()
	v.Boot()
	v.awaitUp("ant")
	if got := v.Show("meshgen-switch", "ConditionTimestampMonotonic", "WantedBy"); got["ConditionTimestampMonotonic"] != "0" || got["WantedBy"] != "" {
		t.Errorf("at the second boot, meshgen-switch.service: %v", got)
	}
}

// The first switch fails: the machine boots, the unit has failed and says why, and
// nothing is there. The next boot tries again.
func TestFirstBootThatFailsIsTriedAgain(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(strings.Replace(pair("ant", "bat"), "Network:", "Nettwork:", 1))
	v.PowerCut()
	v.Boot("meshgen-switch.service")
	if got := v.Show("meshgen-switch", "ActiveState", "ExecMainStatus"); got["ActiveState"] != "failed" || got["ExecMainStatus"] != "3" {
		t.Errorf("meshgen-switch.service: %v", got)
	}
	if status := v.Exec("systemctl", "status", "meshgen-switch").Stdout; !strings.Contains(status, "Nettwork") {
		t.Errorf("its status says nothing of the fault:\n%s", status)
	}
	v.mustRun()
	if v.inForce() != "" || v.Exists("/etc/meshgen/generations") {
		t.Error("something is in force")
	}

	// One that is in order, and does not come up.
	v.WriteManifest(strings.Replace(pair("ant", "bat"), `Environment: IS: "one"`, `Exec: "probe exit 1", Environment: IS: "one"`, 1))
	v.PowerCut()
	v.Boot("meshgen-switch.service")
	if got := v.Show("meshgen-switch", "ActiveState", "ExecMainStatus"); got["ActiveState"] != "failed" || got["ExecMainStatus"] != "5" {
		t.Errorf("meshgen-switch.service: %v", got)
	}
	v.mustRun()

	v.WriteManifest(pair("ant", "bat"))
	v.PowerCut()
	v.Boot()
	v.mustRun("ant", "bat")
}

// A switch that a unit runs tells systemd what is moving, has it wait for longer than
// it would, and says when it is done.
func TestSwitchTellsSystemdWhatItIsAt(t *testing.T) {
	v := Boot(t)
	slow := strings.Replace(pair("ant", "bat"), "one: {name:", `one: {Service: ExecStartPre: "sh -c 'until test -e /go; do sleep 0.1; done'", name:`, 1)
	v.WriteManifest(slow)
	deploy := v.Command("systemd-run", "--unit=deploy", "--service-type=notify", "--property=TimeoutStartSec=8", "--property=RemainAfterExit=yes", "meshgen", "switch")
	if err := deploy.Start(); err != nil {
		t.Fatal(err)
	}
	v.Await("it says what moves", func() bool {
		return strings.Contains(v.Show("deploy", "StatusText")["StatusText"], "start ant.service")
	})
	// Past the time that systemd would have given it.
	v.Await("systemd waits", func() bool {
		started := v.Show("deploy", "InactiveExitTimestampMonotonic")["InactiveExitTimestampMonotonic"]
		up, _, _ := strings.Cut(v.ReadFile("/proc/uptime"), " ")
		begun, err := strconv.ParseFloat(started, 64)
		now, err2 := strconv.ParseFloat(up, 64)
		return err == nil && err2 == nil && now-begun/1e6 > 12
	})
	if got := v.Show("deploy", "ActiveState"); got["ActiveState"] != "activating" {
		t.Errorf("deploy.service: %v", got)
	}
	v.Run("touch", "/go")
	if err := deploy.Wait(); err != nil {
		t.Error(err)
	}
	if got := v.Show("deploy", "ActiveState", "Result", "StatusText"); got["ActiveState"] != "active" || got["Result"] != "success" || got["StatusText"] != "done" {
		t.Errorf("deploy.service: %v", got)
	}
	v.mustRun("ant", "bat")

	v.WriteManifest(strings.Replace(pair("ant", "bat"), "Network:", "Nettwork:", 1))
	if r := v.Exec("systemd-run", "--unit=refused", "--service-type=notify", "meshgen", "switch"); r.Code == 0 {
		t.Errorf("a switch that is refused: %+v", r)
	}
	if got := v.Show("refused", "Result", "ExecMainStatus", "StatusText"); got["Result"] != "exit-code" || got["ExecMainStatus"] != "3" || got["StatusText"] == "" {
		t.Errorf("refused.service: %v", got)
	}
}

// What the recovery does not need is taken from it: the tests of what it does run in
// this. It shares the machine's mounts, in which podman has mounted.
func TestRecoveryIsConfined(t *testing.T) {
	v := Boot(t)
	report := v.Run("systemd-analyze", "security", "--no-pager", "meshgen-recover.service")
	exposure := regexp.MustCompile(`Overall exposure level for meshgen-recover\.service: ([0-9.]+)`).FindStringSubmatch(report)
	if exposure == nil {
		t.Fatalf("no level in:\n%s", report)
	}
	if level, err := strconv.ParseFloat(exposure[1], 64); err != nil || level > 6.0 {
		t.Errorf("the exposure is %s:\n%s", exposure[1], report)
	}
	v.WriteFile("/etc/systemd/system/meshgen-recover.service.d/look.conf", `[Unit]
ConditionPathIsSymbolicLink=
[Service]
ExecStart=
ExecStart=/bin/sh -c 'readlink /proc/self/ns/mnt >/run/mounts; grep -E "NoNewPrivs|Seccomp:" /proc/self/status >/run/confined'
`)
	v.Run("systemctl", "daemon-reload")
	v.Run("systemctl", "start", "meshgen-recover")
	if own, machine := v.ReadFile("/run/mounts"), v.Run("readlink", "/proc/1/ns/mnt"); own != machine {
		t.Errorf("its mounts are %s, those of the machine %s", own, machine)
	}
	if confined := strings.Join(strings.Fields(v.ReadFile("/run/confined")), " "); confined != "NoNewPrivs: 1 Seccomp: 2" {
		t.Errorf("confined: %s", confined)
	}
}
