//go:build systemd

package vmtests

import (
	"fmt"
	"strings"
	"testing"
)

// one declares one container by the name that it is to have.
func one(name string) string {
	return single(fmt.Sprintf(`containers: x: {name: %q, Container: {Image: "localhost/probe:1", Network: "none"}}`, name))
}

// outlive has a container of a unit run on while the unit is down, as a stop that
// timed out leaves it.
func (v *Machine) outlive(unit, container, resource string) {
	v.t.Helper()
	v.Run("systemctl", "stop", unit)
	v.Run("podman", "run", "--detach", "--name="+container, "--network=none", "--label=io.meshgen.resource="+resource,
		"--label=PODMAN_SYSTEMD_UNIT="+unit, "localhost/probe:1")
}

// A container that outlived its unit ends before its successor comes.
func TestContainerThatOutlivedItsUnitIsEnded(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(one("ant"))
	v.Switch()
	v.outlive("ant.service", "ant", "m/container/x")
	v.WriteManifest(one("bat"))
	if plan := v.Run("meshgen", "plan"); !strings.Contains(plan, "it outlived ant.service") {
		t.Errorf("plan:\n%s", plan)
	}
	v.Switch()
	v.mustRun("bat")
	v.mustNotOverlap("ant", "bat")
	v.outlive("bat.service", "stray", "m/container/x")
	v.WriteManifest("package mesh\n")
	v.Switch("--allow-empty")
	v.mustRun()
}

// A container that was renamed by hand is still the one that its unit made: it
// goes with the unit, and its successor comes after.
func TestContainerRenamedByHandGoesWithItsUnit(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(one("ant"))
	v.Switch()
	if id := strings.TrimSpace(v.Run("podman", "inspect", "--format={{.Id}}", "ant")); !strings.Contains(v.ReadFile("/var/lib/meshgen/ledger"), id) {
		t.Errorf("the ledger does not have the id %s", id)
	}
	v.Run("podman", "rename", "ant", "stray")
	v.WriteManifest(one("bat"))
	v.Switch()
	if all := v.Run("podman", "ps", "--all", "--format={{.Names}}"); all != "bat\n" {
		t.Errorf("containers: %q", all)
	}
	events := v.Run("podman", "events", "--stream=false", "--since=1h", "--format={{.Name}} {{.Status}}")
	if strings.Index(events, "stray died") > strings.Index(events, "bat start") {
		t.Errorf("the two ran side by side:\n%s", events)
	}
}

// A container of ours that was made again by hand is somebody else's: it is not
// replaced, and the switch that would do so is refused.
func TestContainerMadeAgainByHandIsLeftAlone(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(one("ant"))
	v.Switch()
	v.Run("systemctl", "stop", "ant")
	id := v.Run("podman", "run", "--detach", "--name=ant", "--network=none", "localhost/probe:2")
	v.WriteManifest(strings.Replace(one("ant"), `Network: "none"`, `Network: "none", Environment: A: "1"`, 1))
	r := v.Exec("meshgen", "switch")
	if r.Code != 3 || !strings.Contains(r.Stderr, "container:ant is taken") {
		t.Errorf("switch: %+v", r)
	}
	if now := v.Run("podman", "inspect", "--format={{.Id}}", "ant"); now != id {
		t.Errorf("the container made by hand was replaced")
	}
}

// The owner defines a unit of our name while ours runs, and then the resource goes
// elsewhere: the unit is the owner's, and the container that runs is still ours.
func TestContainerUnderAnOwnersUnitIsNotForgotten(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(one("ant"))
	v.Switch()
	v.WriteFile("/etc/systemd/system/ant.service", "[Service]\nExecStart=/bin/sleep infinity\n")
	v.Run("systemctl", "daemon-reload")
	v.WriteManifest(one("bat"))
	v.Switch()
	v.mustRun("bat")
	v.mustNotOverlap("ant", "bat")
	if !v.Exists("/etc/systemd/system/ant.service") {
		t.Error("the owner's unit is gone")
	}
}
