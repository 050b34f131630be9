//go:build systemd

package vmtests

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// moments is how many times each kind of switch is killed.
const moments = 20

// A rename is killed at twenty moments, every other time by a power cut, and
// run again: it ends as an unbroken one would.
func TestRenameSurvivesKills(t *testing.T) {
	v := Boot(t)
	sides := [2]struct{ container, file string }{{"forge-gitea-server", "/etc/gitea/app.ini"}, {"gitea", "/etc/gitea/gitea.ini"}}
	side := func(i int) string {
		if i%2 == 0 {
			return forge("", sides[0].file)
		}
		return forge("gitea", sides[1].file)
	}
	v.killed(side, func(i int) {
		now, other := sides[i%2], sides[(i+1)%2]
		v.mustRun(now.container)
		v.mustBeGone(other.container + ".service")
		if !v.Exists(now.file) || v.Exists(other.file) {
			v.t.Errorf("the config file did not move to %s", now.file)
		}
	})
}

// A change in place is killed at twenty moments and run again: no change is
// lost, though what is on the disk is the new set already.
func TestChangeInPlaceSurvivesKills(t *testing.T) {
	v := Boot(t)
	side := func(i int) string {
		return strings.Replace(forge("gitea", "/etc/gitea/app.ini"), "Exec: ", fmt.Sprintf("Environment: IS: \"%d\", Exec: ", i), 1)
	}
	v.killed(side, func(i int) {
		v.mustRun("gitea")
		v.mustBe("gitea", fmt.Sprint(i))
	})
}

// The very first switch is killed, and run again.
func TestFirstSwitchSurvivesKills(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(forge("gitea", "/etc/gitea/app.ini"))
	begin := time.Now()
	v.Switch()
	whole := time.Since(begin)
	for i := 1; i < 8; i++ {
		v.WriteManifest("package mesh\n")
		v.Switch("--allow-empty")
		v.Run("podman", "volume", "rm", "forge-data")
		v.Run("rm", "-r", "/var/lib/meshgen", "/etc/meshgen/generations", "/etc/meshgen/current")
		v.WriteManifest(forge("gitea", "/etc/gitea/app.ini"))
		v.killAfter(whole * time.Duration(i) / 8)
		v.Switch()
		v.mustRun("gitea")
		v.mustBeSwept()
	}
}

// killed switches from side to side, is killed in each, and switches again.
func (v *Machine) killed(side func(int) string, check func(int)) {
	v.t.Helper()
	v.WriteManifest(side(0))
	v.Switch()
	v.WriteManifest(side(1))
	begin := time.Now()
	v.Switch()
	whole := time.Since(begin)
	check(1)
	for i := 2; i < moments+2; i++ {
		v.WriteManifest(side(i))
		v.killAfter(whole * time.Duration(i-1) / (moments + 1))
		if i%2 == 0 {
			v.PowerCut()
			v.Boot()
		}
		v.mustBeNamed()
		v.Switch()
		check(i)
		v.mustBeSwept()
		if r := v.Exec("meshgen", "plan", "--exit-code"); r.Code != 0 {
			v.t.Errorf("moment %d: plan after the switch: %+v", i, r)
		}
		if v.t.Failed() {
			v.t.Fatalf("moment %d, %s into a switch of %s", i, whole*time.Duration(i-1)/(moments+1), whole)
		}
	}
}

// killAfter runs a switch and kills it after a while.
func (v *Machine) killAfter(d time.Duration) {
	v.t.Helper()
	c := v.Command("meshgen", "switch")
	if err := c.Start(); err != nil {
		v.t.Fatal(err)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
	v.Exec("pkill", "--signal=KILL", "--exact", "meshgen")
	_ = c.Wait() // killed, or at its end already
}

// mustBeNamed sees that all that is here of meshgen's is in its ledger.
func (v *Machine) mustBeNamed() {
	v.t.Helper()
	ledger := v.ReadFile("/var/lib/meshgen/ledger")
	names := strings.Fields(v.Run("podman", "ps", "--all", "--format={{.Names}}"))
	for file := range strings.FieldsSeq(v.Run("find", "/etc/gitea", "-type", "f", "-not", "-name", ".meshgen-*")) {
		names = append(names, "file:"+file)
	}
	if i := slices.IndexFunc(names, func(name string) bool { return !strings.Contains(ledger, name) }); i >= 0 {
		v.t.Errorf("%s is here, and the ledger does not know it", names[i])
	}
}
