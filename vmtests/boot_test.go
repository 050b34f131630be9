//go:build systemd

package vmtests

import (
	"encoding/json"
	"strings"
	"testing"
)

// At boot the generator hands systemd what is in force, and no switch is
// needed: the new name runs, the old one does not.
func TestBootRunsWhatIsInForce(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(forge("", "/etc/gitea/app.ini"))
	v.Switch()
	v.WriteManifest(forge("gitea", "/etc/gitea/gitea.ini"))
	v.Switch()
	v.PowerCut()
	v.Boot()
	v.Await("gitea runs", func() bool { return v.Show("gitea", "ActiveState")["ActiveState"] == "active" })
	v.mustRun("gitea")
	v.mustBeGone("forge-gitea-server.service")
	gitea := v.Show("gitea", "FragmentPath", "SourcePath", "UnitFileState", "NeedDaemonReload")
	for property, want := range map[string]string{
		"FragmentPath":     "/run/systemd/generator/gitea.service",
		"SourcePath":       "/etc/meshgen/current/quadlet/gitea.container",
		"UnitFileState":    "generated",
		"NeedDaemonReload": "no",
	} {
		if gitea[property] != want {
			t.Errorf("%s=%s, want %s", property, gitea[property], want)
		}
	}
	before := v.invocation("gitea")
	v.Switch()
	if v.invocation("gitea") != before {
		t.Error("a switch after the boot restarted what the boot had started")
	}
}

// Where no switch is unfinished a boot runs no program of meshgen's but its
// generator.
func TestBootWithNothingPendingRunsNoRecovery(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(forge("gitea", "/etc/gitea/app.ini"))
	v.Switch()
	written := v.Run("stat", "--format=%z", "/var/lib/meshgen/ledger", "/var/lib/meshgen/lock")
	v.PowerCut()
	v.Boot()
	v.awaitUp("gitea")
	for _, unit := range []string{"meshgen-recover", "meshgen-confirm"} {
		got := v.Show(unit, "LoadState", "ConditionTimestampMonotonic", "WantedBy", "Before", "After")
		if got["LoadState"] != "loaded" || got["ConditionTimestampMonotonic"] != "0" || got["WantedBy"] != "" ||
			strings.Contains(got["Before"]+got["After"], "gitea") {
			t.Errorf("%s: %v", unit, got)
		}
	}
	if now := v.Run("stat", "--format=%z", "/var/lib/meshgen/ledger", "/var/lib/meshgen/lock"); now != written {
		t.Errorf("the boot wrote: %s, was %s", now, written)
	}
}

// What a map of the manifest says reaches the container letter for letter,
// through Quadlet, systemd and podman.
func TestValuesAreLiteral(t *testing.T) {
	v := Boot(t)
	values := map[string]string{
		"DOLLAR":  "$HOME ${HOME} $$",
		"PERCENT": "%h %% 100%",
		"QUOTES":  `it's "quoted" \ and \n more`,
		"SPACES":  "  two  spaces ",
		"LINES":   "one\ntwo\ttabbed",
		"UNICODE": "héllo ☃",
		"EMPTY":   "",
		"HASH":    "# no comment ; nor this",
	}
	text, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	v.WriteManifest(single(`containers: x: {Container: {Image: "localhost/probe:1", Network: "none", Environment: ` + string(text) + `, Label: ` + string(text) + `}}`))
	v.Switch()
	var inspected []struct {
		Config struct {
			Env    []string
			Labels map[string]string
		}
	}
	if err := json.Unmarshal([]byte(v.Run("podman", "inspect", "m-x")), &inspected); err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{}
	for _, e := range inspected[0].Config.Env {
		name, value, _ := strings.Cut(e, "=")
		environment[name] = value
	}
	for name, want := range values {
		if got := environment[name]; got != want {
			t.Errorf("environment %s is %q, want %q", name, got, want)
		}
		if got := inspected[0].Config.Labels[name]; got != want {
			t.Errorf("label %s is %q, want %q", name, got, want)
		}
	}
	if got := inspected[0].Config.Labels["io.meshgen.resource"]; got != "m/container/x" {
		t.Errorf("the mark is %q", got)
	}
	if !strings.Contains(v.Run("systemctl", "cat", "m-x"), "[X-Meshgen]\nResource=m/container/x\n") {
		t.Error("the unit carries no mark")
	}
}

// systemctl enable is refused, as for any generated unit: it would make links that
// bring back at boot what is no longer declared.
func TestUnitsCannotBeEnabledByHand(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(pair("ant", "bat"))
	v.Switch()
	if r := v.Exec("systemctl", "enable", "ant"); r.Code == 0 || v.Exists("/etc/systemd/system/ant.service") {
		t.Errorf("enable: %+v", r)
	}
}

// podman's own generator and ours run side by side, and neither writes over the
// other: a Quadlet that someone adds under the name of a unit of ours wins, and
// the stored generation is as it was.
func TestFoundQuadletOfOurNameIsNotOverwritten(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`containers: x: Container: {Image: "localhost/probe:1", Network: "none"}`))
	v.Switch()
	stored := v.ReadFile("/etc/meshgen/current/out/normal/m-x.service")
	v.WriteFile(quadlets+"m-x.container", quadlet("somebody-elses"))
	for range 5 {
		v.Run("systemctl", "daemon-reload")
	}
	if v.ReadFile("/etc/meshgen/current/out/normal/m-x.service") != stored {
		t.Error("podman's generator wrote into the generation")
	}
	if !strings.Contains(v.ReadFile("/run/systemd/generator/m-x.service"), "somebody-elses") {
		t.Error("what was found does not win")
	}
}
