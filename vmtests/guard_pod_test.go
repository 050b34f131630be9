//go:build systemd

package vmtests

import (
	"strconv"
	"strings"
	"testing"
)

// inPod declares a pod with one container in it, and a container beside it.
const inPod = `package mesh

modules: m: {
	pods: p: {name: "ant", Pod: Network: "none"}
	containers: {
		one: {name: "one", Container: {Image: "localhost/probe:1", Pod: "p"}}
		out: {name: "out", Container: {Image: "localhost/probe:1", Network: "none"}}
	}
}
`

// mustRefuseThePod sees that the pod's unit did not start, that it said why, and
// that what has the name is as it was.
func (v *Machine) mustRefuseThePod(says, id string) {
	v.t.Helper()
	const unit = "ant-pod.service"
	v.Await(unit+" says why", func() bool {
		log := v.Run("journalctl", "--unit="+unit, "--boot", "--no-pager", "--output=cat")
		return strings.Contains(log, says)
	})
	v.Await(unit+" has failed", func() bool { return v.Show(unit, "ActiveState")["ActiveState"] == "failed" })
	if got := v.idOf("ant"); got != id {
		v.t.Errorf("the pod is %s, and was %s", got, id)
	}
}

// startThePod starts the pod's unit, which systemd itself has tried to start again
// and again where it failed before: Quadlet gives it Restart=on-failure.
func (v *Machine) startThePod() {
	v.t.Helper()
	v.Run("systemctl", "reset-failed", "ant-pod", "one")
	v.Run("systemctl", "start", "ant-pod")
}

// A pod that is found is not replaced at a start by hand, and not at a boot, nor is
// what is in it; the rest starts.
func TestPodThatIsThereBeforeAStartStays(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(inPod)
	v.Switch()
	v.Run("systemctl", "stop", "ant-pod")
	id := strings.TrimSpace(v.Run("podman", "pod", "create", "--name=ant", "--network=none"))
	v.Run("podman", "run", "--detach", "--pod=ant", "--name=found", "localhost/probe:2")
	found := strings.TrimSpace(v.Run("podman", "inspect", "--format={{.Id}}", "found"))
	says := "meshgen-guard: pod ant (" + id[:12] + ", running) is not of meshgen, and is left as it is: ant-pod.service needs the name."
	for _, verb := range []string{"start", "restart"} {
		v.Run("systemctl", "reset-failed", "ant-pod", "one")
		if r := v.Exec("systemctl", verb, "ant-pod"); r.Code == 0 {
			t.Errorf("%s: it started", verb)
		}
		v.mustRefuseThePod(says, id)
		v.mustStill("found", found, "running")
	}
	v.PowerCut()
	v.Boot("ant-pod.service", "one.service")
	v.mustRefuseThePod("meshgen-guard: pod ant ("+id[:12]+", ", id)
	v.mustStill("found", found, "exited")
	v.mustRun("out")

	v.Run("podman", "pod", "rm", "--force", "ant")
	v.startThePod()
	v.Await("the pod is up", func() bool { return strings.Count(v.pods(), "running") == 3 })
}

// One that comes up in the middle of a switch, after its look, is not replaced: the
// old set comes back.
func TestPodThatComesDuringASwitchStays(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(one("bat"))
	v.Switch()
	// The new unit itself has it made, before the guard.
	v.WriteManifest(single(`pods: p: {name: "ant", Pod: Network: "none", Service: ExecStartPre: "-/usr/bin/podman pod create --name=ant --label=is=found"}
	containers: x: {name: "bat", Container: {Image: "localhost/probe:1", Network: "none"}}
	containers: y: {name: "cow", Container: {Image: "localhost/probe:1", Pod: "p"}}`))
	r := v.Exec("meshgen", "switch")
	if r.Code != 5 || !strings.Contains(r.Stderr, "meshgen-guard: pod ant (") {
		t.Errorf("switch: %+v", r)
	}
	if label := v.Run("podman", "pod", "inspect", `--format={{index .Labels "is"}}`, "ant"); label != "found\n" {
		t.Errorf("the pod is %q", label)
	}
	v.mustRun("bat")
	v.WriteManifest(one("bat"))
	v.mustBeDone()
}

// One that comes up between the guard and podman pod create has the start fail.
func TestPodThatComesBehindTheGuardStays(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(inPod)
	v.Switch()
	v.Run("systemctl", "stop", "ant-pod")
	guarded := v.Run("systemctl", "cat", "ant-pod")
	_, create, _ := strings.Cut(guarded, "\nExecStartPre=/usr/bin/podman pod create ")
	create, _, _ = strings.Cut(create, "\n")
	v.WriteFile("/etc/systemd/system/ant-pod.service.d/late.conf",
		"[Service]\nExecStartPre=\nExecStartPre=/usr/bin/podman pod create --name=ant --label=is=found\nExecStartPre=/usr/bin/podman pod create "+create+"\n")
	v.Run("systemctl", "daemon-reload")
	if r := v.Exec("systemctl", "start", "ant-pod"); r.Code == 0 {
		t.Error("it started")
	}
	if label := v.Run("podman", "pod", "inspect", `--format={{index .Labels "is"}}`, "ant"); label != "found\n" {
		t.Errorf("the pod is %q", label)
	}
}

