//go:build systemd

package vmtests

import (
	"fmt"
	"strings"
	"testing"
)

// smithy declares a container with a file, a volume and a network, under these
// ids and names.
func smithy(module, id, name, more string) string {
	return fmt.Sprintf(`package mesh

modules: %[1]s: {
	containers: %[2]q: {name: %[3]q, Container: {Image: "localhost/probe:1", Network: "%[2]s", Volume: "%[2]s:/data"}}
	volumes: %[2]q: {name: "data"}
	networks: %[2]q: {name: "net"}
	files: %[2]q: {path: "/etc/smithy.conf", content: "x", notify: %[2]q: "restart"}
}
%[4]s
`, module, id, name, more)
}

// A module that gets another name takes what it has with it: nothing restarts.
func TestMovedModuleKeepsWhatItHas(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(smithy("forge", "x", "ant", ""))
	v.Switch()
	before := v.invocation("ant")
	v.WriteManifest(smithy("smithy", "x", "ant", `moved: [{from: "forge", to: "smithy"}]`))
	v.Switch()
	v.mustRun("ant")
	if v.invocation("ant") != before {
		t.Error("it was restarted")
	}
	v.mustBeDone()
	// The entry goes one day, and what came of it stays.
	v.WriteManifest(smithy("smithy", "x", "ant", ""))
	v.Switch()
	if v.invocation("ant") != before {
		t.Error("it was restarted once the entry was gone")
	}
	v.mustBeDone()
}

// A resource gets another id and another name in one edit: it is a rename, and
// never two at once. Without a word of it, the volume would be lost sight of.
func TestMovedAndRenamedAtOnce(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(smithy("forge", "x", "ant", ""))
	v.Switch()
	v.WriteManifest(smithy("forge", "y", "bat", `moved: [for k in ["container", "volume", "network", "file"] {from: "forge/\(k)/x", to: "forge/\(k)/y"}]`))
	if plan := v.Run("meshgen", "plan"); !strings.Contains(plan, "moved from forge/container/x") || !strings.Contains(plan, "ant.service → bat.service") {
		t.Errorf("plan:\n%s", plan)
	}
	v.Switch()
	v.mustRun("bat")
	v.mustBeGone("ant.service")
	v.mustNotOverlap("ant", "bat")
	v.mustBeDone()
	v.mustBeSwept()
}

// What goes and comes again under another id is told to look like a rename.
func TestPlanTellsWhatLooksLikeARename(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(one("ant"))
	v.Switch()
	v.WriteManifest(strings.Replace(one("bat"), "x:", "y:", 1))
	if plan := v.Run("meshgen", "plan"); !strings.Contains(plan, "looks like m/container/x") {
		t.Errorf("plan:\n%s", plan)
	}
	v.Switch()
	v.mustRun("bat")
	v.mustNotOverlap("ant", "bat")
}

// A module goes, somebody makes a container under the name that it had, and the
// module comes back: the name is somebody else's now.
func TestModuleComesBackToATakenName(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(one("ant"))
	v.Switch()
	v.WriteManifest("package mesh\n")
	v.Switch("--allow-empty")
	id := v.Run("podman", "run", "--detach", "--name=ant", "--network=none", "localhost/probe:2")
	v.WriteManifest(one("ant"))
	r := v.Exec("meshgen", "switch")
	if r.Code != 3 || !strings.Contains(r.Stderr, "container:ant is taken") {
		t.Errorf("switch: %+v", r)
	}
	if now := v.Run("podman", "inspect", "--format={{.Id}}", "ant"); now != id {
		t.Error("the container made by hand was replaced")
	}
	v.Run("podman", "rm", "--force", "--time=1", "ant")
	v.Switch()
	v.mustRun("ant")
}

// mustBeDone sees that a switch finds nothing to do, and leaves the ledger alone.
func (v *Machine) mustBeDone() {
	v.t.Helper()
	ledger := v.ReadFile("/var/lib/meshgen/ledger")
	if r := v.Exec("meshgen", "plan", "--exit-code"); r.Code != 0 {
		v.t.Errorf("plan: %+v", r)
	}
	v.Switch()
	if v.ReadFile("/var/lib/meshgen/ledger") != ledger {
		v.t.Error("a switch with nothing to do wrote to the ledger")
	}
}
