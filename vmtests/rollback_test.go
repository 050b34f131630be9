//go:build systemd

package vmtests

import (
	"strings"
	"testing"
)

// The generation before comes back: a container has its old name again, a config
// file its old place and content, and nothing is left of what came between.
func TestRollbackBringsBackNamesAndContents(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(forge("", "/etc/gitea/app.ini"))
	v.Switch()
	v.WriteManifest(strings.Replace(forge("gitea", "/etc/gitea/gitea.ini"), "HTTP_PORT = 3000", "HTTP_PORT = 4000", 1))
	v.Switch()
	v.mustRun("gitea")
	// podman is another by now: what it makes of the old set is asked anew.
	v.Run("sh", "-c", "touch $(readlink -f /usr/lib/systemd/system-generators/podman-system-generator)")

	if out := v.Run("meshgen", "rollback"); !strings.Contains(out, "with what generation 1 had") {
		t.Errorf("rollback: %q", out)
	}
	v.mustRun("forge-gitea-server")
	v.mustBeGone("gitea.service")
	v.mustNotOverlap("forge-gitea-server", "gitea")
	v.mustBeSwept()
	if v.Exists("/etc/gitea/gitea.ini") || v.ReadFile("/etc/gitea/app.ini") != "[server]\nHTTP_PORT = 3000\n" {
		t.Error("the config file is not as it was")
	}
	if v.ReadFile("/etc/meshgen/generations/3/out/converted") == v.ReadFile("/etc/meshgen/generations/1/out/converted") {
		t.Error("the set was not converted anew")
	}
	v.PowerCut()
	v.Boot()
	v.Await("the old name runs after a boot", func() bool {
		return v.Show("forge-gitea-server", "ActiveState")["ActiveState"] == "active"
	})
	v.mustRun("forge-gitea-server")

	v.Switch() // by the manifest again
	v.mustRun("gitea")
	if v.ReadFile("/etc/gitea/gitea.ini") != "[server]\nHTTP_PORT = 4000\n" {
		t.Error("the config file is not that of the manifest")
	}
}

// A generation that does not come up again leaves what is in force where it is.
func TestRollbackThatFailsIsRolledBack(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(strings.Replace(pair("ant", "bat"), `"localhost/probe:1", Network`, `"localhost/probe:1", Exec: "no-such-program", Network`, 1))
	if r := v.Exec("meshgen", "switch", "--rollback=never"); r.Code != 4 {
		t.Fatalf("switch: %+v", r)
	}
	v.WriteManifest(pair("cow", "bat"))
	v.Switch()
	bat := v.invocation("bat")
	r := v.Exec("meshgen", "rollback")
	if r.Code != 5 || !strings.Contains(r.Stderr, "generation 2 is in force, as before") {
		t.Errorf("rollback: %+v", r)
	}
	v.mustRun("bat", "cow")
	v.mustBeGone("ant.service")
	if v.invocation("bat") != bat {
		t.Error("what did not change was restarted")
	}
}
