//go:build systemd

package vmtests

import (
	"fmt"
	"strings"
	"testing"
)

// puller declares a unit that switches when it is told to, and a container; each
// has n in it.
func puller(n int, more string) string {
	return single(fmt.Sprintf(`units: "puller.service": {
	Service: {
		Environment: N: "%[1]d"
		ExecStart: "/bin/sh -c 'while :; do if [ -e /run/go ]; then rm /run/go; meshgen switch; fi; sleep 0.1; done'"
	}
	Install: WantedBy: "multi-user.target"
}
containers: x: {name: "ant", Container: {Image: "localhost/probe:1", Network: "none", Environment: IS: "%[1]d"}}
%s`, n, more))
}

// A switch that runs in a unit that it has to restart does all else first, and is
// not cut short by it.
func TestSwitchRestartsItsOwnUnitLast(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(puller(1, ""))
	v.Switch()
	before := v.invocation("m-puller.service")
	v.WriteManifest(puller(2, ""))
	v.WriteFile("/run/go", "")
	v.Await("the unit runs anew", func() bool {
		now := v.Show("m-puller.service", "InvocationID", "ActiveState", "Environment")
		return now["InvocationID"] != before && now["ActiveState"] == "active" && now["Environment"] == "N=2"
	})
	v.mustBe("ant", "2")
	v.mustBeSwept()
	v.mustBeDone()
	// In the run that came of it there is nothing more to do.
	before = v.invocation("m-puller.service")
	v.WriteFile("/run/go", "")
	v.Await("the switch has begun", func() bool { return !v.Exists("/run/go") })
	v.Run("flock", "--wait=10", "/var/lib/meshgen/lock", "true")
	v.mustBeDone()
	if v.invocation("m-puller.service") != before {
		t.Error("it was restarted again")
	}
}

// One that takes its own unit away ends it last, and the next switch forgets it.
func TestSwitchStopsItsOwnUnitLast(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(puller(1, ""))
	v.Switch()
	v.WriteManifest(one("ant"))
	v.WriteFile("/run/go", "")
	v.Await("the unit is gone", func() bool {
		return v.Show("m-puller.service", "ActiveState")["ActiveState"] == "inactive"
	})
	v.mustRun("ant")
	if history := v.Run("meshgen", "history"); strings.Contains(history, "unfinished") || strings.Contains(history, "failed") {
		t.Errorf("history:\n%s", history)
	}
	v.Switch()
	v.mustBeGone("m-puller.service")
	v.mustBeDone()
}
