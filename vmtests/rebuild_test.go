//go:build systemd

package vmtests

import (
	"strings"
	"testing"
)

// The state directory is lost on a running machine. A switch does nothing there
// until a ledger is made anew; then it restarts nothing, and removes what is stale:
// here a container under a name of old, whose definition systemd has lost.
func TestLedgerIsRebuiltFromTheMarks(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(pair("ant", "bat") + `modules: m: files: f: {path: "/etc/m.conf", content: "m"}
modules: gone: {networks: net: {}, volumes: data: {}}`)
	v.Switch()
	v.WriteManifest(pair("cow", "bat") + `modules: m: files: f: {path: "/etc/m.conf", content: "m"}`)
	v.Switch()
	v.mustRun("bat", "cow")
	// Someone goes back by hand: ant starts, and cow is lost to systemd.
	v.Run("sh", "-c", "ln -sfn generations/1 /etc/meshgen/current; systemctl daemon-reload; systemctl start ant")
	if got := v.Show("cow", "LoadState", "ActiveState"); got["LoadState"] != "not-found" || got["ActiveState"] != "active" {
		t.Fatalf("cow.service is not stranded: %v", got)
	}
	v.Run("podman", "run", "--detach", "--name=found", "--network=none", "localhost/probe:1")
	v.Run("podman", "commit", "--quiet", "cow", "localhost/copy:1")
	v.Run("podman", "run", "--detach", "--name=copy", "--network=none", "localhost/copy:1")
	v.Run("rm", "-r", "/var/lib/meshgen")
	if r := v.Exec("meshgen", "switch"); r.Code != 1 || !strings.Contains(r.Stderr, "meshgen rebuild") {
		t.Fatalf("switch without a ledger: %+v", r)
	}

	list := v.Run("meshgen", "rebuild", "--verbose")
	for _, line := range []string{
		"declared  unit:ant.service",
		"declared  container:ant",
		"declared  volume:m-one",
		"declared  file:/etc/m.conf",
		"stale     unit:cow.service",
		"stale     container:cow",
		"  container:copy\n",
		"  container:found\n",
	} {
		if !strings.Contains(list, line) {
			t.Errorf("rebuild does not say %q:\n%s", line, list)
		}
	}
	if v.Exists("/var/lib/meshgen/ledger") {
		t.Error("a list was written")
	}
	ant, bat := v.invocation("ant"), v.invocation("bat")
	v.Run("meshgen", "rebuild", "--yes")
	v.WriteManifest(pair("ant", "bat") + `modules: m: files: f: {path: "/etc/m.conf", content: "m"}
modules: gone: {networks: net: {}, volumes: data: {}}`)
	v.Switch()
	v.mustRun("ant", "bat", "copy", "found")
	v.mustBeGone("cow.service")
	v.mustBeSwept()
	if v.invocation("ant") != ant || v.invocation("bat") != bat {
		t.Error("what runs as it should was restarted")
	}
	if r := v.Exec("meshgen", "plan", "--exit-code"); r.Code != 0 {
		t.Errorf("plan: %+v", r)
	}
	// From here on it is a ledger like any other.
	v.WriteManifest(pair("dog", "bat"))
	v.Switch()
	v.mustRun("bat", "copy", "dog", "found")
	v.mustBeGone("ant.service", "gone-net-network.service")
	if v.Exists("/etc/m.conf") {
		t.Error("the file is still there")
	}
	if networks := v.Run("podman", "network", "ls", "--format={{.Name}}"); networks != "podman\n" {
		t.Errorf("networks: %q", networks)
	}
}

// Everything that meshgen had is lost: ledger and generations. What runs bears
// its mark, and is stopped by it.
func TestLedgerIsRebuiltWithoutAnyGeneration(t *testing.T) {
	v := Boot(t)
	manifest := single(`containers: x: {Container: {Image: "localhost/probe:1", Network: ["net"], Volume: ["data:/data"]}}
	volumes: data: {}
	networks: net: {}`)
	v.WriteManifest(manifest)
	v.Switch()
	v.Run("rm", "-r", "/var/lib/meshgen", "/etc/meshgen/generations", "/etc/meshgen/current")
	v.Run("systemctl", "daemon-reload")
	r := v.Exec("meshgen", "switch")
	if r.Code != 1 || !strings.Contains(r.Stderr, "what bears meshgen's mark is here: container:m-x, volume:m-data, network:m-net\n") || !strings.Contains(r.Stderr, "meshgen rebuild") {
		t.Errorf("switch: %+v", r)
	}
	v.Run("meshgen", "rebuild", "--yes")
	v.WriteManifest(single(`files: f: {path: "/etc/m.conf", content: "m"}`))
	v.Switch()
	v.mustRun()
	v.mustBeGone("m-x.service")
	if networks := v.Run("podman", "network", "ls", "--format={{.Name}}"); networks != "podman\n" {
		t.Errorf("networks: %q", networks)
	}
	v.mustHaveVolumes("m-data")
	v.WriteManifest(manifest)
	v.Switch()
	v.mustRun("m-x")
}

