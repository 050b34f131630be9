//go:build systemd

package vmtests

import (
	"fmt"
	"strings"
	"testing"
)

// A container is renamed and gets something new to need in the same edit.
func TestRenameTogetherWithNewNeeds(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`containers: x: {name: "ant", ` + probe + `}`))
	v.Switch()
	v.WriteManifest(single(`
	containers: x: {name: "cow", Container: {Image: "localhost/probe:1", Network: ["net"], Volume: ["d:/data"]}, Unit: Requires: ["container/y"], Unit: After: ["container/y"]}
	containers: y: ` + probe + `
	volumes: d: {}
	networks: net: {}`))
	v.Switch()
	v.mustRun("cow", "m-y")
	v.mustBeGone("ant.service")
	v.mustNotOverlap("ant", "cow")
	v.mustBeSwept()
}

// depending declares a container that goes down with another.
func depending(exec string) string {
	return single(fmt.Sprintf(`
	containers: a: {Container: {Image: "localhost/probe:1", Network: "none"}, Unit: {BindsTo: ["container/b"], After: ["container/b"]}}
	containers: b: Container: {Image: "localhost/probe:1", Network: "none", Exec: %q}`, exec))
}

// A unit that went down with one that failed is up again after the rollback.
func TestRollbackBringsBackWhatWentDownToo(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(depending("probe sleep"))
	v.Switch()
	v.mustRun("m-a", "m-b")
	v.WriteManifest(depending("no-such-program"))
	v.WriteFile("/etc/systemd/system/own.service", "[Unit]\nRequires=m-b.service\nAfter=m-b.service\n[Service]\nExecStart=/usr/bin/sleep inf\n")
	v.Run("systemctl", "daemon-reload")
	v.Run("systemctl", "start", "own")
	if r := v.Exec("meshgen", "switch"); r.Code != 5 {
		t.Errorf("switch: %+v", r)
	}
	v.mustRun("m-a", "m-b")
	if got := v.Show("own", "ActiveState")["ActiveState"]; got != "active" {
		t.Errorf("own.service is %s", got)
	}
}

// The owner's own unit that needs one of ours comes back with it.
func TestOwnersUnitComesBackWithWhatItNeeds(t *testing.T) {
	v := Boot(t)
	manifest := func(name string) string {
		return single(fmt.Sprintf(`containers: x: Container: {Image: "localhost/probe:1", Network: "none", ContainerName: %q}`, name))
	}
	v.WriteManifest(manifest("one"))
	v.Switch()
	v.WriteFile("/etc/systemd/system/own.service", "[Unit]\nRequires=m-x.service\nAfter=m-x.service\n[Service]\nExecStart=/usr/bin/sleep inf\n")
	v.Run("systemctl", "daemon-reload")
	v.Run("systemctl", "start", "own")
	v.WriteManifest(manifest("two"))
	v.Switch()
	v.mustRun("two")
	if got := v.Show("own", "ActiveState")["ActiveState"]; got != "active" {
		t.Errorf("own.service is %s", got)
	}
}

// A container is restarted for a file that changed, though the switch was killed
// after the file was in place.
func TestNotifiedRestartIsNotLost(t *testing.T) {
	v := Boot(t)
	manifest := func(text string) string {
		return single(fmt.Sprintf(`
	containers: x: `+probe+`
	files: f: {path: "/etc/x.conf", content: %q, notify: x: "restart"}`, text))
	}
	v.WriteManifest(manifest("one"))
	v.Switch()
	before := v.invocation("m-x")
	v.WriteManifest(manifest("two"))
	kill := v.Command("sh", "-c", `until [ "$(cat /etc/x.conf)" = two ]; do :; done; pkill --signal=KILL --exact meshgen`)
	if err := kill.Start(); err != nil {
		t.Fatal(err)
	}
	r := v.Exec("meshgen", "switch")
	_ = kill.Wait() // it found nothing to kill where it came too late
	if r.Code == 0 {
		t.Log("the switch ended before it was killed")
	}
	v.Switch()
	if v.invocation("m-x") == before {
		t.Error("the container was not restarted")
	}
	if text := v.ReadFile("/etc/x.conf"); text != "two" {
		t.Errorf("the file holds %q", text)
	}
}

