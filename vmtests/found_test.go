//go:build systemd

package vmtests

import (
	"fmt"
	"strings"
	"testing"
)

const probe = `Container: {Image: "localhost/probe:1", Network: "none"}`

// A container that someone made under the name of one of ours, while ours was
// stopped, is not replaced when ours is to start again.
func TestContainerMadeByHandIsNotReplaced(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`containers: x: ` + probe))
	v.Switch()
	v.Run("systemctl", "stop", "m-x")
	v.Run("podman", "run", "--detach", "--name=m-x", "--network=none", "localhost/probe:2")
	id := v.Run("podman", "inspect", "--format={{.Id}} {{.State.StartedAt}}", "m-x")
	v.WriteManifest(single(`containers: x: {Container: {Image: "localhost/probe:1", Network: "none", Environment: A: "b"}}`))
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "container:m-x is taken") {
		t.Errorf("switch: %+v", r)
	}
	if v.Run("podman", "inspect", "--format={{.Id}} {{.State.StartedAt}}", "m-x") != id {
		t.Error("the container is another")
	}
}

// A network of ours that a found container uses is not taken from under it.
func TestNetworkInUseByAFoundContainerStays(t *testing.T) {
	v := Boot(t)
	manifest := func(subnet string) string {
		return single(fmt.Sprintf(`
	containers: x: Container: {Image: "localhost/probe:1", Network: ["net"]}
	networks: net: Network: Subnet: %q`, subnet))
	}
	v.WriteManifest(manifest("10.99.5.0/24"))
	v.Switch()
	v.Run("podman", "run", "--detach", "--name=found", "--network=m-net", "localhost/probe:1")
	v.WriteManifest(manifest("10.99.6.0/24"))
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "container found uses it") {
		t.Errorf("switch: %+v", r)
	}
	v.mustRun("found", "m-x")
	v.Run("podman", "restart", "found")
	if subnet := v.Run("podman", "network", "inspect", "--format={{range .Subnets}}{{.Subnet}}{{end}}", "m-net"); subnet != "10.99.5.0/24\n" {
		t.Errorf("the subnet is %q", subnet)
	}
}

// The owner moves a service out of the manifest, to a unit file of their own:
// that unit is not stopped.
func TestUnitThatItsOwnerTookOverIsLeftAlone(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`containers: {x: {name: "xylo", ` + probe + `}, y: ` + probe + `}`))
	v.Switch()
	v.Run("systemctl", "stop", "xylo")
	v.WriteFile("/etc/systemd/system/xylo.service", "[Service]\nExecStart=/usr/bin/sleep inf\n")
	v.Run("systemctl", "daemon-reload")
	v.Run("systemctl", "start", "xylo")
	before := v.invocation("xylo")
	v.WriteManifest(single(`containers: y: ` + probe))
	v.Switch()
	if v.invocation("xylo") != before {
		t.Error("the owner's unit was stopped")
	}
	v.mustRun("m-y")
}

// The same by a Quadlet, which is ours to the letter but for its place.
func TestQuadletThatItsOwnerTookOverIsLeftAlone(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`containers: {x: {name: "xylo", ` + probe + `}, y: ` + probe + `}`))
	v.Switch()
	v.Run("cp", "/etc/meshgen/current/quadlet/xylo.container", "/etc/containers/systemd/")
	v.Run("systemctl", "daemon-reload")
	v.Run("systemctl", "restart", "xylo")
	before := v.invocation("xylo")
	v.WriteManifest(single(`containers: y: ` + probe))
	v.Switch()
	if v.invocation("xylo") != before {
		t.Error("the owner's unit was stopped")
	}
	v.mustRun("m-y", "xylo")
	v.mustBeDone()
}

