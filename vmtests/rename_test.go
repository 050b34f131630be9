//go:build systemd

package vmtests

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// pair declares two containers of one module by the names they are to have.
func pair(first, second string) string {
	return fmt.Sprintf(`package mesh

modules: m: containers: {
	one: {name: %q, Container: {Image: "localhost/probe:1", Network: "none", Environment: IS: "one", Volume: ["one:/data"]}}
	two: {name: %q, Container: {Image: "localhost/probe:1", Network: "none", Environment: IS: "two", Volume: ["two:/data"]}}
}
modules: m: volumes: {one: {}, two: {}}
`, first, second)
}

// is returns what a container was told to be.
func (v *Machine) is(container string) string {
	v.t.Helper()
	out := v.Run("podman", "inspect", "--format={{range .Config.Env}}{{println .}}{{end}}", container)
	for line := range strings.Lines(out) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "IS="); ok {
			return value
		}
	}
	return ""
}

func (v *Machine) mustBe(container, what string) {
	v.t.Helper()
	if got := v.is(container); got != what {
		v.t.Errorf("%s is %q, want %q", container, got, what)
	}
}

// Two containers take each other's names.
func TestRenameSwapsTwoContainers(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(pair("ant", "bat"))
	v.Switch()
	v.WriteManifest(pair("bat", "ant"))
	v.Switch()
	v.mustRun("ant", "bat")
	v.mustBe("ant", "two")
	v.mustBe("bat", "one")
	v.mustMountOnce("m-one")
	v.mustBeSwept()
	if r := v.Exec("meshgen", "plan", "--exit-code"); r.Code != 0 {
		t.Errorf("plan: %+v", r)
	}
}

// One container takes the name that another gives up.
func TestRenameMovesAChain(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(pair("ant", "bat"))
	v.Switch()
	v.WriteManifest(pair("bat", "cow"))
	v.Switch()
	v.mustRun("bat", "cow")
	v.mustBe("bat", "one")
	v.mustBe("cow", "two")
	v.mustBeGone("ant.service")
	v.mustBeSwept()
}

// mustMountOnce sees that no volume is used by two containers.
func (v *Machine) mustMountOnce(volume string) {
	v.t.Helper()
	if names := strings.Fields(v.Run("podman", "ps", "--filter=volume="+volume, "--format={{.Names}}")); len(names) != 1 {
		v.t.Errorf("volume %s is used by %q", volume, names)
	}
}

func single(body string) string {
	return "package mesh\n\nmodules: m: {\n" + body + "\n}\n"
}

// Only the unit gets another name, the container keeps its own.
func TestRenameOfTheUnitAlone(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`containers: x: {name: "ant", Container: {Image: "localhost/probe:1", ContainerName: "cow", Network: "none"}}`))
	v.Switch()
	v.WriteManifest(single(`containers: x: {name: "bat", Container: {Image: "localhost/probe:1", ContainerName: "cow", Network: "none"}}`))
	v.Switch()
	v.mustRun("cow")
	v.mustBeGone("ant.service")
	v.mustNotOverlap("cow")
	if got := v.Show("bat", "ActiveState")["ActiveState"]; got != "active" {
		t.Errorf("b.service is %s", got)
	}
}

// Only the container gets another name: what runs is stopped by the definition
// that it was started from.
func TestRenameOfTheContainerInPlace(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`containers: x: {Container: {Image: "localhost/probe:1", ContainerName: "cow", Network: "none"}}`))
	v.Switch()
	v.WriteManifest(single(`containers: x: {Container: {Image: "localhost/probe:1", ContainerName: "dog", Network: "none"}}`))
	v.Switch()
	v.mustRun("dog")
	v.mustNotOverlap("cow", "dog")
	if all := v.Run("podman", "ps", "--all", "--format={{.Names}}"); all != "dog\n" {
		t.Errorf("containers: %q", all)
	}
}

// A network is renamed under a container that uses it, with its subnet and
// without.
func TestRenameOfANetwork(t *testing.T) {
	for _, options := range []string{"{}", `{Subnet: "10.99.5.0/24"}`} {
		t.Run(options, func(t *testing.T) {
			v := Boot(t)
			manifest := func(name string) string {
				return single(fmt.Sprintf(`
	containers: x: Container: {Image: "localhost/probe:1", Network: ["net"]}
	networks: net: {name: %q, Network: %s}`, name, options))
			}
			v.WriteManifest(manifest("old"))
			v.Switch()
			v.WriteManifest(manifest("new"))
			v.Switch()
			v.mustRun("m-x")
			v.mustBeGone("old-network.service")
			if networks := v.Run("podman", "network", "ls", "--format={{.Name}}"); networks != "new\npodman\n" {
				t.Errorf("networks: %q", networks)
			}
			if on := v.Run("podman", "inspect", "--format={{range $n, $_ := .NetworkSettings.Networks}}{{$n}}{{end}}", "m-x"); on != "new\n" {
				t.Errorf("the container is on %q", on)
			}
		})
	}
}

// A network's options change under its name: it is made anew.
func TestNetworkIsMadeAnewWhenItsOptionsChange(t *testing.T) {
	v := Boot(t)
	manifest := func(subnet string) string {
		return single(fmt.Sprintf(`
	containers: x: Container: {Image: "localhost/probe:1", Network: ["net"]}
	networks: net: Network: Subnet: %q`, subnet))
	}
	v.WriteManifest(manifest("10.99.5.0/24"))
	v.Switch()
	v.WriteManifest(manifest("10.99.6.0/24"))
	v.Switch()
	v.mustRun("m-x")
	if subnet := v.Run("podman", "network", "inspect", "--format={{range .Subnets}}{{.Subnet}}{{end}}", "m-net"); subnet != "10.99.6.0/24\n" {
		t.Errorf("the subnet is %q", subnet)
	}
}

