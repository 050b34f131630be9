//go:build systemd

package vmtests

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// past declares, on a node that has one, things of each kind that are in the way
// of nothing but themselves.
const past = `package mesh

node: adopted: true
modules: m: {
	containers: {
		run: {name: "byhand", Container: {Image: "localhost/probe:1", Network: "none"}}
		quad: {name: "quad", Container: {Image: "localhost/probe:1", Network: "none"}}
		masked: {name: "masked", Container: {Image: "localhost/probe:1", Network: "none"}}
		onnet: {Container: {Image: "localhost/probe:1", Network: ["net"]}}
		ondata: {Container: {Image: "localhost/probe:1", Network: "none", Volume: ["data:/data"]}}
		after: {Container: {Image: "localhost/probe:1", Network: "none"}, Unit: Requires: "container/ondata"}
		free: {Container: {Image: "localhost/probe:1", Network: "none"}}
	}
	networks: net: Network: NetworkName: "hisnet"
	volumes: data: Volume: VolumeName: "hisdata"
	files: conf: {path: "/etc/his.conf", content: "ours\n"}
	units: "his.service": {name: "his.service", Service: ExecStart: "/usr/bin/sleep inf"}
}
`

const makePast = `
podman run --detach --name=byhand --network=none localhost/probe:2
podman network create hisnet
podman volume create hisdata
echo data > $(podman volume inspect --format={{.Mountpoint}} hisdata)/file
echo his > /etc/his.conf; chmod 600 /etc/his.conf; touch --date=2020-01-01 /etc/his.conf
printf '[Service]\nExecStart=/usr/bin/sleep inf\n' > /etc/systemd/system/his.service
mkdir -p /etc/containers/systemd
printf '[Container]\nImage=localhost/probe:2\nContainerName=quad\nNetwork=none\n' > /etc/containers/systemd/quad.container
systemctl daemon-reload
systemctl start his quad
systemctl mask masked`

// seen is all that must not change of what was there.
func (v *Machine) pastSeen() string {
	v.t.Helper()
	return v.Run("sh", "-ec", `
podman inspect --format '{{.Id}} {{.Created}} {{.State.StartedAt}}' byhand quad
podman network inspect --format '{{.ID}} {{.Created}} {{.Labels}}' hisnet
podman volume inspect --format '{{.CreatedAt}} {{.Labels}}' hisdata
cat $(podman volume inspect --format={{.Mountpoint}} hisdata)/file
for f in /etc/his.conf /etc/systemd/system/his.service /etc/systemd/system/masked.service /etc/containers/systemd/quad.container; do
	stat --format '%n %i %a %u %g %y %N' $f; cat $f
done
systemctl show --property=InvocationID,LoadState,ActiveState his quad masked`)
}

// What a predecessor left is held, each time with the reason, all else goes on, and
// what is in the way is untouched to the last byte; once it is gone, the next switch
// takes the resource up.
func TestHoldLeavesAPastAlone(t *testing.T) {
	v := Boot(t)
	v.Run("sh", "-ec", makePast)
	before := v.pastSeen()
	v.WriteManifest(past)
	untouched := func(what string) {
		t.Helper()
		if now := v.pastSeen(); now != before {
			t.Errorf("%s: was\n%s\nis\n%s", what, before, now)
		}
	}
	held := []string{
		"m/container/after: held: it needs m/container/ondata, which is held",
		"m/container/masked: held: unit:masked.service is taken: masked by /etc/systemd/system/masked.service",
		"m/container/ondata: held: it needs m/volume/data, which is held",
		"m/container/onnet: held: it needs m/network/net, which is held",
		"m/container/quad: held: unit:quad.service is taken: defined by /etc/containers/systemd/quad.container",
		"m/container/run: held: container:byhand is taken: container ",
		"m/file/conf: held: file:/etc/his.conf is taken: a file is at /etc/his.conf",
		"m/network/net: held: network:hisnet is taken: a network of that name exists",
		"m/unit/his.service: held: unit:his.service is taken: defined by /etc/systemd/system/his.service",
		"m/volume/data: held: volume:hisdata is taken: a volume of that name exists",
	}
	says := func(err string) {
		t.Helper()
		for _, line := range held {
			if !strings.Contains(err, line) {
				t.Errorf("not said: %s", line)
			}
		}
		if !strings.Contains(err, "hint: `meshgen adopt container:byhand`") || strings.Contains(err, "m/container/free: held") {
			t.Errorf("said:\n%s", err)
		}
	}
	for range 2 {
		r := v.Exec("meshgen", "switch", "--verbose")
		if r.Code != 0 {
			t.Fatalf("switch: %+v", r)
		}
		says(r.Stderr)
		untouched("after a switch")
	}
	v.mustRun("byhand", "m-free", "quad")
	if r := v.Exec("meshgen", "switch"); !strings.Contains(r.Stdout, "generation 1 is in force: nothing to do") {
		t.Errorf("a second switch: %+v", r)
	}
	var status struct {
		Resources []struct{ Address, State, Why string }
	}
	if err := json.Unmarshal([]byte(v.Run("meshgen", "status", "--json")), &status); err != nil {
		t.Fatal(err)
	}
	for _, r := range status.Resources {
		if (r.State == "held") != (r.Address != "m/container/free") || (r.State == "held") != (r.Why != "") {
			t.Errorf("status: %+v", r)
		}
	}
	if len(status.Resources) != len(held)+1 {
		t.Errorf("status: %+v", status)
	}

	v.PowerCut()
	v.Boot()
	v.Run("podman", "start", "byhand")
	v.Run("systemctl", "start", "his", "quad")
	before = v.pastSeen()
	v.Switch()
	untouched("after a boot")

	v.Run("sh", "-ec", "podman rm --force --time=0 byhand; podman volume rm hisdata; rm /etc/his.conf")
	if r := v.Exec("meshgen", "switch", "--verbose"); r.Code != 0 || strings.Contains(r.Stderr, "m/container/after") || !strings.Contains(r.Stderr, "m/container/quad: held") {
		t.Errorf("switch: %+v", r)
	}
	v.mustRun("byhand", "m-after", "m-free", "m-ondata", "quad")
	if text := v.ReadFile("/etc/his.conf"); text != "ours\n" {
		t.Errorf("the file holds %q", text)
	}
}