// The owner's definition comes while a container of ours runs which the boot has
// started, and the unit is no longer declared: that container ends. One that the
// owner's definition has started is theirs, also where it is ours to the letter, or
// is made from an image with our labels.
func TestContainerUnderTheOwnersUnitAfterABoot(t *testing.T) {
	v := Boot(t)
	const fragment = `podman inspect --format='{{index .Config.Labels "io.meshgen.fragment"}}' xylo`
	declared := single(`containers: {x: {name: "xylo", ` + probe + `}, y: ` + probe + `}`)
	for _, c := range []struct {
		name, owners string // the script by which the owner takes over
		runs         []string
	}{
		{"an editor's copy, not started", "systemctl cat xylo >/etc/systemd/system/xylo.service; systemctl daemon-reload", []string{"m-y"}},
		{"an editor's copy, started", "systemctl cat xylo >/etc/systemd/system/xylo.service; systemctl daemon-reload; systemctl restart xylo", []string{"m-y", "xylo"}},
		{"a Quadlet, not started", "cp /etc/meshgen/current/quadlet/xylo.container /etc/containers/systemd; systemctl daemon-reload", []string{"m-y"}},
		{"an image of ours, started", `podman commit --quiet xylo localhost/copy:1
			printf '[Container]\nImage=localhost/copy:1\nContainerName=xylo\nNetwork=none\n' >/etc/containers/systemd/xylo.container
			systemctl daemon-reload; systemctl restart xylo`, []string{"m-y", "xylo"}},
	} {
		t.Log(c.name)
		v.WriteManifest(declared)
		v.Switch()
		v.PowerCut()
		v.Boot()
		v.awaitUp("xylo")
		if got := v.Run("sh", "-c", fragment); got != "/run/systemd/generator/xylo.service\n" {
			t.Errorf("started by %s", got)
		}
		v.Run("sh", "-ec", c.owners)
		v.WriteManifest(single(`containers: y: ` + probe))
		v.Switch()
		v.mustRun(c.runs...)
		v.mustBeDone()
		v.Exec("systemctl", "stop", "xylo")
		v.Run("rm", "-f", "/etc/systemd/system/xylo.service", "/etc/containers/systemd/xylo.container")
		v.Run("systemctl", "daemon-reload")
	}
}

// A file that someone made where one of ours was to come, in a switch that was
// cut short, is not removed when that is undone.
func TestFileThatCameBetweenIsKept(t *testing.T) {
	v := Boot(t)
	manifest := func(name, rest string) string {
		return single(fmt.Sprintf(`
	containers: x: Container: {Image: "localhost/probe:1", Network: "none", ContainerName: %q, StopTimeout: 2, Exec: "sh -c 'trap : TERM; while :; do sleep 1; done'"}`, name) + rest)
	}
	v.WriteManifest(manifest("one", ""))
	v.Switch()
	v.WriteManifest(manifest("two", `
	files: f: {path: "/etc/between.conf", content: "ours"}`))
	// Killed while it waits for the container to stop: the ledger has the file's
	// name, and the file is not there.
	kill := v.Command("sh", "-c", "until [ -e /etc/meshgen/pending ]; do :; done; pkill --signal=KILL --exact meshgen")
	if err := kill.Start(); err != nil {
		t.Fatal(err)
	}
	if r := v.Exec("meshgen", "switch"); r.Code == 0 {
		t.Fatal("the switch was not killed")
	}
	_ = kill.Wait() // it has done its work
	if v.Exists("/etc/between.conf") {
		t.Fatal("the switch was killed too late")
	}
	v.WriteFile("/etc/between.conf", "the owner's\n")
	if r := v.Exec("meshgen", "switch"); r.Code != 3 {
		t.Errorf("switch: %+v", r)
	}
	if text := v.ReadFile("/etc/between.conf"); text != "the owner's\n" {
		t.Errorf("the owner's file holds %q", text)
	}
	v.mustRun("one")
}

// What its owner masked stays down, and keeps nothing else from its place.
func TestMaskedUnitStaysDown(t *testing.T) {
	v := Boot(t)
	manifest := func(n int) string {
		return single(fmt.Sprintf(`containers: {for id in ["x", "y"] {(id): Container: {Image: "localhost/probe:1", Network: "none", Environment: N: "%d"}}}`, n))
	}
	v.WriteManifest(manifest(1))
	v.Switch()
	v.Run("systemctl", "mask", "--now", "m-x")
	v.WriteManifest(manifest(2))
	v.Switch()
	v.mustRun("m-y")
}

// One that was masked while it runs is handed over like any other when it is
// renamed: the two never run side by side.
func TestMaskedUnitIsRenamed(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(pair("ant", "bat"))
	v.Switch()
	v.Run("systemctl", "mask", "ant")
	v.WriteManifest(pair("cow", "bat"))
	v.Switch()
	v.mustRun("bat", "cow")
	v.mustNotOverlap("ant", "cow")
}

