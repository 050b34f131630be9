package units

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGuarded(t *testing.T) {
	render := func(kind Kind, section, key string) string {
		return Render(Resource{
			Address: Address{Module: "forge", Kind: kind, ID: "gitea.server"}, Name: "gitea",
			Sections: []Section{{section, []Entry{entry(key, "gitea")}}},
		})
	}
	container := render(KindContainer, "Container", "ContainerName")
	want := container + `
[Container]
PodmanArgs=--replace=false

[Unit]

[Service]
ExecStartPre=/opt/lib/meshgen/meshgen-guard gitea forge/container/gitea.server %n
`
	if diff := cmp.Diff(want, Guarded(container, "/opt/lib/meshgen/meshgen-guard")); diff != "" {
		t.Error(diff)
	}
	pod := render(KindPod, "Pod", "PodName")
	want = pod + `
[Pod]
PodmanArgs=--replace=false

[Unit]

[Service]
ExecStartPre=/opt/lib/meshgen/meshgen-guard gitea forge/pod/gitea.server %n
`
	if diff := cmp.Diff(want, Guarded(pod, "/opt/lib/meshgen/meshgen-guard")); diff != "" {
		t.Error(diff)
	}
	for name, text := range map[string]string{
		"a volume":              render(KindVolume, "Volume", "VolumeName"),
		"not ours":              "[Container]\nContainerName=gitea\n",
		"its name is Quadlet's": "[X-Meshgen]\nResource=forge/container/x\n\n[Other]\nContainerName=gitea\n",
	} {
		if guarded := Guarded(text, "/opt/lib/meshgen/meshgen-guard"); guarded != text {
			t.Errorf("%s: it became\n%s", name, guarded)
		}
	}
}

// A node that had its units before there was a guard is given them anew, and
// nothing that runs is restarted for it.
func TestRunDigestPassesOverTheGuard(t *testing.T) {
	const line = "ExecStartPre=/usr/lib/meshgen/meshgen-guard gitea forge/container/gitea %n\n"
	guarded := strings.Replace(service, "[Service]\n", "[Service]\n"+line, 1)
	guarded = strings.Replace(guarded, " localhost/gitea:1", " --replace=false localhost/gitea:1", 1)
	if RunDigest(guarded) != RunDigest(service) {
		t.Error("the guard makes a difference")
	}
	if RunDigest(strings.ReplaceAll(guarded, "/usr/lib/", "/usr/local/lib/")) != RunDigest(service) {
		t.Error("where the guard lies makes a difference")
	}
	for _, other := range []string{"ExecStartPre=/bin/true meshgen-guard\n", "ExecStartPost=/usr/lib/meshgen/meshgen-guard\n"} {
		if RunDigest(strings.Replace(guarded, line, line+other, 1)) == RunDigest(service) {
			t.Errorf("%q makes none", other)
		}
	}
}

// So is it with a pod's: what is made by podman pod create is the same.
func TestRunDigestPassesOverTheGuardOfAPod(t *testing.T) {
	const create = "ExecStartPre=/usr/bin/podman pod create --replace --name gitea --label io.meshgen.resource=forge/pod/gitea"
	const bare = "# Made by a converter.\n\n[X-Pod]\nPodName=gitea\n\n[Service]\nExecStartPre=/bin/true\n" + create + "\nExecStart=/usr/bin/podman pod start gitea\n"
	guarded := strings.Replace(bare, create, "ExecStartPre=/usr/lib/meshgen/meshgen-guard gitea forge/pod/gitea %n\n"+create+" --replace=false", 1)
	if RunDigest(guarded) != RunDigest(bare) {
		t.Error("the guard makes a difference")
	}
	if RunDigest(strings.Replace(bare, create, create+" --replace=false", 1)) == RunDigest(bare) {
		t.Error("what its owner said without a guard makes none")
	}
	if RunDigest(strings.Replace(guarded, create, create+" --memory=1g", 1)) == RunDigest(bare) {
		t.Error("another flag makes none")
	}
}
