//go:build systemd

package vmtests

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"meshgen/vmtests/machine"
)

const quadlets = "/etc/containers/systemd/"

func quadlet(container string) string {
	return "[Container]\nImage=localhost/probe:1\nNetwork=none\nContainerName=" + container + "\n"
}

func TestMachineRuns(t *testing.T) {
	v := Boot(t)
	if state := v.Run("systemctl", "is-system-running"); state != "running\n" {
		t.Errorf("the machine is %q", state)
	}
	if v.Exec("sh", "-c", "echo out; echo err >&2; exit 3") != (machine.Result{Stdout: "out\n", Stderr: "err\n", Code: 3}) {
		t.Error("a command's output and exit code do not come through")
	}
	if !strings.Contains(v.Run("cat", "/proc/self/cgroup"), "0::/shell\n") {
		t.Error("a command is not in the machine's cgroup")
	}
	if !v.Exists("/usr/bin/meshgen") || !v.Exists("/usr/lib/systemd/system-generators/meshgen-generator") {
		t.Error("meshgen is not installed")
	}
}

func TestMachineRunsQuadlets(t *testing.T) {
	v := Boot(t)
	v.WriteFile(quadlets+"web.container",
		"[Container]\nImage=localhost/probe:2\nContainerName=web\nPublishPort=8080:80\nExec=probe serve :80\n")
	v.Run("systemctl", "daemon-reload")
	v.Run("systemctl", "start", "web")
	if got := v.Containers(); !slices.Equal(got, []string{"web"}) {
		t.Errorf("containers %q run, want web", got)
	}
	v.Await("web answers", func() bool {
		return v.Exec("busybox", "nc", "127.0.0.1", "8080").Stdout == "2\n"
	})
	start := time.Now()
	v.Run("systemctl", "stop", "web")
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the probe took %v to stop", took)
	}
}

// A Quadlet is renamed by hand and the new one started: the old service is
// stranded, which is the fault that meshgen is there to end.
func TestMachineStrandsARenamedQuadlet(t *testing.T) {
	v := Boot(t)
	v.WriteFile(quadlets+"old.container", quadlet("forge-gitea-server"))
	v.Run("systemctl", "daemon-reload")
	v.Run("systemctl", "start", "old")

	v.Run("rm", quadlets+"old.container")
	v.WriteFile(quadlets+"new.container", quadlet("gitea"))
	v.Run("systemctl", "daemon-reload")
	v.Run("systemctl", "start", "new")

	old := v.Show("old.service", "LoadState", "ActiveState")
	if old["LoadState"] != "not-found" || old["ActiveState"] != "active" {
		t.Errorf("old.service is %v", old)
	}
	if got, want := v.Containers(), []string{"forge-gitea-server", "gitea"}; !slices.Equal(got, want) {
		t.Errorf("containers %q run, want %q", got, want)
	}
}

func TestMachineKeepsItsDiskOverAPowerCut(t *testing.T) {
	v := Boot(t)
	const bootID = "/proc/sys/kernel/random/boot_id"
	machineID, firstBoot := v.ReadFile("/etc/machine-id"), v.ReadFile(bootID)
	v.WriteFile("/etc/kept", "kept")
	v.WriteFile("/run/lost", "lost")
	v.WriteFile(quadlets+"web.container", quadlet("web")+"[Install]\nWantedBy=multi-user.target\n")

	v.PowerCut()
	if _, err := v.m.Run(t.Context(), "true"); err == nil {
		t.Error("a command ran on a machine that is off")
	}
	v.Boot()

	if got := v.ReadFile("/etc/kept"); got != "kept" {
		t.Errorf("/etc/kept holds %q", got)
	}
	if v.Exists("/run/lost") {
		t.Error("/run outlived the power")
	}
	if got := v.ReadFile("/etc/machine-id"); got != machineID || len(got) != 33 {
		t.Errorf("the machine's id was %q and is %q", machineID, got)
	}
	if v.ReadFile(bootID) == firstBoot {
		t.Error("two boots have one id")
	}
	if got := v.Containers(); !slices.Equal(got, []string{"web"}) {
		t.Errorf("containers %q run after the boot, want web", got)
	}
}

func TestTwoMachinesKnowNothingOfEachOther(t *testing.T) {
	a, b := Boot(t), Boot(t)
	if a.ReadFile("/etc/machine-id") == b.ReadFile("/etc/machine-id") {
		t.Error("two machines have one id")
	}
	for _, v := range []*Machine{a, b} {
		v.Run("podman", "run", "--detach", "--name=same", "--network=host", "localhost/probe:1", "probe", "serve", ":80")
	}
	a.PowerCut()
	if got := b.Containers(); !slices.Equal(got, []string{"same"}) {
		t.Errorf("containers %q run on the machine whose power was not cut", got)
	}
}

func TestCommandDiesWithItsContext(t *testing.T) {
	v := Boot(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := v.m.Exec(ctx, "sh", "-c", "exec sleep 1234"); err == nil {
		t.Error("a command outlived its context")
	}
	v.Await("the command is gone", func() bool {
		return !strings.Contains(v.Run("ps", "-e", "-o", "args"), "sleep 1234")
	})
}

// The clock is the host's, and of all machines that run beside this one.
func TestMachineCannotSetTheClock(t *testing.T) {
	v := Boot(t)
	const sysTime = 25 // capabilities(7), as linux/capability.h has it
	for _, path := range []string{"/proc/1/status", "/proc/self/status"} {
		_, text, _ := strings.Cut(v.ReadFile(path), "CapBnd:\t")
		text, _, _ = strings.Cut(text, "\n")
		if set, err := strconv.ParseUint(text, 16, 64); err != nil || set>>sysTime&1 != 0 {
			t.Fatalf("%s: the bounding set is %q (%v): the clock is not tried", path, text, err)
		}
	}
	for _, run := range [][]string{{}, {"systemd-run", "--quiet", "--wait", "--pipe"}} {
		r := v.Exec(append(run, "sh", "-c", "date --set=@$(date +%s)")...)
		if r.Code == 0 || !strings.Contains(r.Stderr, "cannot set date") {
			t.Errorf("%q: %+v", run, r)
		}
	}
}