// One that was masked while it runs is not restarted for a file, which would fail:
// the mask is its owner's word.
func TestMaskedUnitIsNotNotified(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(one("ant"))
	v.Switch()
	v.Run("systemctl", "mask", "ant")
	before := v.invocation("ant")
	v.WriteManifest(single(`containers: x: {name: "ant", Container: {Image: "localhost/probe:1", Network: "none"}}
files: f: {path: "/etc/ant.conf", content: "x", notify: x: "restart"}`))
	v.Switch()
	if v.invocation("ant") != before {
		t.Error("it was restarted")
	}
	if plan := v.Run("meshgen", "plan"); !strings.Contains(plan, "is masked") {
		t.Errorf("plan says nothing of the mask:\n%s", plan)
	}
}

// One that was masked while it runs keeps a network that is no longer declared: that
// is said, and is no failure. Unmasked, it is started without it, and the network
// goes.
func TestMaskedUnitKeepsItsNetwork(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`networks: net: {}
containers: x: {name: "ant", Container: {Image: "localhost/probe:1", Network: ["net"]}}`))
	v.Switch()
	v.Run("systemctl", "mask", "ant")
	v.WriteManifest(single(`containers: x: {name: "ant", Container: {Image: "localhost/probe:1", Network: "none"}}`))
	before := v.invocation("ant")
	v.Switch()
	v.mustBeDone()
	v.mustRun("ant")
	if v.invocation("ant") != before {
		t.Error("it was restarted")
	}
	v.Run("podman", "network", "inspect", "m-net")
	if plan := v.Run("meshgen", "plan"); !strings.Contains(plan, "is masked, and runs on with network:m-net") {
		t.Errorf("plan says nothing of the network:\n%s", plan)
	}
	v.Run("systemctl", "unmask", "ant")
	v.Switch()
	v.mustRun("ant")
	if r := v.Exec("podman", "network", "inspect", "m-net"); r.Code == 0 {
		t.Error("the network is still there")
	}
	v.mustBeDone()
}

// An image that was made of a container of ours has its labels, and so has what is
// run from it by hand: that is still not ours.
func TestContainerOfACopiedImageIsNotOurs(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(one("ant"))
	v.Switch()
	v.Run("podman", "commit", "--quiet", "ant", "localhost/copy:1")
	v.Run("systemctl", "stop", "ant")
	id := v.Run("podman", "run", "--detach", "--name=ant", "--network=none", "localhost/copy:1")
	v.WriteManifest(strings.Replace(one("ant"), `Network: "none"`, `Network: "none", Environment: A: "1"`, 1))
	if r := v.Exec("meshgen", "switch"); r.Code != 3 {
		t.Errorf("switch: %+v", r)
	}
	v.WriteManifest(one("bat"))
	v.Switch()
	if now := v.Run("podman", "inspect", "--format={{.Id}} {{.State.Running}}", "ant"); now != strings.TrimSpace(id)+" true\n" {
		t.Errorf("the container made by hand is %s", now)
	}
}

// kept declares a file, a volume and a network that are kept when they go.
func kept(content, subnet, more string) string {
	return single(fmt.Sprintf(`policy: remove: "keep"
volumes: data: {%s}
networks: net: Network: Subnet: %q
files: f: {path: "/etc/kept.conf", content: %q}
containers: x: {name: "ant", policy: remove: "remove", Container: {Image: "localhost/probe:1", Network: "none"}}`, more, subnet, content))
}

// What was kept, and is declared again, is taken up only if it is what is declared:
// not if its owner has made it anew, or it has other options.
func TestKeptThingsAreTakenUpAsTheyAre(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(kept("one", "10.99.1.0/24", ""))
	v.Switch()
	v.WriteManifest(one("ant"))
	v.Switch()
	for what, manifest := range map[string]string{
		"other content":  kept("two", "10.99.1.0/24", ""),
		"another subnet": kept("one", "10.99.2.0/24", ""),
		"other options":  kept("one", "10.99.1.0/24", `Volume: {Device: "/srv", Type: "none", Options: "bind"}`),
	} {
		v.WriteManifest(manifest)
		if r := v.Exec("meshgen", "switch"); r.Code != 3 {
			t.Errorf("%s: switch: %+v", what, r)
		}
	}
	v.Run("podman", "volume", "rm", "m-data")
	v.Run("podman", "volume", "create", "m-data")
	v.WriteManifest(kept("one", "10.99.1.0/24", ""))
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "volume:m-data is taken") {
		t.Errorf("the owner's volume: switch: %+v", r)
	}
	v.Run("podman", "volume", "rm", "m-data")
	v.Switch()
	v.mustBeDone()
}