// A port moves from one container to another.
func TestPortMovesBetweenContainers(t *testing.T) {
	v := Boot(t)
	manifest := func(a, b string) string {
		return single(fmt.Sprintf(`
	containers: a: Container: {Image: "localhost/probe:1", Exec: "probe serve :80", PublishPort: ["%s:80"]}
	containers: b: Container: {Image: "localhost/probe:2", Exec: "probe serve :80", PublishPort: ["%s:80"]}`, a, b))
	}
	v.WriteManifest(manifest("8001", "8002"))
	v.Switch()
	v.WriteManifest(manifest("8002", "8001"))
	v.Switch()
	v.mustRun("m-a", "m-b")
	v.Await("the ports have swapped", func() bool {
		return v.Exec("busybox", "nc", "127.0.0.1", "8001").Stdout == "2\n" && v.Exec("busybox", "nc", "127.0.0.1", "8002").Stdout == "1\n"
	})
}

// A volume holds data: it is not silently replaced by an empty one.
func TestRenameOfAVolumeIsRefused(t *testing.T) {
	v := Boot(t)
	manifest := func(name string) string {
		return single(fmt.Sprintf(`
	containers: x: Container: {Image: "localhost/probe:1", Network: "none", Volume: ["v:/data"]}
	volumes: v: {name: %q}`, name))
	}
	v.WriteManifest(manifest("old"))
	v.Switch()
	before := v.invocation("m-x")
	v.WriteManifest(manifest("new"))
	r := v.Exec("meshgen", "switch")
	if r.Code != 3 || !strings.Contains(r.Stderr, "volume:old") {
		t.Errorf("switch: %+v", r)
	}
	if v.invocation("m-x") != before || v.Run("podman", "volume", "ls", "--format={{.Name}}") != "old\n" {
		t.Error("something was touched")
	}
}

// A module gets another name, and with it its volume: the container would find
// an empty one.
func TestRenameOfAModuleIsNoWayAroundItsVolume(t *testing.T) {
	v := Boot(t)
	manifest := func(module, volume string) string {
		return fmt.Sprintf(`package mesh

modules: %s: {
	containers: x: {name: "store", Container: {Image: "localhost/probe:1", Network: "none", Volume: ["v:/data"]}}
	volumes: v: %s
}
`, module, volume)
	}
	v.WriteManifest(manifest("one", "{}"))
	v.Switch()
	before := v.invocation("store")
	v.WriteManifest(manifest("two", "{}"))
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, `VolumeName: "one-v"`) {
		t.Errorf("switch: %+v", r)
	}
	v.WriteManifest(manifest("two", `Volume: VolumeName: "one-v"`))
	v.Switch()
	if volumes := v.Run("podman", "volume", "ls", "--format={{.Name}}"); volumes != "one-v\n" {
		t.Errorf("volumes: %q", volumes)
	}
	if mounted := v.Run("podman", "inspect", "--format={{range .Mounts}}{{.Name}}{{end}}", "store"); mounted != "one-v\n" {
		t.Errorf("the container mounts %q", mounted)
	}
	t.Logf("restarted: %v", v.invocation("store") != before)
}

// Someone reloads systemd all the time while a unit is renamed: the old unit is
// never stranded.
func TestRenameUnderAStormOfReloads(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(pair("ant", "bat"))
	v.Switch()
	storm := v.Command("sh", "-c", "while :; do systemctl daemon-reload; done")
	if err := storm.Start(); err != nil {
		t.Fatal(err)
	}
	for i, names := range [][2]string{{"cow", "bat"}, {"dog", "elk"}, {"ant", "fox"}} {
		v.WriteManifest(pair(names[0], names[1]))
		begin := time.Now()
		v.Switch()
		t.Logf("rename %d took %s", i, time.Since(begin))
	}
	_ = storm.Process.Kill()
	_ = storm.Wait()
	v.mustRun("ant", "fox")
	v.mustBeGone("bat.service", "cow.service", "dog.service", "elk.service")
}

// What is stranded already is stopped by its recorded definition.
func TestStrandedUnitIsStopped(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(pair("ant", "bat"))
	v.Switch()
	// Someone takes the links away under which systemd has the definition.
	v.Run("sh", "-c", "mv /etc/meshgen/current /etc/meshgen/away; systemctl daemon-reload; mv /etc/meshgen/away /etc/meshgen/current")
	if got := v.Show("ant", "LoadState", "ActiveState"); got["LoadState"] != "not-found" || got["ActiveState"] != "active" {
		t.Fatalf("a.service is not stranded: %v", got)
	}
	v.WriteManifest(pair("cow", "bat"))
	begin := time.Now()
	v.Switch()
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("the switch took %s", took)
	}
	v.mustRun("bat", "cow")
	v.mustBeGone("ant.service")
	v.mustBeSwept()
}

// A network gets another name, and its unit keeps its own: the unit has to run
// again for the network to be there.
func TestRenameOfANetworkUnderItsUnit(t *testing.T) {
	v := Boot(t)
	manifest := func(name string) string {
		return single(fmt.Sprintf(`containers: x: {name: "ant", Container: {Image: "localhost/probe:1", Network: "n"}}
networks: n: Network: NetworkName: %q`, name))
	}
	v.WriteManifest(manifest("one"))
	v.Switch()
	v.WriteManifest(manifest("two"))
	v.Switch()
	v.mustRun("ant")
	if names := v.Run("podman", "network", "ls", "--format={{.Name}}"); strings.Contains(names, "one") || !strings.Contains(names, "two") {
		t.Errorf("networks: %s", names)
	}
	v.mustBeDone()
}
