//go:build systemd

package vmtests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pods makes two pods, one with a port and an infra container that holds it, and
// one without, as podman-compose makes it.
const pods = `
systemctl enable --quiet podman-restart.service
podman pod create --name=shop --publish=8088:80 --restart=always
podman run --detach --pod=shop --name=api --restart=always localhost/probe:2
podman exec api sh -c 'echo of its own > /layer'
podman create --pod=shop --name=job --restart=no localhost/probe:2
podman pod create --name=bare --infra=false --share=
for part in front back; do podman run --detach --pod=bare --name=$part --restart=always --network=none localhost/probe:2; done
`

var podded = []string{"container:api", "container:job", "container:front", "container:back"}

// podsSuccessor takes the port of the pod as well.
func podsSuccessor(takeover, exec string) string {
	var b strings.Builder
	for _, name := range []string{"job", "front", "back"} {
		fmt.Fprintf(&b, "\t%s: {name: %[1]q, %s}\n", name, probe)
	}
	return single(fmt.Sprintf("policy: takeover: %q\ncontainers: {\n\tapi: {name: \"api\", Container: {Image: \"localhost/probe:1\", PublishPort: [\"8088:80\"]%s}}\n%s}", takeover, exec, &b))
}

// podsBefore is all that must be as it was of the pods.
func (v *Machine) podsBefore() string {
	v.t.Helper()
	return v.Run("sh", "-c", `
podman pod ps --format '{{.ID}} {{.Name}} {{.Status}} {{.NumberOfContainers}}' | sort
for c in $(podman ps --all --quiet --no-trunc | sort); do
	podman inspect --format '{{.Name}} {{.Id}} {{.Pod}} {{.HostConfig.RestartPolicy.Name}} {{.State.Running}}' $c
done
podman exec api cat /layer
ss --listening --tcp --numeric --no-header | grep -o ':8088 '
true`)
}

// podsAdopted says what of the pods is not meshgen's by now; "" where all is.
func (v *Machine) podsAdopted() string {
	v.t.Helper()
	return strings.TrimSpace(v.Run("sh", "-c", `
for c in api job front back; do
	[ "$(podman inspect --format '{{.State.Running}} {{.Pod}} {{index .Config.Labels "io.meshgen.resource"}}' $c)" = "true  m/container/$c" ] || echo container $c
	podman ps --all --format={{.Names}} | grep -q "^$c.adopted-" || echo $c was not put aside
done
podman pod ps --format '{{.Name}} {{.Status}} {{.NumberOfContainers}}' | sort | tr '\n' ' ' | grep -qx 'bare Exited 2 shop Stopped 3 ' || podman pod ps
for c in $(podman ps --all --quiet --filter=name=adopted- --filter=name=-infra); do
	[ "$(podman inspect --format='{{.State.Running}} {{.HostConfig.RestartPolicy.Name}}' $c)" = 'false no' ] || echo $c would start
done
true`))
}

func bootPods(t *testing.T) (v *Machine, was string) {
	t.Helper()
	v = Boot(t)
	v.Run("sh", "-ec", pods)
	return v, v.podsBefore()
}

func (v *Machine) mustBeFoundPods(when, was string) {
	v.t.Helper()
	if diff := cmp.Diff(was, v.podsBefore()); diff != "" {
		v.t.Errorf("%s: the pods are not as they were (-was +is):\n%s", when, diff)
	}
}

func (v *Machine) mustBeAdoptedPods(when string) {
	v.t.Helper()
	if wrong := v.podsAdopted(); wrong != "" {
		v.t.Errorf("%s: not adopted: %s", when, wrong)
	}
}

