//go:build systemd

package vmtests

import (
	"fmt"
	"strings"
	"testing"
)

// asNixOS lays a machine out as NixOS does: programs in directories of a store, each
// known by links alone; /etc/systemd/system and the generators' directory as a whole a
// link there; nothing of podman's or meshgen's where a distribution has it. The guard
// stays, where NixOS has a link.
const asNixOS = `
meshgen=/nix/store/1111-meshgen podman=/nix/store/2222-podman etc=/nix/store/3333-etc
mkdir -p $meshgen/bin $podman/libexec/podman $etc/systemd
mkdir -p $meshgen/lib/systemd/system-generators $podman/lib/systemd/system-generators $etc/systemd/system-generators
mv /usr/bin/meshgen $meshgen/bin/
mv /usr/lib/systemd/system-generators/meshgen-generator $meshgen/lib/systemd/system-generators/
mv "$(readlink -f /usr/lib/systemd/system-generators/podman-system-generator)" $podman/libexec/podman/quadlet
rm -f /usr/lib/systemd/system-generators/podman-system-generator /usr/libexec/podman/quadlet /usr/lib/podman/quadlet
ln -s ../../../libexec/podman/quadlet $podman/lib/systemd/system-generators/podman-system-generator
ln -s $meshgen/lib/systemd/system-generators/meshgen-generator $podman/lib/systemd/system-generators/podman-system-generator $etc/systemd/system-generators/
cp -a /etc/systemd/system $etc/systemd/
for unit in /usr/lib/systemd/system/meshgen-*; do
	sed "s|/usr/bin/|$meshgen/bin/|" $unit > $etc/systemd/system/${unit##*/}
	rm $unit
done
rm -r /etc/systemd/system
ln -s $etc /etc/static
ln -s /etc/static/systemd/system /etc/systemd/system
ln -s /etc/static/systemd/system-generators /etc/systemd/system-generators
ln -s $meshgen/bin/meshgen /usr/local/bin/meshgen
`

func bootAsNixOS(t *testing.T) *Machine {
	t.Helper()
	v := Boot(t)
	v.Run("sh", "-ec", asNixOS)
	v.PowerOff()
	v.Boot()
	return v
}

func TestScenariosWhereAllIsInTheStoreOfNixOS(t *testing.T) {
	for _, s := range scenarios(t) {
		t.Run(s.Name, func(t *testing.T) { bootAsNixOS(t).play(s) })
	}
}

// The manifest is a link into the store, as JSON, and the system goes to another
// generation and back: each time a switch follows. A unit file of the system's is a
// package's: it is never adopted, and nothing is written where the store is.
func TestManifestInTheStoreOfNixOS(t *testing.T) {
	v := bootAsNixOS(t)
	declare := func(generation, container string) {
		dir := "/nix/store/" + generation + "-meshgen-manifest"
		v.WriteFile(dir+"/mesh.cue", fmt.Sprintf(`package mesh

{"modules":{"m":{"containers":{"x":{"name":%q,"Container":{"Image":"localhost/probe:1","Network":"none"}}}}}}
`, container))
		v.Run("mkdir", "-p", "/etc/static/meshgen", "/etc/meshgen")
		v.Run("ln", "-sfn", dir, "/etc/static/meshgen/manifest")
		v.Run("ln", "-sfn", "/etc/static/meshgen/manifest", Manifest)
	}
	for _, to := range []string{"ant", "bat", "ant"} {
		declare(to, to)
		v.Switch()
		v.mustRun(to)
		v.mustBeDone()
	}
	v.PowerCut()
	v.Boot()
	v.awaitUp("ant")
	v.mustRun("ant")

	v.WriteFile("/nix/store/3333-etc/systemd/system/beat.service", "[Service]\nExecStart=/usr/bin/sleep inf\n")
	v.Run("systemctl", "daemon-reload")
	v.Run("systemctl", "start", "beat")
	before := v.invocation("beat")
	v.Run("rm", Manifest)
	v.WriteManifest(single(`policy: takeover: "adopt"
units: "beat.service": {name: "beat.service", Service: ExecStart: "/usr/bin/sleep 10000"}`))
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "beat.service") {
		t.Errorf("switch: %+v", r)
	}
	if v.invocation("beat") != before || !v.Exists("/etc/systemd/system/beat.service") {
		t.Error("a unit of the system's was touched")
	}
	v.mustRun("ant")
	// What a system brings as a whole is not what somebody put there.
	if r := v.Exec("meshgen", "audit"); r.Code != 0 {
		t.Errorf("audit: %+v", r)
	}
}
