//go:build systemd

package vmtests

import (
	"fmt"
	"strings"
	"testing"
)

// A broken edit changes nothing, whatever is broken about it.
func TestBrokenEditChangesNothing(t *testing.T) {
	v := Boot(t)
	good := forge("gitea", "/etc/gitea/app.ini")
	v.WriteManifest(good)
	v.Switch()
	before, written := v.invocation("gitea"), v.written()
	for _, edit := range []struct{ name, manifest, says string }{
		{"no CUE", good + "}", "mesh.cue:"},
		{"a key that is none", strings.Replace(good, "Exec:", "Exce:", 1), "Exec"},
		{"a dangling volume", strings.Replace(good, "data:/data", "date:/data", 1), "data"},
		{"a key of a later podman", strings.Replace(good, "Exec:", "Memory: \"1g\", Exec:", 1), "podman 5.4.2"},
		{"a value that quadlet refuses", strings.Replace(good, "holds:", "Service: Type: \"forking\"\n\t\tholds:", 1), "forking"},
		{"two faults", strings.Replace(strings.Replace(good, "data:/data", "date:/data", 1), "Exec:", "Exce:", 1), "date"},
		{"nothing declared", "package mesh\n", "mesh.cue"},
		{"an empty file", "", ""},
	} {
		t.Run(edit.name, func(t *testing.T) {
			v.WriteManifest(edit.manifest)
			for _, command := range []string{"check", "plan", "switch"} {
				r := v.Exec("meshgen", command)
				if r.Code != 3 || !strings.Contains(r.Stderr, edit.says) {
					t.Errorf("%s: %+v", command, r)
				}
			}
			if v.invocation("gitea") != before || v.written() != written {
				t.Error("something was touched")
			}
		})
	}
	v.Run("rm", "-r", Manifest)
	if r := v.Exec("meshgen", "switch"); r.Code == 0 {
		t.Error("a manifest that is gone was taken")
	}
	v.mustRun("gitea")
}

// What is on the machine already is not touched, in any kind.
func TestFoundThingsAreRefusedAndUntouched(t *testing.T) {
	v := Boot(t)
	v.Run("podman", "run", "--detach", "--name=found", "--network=none", "localhost/probe:1")
	v.Run("podman", "volume", "create", "found")
	v.Run("podman", "network", "create", "found")
	v.WriteFile("/etc/systemd/system/own.service", "[Service]\nExecStart=/usr/bin/sleep inf\n")
	v.WriteFile(quadlets+"hand.container", quadlet("by-hand"))
	v.WriteFile("/etc/found.conf", "found\n")
	v.Run("systemctl", "daemon-reload")
	id := v.Run("podman", "inspect", "--format={{.Id}} {{.State.StartedAt}}", "found")
	const image = `Container: {Image: "localhost/probe:1", Network: "none"}`
	for _, c := range []struct{ body, says string }{
		{`containers: x: {name: "found", ` + image + `}`, "container:found is taken"},
		{`volumes: x: name: "found"`, "volume:found is taken"},
		{`networks: x: name: "found"`, "network:found is taken"},
		{`containers: x: {name: "own", ` + image + `}`, "/etc/systemd/system/own.service"},
		{`containers: x: {name: "hand", ` + image + `}`, quadlets + "hand.container"},
		{`files: x: {path: "/etc/found.conf", content: "ours"}`, "file:/etc/found.conf is taken"},
		{`files: x: {path: "/etc/systemd", content: "ours"}`, "a directory is at /etc/systemd"},
	} {
		v.WriteManifest(single(c.body))
		r := v.Exec("meshgen", "switch")
		if r.Code != 3 || !strings.Contains(r.Stderr, c.says) || !strings.Contains(r.Stderr, "mesh.cue:") {
			t.Errorf("%s: %+v", c.body, r)
		}
	}
	if v.Run("podman", "inspect", "--format={{.Id}} {{.State.StartedAt}}", "found") != id {
		t.Error("the found container is another")
	}
	if v.Exists("/etc/meshgen/generations") || v.ReadFile("/etc/found.conf") != "found\n" {
		t.Error("something was touched")
	}
}

// All refusals come at once, each with its place.
func TestRefusalsComeTogether(t *testing.T) {
	v := Boot(t)
	v.WriteFile("/etc/a", "")
	v.WriteFile("/etc/b", "")
	v.WriteManifest(single(`files: a: {path: "/etc/a", content: ""}
files: b: {path: "/etc/b", content: ""}`))
	r := v.Exec("meshgen", "switch")
	if r.Code != 3 || strings.Count(r.Stderr, "is taken") != 2 {
		t.Errorf("switch: %+v", r)
	}
}

