//go:build systemd

package vmtests

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// unitPods makes three pods that units make anew at each start: one of Quadlets, one
// of generated units, and one whose name nobody declares.
const unitPods = `
mkdir -p /etc/containers/systemd
cd /etc/containers/systemd
printf '[Pod]\nPodName=forge\nPublishPort=8088:80\n[Install]\nWantedBy=multi-user.target\n' > forge.pod
for part in web app; do
	printf '[Container]\nImage=localhost/probe:2\nContainerName=forge-%s\nPod=forge.pod\n' $part > forge-$part.container
done
printf '[Pod]\n[Install]\nWantedBy=multi-user.target\n' > old.pod
printf '[Container]\nImage=localhost/probe:2\nContainerName=lone\nPod=old.pod\n' > old-lone.container
cd /etc/systemd/system
podman pod create --name=shop --publish=8089:80
podman create --pod=shop --name=api localhost/probe:2
podman generate systemd --new --files --name shop
podman pod rm --force shop
systemctl daemon-reload
systemctl enable --quiet --now pod-shop container-api
systemctl start forge-web forge-app old-lone
`

// unitPodded are the names that are adopted, one of each resource.
var unitPodded = []string{"pod:forge", "container:forge-web", "container:forge-app", "pod:shop", "container:api", "container:lone"}

// unitPodsSuccessor takes the pods' names and ports.
func unitPodsSuccessor(takeover, exec string) string {
	return single(`policy: takeover: "` + takeover + `"
pods: {
	forge: {name: "forge", Pod: {PodName: "forge", PublishPort: ["8088:80"]}}
	shop: {name: "shop", Pod: {PodName: "shop", PublishPort: ["8089:80"]}}
}
containers: {
	web: {name: "forge-web", Container: {Image: "localhost/probe:1", Pod: "forge"` + exec + `}}
	app: {name: "forge-app", Container: {Image: "localhost/probe:1", Pod: "forge"}}
	api: {name: "api", Container: {Image: "localhost/probe:1", Pod: "shop"}}
	lone: {name: "lone", Container: {Image: "localhost/probe:1", Network: "none"}}
}`)
}

// unitPodsBefore is all that must be as it was of the pods: their ids are none of it,
// since their units make them anew.
func (v *Machine) unitPodsBefore() string {
	v.t.Helper()
	return v.Run("sh", "-c", `
podman pod ps --format '{{.Name}} {{.Status}} {{.NumberOfContainers}} {{.Labels}}' | sort
podman ps --all --pod --format '{{.Names}} {{.PodName}} {{.State}} {{.Image}} {{index .Labels "io.meshgen.resource"}}' | grep -v -e -infra | sort
for f in $(find /etc/systemd/system /etc/containers/systemd | sort); do
	[ -d $f ] && continue
	[ -L $f ] && readlink $f || stat --format='%n %a %u:%g %y' $f
	[ -L $f ] || cat $f
done
systemctl show --property=Id,LoadState,ActiveState,FragmentPath,SourcePath forge-pod forge-web forge-app old-pod old-lone pod-shop container-api shop-pod api lone
ss --listening --tcp --numeric --no-header | grep -o ':808[89] ' | sort
true`)
}

// unitPodsAdopted says what of the pods is not meshgen's by now; "" where all is.
func (v *Machine) unitPodsAdopted() string {
	v.t.Helper()
	return strings.TrimSpace(v.Run("sh", "-c", `
is() {
	[ "$(podman inspect --format '{{.State.Running}} {{index .Config.Labels "io.meshgen.resource"}}' $1)" = "true m/container/$2" ] || echo container $1
}
is forge-web web; is forge-app app; is api api; is lone lone
podman pod ps --format '{{.Name}} {{.Status}} {{.NumberOfContainers}} {{index .Labels "io.meshgen.resource"}}' | sort | tr '\n' ' ' | grep -qx 'forge Running 3 m/pod/forge shop Running 2 m/pod/shop ' || podman pod ps
systemctl is-active pod-shop container-api old-pod old-lone | grep -v -x inactive
find /etc/systemd/system /etc/containers/systemd -name '*forge*' -o -name '*shop*' -o -name '*old*' -o -name '*api*'
true`))
}

func bootUnitPods(t *testing.T) (v *Machine, was string) {
	t.Helper()
	v = Boot(t)
	v.Run("sh", "-ec", unitPods)
	return v, v.unitPodsBefore()
}

func (v *Machine) mustBeFoundUnitPods(when, was string) {
	v.t.Helper()
	if diff := cmp.Diff(was, v.unitPodsBefore()); diff != "" {
		v.t.Errorf("%s: the pods are not as they were (-was +is):\n%s", when, diff)
	}
}

func (v *Machine) mustBeAdoptedUnitPods(when string) {
	v.t.Helper()
	if wrong := v.unitPodsAdopted(); wrong != "" {
		v.t.Errorf("%s: not adopted: %s", when, wrong)
	}
}

