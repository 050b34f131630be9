//go:build systemd

package vmtests

import (
	"strings"
	"testing"
)

// pen declares a container on a network and a volume of its own, and more.
func pen(more string) string {
	return single(`containers: x: {name: "ant", Container: {Image: "localhost/probe:1", Network: ["net"], Volume: ["data:/data"]` + more + `}}
	networks: net: {}, volumes: data: {}`)
}

// asked runs meshgen and returns what podman was asked for by it, a line each.
func (v *Machine) asked(args ...string) string {
	v.t.Helper()
	const shim = "/usr/local/sbin/podman"
	v.WriteFile(shim, "#!/bin/sh\necho \"$@\" >> /run/asked\nexec /usr/bin/podman \"$@\"\n")
	v.Run("chmod", "755", shim)
	v.Run("truncate", "--size=0", "/run/asked")
	v.Run(append([]string{"meshgen"}, args...)...)
	asked := v.ReadFile("/run/asked")
	v.Run("rm", shim)
	return asked
}

// mustAskNothing fails where something is left to be done, or podman is asked
// though all is as it was made.
func (v *Machine) mustAskNothing() {
	v.t.Helper()
	v.mustBeDone()
	for _, command := range []string{"switch", "plan", "status"} {
		if asked := v.asked(command); asked != "" {
			v.t.Errorf("%s: podman was asked for\n%s", command, asked)
		}
	}
}

// mustTell fails where plan and status do not say so of a resource, in these
// words.
func (v *Machine) mustTell(resource, words string) {
	v.t.Helper()
	for _, command := range []string{"plan", "status"} {
		told := false
		out := v.Run("meshgen", command)
		for line := range strings.Lines(strings.ReplaceAll(out, "\n    ", " ")) { // what is wrong stands below
			told = told || (strings.Contains(line, resource) && strings.Contains(line, words))
		}
		if !told {
			v.t.Errorf("%s says nothing of %s that %s:\n%s", command, resource, words, out)
		}
	}
}

func (v *Machine) id(container string) string {
	return strings.TrimSpace(v.Exec("podman", "container", "inspect", "--format={{.Id}}", container).Stdout)
}

// Podman costs a tenth of a second: where all is as it was made it is not asked,
// after a boot neither, nor after somebody else made things of their own.
func TestPodmanIsNotAskedOfWhatIsAsItWasMade(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(pen(""))
	v.Switch()
	v.mustAskNothing()
	v.Run("podman", "run", "--detach", "--name=mine", "--volume=mine:/mine", "--network=none", "localhost/probe:2")
	v.Run("podman", "network", "create", "mine")
	v.Run("systemctl", "restart", "ant.service")
	v.mustAskNothing()
	v.PowerCut()
	v.Boot()
	v.mustRun("ant")
	v.mustAskNothing()
	v.Run("systemctl", "stop", "ant.service")
	v.mustAskNothing()
	v.Run("systemctl", "start", "ant.service")
	v.Run("rm", "/run/ant.cid")
	if v.asked("switch") == "" {
		t.Error("podman was not asked where a unit does not say what it runs")
	}
	v.mustBeDone()
}

// A container that was renamed by hand gets its name back. One that is deaf, and of
// which systemd does not know what to remove, is ended by its id.
func TestRenamedContainerGetsItsNameBack(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`containers: x: {name: "ant"
	Container: {Image: "localhost/probe:1", Network: "none", Exec: "busybox sleep 1000"}
	Service: TimeoutStopSec: "1"}`))
	v.Switch()
	for _, damage := range []string{"true", "rm /run/ant.cid"} {
		before := v.id("ant")
		v.Run("sh", "-c", "podman rename ant cow; "+damage)
		v.mustTell("m/container/x", "goes by the name cow")
		v.Switch()
		v.mustRun("ant")
		if now := v.id("ant"); now == before {
			t.Errorf("%s: container %s was not started anew", damage, now)
		}
		if all := v.Run("podman", "ps", "--all", "--format={{.Names}}"); all != "ant\n" {
			t.Errorf("%s: there are\n%s", damage, all)
		}
		v.mustAskNothing()
	}
}

