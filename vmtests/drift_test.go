//go:build systemd

package vmtests

import (
	"strings"
	"testing"
)

// The definitions that boot is given were changed by hand, or are gone: a switch
// makes them anew, and restarts what may run by them.
func TestDamagedGenerationIsMadeAnew(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(one("ant"))
	v.Switch()
	for _, damage := range []string{
		"sed -i 's/--network none/--network host/' /etc/meshgen/current/out/units",
		"rm /etc/meshgen/current/out/units",
		"ln -sf /dev/null /etc/meshgen/current/out/units",
	} {
		before := v.invocation("ant")
		v.Run("sh", "-c", damage)
		if plan := v.Run("meshgen", "plan"); !strings.Contains(plan, "changed by other hands") {
			t.Errorf("%s: plan:\n%s", damage, plan)
		}
		v.Switch()
		v.mustRun("ant")
		if v.invocation("ant") == before {
			t.Errorf("%s: what may run by it was not restarted", damage)
		}
		v.mustBeDone()
		v.PowerCut()
		v.Boot()
		v.mustRun("ant")
	}
}

// A file of ours was replaced by a link, a directory, or taken away.
func TestReplacedFileIsRestored(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(forge("gitea", "/etc/gitea/app.ini"))
	v.Switch()
	for _, damage := range []string{"rm /etc/gitea/app.ini", "ln -sf /etc/passwd /etc/gitea/app.ini"} {
		v.Run("sh", "-c", damage)
		v.Switch()
		if text := v.ReadFile("/etc/gitea/app.ini"); text != "[server]\nHTTP_PORT = 3000\n" {
			t.Errorf("%s: the file is %q", damage, text)
		}
		v.mustBeDone()
	}
	v.Run("sh", "-c", "rm /etc/gitea/app.ini; mkdir /etc/gitea/app.ini; touch /etc/gitea/app.ini/mine")
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "move it out of the way") {
		t.Errorf("switch: %+v", r)
	}
	if !v.Exists("/etc/gitea/app.ini/mine") {
		t.Error("what is in the directory is gone")
	}
}

// systemd itself starts anew while a switch waits for a job of its.
func TestSwitchOutlastsAReexec(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`units: "slow.service": {
	Service: {Type: "oneshot", RemainAfterExit: true, ExecStart: "/bin/sh -c 'touch /run/begun; while ! [ -e /run/go ]; do sleep 0.1; done'"}
	Install: WantedBy: "multi-user.target"
}`))
	c := v.Command("meshgen", "switch")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	v.Await("the job is under way", func() bool { return v.Exists("/run/begun") })
	v.Run("systemctl", "daemon-reexec")
	v.WriteFile("/run/go", "")
	if err := c.Wait(); err != nil {
		t.Errorf("switch: %v", err)
	}
	v.mustBeDone()
}