// What did not come up is tried again by the next switch, and said each time.
func TestNextSwitchTriesAgainWhatFailed(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(depending("probe sleep"))
	v.Switch()
	v.WriteManifest(depending("no-such-program"))
	for range 2 {
		if r := v.Exec("meshgen", "switch", "--rollback=never"); r.Code != 4 || !strings.Contains(r.Stderr, "no-such-program") {
			t.Errorf("switch: %+v", r)
		}
		if r := v.Exec("meshgen", "plan", "--exit-code"); r.Code != 10 {
			t.Errorf("plan: %+v", r)
		}
	}
	v.WriteManifest(depending("probe sleep"))
	v.Switch()
	v.mustRun("m-a", "m-b")
}

// A unit changes that another, which runs, needs: that one is restarted with it,
// and waited for.
func TestChangeOfWhatAnotherNeeds(t *testing.T) {
	for _, by := range []string{"Requires", "BindsTo", "PartOf"} {
		t.Run(by, func(t *testing.T) {
			v := Boot(t)
			manifest := func(n int) string {
				return strings.Replace(strings.Replace(depending("probe sleep"), "BindsTo", by, 1), `Exec:`, fmt.Sprintf(`Environment: N: "%d", Exec:`, n), 1)
			}
			v.WriteManifest(manifest(1))
			v.Switch()
			v.WriteManifest(manifest(2))
			v.Switch()
			v.mustRun("m-a", "m-b")
			if r := v.Exec("meshgen", "plan", "--exit-code"); r.Code != 0 {
				t.Errorf("plan: %+v", r)
			}
		})
	}
}

// The owner's own unit that needs one of ours does not keep ours from going.
func TestOwnersUnitDoesNotDecide(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(pair("ant", "bat"))
	v.Switch()
	v.WriteFile("/etc/systemd/system/own.service", "[Unit]\nRequires=ant.service\nAfter=ant.service\n[Service]\nExecStart=/usr/bin/sleep inf\n")
	v.Run("systemctl", "daemon-reload")
	v.Run("systemctl", "start", "own")
	v.WriteManifest(pair("cow", "bat"))
	v.Switch()
	v.mustRun("bat", "cow")
}

// One takes the name of another that is removed, and a third takes its name.
func TestNamesMoveOnPastARemoval(t *testing.T) {
	v := Boot(t)
	one := func(id, name string) string {
		return fmt.Sprintf("%s: {name: %q, Container: {Image: \"localhost/probe:1\", Network: \"none\", Environment: IS: %[1]q}}\n", id, name)
	}
	v.WriteManifest(single("containers: {" + one("a", "ant") + one("b", "bat") + "}"))
	v.Switch()
	v.WriteManifest(single("containers: {" + one("a", "bat") + one("c", "ant") + "}"))
	v.Switch()
	v.mustRun("ant", "bat")
	v.mustBe("bat", "a")
	v.mustBe("ant", "c")
}

// A signal does not leave half a switch: what was begun is finished.
func TestSignalLetsTheSwitchFinish(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(pair("ant", "bat"))
	v.Switch()
	v.WriteManifest(pair("bat", "ant"))
	kill := v.Command("sh", "-c", "until [ -e /etc/meshgen/pending ]; do :; done; pkill --signal=INT --exact meshgen")
	if err := kill.Start(); err != nil {
		t.Fatal(err)
	}
	r := v.Exec("meshgen", "switch")
	_ = kill.Wait() // it found nothing to interrupt where it came too late
	if r.Code != 0 {
		t.Errorf("switch: %+v", r)
	}
	v.mustRun("ant", "bat")
	v.mustBe("bat", "one")
	v.mustBeSwept()
}

// A renamed container needs a unit that is new, by the name of that unit.
func TestRenameTogetherWithNewNeedsByName(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`containers: x: {name: "ant", ` + probe + `}`))
	v.Switch()
	v.WriteManifest(single(`
	containers: x: {name: "cow", ` + probe + `, Unit: {Requires: "m-maker.service", BindsTo: "m-y.service", After: "m-maker.service m-y.service m-late.target"}, Service: Slice: "m-new.slice"}
	containers: y: ` + probe + `
	units: "maker.service": {Unit: Wants: "m-late.target", Service: {Type: "oneshot", RemainAfterExit: true, ExecStart: "/bin/touch /run/made"}}
	units: "late.target": {}
	units: "new.slice": Slice: CPUWeight: "50"`))
	v.Switch()
	v.mustRun("cow", "m-y")
	v.mustBeGone("ant.service")
	v.mustNotOverlap("ant", "cow")
	if got := v.Show("m-maker.service", "ActiveState")["ActiveState"]; got != "active" {
		t.Errorf("m-maker.service is %s", got)
	}
	v.mustBeSwept()
}