// What was kept before a switch that fails is kept after it, whatever the set that
// failed says of removals.
func TestKeptThingsOutliveARollback(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(kept("one", "10.99.1.0/24", ""))
	v.Switch()
	v.Run("sh", "-c", "echo precious > $(podman volume inspect --format={{.Mountpoint}} m-data)/x")
	v.WriteManifest(one("ant"))
	v.Switch()
	v.WriteManifest(strings.NewReplacer(`remove: "keep"`, `remove: "remove"`, `Network: "none"`, `Network: "none", Exec: "no-such-program"`).
		Replace(kept("one", "10.99.1.0/24", "")))
	if r := v.Exec("meshgen", "switch"); r.Code != 5 {
		t.Fatalf("switch: %+v", r)
	}
	if data := v.Run("sh", "-c", "cat $(podman volume inspect --format={{.Mountpoint}} m-data)/x"); data != "precious\n" {
		t.Errorf("the volume holds %q", data)
	}
	if text := v.ReadFile("/etc/kept.conf"); text != "one" {
		t.Errorf("the file holds %q", text)
	}
	v.Run("podman", "network", "inspect", "m-net")
	v.WriteManifest(one("ant"))
	v.mustBeDone()
}

// The owner has a copy of a unit of ours, with our label in it, and runs the container
// by that: it is theirs. No start of ours takes its name, and it outlives our own.
func TestContainerOfACopiedUnitIsNotOurs(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(one("ant"))
	v.Switch()
	v.Run("cp", "/run/systemd/generator/ant.service", "/etc/systemd/system/own.service")
	v.Run("systemctl", "daemon-reload")
	v.Run("systemctl", "stop", "ant")
	v.Run("systemctl", "start", "own")
	const inspect = "--format={{.Id}} {{.State.Running}}"
	before := v.Run("podman", "inspect", inspect, "ant")
	v.WriteManifest(strings.Replace(one("ant"), `Network: "none"`, `Network: "none", Environment: A: "1"`, 1))
	r := v.Exec("meshgen", "switch")
	if r.Code != 3 || !strings.Contains(r.Stderr, "container:ant is taken") || !strings.Contains(r.Stderr, "own.service") {
		t.Errorf("switch: %+v", r)
	}
	v.WriteManifest(one("bat"))
	v.Exec("meshgen", "switch")
	if now := v.Run("podman", "inspect", inspect, "ant"); now != before {
		t.Errorf("the owner's container was %s and is %s", before, now)
	}
	v.mustRun("ant", "bat")
	v.mustBeDone()

	v.Run("systemctl", "stop", "own")
	v.PowerCut()
	v.Boot()
	v.Run("podman", "rename", "bat", "cat") // ours, that a boot has started
	v.Switch()
	v.mustRun("bat")
}

// A Quadlet of the owner's comes while a switch is under way, and makes a service that
// lies where ours do: that is not confirmed for ours.
func TestServiceOfAnOwnersQuadletIsNotConfirmed(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(one("ant"))
	v.Switch()
	v.Run("mkdir", "-p", "/etc/containers/systemd")
	v.WriteFile("/srv/own.container", "[Container]\nImage=localhost/probe:1\nContainerName=own\n")
	v.WriteManifest(strings.Replace(one("ant"), `Network: "none"`, `Network: "none", Environment: A: "1"`, 1) + `
modules: m: units: "own.service": {
	Unit: After: "ant.service"
	Service: {Type: "oneshot", RemainAfterExit: true, ExecStart: ["/bin/cp /srv/own.container /etc/containers/systemd/ant.container", "/bin/systemctl daemon-reload"]}
	Install: WantedBy: "multi-user.target"
}
`)
	r := v.Exec("meshgen", "switch")
	if r.Code != 5 || !strings.Contains(r.Stderr, "ant.service: runs from what was made of /etc/containers/systemd/ant.container, which is not of meshgen") {
		t.Errorf("switch: %+v", r)
	}
}
