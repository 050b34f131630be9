//go:build systemd

package vmtests

import (
	"strings"
	"testing"
)

// Held volumes go when gc is told to, and not before. One that something has or
// names stays, and so does one that is not meshgen's by now.
func TestHeldVolumesAreRemovedWhenToldTo(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`
	containers: x: Container: {Image: "localhost/probe:1", Network: "none", Volume: ["free:/a", "used:/b", "named:/c", "quoted:/d", "lost:/e", "swapped:/f"]}
	volumes: {free: {}, used: {}, named: {}, quoted: {}, lost: {}, swapped: {}}`))
	v.Switch()
	v.Run("sh", "-c", "head -c 300000 /dev/zero > $(podman volume inspect --format={{.Mountpoint}} m-free)/data")
	v.WriteManifest(single(`containers: y: Container: {Image: "localhost/probe:1", Network: "none", PodmanArgs: "--volume=m-named:/c"}`))
	v.Switch()
	v.Run("systemctl", "stop", "m-y")
	v.Run("podman", "create", "--name=user", "--volume=m-used:/b", "--network=none", "localhost/probe:1")
	v.WriteFile(quadlets+"off.container", "[Container]\nImage=localhost/probe:1\nVolume=m-quoted:/d:ro\n")
	v.Run("podman", "volume", "rm", "m-lost")
	v.Run("podman", "volume", "rm", "m-swapped")
	v.Run("podman", "volume", "create", "m-swapped")

	ledger := v.ReadFile("/var/lib/meshgen/ledger")
	list := v.Run("meshgen", "gc", "--volumes")
	for _, line := range []string{
		" KiB, was of m/volume/free; no longer declared: it holds data; a rollback to generation 1 needs it\n",
		"record  volume:m-lost  is gone already\n",
		"volume  m-used     container user has it\n",
		"volume  m-named    m/container/y at mesh.cue:",
		"volume  m-quoted   off.service names it, in " + quadlets + "off.container\n",
		"volume  m-swapped  it does not bear meshgen's mark\n",
		"nothing was removed: --yes removes it\n",
	} {
		if !strings.Contains(list, line) {
			t.Errorf("gc does not say %q:\n%s", line, list)
		}
	}
	if v.ReadFile("/var/lib/meshgen/ledger") != ledger {
		t.Error("a list was recorded")
	}
	v.mustHaveVolumes("m-free", "m-named", "m-quoted", "m-swapped", "m-used")

	v.Run("meshgen", "gc", "--volumes", "--yes")
	v.mustHaveVolumes("m-named", "m-quoted", "m-swapped", "m-used")
	story := v.Run("meshgen", "explain", "volume:m-free")
	if !strings.Contains(story, "was seen gone: removed at its owner's word") || !strings.Contains(story, "now   volume:m-free is retired") {
		t.Errorf("the story of the volume:\n%s", story)
	}

	// Once nothing has it, it goes too. One that is declared again does not.
	v.Run("podman", "rm", "user")
	v.WriteManifest(single(`volumes: named: {}`))
	v.Switch()
	v.Run("meshgen", "gc", "--volumes", "--yes")
	v.mustHaveVolumes("m-named", "m-quoted", "m-swapped")
	v.Run("meshgen", "forget", "volume:m-quoted")
	v.Run("rm", quadlets+"off.container")
	v.Run("meshgen", "gc", "--volumes", "--yes")
	v.mustHaveVolumes("m-named", "m-quoted", "m-swapped")
	v.WriteManifest(single(`volumes: {named: {}, quoted: {}}`))
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "volume:m-quoted is taken") {
		t.Errorf("a volume that was let go is taken: %+v", r)
	}
}

func (v *Machine) mustHaveVolumes(names ...string) {
	v.t.Helper()
	want := strings.Join(names, "\n") + "\n"
	if got := v.Run("sh", "-c", "podman volume ls --format={{.Name}} | sort"); got != want {
		v.t.Fatalf("volumes %q, want %q", got, want)
	}
}