// A switch is killed, and the ledger is lost with it: once that is made anew the
// next switch finishes or undoes what was begun.
func TestLedgerOfACutSwitchIsRebuilt(t *testing.T) {
	v := Boot(t)
	side := func(i int) string {
		return strings.Replace(forge("", "/etc/gitea/app.ini"), "Exec: ", `Environment: IS: "`+string(rune('a'+i))+`", Exec: `, 1)
	}
	v.WriteManifest(side(0))
	v.Switch()
	for i, until := range []string{ // before it is in force, and after
		"[ -e /etc/meshgen/pending ]",
		`[ "$(readlink /etc/meshgen/current)" = "$(readlink /etc/meshgen/pending)" ]`,
	} {
		v.WriteManifest(side(i + 1))
		kill := v.Command("sh", "-c", "until "+until+"; do :; done; pkill --signal=KILL --exact meshgen")
		if err := kill.Start(); err != nil {
			t.Fatal(err)
		}
		if r := v.Exec("meshgen", "switch"); r.Code == 0 {
			t.Fatal("the switch was not killed")
		}
		_ = kill.Wait() // it has done its work
		v.Run("rm", "-r", "/var/lib/meshgen")
		v.Run("meshgen", "rebuild", "--yes")
		v.Switch()
		v.mustRun("forge-gitea-server")
		v.mustBe("forge-gitea-server", string(rune('a'+i+1)))
		v.mustBeSwept()
		if r := v.Exec("meshgen", "plan", "--exit-code"); r.Code != 0 {
			t.Errorf("plan: %+v", r)
		}
	}
}

// What is on a machine before meshgen is recorded as found, in every kind.
func TestFirstSwitchSurveysTheMachine(t *testing.T) {
	v := Boot(t)
	v.Run("podman", "run", "--detach", "--name=found", "--network=none", "localhost/probe:1")
	v.Run("podman", "pod", "create", "--infra=false", "--name=pod")
	v.Run("podman", "volume", "create", "stash")
	v.Run("podman", "network", "create", "lan")
	v.WriteFile(quadlets+"hand.container", quadlet("by-hand"))
	v.WriteManifest(pair("ant", "bat"))
	v.Switch()
	ledger := v.ReadFile("/var/lib/meshgen/ledger")
	for _, target := range []string{"container:found", "pod:pod", "volume:stash", "network:lan", "unit:hand.service"} {
		if !strings.Contains(ledger, `{"event":"find"`) || !strings.Contains(ledger, `"target":"`+target+`"`) {
			t.Errorf("%s was not recorded", target)
		}
	}
	if strings.Contains(ledger, "network:podman") {
		t.Error("podman's own network was recorded")
	}
	if out := v.Run("meshgen", "explain", "container:found"); !strings.Contains(out, "a container of image localhost/probe:1, which runs") {
		t.Errorf("explain: %s", out)
	}
}

// What could not be removed is let go at its owner's word, and left alone from
// then on.
func TestWhatCouldNotBeRemovedIsForgotten(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`
	containers: x: Container: {Image: "localhost/probe:1", Network: ["net"]}
	networks: net: {}`))
	v.Switch()
	v.Run("podman", "run", "--detach", "--name=found", "--network=m-net", "localhost/probe:1")
	v.WriteManifest(single(`containers: x: Container: {Image: "localhost/probe:1", Network: "none"}`))
	if r := v.Exec("meshgen", "switch"); r.Code != 4 || !strings.Contains(r.Stderr, "m-net") {
		t.Fatalf("switch: %+v", r)
	}
	if r := v.Exec("meshgen", "forget", "container:m-x"); r.Code != 3 || !strings.Contains(r.Stderr, "declared by m/container/x at mesh.cue:") {
		t.Errorf("forget of what is declared: %+v", r)
	}
	v.Run("meshgen", "forget", "network:m-net")
	if out := v.Switch(); !strings.Contains(out, "nothing to do") {
		t.Errorf("switch: %s", out)
	}
	v.mustRun("found", "m-x")
	if out := v.Run("meshgen", "explain", "network:m-net"); !strings.Contains(out, "is no longer meshgen's: let go at its owner's word") {
		t.Errorf("explain: %s", out)
	}
	v.WriteManifest(single(`networks: net: {}`))
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "network:m-net is taken") {
		t.Errorf("switch to its name: %+v", r)
	}
}

// What the owner let go bears our mark still, and only the ledger knew of that. With
// the ledger lost a network that no unit of ours makes is not taken for stale: it is
// held, and no switch removes it.
func TestForgottenNetworkOutlivesARebuild(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(kept("one", "10.99.1.0/24", ""))
	v.Switch()
	v.WriteManifest(one("ant"))
	v.Switch()
	v.Run("meshgen", "forget", "network:m-net")
	v.Run("rm", "-r", "/var/lib/meshgen")
	if list := v.Run("meshgen", "rebuild", "--verbose"); !strings.Contains(list, "held      network:m-net") {
		t.Errorf("rebuild says:\n%s", list)
	}
	v.Run("meshgen", "rebuild", "--yes")
	v.Switch()
	v.Run("podman", "network", "inspect", "m-net")
	v.mustRun("ant")
	v.mustBeDone()
}
