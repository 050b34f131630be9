//go:build systemd

package vmtests

import (
	"strings"
	"testing"

	"meshgen/units"
)

// found makes a container by hand, and returns its id.
func (v *Machine) found(verb, name, image string) string {
	v.t.Helper()
	args := []string{"podman", verb, "--name=" + name, "--network=none", image}
	if verb == "run" {
		args = append([]string{"podman", "run", "--detach"}, args[2:]...)
	}
	return strings.TrimSpace(v.Run(args...))
}

// mustRefuse sees that a unit did not start since the container of that id has the
// name, that it said so, and that the container is as it was.
func (v *Machine) mustRefuse(unit, name, id, state string) {
	v.t.Helper()
	says := "container " + name + " (" + id[:12] + " of image "
	v.Await(unit+" says why", func() bool {
		log := v.Run("journalctl", "--unit="+unit, "--boot", "--no-pager", "--output=cat")
		return strings.Contains(log, says) && strings.Contains(log, ", "+state+") is not of meshgen, and is left as it is: "+unit+" needs the name.")
	})
	v.mustStill(name, id, state)
	if got := v.Show(unit, "Result")["Result"]; got != "exit-code" {
		v.t.Errorf("%s: result %s", unit, got)
	}
}

func (v *Machine) mustStill(name, id, state string) {
	v.t.Helper()
	if now := v.Run("podman", "inspect", "--format={{.Id}} {{.State.Status}}", name); now != id+" "+state+"\n" {
		v.t.Errorf("the container by the name %s is %q, want %s %s", name, now, id, state)
	}
}

// A container that comes up in the middle of a switch, after the look and before
// the start of ours, is not replaced: the switch fails, says what is in the way and
// brings the old set back.
func TestContainerThatComesDuringASwitchStays(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(one("bat"))
	v.Switch()
	// The new unit itself has it made, before the guard.
	v.WriteManifest(single(`containers: x: {name: "ant", ` + probe + `, Service: ExecStartPre:
	"-/usr/bin/podman run --detach --sdnotify=ignore --name=ant --network=none localhost/probe:2"}`))
	r := v.Exec("meshgen", "switch")
	id := strings.TrimSpace(v.Run("podman", "inspect", "--format={{.Id}}", "ant"))
	if r.Code != 5 || !strings.Contains(r.Stderr, "meshgen-guard: container ant ("+id[:12]+" of image localhost/probe:2, running) is not of meshgen") {
		t.Errorf("switch: %+v", r)
	}
	v.mustStill("ant", id, "running")
	v.mustRun("ant", "bat")
	v.WriteManifest(one("bat"))
	v.mustBeDone()
}

// One that comes up in the very moment between the guard and podman run has the
// start fail as well.
func TestContainerThatComesBehindTheGuardStays(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(one("ant"))
	v.Switch()
	v.Run("systemctl", "stop", "ant")
	v.WriteFile("/etc/systemd/system/ant.service.d/late.conf",
		"[Service]\nExecStartPre=/usr/bin/podman create --name=ant --network=none localhost/probe:2\n")
	v.Run("systemctl", "daemon-reload")
	if r := v.Exec("systemctl", "start", "ant"); r.Code == 0 {
		t.Error("it started")
	}
	v.mustStill("ant", strings.TrimSpace(v.Run("podman", "inspect", "--format={{.Id}}", "ant")), "created")
	if image := v.Run("podman", "inspect", "--format={{.ImageName}}", "ant"); image != "localhost/probe:2\n" {
		t.Errorf("the container is of %s", image)
	}
}

// A boot starts nothing under a name that somebody has by then, and the rest.
func TestContainerThatIsThereBeforeABootStays(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`containers: {x: {name: "ant", ` + probe + `}, y: {name: "bat", ` + probe + `}}`))
	v.Switch()
	v.Run("systemctl", "stop", "ant")
	id := v.found("create", "ant", "localhost/probe:2")
	v.PowerCut()
	v.Boot("ant.service")
	v.mustRefuse("ant.service", "ant", id, "created")
	v.mustRun("bat")
	// Its owner gives the name up, and what is declared is there again.
	v.Run("podman", "rename", "ant", "cow")
	v.Run("systemctl", "start", "ant")
	v.mustRun("ant", "bat")
	v.mustStill("cow", id, "created")
}