// What the node has already and is to have a name that is taken stays as it was and
// runs on; a rollback and a switch that is cut short do no harm to either.
func TestHoldLeavesWhatRunsAsItWas(t *testing.T) {
	v := Boot(t)
	manifest := func(name, more string) string {
		return "package mesh\nnode: adopted: true\nmodules: m: containers: {x: {name: \"" + name +
			"\", Container: {Image: \"localhost/probe:1\", Network: \"none\"}}\n" + more + "}\n"
	}
	v.WriteManifest(manifest("ant", ""))
	v.Switch()
	v.Run("podman", "run", "--detach", "--name=bat", "--network=none", "localhost/probe:2")
	inspect := []string{"podman", "inspect", "--format={{.Id}} {{.State.StartedAt}}", "ant", "bat"}
	before := v.Run(inspect...)
	same := func(what string) {
		t.Helper()
		if now := v.Run(inspect...); now != before {
			t.Errorf("%s: was %s, is %s", what, before, now)
		}
	}
	other := "y: {name: \"cow\", Container: {Image: \"localhost/probe:1\", Network: \"none\"}}\n"
	v.WriteManifest(manifest("bat", other))
	if r := v.Exec("meshgen", "switch"); r.Code != 0 || !strings.Contains(r.Stderr, "m/container/x: held: container:bat is taken") {
		t.Errorf("switch: %+v", r)
	}
	same("after a switch")
	v.mustRun("ant", "bat", "cow")
	if r := v.Exec("meshgen", "switch"); !strings.Contains(r.Stdout, "nothing to do") {
		t.Errorf("a second switch: %+v", r)
	}

	v.WriteManifest(manifest("bat", strings.Replace(other, `"cow"`, `"ant"`, 1)))
	r := v.Exec("meshgen", "switch")
	if r.Code != 3 || !strings.Contains(r.Stderr, "m/container/x: is to be held as it is, and m/container/y at mesh.cue:4:") {
		t.Errorf("switch: %+v", r)
	}
	same("after one that is refused")

	// Killed while it is at it, forth and back.
	v.WriteManifest(manifest("bat", strings.Replace(other, `"cow"`, `"dog"`, 1)))
	v.Exec("nth", "-log=/run/nth.log", "meshgen", "switch")
	same("after a rename of another")
	v.mustRun("ant", "bat", "dog")
	for i, n := range []string{"60", "100", "140"} {
		v.WriteManifest(manifest("bat", strings.Replace(other, `"cow"`, `"eel`+string(rune('a'+i))+`"`, 1)))
		v.Exec("nth", "-n="+n, "-log=/run/nth.log", "meshgen", "switch")
		same("after a switch that was killed")
		v.Switch()
		same("after the next one")
	}
	v.Run("meshgen", "rollback")
	same("after a rollback")
	if names := v.Containers(); !slices.Contains(names, "ant") || !slices.Contains(names, "bat") || len(names) != 3 {
		t.Errorf("run: %q", names)
	}
}
