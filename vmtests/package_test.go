//go:build systemd

package vmtests

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// debs are the package of this tree, and one that is the same but for a later version.
var debs = sync.OnceValues(func() (paths [2]string, err error) {
	tree, err := filepath.Abs("..")
	if err != nil {
		return paths, err
	}
	paths[0] = filepath.Join(tree, "dist", "meshgen_1_"+runtime.GOARCH+".deb")
	paths[1] = filepath.Join(tree, "dist", "later.deb")
	script := `make -C "$1" packages PACKAGE_VERSION=1
dpkg-deb -R "$2" "$1/dist/later"
sed -i 's/^Version: 1$/Version: 2/' "$1/dist/later/DEBIAN/control"
dpkg-deb --root-owner-group -b "$1/dist/later" "$3"`
	cmd := exec.Command("bash", "-ec", script, "-", tree, paths[0], paths[1])
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return paths, cmd.Run()
})

// bootPackaged returns a machine that has meshgen by nothing but its package, and the
// later one beside.
func bootPackaged(t *testing.T) *Machine {
	t.Helper()
	v := Boot(t)
	paths, err := debs()
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"/root/1.deb", "/root/2.deb"} {
		data, err := os.ReadFile(paths[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := v.m.WriteFile(t.Context(), name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	v.Run("sh", "-ec", `rm -r /usr/bin/meshgen /usr/lib/meshgen /usr/lib/systemd/system-generators/meshgen-generator /usr/lib/systemd/system/meshgen-*
systemctl daemon-reload`)
	before := v.reloads()
	v.Run("dpkg", "--install", "/root/1.deb")
	if n := v.reloads() - before; n != 1 {
		t.Errorf("installing has reloaded systemd %d times", n)
	}
	if up := v.Run("systemctl", "list-units", "--all", "--plain", "--no-legend", "--state=active,activating,failed", "meshgen-*"); up != "" {
		t.Errorf("installing has started %s", up)
	}
	return v
}

// reloads returns how many times systemd has read its units again.
func (v *Machine) reloads() int {
	v.t.Helper()
	v.Run("journalctl", "--sync")
	return strings.Count(v.Run("journalctl", "--boot", "--output=cat", "--no-pager", "_PID=1"), "Reloading finished")
}

// A package is installed, upgraded, removed and purged. What runs, runs all the while,
// and after a reboot without meshgen.
func TestPackageIsInstalledUpgradedAndRemoved(t *testing.T) {
	v := bootPackaged(t)
	v.WriteManifest(ejectable)
	v.Switch()
	run, before := v.run(), v.reloads()
	v.Run("dpkg", "--install", "/root/2.deb")
	if n := v.reloads() - before; n != 1 {
		t.Errorf("upgrading has reloaded systemd %d times", n)
	}
	if now := v.run(); now != run {
		t.Errorf("upgrading did something to what runs:\n%s\nwas\n%s", now, run)
	}
	v.mustHaveNothingToDo()

	// What is not understood, and what cannot be ejected, keeps the package.
	for path, words := range map[string]string{
		"/etc/meshgen/on-remove":                "on-remove: nonsense: want eject or stop",
		"/etc/containers/systemd/m-x.container": "a file is there, and it is not of meshgen",
	} {
		v.WriteFile(path, "nonsense\n")
		if r := v.Exec("dpkg", "--remove", "meshgen"); r.Code == 0 || !strings.Contains(r.Stderr, words) {
			t.Errorf("removing, with %s: %+v", path, r)
		}
		v.Run("rm", path)
		if got := v.Run("dpkg-query", "--show", "--showformat=${db:Status-Status}", "meshgen"); got != "installed" || v.run() != run || v.inForce() != "1" {
			t.Errorf("after a removal that was refused the package is %s, generation %s is in force", got, v.inForce())
		}
	}

	v.Run("dpkg", "--remove", "meshgen")
	if now := v.run(); now != run {
		t.Errorf("removing did something to what runs:\n%s\nwas\n%s", now, run)
	}
	if v.Exists("/usr/bin/meshgen") || v.Exists("/usr/lib/systemd/system-generators/meshgen-generator") {
		t.Error("programs are left")
	}
	v.mustBePlain()
	v.PowerCut()
	v.Boot()
	for _, unit := range ejectables {
		v.awaitUp(unit)
	}
	v.mustBePlain()
	run = v.run()
	v.Run("dpkg", "--purge", "meshgen")
	if v.run() != run {
		t.Error("purging did something to what runs")
	}
	if v.Exists("/var/lib/meshgen") || v.Exists("/etc/meshgen/generations") || !v.Exists(Manifest+"/mesh.cue") {
		t.Errorf("purging has left %s", v.Run("find", "/var/lib/meshgen", "/etc/meshgen", "-maxdepth", "1"))
	}
}

// Where its owner has said so, what meshgen runs is stopped with it. Volumes stay, and
// so does the record of what there was.
func TestPackageIsRemovedWithWhatItRuns(t *testing.T) {
	v := bootPackaged(t)
	v.WriteManifest(ejectable)
	v.Switch()
	v.WriteFile("/etc/meshgen/on-remove", "stop")
	v.Run("dpkg", "--remove", "meshgen")
	v.mustRun()
	v.mustBeGone(ejectables...)
	v.mustHaveVolumes("m-data")
	if v.Exists("/etc/m/app.ini") || v.Exists("/etc/containers/systemd/m-x.container") || v.Exists("/usr/bin/meshgen") {
		t.Error("something is left")
	}
	v.Run("dpkg", "--purge", "meshgen")
	if !v.Exists("/var/lib/meshgen/ledger") || !v.Exists("/etc/meshgen/generations") {
		t.Error("the record of a node that was not ejected is gone")
	}
}
