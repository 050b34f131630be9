//go:build systemd

package vmtests

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// pod declares a pod with two containers by the names that they are to have, the
// second with a word that it is told.
func pod(name, first, second, word string) string {
	return fmt.Sprintf(`package mesh

modules: m: {
	pods: p: {name: %q, Pod: {PublishPort: ["7080:80"], Network: "net"}}
	networks: net: {}
	containers: {
		one: {name: %q, Container: {Image: "localhost/probe:1", Pod: "p", Environment: IS: "one"}}
		two: {name: %q, Container: {Image: "localhost/probe:1", Pod: "p", Environment: IS: %q}}
	}
}
`, name, first, second, word)
}

// pods lists each pod with its containers, its own first.
func (v *Machine) pods() string {
	v.t.Helper()
	lines := strings.Split(strings.TrimSpace(v.Run("podman", "ps", "--all", "--pod", "--sort=created", "--format={{.PodName}} {{.Names}} {{.State}}")), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (v *Machine) mustHavePods(lines ...string) {
	v.t.Helper()
	if got, want := v.pods(), strings.Join(lines, "\n"); got != want {
		v.t.Errorf("the pods are\n%s\nwant\n%s", got, want)
	}
}

func (v *Machine) mustHaveNothingToDo() {
	v.t.Helper()
	if r := v.Exec("meshgen", "plan", "--exit-code"); r.Code != 0 {
		v.t.Errorf("plan: %+v", r)
	}
}

// idOf returns podman's id of a pod.
func (v *Machine) idOf(pod string) string {
	v.t.Helper()
	return strings.TrimSpace(v.Run("podman", "pod", "inspect", "--format={{.Id}}", pod))
}

// A pod gets another name, alone and with a container of its: what was in the old one
// runs in the new one, and nothing is left of the old.
func TestRenameOfAPodWithItsContainers(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(pod("ant", "x", "y", "two"))
	v.Switch()
	v.mustHavePods("ant ant-infra running", "ant x running", "ant y running")
	v.mustHaveNothingToDo()

	v.WriteManifest(pod("bat", "x", "y", "two"))
	v.Switch()
	v.mustHavePods("bat bat-infra running", "bat x running", "bat y running")
	v.mustBeGone("ant-pod.service")
	v.mustNotOverlap("ant-infra", "bat-infra")
	v.mustNotOverlap("x")
	v.mustBeSwept()
	v.mustHaveNothingToDo()

	v.WriteManifest(pod("cow", "z", "y", "two"))
	v.Switch()
	v.mustHavePods("cow cow-infra running", "cow y running", "cow z running")
	v.mustBeGone("bat-pod.service", "x.service")
	v.mustNotOverlap("x", "z")
	v.mustBeSwept()
	v.mustHaveNothingToDo()

	v.PowerCut()
	v.Boot()
	v.Await("the pod is up", func() bool { return strings.Count(v.pods(), "running") == 3 })
	v.mustHavePods("cow cow-infra running", "cow y running", "cow z running")
	v.mustHaveNothingToDo()

	v.WriteManifest("package mesh\n")
	v.Switch("--allow-empty")
	v.mustBeGone("cow-pod.service", "z.service", "y.service")
	if left := v.Run("podman", "pod", "ps", "--quiet") + v.Run("podman", "ps", "--all", "--quiet"); left != "" {
		t.Errorf("left: %s", left)
	}
	v.mustBeSwept()
}

// What is in a pod comes, changes, is renamed and goes, and the pod stays.
func TestContainersOfAPodAreTheirOwn(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(pod("ant", "x", "y", "two"))
	v.Switch()
	id := v.idOf("ant")

	v.WriteManifest(pod("ant", "x", "y", "three"))
	v.Switch()
	v.mustBe("y", "three")
	v.WriteManifest(pod("ant", "x", "z", "three"))
	v.Switch()
	v.mustBe("z", "three")
	v.mustHavePods("ant ant-infra running", "ant x running", "ant z running")
	v.mustBeGone("y.service")

	alone := strings.Join(slices.DeleteFunc(strings.SplitAfter(pod("ant", "x", "z", "three"), "\n"), func(line string) bool {
		return strings.Contains(line, "one: {")
	}), "")
	v.WriteManifest(alone)
	v.Switch()
	v.mustHavePods("ant ant-infra running", "ant z running")
	if wants := v.Show("ant-pod.service", "Wants")["Wants"]; strings.Contains(wants, "x.service") || !strings.Contains(wants, "z.service") {
		t.Errorf("the pod wants %s", wants)
	}
	v.WriteManifest(strings.Replace(alone, "three", "four", 1)) // the last that is in it
	v.Switch()
	v.mustBe("z", "four")
	v.mustHavePods("ant ant-infra running", "ant z running")
	if now := v.idOf("ant"); now != id {
		t.Errorf("the pod was made anew: %s, and was %s", now, id)
	}
	v.mustHaveNothingToDo()
}

// Pods take each other's names.
func TestRenameSwapsTwoPods(t *testing.T) {
	two := func(first, second string) string {
		return single(fmt.Sprintf(`pods: {a: {name: %q, Pod: PublishPort: "7081:80"}, b: {name: %q, Pod: PublishPort: "7082:80"}}
	containers: one: {name: "one", Container: {Image: "localhost/probe:1", Pod: "a"}}
	containers: two: {name: "two", Container: {Image: "localhost/probe:1", Pod: "b"}}`, first, second))
	}
	v := Boot(t)
	v.WriteManifest(two("ant", "bat"))
	v.Switch()
	v.WriteManifest(two("bat", "ant"))
	v.Switch()
	v.mustHavePods("ant ant-infra running", "ant two running", "bat bat-infra running", "bat one running")
	v.mustBeSwept()
	v.mustHaveNothingToDo()
}

// A pod that is found, or its own container, is not taken over, whatever is in it;
// and what somebody put into a pod of ours is not taken down with it.
func TestPodsThatAreFoundAreLeft(t *testing.T) {
	v := Boot(t)
	v.Run("podman", "pod", "create", "--name=ant")
	v.Run("podman", "run", "--detach", "--pod=ant", "--name=found", "localhost/probe:2")
	v.WriteManifest(pod("ant", "x", "y", "two"))
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "pod:ant is taken") {
		t.Errorf("a found pod: %+v", r)
	}
	if got := strings.TrimSpace(v.Run("podman", "ps", "--filter=name=found", "--format={{.State}}")); got != "running" {
		t.Errorf("what is in the found pod is %q", got)
	}
	v.WriteManifest(pod("found", "x", "y", "two")) // pods and containers have one set of names here
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "pod:found is taken: container") {
		t.Errorf("a found container of a pod's name: %+v", r)
	}
	v.WriteManifest(pod("bat", "x", "y", "two"))
	v.Switch()
	v.Run("podman", "run", "--detach", "--pod=bat", "--name=guest", "localhost/probe:2")
	v.WriteManifest(pod("cow", "x", "y", "two"))
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "container guest is in it, which is not of meshgen") {
		t.Errorf("a guest in a pod: %+v", r)
	}
	v.Run("podman", "rm", "--force", "guest")
	v.Switch()
	v.mustBeGone("bat-pod.service")
	if got := strings.TrimSpace(v.Run("podman", "ps", "--filter=name=found", "--format={{.State}}")); got != "running" {
		t.Errorf("what is in the found pod is %q", got)
	}
}