// A pod is adopted whole and given back whole, whatever boots between: the port that
// it holds is free meanwhile, and nothing in it starts.
func TestAdoptAPodWhole(t *testing.T) {
	v, was := bootPods(t)
	v.WriteManifest(podsSuccessor("hold", ""))
	v.Switch()
	r := v.Exec("meshgen", "adopt", "container:api", "container:front", "container:back")
	if want := "in the pod shop with job, and a pod is adopted whole"; r.Code != 3 || !strings.Contains(r.Stderr, want) {
		t.Errorf("a part is adopted: %+v", r)
	}
	v.mustBeFoundPods("refused", was)

	v.WriteManifest(podsSuccessor("adopt", ""))
	v.Switch()
	v.mustBeAdoptedPods("adopted")
	v.mustBeDone()
	v.PowerCut()
	v.Boot()
	v.mustBeAdoptedPods("after a reboot")

	r = v.Exec("meshgen", "release", "container:front", "container:job")
	for _, want := range []string{"meshgen release container:api container:job", "meshgen release container:back container:front"} {
		if r.Code != 3 || !strings.Contains(r.Stderr, want) {
			t.Errorf("a part is given back, or nothing says %q: %+v", want, r)
		}
	}
	v.mustBeAdoptedPods("refused")

	v.Run(append([]string{"meshgen", "release"}, podded...)...)
	v.mustBeFoundPods("released", was)
	v.mustBeDone()
	v.Run(append([]string{"meshgen", "adopt"}, podded...)...)
	v.mustBeAdoptedPods("again")
	v.Run("meshgen", "rollback", "1", "--allow-empty")
	v.mustBeFoundPods("rolled back", was)
}

// Where ours does not come up, the pods run as they did.
func TestAdoptOfAPodThatFailsGivesBack(t *testing.T) {
	v, was := bootPods(t)
	v.WriteManifest(podsSuccessor("adopt", `, Exec: "no-such-program"`))
	if r := v.Exec("meshgen", "switch"); r.Code != 5 {
		t.Fatalf("switch: %+v", r)
	}
	v.mustBeFoundPods("rolled back", was)
}

// A switch that adopts pods is killed at its calls, every other time with the power
// cut as well. The recovery ends with all adopted or all given back.
func TestAdoptOfAPodKilled(t *testing.T) {
	v, was := bootPods(t)
	v.WriteManifest(podsSuccessor("adopt", ""))
	takeover{v, podded, was, v.podsBefore, v.podsAdopted}.killed("adopt", 16)
}

// So is one that gives them back.
func TestReleaseOfAPodKilled(t *testing.T) {
	v, was := bootPods(t)
	v.WriteManifest(podsSuccessor("adopt", ""))
	takeover{v, podded, was, v.podsBefore, v.podsAdopted}.killed("release", 16)
}

// A pod that a unit runs and does not make anew is refused, and nothing in it touched:
// the unit would start or remove what is put aside.
func TestAdoptRefusesAPodOfAUnit(t *testing.T) {
	v := Boot(t)
	v.Run("sh", "-ec", `
mkdir -p /etc/containers/systemd
printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: play}\nspec: {containers: [{name: in, image: "localhost/probe:2"}]}\n' > /etc/play.yaml
printf '[Kube]\nYaml=/etc/play.yaml\n' > /etc/containers/systemd/play.kube
podman pod create --name=gen
podman create --pod=gen --name=in-gen localhost/probe:2
cd /etc/systemd/system
podman generate systemd --files --name gen
printf '[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/usr/bin/podman pod start byname\n' > byname.service
podman pod create --name=byname --infra=false --share=
podman create --pod=byname --name=in-byname --network=none localhost/probe:2
systemctl daemon-reload
systemctl start play pod-gen`)
	was := v.Run("podman", "ps", "--all", "--no-trunc", "--sort=id", "--format={{.ID}} {{.Names}} {{.State}}")
	for name, unit := range map[string]string{"play-in": "play.service", "in-gen": "pod-gen.service", "in-byname": "byname.service"} {
		v.WriteManifest(single(fmt.Sprintf("policy: takeover: \"adopt\"\ncontainers: x: {name: %q, %s}", name, probe)))
		if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, ", which "+unit+" runs") {
			t.Errorf("%s: switch: %+v", name, r)
		}
	}
	if diff := cmp.Diff(was, v.Run("podman", "ps", "--all", "--no-trunc", "--sort=id", "--format={{.ID}} {{.Names}} {{.State}}")); diff != "" {
		t.Errorf("something was touched (-was +is):\n%s", diff)
	}
}