// A start that fails brings the old set back, and says why.
func TestFailedStartRollsBack(t *testing.T) {
	v := Boot(t)
	good := forge("gitea", "/etc/gitea/app.ini")
	v.WriteManifest(good)
	v.Switch()
	for _, c := range []struct{ name, manifest string }{
		{"in place", strings.Replace(good, "probe serve :3000", "no-such-program", 1)},
		{"renamed", strings.Replace(forge("forgejo", "/etc/gitea/forge.ini"), "probe serve :3000", "no-such-program", 1)},
		{"ends at once", strings.Replace(good, "probe serve :3000", "probe exit 3", 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			v.WriteManifest(c.manifest)
			r := v.Exec("meshgen", "switch")
			if r.Code != 5 || !strings.Contains(r.Stderr, "rolled back") {
				t.Errorf("switch: %+v", r)
			}
			if c.name != "ends at once" && !strings.Contains(r.Stderr, "no-such-program") {
				t.Errorf("it does not say why: %s", r.Stderr)
			}
			v.mustRun("gitea")
			v.mustBeGone("forgejo.service")
			v.mustBeSwept()
			if v.Exists("/etc/gitea/forge.ini") || !v.Exists("/etc/gitea/app.ini") {
				t.Error("the config file is not as before")
			}
			v.WriteManifest(good)
			if r := v.Exec("meshgen", "plan", "--exit-code"); r.Code != 0 {
				t.Errorf("plan: %+v", r)
			}
		})
	}
}

// The old set comes back however often it was started of late: systemd's limit
// of starts is not held against it.
func TestRollbackIsNotRateLimited(t *testing.T) {
	v := Boot(t)
	good := forge("gitea", "/etc/gitea/app.ini")
	v.WriteManifest(good)
	v.Switch()
	for range 4 {
		v.Run("systemctl", "restart", "gitea")
	}
	v.WriteManifest(strings.Replace(good, "probe serve :3000", "probe exit 3", 1))
	if r := v.Exec("meshgen", "switch"); r.Code != 5 {
		t.Errorf("switch: %+v", r)
	}
	v.mustRun("gitea")
}

// The very first switch fails: nothing is left of it.
func TestFailedFirstSwitchLeavesNothing(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(strings.Replace(forge("gitea", "/etc/gitea/app.ini"), "probe serve :3000", "no-such-program", 1))
	if r := v.Exec("meshgen", "switch"); r.Code != 5 {
		t.Errorf("switch: %+v", r)
	}
	v.mustRun()
	v.mustBeGone("gitea.service")
	if v.Exists("/etc/gitea") || v.Exists("/etc/meshgen/current") {
		t.Error("something is left")
	}
	v.WriteManifest(forge("gitea", "/etc/gitea/app.ini"))
	v.Switch()
	v.mustRun("gitea")
}

// With --rollback=never the new set stays, and the exit code says that
// something failed.
func TestFailedStartWithoutRollback(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(pair("ant", "bat"))
	v.Switch()
	v.WriteManifest(strings.Replace(pair("cow", "bat"), "probe:1\", Network: \"none\", Environment: IS: \"one\"", "probe:1\", Exec: \"no-such-program\", Network: \"none\", Environment: IS: \"one\"", 1))
	r := v.Exec("meshgen", "switch", "--rollback=never")
	if r.Code != 4 {
		t.Errorf("switch: %+v", r)
	}
	v.mustRun("bat")
	v.mustBeGone("ant.service")
	v.WriteManifest(pair("cow", "bat"))
	v.Switch()
	v.mustRun("bat", "cow")
}

// An image that is nowhere stops the switch before anything is touched.
func TestMissingImageTouchesNothing(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(pair("ant", "bat"))
	v.Switch()
	before := v.invocation("ant")
	v.WriteManifest(strings.Replace(pair("ant", "bat"), "probe:1", "nowhere:1", 1))
	r := v.Exec("meshgen", "switch")
	if r.Code != 1 || !strings.Contains(r.Stderr, "localhost/nowhere:1") {
		t.Errorf("switch: %+v", r)
	}
	if v.invocation("ant") != before || v.Exists("/etc/meshgen/pending") {
		t.Error("something was touched")
	}
}

// Two switches do not run at once.
func TestSwitchIsLocked(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(pair("ant", "bat"))
	v.Switch()
	r := v.Exec("flock", "/var/lib/meshgen/lock", "meshgen", "switch")
	if r.Code != 6 {
		t.Errorf("switch beside another: %+v", r)
	}
}

// What its owner had stopped, and a switch that failed had started, is down again
// once that is rolled back.
func TestRollbackLeavesDownWhatWasDown(t *testing.T) {
	v := Boot(t)
	manifest := func(n, more string) string {
		return single(fmt.Sprintf(`containers: {
	x: {Container: {Image: "localhost/probe:1", Network: "none", Environment: N: %q}}
	y: {Container: {Image: "localhost/probe:1", Network: "none"%s}}
}`, n, more))
	}
	v.WriteManifest(manifest("1", ""))
	v.Switch()
	v.Run("systemctl", "stop", "m-x")
	v.WriteManifest(manifest("2", `, Exec: "no-such-program"`))
	if r := v.Exec("meshgen", "switch"); r.Code != 5 {
		t.Fatalf("switch: %+v", r)
	}
	v.mustRun("m-y")
	v.mustBeDoneFor(manifest("1", ""))
	v.mustRun("m-y")
}

// mustBeDoneFor sees that there is nothing to do for a manifest.
func (v *Machine) mustBeDoneFor(manifest string) {
	v.t.Helper()
	v.WriteManifest(manifest)
	v.mustBeDone()
}