// Nor does a start by hand, or systemd's own of a service that has Restart=.
func TestContainerMadeByHandOutlivesEachStart(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`containers: x: {name: "ant", ` + probe + `, Service: {Restart: "always", RestartSec: "2s"}}`))
	v.Switch()
	v.Run("systemctl", "stop", "ant")
	id := v.found("run", "ant", "localhost/probe:2")
	for _, verb := range []string{"start", "restart"} {
		if r := v.Exec("systemctl", verb, "ant"); r.Code == 0 {
			t.Errorf("%s: it started", verb)
		}
		v.mustRefuse("ant.service", "ant", id, "running")
	}
	v.Run("systemctl", "stop", "ant")
	v.Run("podman", "rm", "--force", "ant")
	v.Run("systemctl", "start", "ant")
	v.Run("podman", "rm", "--force", "ant") // from under its unit, which waits two seconds
	id = v.found("run", "ant", "localhost/probe:2")
	v.mustRefuse("ant.service", "ant", id, "running")
}

// What a service of ours left behind, however that came about, keeps none from
// starting.
func TestLeftoverOfOursMakesWay(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(one("ant"))
	v.Switch()
	again := func(what string) {
		t.Helper()
		v.Run("systemctl", "start", "ant")
		v.mustRun("ant")
		if is := v.Run("podman", "inspect", "--format={{.Id}}", "ant"); strings.TrimSpace(is) != v.ReadFile("/run/ant.cid") {
			t.Errorf("%s: what runs is %s", what, is)
		}
	}
	v.outlive("ant.service", "ant", "m/container/x")
	again("of the resource")
	v.outlive("ant.service", "ant", "m/container/was")
	again("of the unit, whose resource had another address")
	v.Run("systemctl", "stop", "ant")
	v.WriteFile("/run/ant.cid", v.found("run", "ant", "localhost/probe:1"))
	again("by its id alone")
	v.Run("podman", "rename", "ant", "bat")
	v.Run("systemctl", "restart", "ant")
	again("renamed by hand")

	before := v.invocation("ant")
	v.WriteManifest(strings.Replace(one("ant"), `Network: "none"}`, `Network: "none"}, Service: Restart: "on-failure"`, 1))
	v.Switch()
	v.Run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "ant") // conmon
	v.Await("it is started again", func() bool {
		s := v.Show("ant", "ActiveState", "InvocationID", "NRestarts")
		return s["ActiveState"] == "active" && s["InvocationID"] != before && s["NRestarts"] == "1"
	})
	v.PowerCut()
	v.Boot()
	again("by a power cut")
}

// A podman run that was killed halfway leaves a name in the storage that podman
// itself does not know for a container's: it makes way once it is sure that nobody
// is making one.
func TestContainerThatWasNeverMadeMakesWay(t *testing.T) {
	v := Boot(t)
	if v.Exec("stat", "/usr/bin/nth").Code != 0 {
		t.Skip("nth is for amd64")
	}
	v.WriteManifest(one("ant"))
	v.Switch()
	v.Run("systemctl", "stop", "ant")
	v.Exec("nth", "-log=/run/nth.log", "-only=db.sql-journal", "-kill=1", "podman", "run", "--rm", "--name=ant", "--network=none", "localhost/probe:1")
	if state := v.Run("podman", "ps", "--all", "--external", "--format={{.Names}} {{.State}}"); state != "ant storage\n" {
		t.Fatalf("podman has %q", state)
	}
	v.Run("systemctl", "start", "ant")
	v.mustRun("ant")
}

// A copy of our container has its labels from the image, and is not ours.
func TestCopyOfOursIsNotReplaced(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(one("ant"))
	v.Switch()
	v.Run("podman", "commit", "--quiet", "ant", "localhost/copy:1")
	v.Run("systemctl", "stop", "ant")
	id := v.found("run", "ant", "localhost/copy:1")
	if r := v.Exec("systemctl", "start", "ant"); r.Code == 0 {
		t.Error("it started")
	}
	v.mustRefuse("ant.service", "ant", id, "running")
}

// Where the guard is not there nothing starts unguarded, and systemd says what is
// missing.
func TestNothingStartsWithoutTheGuard(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(one("ant"))
	v.Switch()
	v.Run("systemctl", "stop", "ant")
	v.Run("mv", "/usr/lib/meshgen/meshgen-guard", "/run/")
	if r := v.Exec("systemctl", "start", "ant"); r.Code == 0 {
		t.Error("it started")
	}
	v.mustRun()
	v.Await("systemd says why", func() bool {
		log := v.Run("journalctl", "--unit=ant", "--no-pager", "--output=cat")
		return strings.Contains(log, "Unable to locate executable '/usr/lib/meshgen/meshgen-guard'")
	})
}