// A pod that its unit makes at each start is adopted by that unit's file, under its own
// name or where that is free, and given back so, whatever boots between.
func TestAdoptAPodOfAUnit(t *testing.T) {
	v, was := bootUnitPods(t)
	v.WriteManifest(unitPodsSuccessor("adopt", ""))
	v.Switch()
	v.mustBeAdoptedUnitPods("adopted")
	v.mustBeDone()
	v.PowerCut()
	v.Boot()
	v.mustBeAdoptedUnitPods("after a reboot")

	r := v.Exec("meshgen", "release", "container:forge-web", "pod:shop")
	for _, want := range []string{"cannot be given back without container:forge-app, pod:forge", "meshgen release container:forge-app container:forge-web pod:forge", "meshgen release container:api pod:shop"} {
		if r.Code != 3 || !strings.Contains(r.Stderr, want) {
			t.Errorf("a part is given back, or nothing says %q: %+v", want, r)
		}
	}
	v.mustBeAdoptedUnitPods("refused")

	v.Run(append([]string{"meshgen", "release"}, unitPodded...)...)
	v.mustBeFoundUnitPods("released", was)
	v.mustBeDone()
	v.PowerCut()
	v.Boot()
	v.Await("the found pods have come up", func() bool { return v.unitPodsBefore() == was })
	v.Run(append([]string{"meshgen", "adopt"}, unitPodded...)...)
	v.mustBeAdoptedUnitPods("again")
	v.Run("meshgen", "rollback", "2", "--allow-empty")
	v.mustBeFoundUnitPods("rolled back", was)
}

// Where ours does not come up, the pods run as they did.
func TestAdoptOfAPodOfAUnitThatFailsGivesBack(t *testing.T) {
	v, was := bootUnitPods(t)
	v.WriteManifest(unitPodsSuccessor("adopt", `, Exec: "no-such-program"`))
	if r := v.Exec("meshgen", "switch"); r.Code != 5 {
		t.Fatalf("switch: %+v", r)
	}
	v.mustBeFoundUnitPods("rolled back", was)
}

// A switch that adopts them is killed at its calls, every other time with the power cut
// as well. The recovery ends with all adopted or all given back.
func TestAdoptOfAPodOfAUnitKilled(t *testing.T) {
	v, was := bootUnitPods(t)
	v.WriteManifest(unitPodsSuccessor("adopt", ""))
	takeover{v, unitPodded, was, v.unitPodsBefore, v.unitPodsAdopted}.killed("adopt", 12)
}

// So is one that gives them back.
func TestReleaseOfAPodOfAUnitKilled(t *testing.T) {
	v, was := bootUnitPods(t)
	v.WriteManifest(unitPodsSuccessor("adopt", ""))
	takeover{v, unitPodded, was, v.unitPodsBefore, v.unitPodsAdopted}.killed("release", 12)
}

// A pod that its unit makes is adopted with its units and all that is in it, or not at
// all: what no unit makes anew would be destroyed with it.
func TestAdoptRefusesAPartOfAPodOfAUnit(t *testing.T) {
	v, was := bootUnitPods(t)
	v.WriteManifest(unitPodsSuccessor("hold", ""))
	if r := v.Exec("meshgen", "switch"); r.Code != 0 || strings.Contains(r.Stderr, "cannot be adopted") {
		t.Errorf("hold: %+v", r)
	}
	for says, names := range map[string]string{
		"pod:forge cannot be adopted: in it is forge-app, forge-web, and a pod is adopted whole":  "pod:forge",
		"container:forge-web cannot be adopted: it is in the pod forge with forge-app, and a pod": "pod:forge container:forge-web",
		"m/container/api needs m/pod/shop, which is held":                                         "container:api",
	} {
		if r := v.Exec(append([]string{"meshgen", "adopt"}, strings.Fields(names)...)...); r.Code != 3 || !strings.Contains(r.Stderr, says) {
			t.Errorf("%s: %+v", names, r)
		}
	}
	v.WriteManifest(single("policy: takeover: \"hold\"\npods: older: {name: \"older\", Pod: PodName: \"systemd-old\"}\ncontainers: lone: {name: \"lone\", " + probe + "}"))
	if r := v.Exec("meshgen", "adopt", "container:lone"); r.Code != 3 || !strings.Contains(r.Stderr, "it is in the pod systemd-old with pod:systemd-old, and") {
		t.Errorf("a pod whose name is wanted as well: %+v", r)
	}
	v.mustBeFoundUnitPods("a part", was)

	v.Run("podman", "run", "--detach", "--pod=forge", "--name=guest", "localhost/probe:2")
	v.Run("podman", "run", "--detach", "--pod=shop", "--rm", "--name=brief", "localhost/probe:2")
	v.Run("podman", "pod", "create", "--name=hand")
	v.Run("podman", "create", "--pod=hand", "--name=in-hand", "localhost/probe:2")
	was = v.unitPodsBefore()
	adopts := func(body string) string { return single("policy: takeover: \"adopt\"\n" + body) }
	for says, manifest := range map[string]string{
		"container:forge-web cannot be adopted: it is in the pod forge with guest, and a pod is adopted whole":                           unitPodsSuccessor("adopt", ""),
		"container:brief cannot be adopted: it would be destroyed with the pod shop, which pod-shop.service removes as it stops, and no": adopts("containers: {api: {name: \"api\", " + probe + "}, brief: {name: \"brief\", " + probe + "}}"),
		"pod:hand cannot be adopted: podman cannot rename a pod":                                                                         adopts("pods: hand: {name: \"hand\", Pod: PodName: \"hand\"}"),
	} {
		v.WriteManifest(manifest)
		if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, says) {
			t.Errorf("%s: %+v", says, r)
		}
	}
	v.mustBeFoundUnitPods("with guests", was)

	v.Run("podman", "rm", "--force", "guest", "brief")
	v.WriteFile("/etc/systemd/system/needs.service", "[Unit]\nRequires=pod-shop.service\nAfter=pod-shop.service\n[Service]\nExecStart=/usr/bin/sleep inf\n")
	v.Run("systemctl", "daemon-reload")
	v.Run("systemctl", "start", "needs")
	was = v.unitPodsBefore()
	v.WriteManifest(unitPodsSuccessor("adopt", ""))
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "pod:shop cannot be adopted: pod-shop.service makes it, and needs.service needs that") {
		t.Errorf("needed: %+v", r)
	}
	v.mustBeFoundUnitPods("needed", was)
}