// Our container was removed, or renamed, and somebody else's has its name: that is
// told each time, and nobody's container is touched.
func TestContainerThatWasMadeAnewByHandIsLetBe(t *testing.T) {
	for _, damage := range []string{"remove", "rename"} {
		t.Run(damage, func(t *testing.T) {
			v := Boot(t)
			v.WriteManifest(one("ant"))
			v.Switch()
			if damage != "rename" {
				if err := v.endContainer("rm", "--force", "ant"); err != nil {
					t.Fatal(err)
				}
			} else {
				v.Run("podman", "rename", "ant", "cow")
			}
			renamed := v.id("cow")
			v.Run("podman", "run", "--detach", "--name=ant", "--network=none", "localhost/probe:2")
			found := v.id("ant")
			v.mustTell("m/container/x", "is not of meshgen")
			r := v.Exec("meshgen", "switch")
			if r.Code != 0 || !strings.Contains(r.Stderr, "is not of meshgen") || !strings.Contains(r.Stdout, "nothing to do") {
				t.Errorf("switch: %+v", r)
			}
			if v.id("ant") != found || v.id("cow") != renamed {
				t.Errorf("ant is %s and cow is %s, were %s and %s", v.id("ant"), v.id("cow"), found, renamed)
			}
			v.Run("podman", "rm", "--force", "ant")
			if renamed != "" {
				v.Run("podman", "rename", "cow", "ant")
			}
			v.mustAskNothing()
		})
	}
}

// A volume that was removed by hand is made anew, and marked, where its policy says
// so: it is empty then; one that was made anew
// by hand may hold data, is told each time, and stays as it is.
func TestVolumeThatOtherHandsWereAt(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(pen(""))
	v.Switch()
	v.Run("systemctl", "stop", "ant.service")
	v.Run("podman", "volume", "rm", "m-data")
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "m-data is gone with its data, and made anew it is EMPTY") ||
		!strings.Contains(r.Stderr, "podman volume import") {
		t.Errorf("switch: %+v", r)
	}
	v.WriteManifest(strings.Replace(pen(""), "data: {}", `data: policy: drift: "restore"`, 1))
	v.mustTell("m/volume/data", "made anew it is EMPTY")
	v.Switch()
	if label := v.Run("podman", "volume", "inspect", "--format={{.Labels}}", "m-data"); !strings.Contains(label, "m/volume/data") {
		t.Errorf("the new volume has the labels %s", label)
	}
	if active := v.Show("ant.service", "ActiveState")["ActiveState"]; active != "inactive" {
		t.Errorf("what its owner stopped is %s", active)
	}
	v.mustAskNothing()

	v.Run("podman", "volume", "rm", "m-data")
	v.Run("podman", "volume", "create", "m-data")
	v.Run("touch", "/var/lib/containers/storage/volumes/m-data/_data/mine")
	for range 2 {
		v.mustTell("m/volume/data", "was made anew by other hands, and may hold data")
		if r := v.Exec("meshgen", "switch"); r.Code != 0 || !strings.Contains(r.Stderr, "may hold data") {
			t.Errorf("switch: %+v", r)
		}
		v.Run("systemctl", "start", "ant.service")
	}
	if !v.Exists("/var/lib/containers/storage/volumes/m-data/_data/mine") {
		t.Error("what was in the volume is gone")
	}
	if label := v.Run("podman", "volume", "inspect", "--format={{.Labels}}", "m-data"); strings.Contains(label, "m/volume/data") {
		t.Errorf("somebody's volume has our label: %s", label)
	}
}

// A network that was removed by hand is made anew with those that use it. One that
// somebody has made under the name is let be, until they remove it.
func TestNetworkThatOtherHandsWereAt(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(pen(""))
	v.Switch()
	label := func() string { return v.Run("podman", "network", "inspect", "--format={{.Labels}}", "m-net") }
	anew := func() {
		v.Run("systemctl", "stop", "ant.service")
		v.Run("podman", "network", "rm", "m-net")
		v.Run("podman", "network", "create", "m-net")
		v.Run("systemctl", "start", "ant.service")
	}
	v.Run("systemctl", "stop", "ant.service")
	v.Run("podman", "network", "rm", "m-net")
	v.mustTell("m/network/net", "is gone")
	v.Switch()
	v.Run("systemctl", "start", "ant.service")
	v.mustRun("ant")
	v.mustAskNothing()

	anew()
	v.mustTell("m/network/net", "was made anew by other hands")
	v.Switch()
	if strings.Contains(label(), "m/network/net") {
		t.Error("somebody's network was made anew")
	}
	v.WriteManifest(strings.Replace(pen(""), "net: {}", `net: {policy: drift: "refuse"}`, 1))
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "m-net was made anew by other hands") {
		t.Errorf("switch: %+v", r)
	}
	v.WriteManifest(pen(""))
	v.Run("systemctl", "stop", "ant.service")
	v.Run("podman", "network", "rm", "m-net")
	v.Switch()
	v.Run("systemctl", "start", "ant.service")
	v.mustRun("ant")
	if !strings.Contains(label(), "m/network/net") {
		t.Errorf("the network has the labels %s", label())
	}
	v.mustAskNothing()
}