// What this machine's Quadlet makes of a guarded text runs as what it makes of the
// bare one: a node that had its units before there was a guard restarts none.
func TestGuardIsNoReasonToRestart(t *testing.T) {
	v := Boot(t)
	const container = "[X-Meshgen]\nResource=m/container/x\n\n[Container]\nContainerName=ant\nImage=localhost/probe:1\nLabel=\"io.meshgen.resource=m/container/x\"\n"
	convert := func(text string) string {
		t.Helper()
		v.WriteFile("/run/quadlets/ant.container", text)
		return v.Run("env", "QUADLET_UNIT_DIRS=/run/quadlets", "/usr/libexec/podman/quadlet", "-dryrun")
	}
	for what, more := range map[string]string{
		"as it is by default":    "[Install]\nWantedBy=multi-user.target\n",
		"of the service":         "[Service]\nExecStartPre=/bin/true\nRestart=always\n[Install]\nWantedBy=multi-user.target\n",
		"of the unit":            "[Unit]\nDescription=Ant\nAfter=b.service\n",
		"of both":                "[Unit]\nAfter=b.service\n[Service]\nRestart=always\n",
		"of both, the other way": "[Service]\nRestart=always\n[Unit]\nAfter=b.service\n",
		"no dependencies":        "[Quadlet]\nDefaultDependencies=false\n",
		"arguments and a program": "PodmanArgs=--hostname=a --replace=true\nExec=busybox sleep 1 --replace=false x\n" +
			"Volume=/srv:/srv\nPublishPort=80:80\n",
	} {
		bare, guarded := convert(container+more), convert(units.Guarded(container+more, "/usr/lib/meshgen/meshgen-guard"))
		if units.RunDigest(bare) != units.RunDigest(guarded) || bare == guarded {
			t.Errorf("%s:\n%s\nwith the guard:\n%s", what, bare, guarded)
		}
	}
}

// A container that the owner's unit runs, which is a copy of ours with our mark in
// it, is the owner's.
func TestContainerOfACopiedUnitStays(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`containers: x: {name: "ant", ` + probe + `}`))
	v.Switch()
	v.Run("sh", "-ec", `
cp /run/systemd/generator/ant.service /etc/systemd/system/own.service
systemctl stop ant
systemctl daemon-reload
systemctl start own`)
	id := v.Run("podman", "inspect", "--format={{.Id}}", "ant")
	if r := v.Exec("systemctl", "start", "ant"); r.Code == 0 {
		t.Error("ant started")
	}
	if now := v.Run("podman", "inspect", "--format={{.Id}}", "ant"); now != id {
		t.Errorf("the container is %s, was %s", now, id)
	}
}

func TestGuardOfAPodIsNoReasonToRestart(t *testing.T) {
	v := Boot(t)
	const pod = "[X-Meshgen]\nResource=m/pod/x\n\n[Pod]\nPodName=ant\nPodmanArgs=--exit-policy=continue\nPodmanArgs=--label io.meshgen.resource=m/pod/x\n"
	convert := func(text string) string {
		t.Helper()
		v.WriteFile("/run/quadlets/ant.pod", text)
		return v.Run("env", "QUADLET_UNIT_DIRS=/run/quadlets", "/usr/libexec/podman/quadlet", "-dryrun")
	}
	for what, more := range map[string]string{
		"as it is by default":    "[Install]\nWantedBy=multi-user.target\n",
		"of the service":         "[Service]\nExecStartPre=/bin/true\nRestart=always\n[Install]\nWantedBy=multi-user.target\n",
		"of the unit":            "[Unit]\nDescription=Ant\nAfter=b.service\n",
		"of both":                "[Unit]\nAfter=b.service\n[Service]\nRestart=always\n",
		"of both, the other way": "[Service]\nRestart=always\n[Unit]\nAfter=b.service\n",
		"of the pod":             "Volume=/srv:/srv\nPublishPort=80:80\nPodmanArgs=--hostname=a\n",
	} {
		bare, guarded := convert(pod+more), convert(units.Guarded(pod+more, "/usr/lib/meshgen/meshgen-guard"))
		if units.RunDigest(bare) != units.RunDigest(guarded) || bare == guarded {
			t.Errorf("%s:\n%s\nwith the guard:\n%s", what, bare, guarded)
		}
	}
}
