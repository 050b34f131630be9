package apply

import (
	"os"
	"path/filepath"
	"testing"

	"meshgen/state"
)

// A unit makes a pod anew each time if its definition says so, in force as it is.
func TestMakesPod(t *testing.T) {
	const create, rm = "ExecStartPre=/usr/bin/podman pod create \\\n\t--pod-id-file %t/p --name=forge --replace\n", "ExecStopPost=/usr/bin/podman pod rm --ignore -f --pod-id-file %t/p\n"
	for name, tt := range map[string]struct {
		files map[string]string
		unit  string
		makes bool
	}{
		"a Quadlet":                      {map[string]string{"containers/systemd/x.pod": "[Pod]\nPodName=forge\n"}, "x-pod.service", true},
		"a Quadlet by its own name":      {map[string]string{"containers/systemd/forge.pod": "[Pod]\n"}, "forge-pod.service", false},
		"of another name":                {map[string]string{"containers/systemd/x.pod": "[Pod]\nPodName=other\n"}, "x-pod.service", false},
		"named by a drop-in":             {map[string]string{"containers/systemd/x.pod": "[Pod]\nPodName=other\n", "containers/systemd/x.pod.d/10.conf": "[Pod]\nPodName=forge\n"}, "x-pod.service", true},
		"a unit file before the Quadlet": {map[string]string{"containers/systemd/x.pod": "[Pod]\nPodName=forge\n", "systemd/system/x-pod.service": "[Service]\nExecStart=/bin/true\n"}, "x-pod.service", false},
		"a generated unit":               {map[string]string{"systemd/system/pod-forge.service": "[Service]\n" + create + rm}, "pod-forge.service", true},
		"one that does not remove it":    {map[string]string{"systemd/system/pod-forge.service": "[Service]\n" + create}, "pod-forge.service", false},
		"one that starts it alone":       {map[string]string{"systemd/system/pod-forge.service": "[Service]\nExecStart=/usr/bin/podman pod start forge\n" + rm}, "pod-forge.service", false},
		"a Kubernetes file":              {map[string]string{"containers/systemd/forge.kube": "[Kube]\nYaml=/x.yaml\n"}, "forge.service", false},
		"none":                           {nil, "", false},
	} {
		root := t.TempDir()
		for path, text := range tt.files {
			at := filepath.Join(root, "etc", path)
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if is := makesPod(state.Layout{Root: root}, tt.unit, "forge"); is != tt.makes {
			t.Errorf("%s: %v", name, is)
		}
	}
	root := t.TempDir()
	at := filepath.Join(root, "etc/containers/systemd")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at, "forge.pod"), []byte("[Pod]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !makesPod(state.Layout{Root: root}, "forge-pod.service", "systemd-forge") {
		t.Error("a Quadlet without PodName does not make systemd-forge")
	}
}