// What a service of ours left behind makes way: after a power cut, under an earlier
// address of the resource, and by its id alone.
func TestPodThatIsLeftBehindMakesWay(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(inPod)
	v.Switch()
	up := func(what string, was string) string {
		t.Helper()
		v.Await(what+": the pod is up", func() bool { return strings.Count(v.pods(), "running") == 3 })
		v.mustHavePods("ant ant-infra running", "ant one running", "out running")
		id := v.idOf("ant")
		if id == was {
			t.Errorf("%s: the pod was not made anew", what)
		}
		return id
	}
	id := up("switched", "")
	v.PowerCut()
	v.Boot()
	up("after a power cut", id)
	v.mustHaveNothingToDo()

	leave := func(args ...string) string {
		t.Helper()
		v.Run("systemctl", "stop", "ant-pod")
		return strings.TrimSpace(v.Run(append([]string{"podman", "pod", "create", "--name=ant", "--network=none"}, args...)...))
	}
	left := leave("--label=io.meshgen.resource=m/pod/was", "--label=PODMAN_SYSTEMD_UNIT=ant-pod.service")
	v.startThePod()
	up("of the unit, whose resource had another address", left)
	left = leave()
	v.WriteFile("/run/ant-pod.pod-id", left)
	v.startThePod()
	up("by its id alone", left)

	v.Run("podman", "run", "--detach", "--pod=ant", "--name=guest", "localhost/probe:2")
	id = v.idOf("ant")
	guest := strings.TrimSpace(v.Run("podman", "inspect", "--format={{.Id}}", "guest"))
	v.PowerCut()
	v.Boot("ant-pod.service", "one.service")
	v.mustRefuseThePod("was left behind, and container guest ("+guest[:12]+" of image localhost/probe:2, exited) in it is not of meshgen, and is left as it is", id)
	v.mustStill("guest", guest, "exited")
	v.Run("podman", "rm", "guest")
	v.startThePod()
	up("without the guest", id)
}

// The name of the pod's own container may be somebody else's.
func TestContainerByTheNameOfAPodsOwnStays(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(inPod)
	v.Switch()
	v.Run("systemctl", "stop", "ant-pod")
	id := v.found("create", "ant-infra", "localhost/probe:2")
	if r := v.Exec("systemctl", "start", "ant-pod"); r.Code == 0 {
		t.Error("it started")
	}
	v.Await("ant-pod.service says why", func() bool {
		return strings.Contains(v.Run("journalctl", "--unit=ant-pod.service", "--boot", "--no-pager", "--output=cat"),
			"container ant-infra ("+id[:12]+" of image localhost/probe:2, created) is not of meshgen, and is left as it is: ant-pod.service needs the name.")
	})
	v.mustStill("ant-infra", id, "created")
}

// Wherever podman pod create is killed, what it leaves keeps no pod from starting.
func TestPodThatWasNeverMadeMakesWay(t *testing.T) {
	v := Boot(t)
	if v.Exec("stat", "/usr/bin/nth").Code != 0 {
		t.Skip("nth is for amd64")
	}
	v.WriteManifest(inPod)
	v.Switch()
	v.Run("systemctl", "stop", "ant-pod")
	tried := map[string]bool{}
	for n := 1; ; n += 3 {
		r := v.Exec("nth", "-log=/run/nth.log", "-only=db.sql-journal", "-kill="+strconv.Itoa(n), "podman", "pod", "create",
			"--name=ant", "--infra-name=ant-infra", "--network=none", "--label=io.meshgen.resource=m/pod/p")
		pods := v.Run("podman", "pod", "ps", "--format={{.Name}} {{.Status}}")
		containers := v.Run("podman", "ps", "--all", "--external", "--format={{.Names}} {{.State}}")
		if pods == "" && containers == "out running\n" && r.Code != 0 {
			continue
		}
		if tried[pods+containers] && r.Code != 0 {
			v.Exec("podman", "rm", "--force", "ant-infra") // a born one goes with the pod
			v.Exec("podman", "pod", "rm", "--force", "ant")
			continue
		}
		tried[pods+containers] = true
		t.Logf("killed at %d, exit %d: pods %q, containers %q", n, r.Code, pods, containers)
		v.startThePod()
		v.Await("the pod is up", func() bool { return strings.Count(v.pods(), "running") == 3 })
		v.mustHavePods("ant ant-infra running", "ant one running", "out running")
		v.Run("systemctl", "stop", "ant-pod")
		if r.Code == 0 {
			break
		}
	}
	if len(tried) < 2 {
		t.Errorf("no kill left anything but what is whole: %v", tried)
	}
}
