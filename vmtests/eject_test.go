//go:build systemd

package vmtests

import (
	"strconv"
	"strings"
	"testing"
)

// ejectable is a manifest with what an ejection has to write: a container with what it
// refers to, one in a pod, units of systemd's own that are enabled, files, a secret.
const ejectable = `package mesh

modules: m: {
	containers: x: {
		Container: {
			Image: "localhost/probe:1", Exec: "probe sleep", Network: "net", Secret: "pass"
			Volume: ["data:/data", "/etc/m:/etc/m:ro"]
		}
		Service: Restart: "always"
	}
	containers: y: Container: {Image: "localhost/probe:1", Exec: "probe sleep", Pod: "p"}
	pods: p: {}
	volumes: data: {}
	networks: net: {}
	secrets: pass: content: "tale"
	files: "app.ini": {path: "/etc/m/app.ini", content: "[m]\n", notify: x: "restart"}
	units: "tick.timer": {Timer: OnCalendar: "daily", Install: WantedBy: "timers.target"}
	units: "tick.service": Service: {Type: "oneshot", ExecStart: "/bin/true"}
	units: "stay.service": {
		Service: ExecStart: "/bin/sleep infinity"
		Install: WantedBy: "multi-user.target"
	}
}
`

// ejectables are the units of ejectable that stay up.
var ejectables = []string{"m-x.service", "m-y.service", "m-p-pod.service", "m-net-network.service", "m-data-volume.service", "m-tick.timer", "m-stay.service"}

// run is what tells one run of each unit of ejectable, and each container, from another.
func (v *Machine) run() string {
	v.t.Helper()
	var runs []string
	for _, unit := range ejectables {
		now := v.Show(unit, "LoadState", "ActiveState", "InvocationID")
		runs = append(runs, strings.Join([]string{unit, now["LoadState"], now["ActiveState"], now["InvocationID"]}, " "))
	}
	return strings.Join(runs, "\n") + "\n" + v.Run("podman", "ps", "--sort=names", "--format={{.Names}} {{.ID}}")
}

// mustBePlain sees that all of ejectable runs by plain files, and nothing of it by
// meshgen.
func (v *Machine) mustBePlain() {
	v.t.Helper()
	for _, unit := range ejectables {
		got := v.Show(unit, "LoadState", "ActiveState", "SourcePath", "FragmentPath", "DropInPaths", "NeedDaemonReload", "ExecStart", "ExecStartPre", "UnitFileState")
		if got["LoadState"] != "loaded" || got["ActiveState"] != "active" || got["NeedDaemonReload"] != "no" {
			v.t.Errorf("%s: %v", unit, got)
		}
		if text := strings.Join([]string{got["SourcePath"], got["FragmentPath"], got["DropInPaths"], got["ExecStart"], got["ExecStartPre"]}, " "); strings.Contains(text, "meshgen") {
			v.t.Errorf("%s is of meshgen: %s", unit, text)
		}
		if plain := !strings.Contains(got["SourcePath"], "/etc/containers/systemd/"); plain && got["UnitFileState"] != "enabled" {
			v.t.Errorf("%s is %s", unit, got["UnitFileState"])
		}
	}
	for _, dir := range []string{"/etc/containers/systemd", "/etc/systemd/system", "/run/systemd"} {
		if r := v.Exec("grep", "-rlE", "X-Meshgen|io.meshgen|meshgen-guard", dir); r.Code != 1 {
			v.t.Errorf("marks are left: %+v", r)
		}
	}
	if litter := v.Run("find", "/etc/containers", "/etc/systemd/system", "-name", "*meshgen*"); litter != "" {
		v.t.Errorf("litter: %s", litter)
	}
	if v.Exists("/etc/meshgen/current") || !v.Exists("/etc/meshgen/ejected") {
		v.t.Error("something is in force")
	}
}

// A node is ejected: nothing is stopped or started, systemd has the same services from
// podman's own generator, and after a reboot on which no program of meshgen's is left
// all of it runs.
func TestEjectedMachineRunsOnWithoutMeshgen(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(ejectable)
	v.Switch()
	before := v.run()
	if strings.Contains(before, "inactive") || strings.Contains(before, "failed") {
		t.Fatalf("not all is up:\n%s", before)
	}

	told := v.Run("meshgen", "eject")
	for _, words := range []string{
		"/etc/containers/systemd/m-x.container", "/etc/containers/systemd/m-p.pod", "/etc/systemd/system/m-tick.timer",
		"/etc/systemd/system/timers.target.wants/m-tick.timer", "secret:m-pass", "nothing was written: --yes does it",
	} {
		if !strings.Contains(told, words) {
			t.Errorf("eject does not say %q:\n%s", words, told)
		}
	}
	if v.Exists("/etc/containers/systemd/m-x.container") {
		t.Fatal("it was written unasked")
	}
	v.Run("meshgen", "eject", "--yes")
	if now := v.run(); now != before {
		t.Errorf("something was done to what runs:\n%s\nwas\n%s", now, before)
	}
	v.mustBePlain()
	if out := v.Run("meshgen", "eject", "--yes"); !strings.Contains(out, "nothing to do: the node was ejected from generation 1") {
		t.Errorf("eject again: %s", out)
	}
	if out := v.Run("meshgen", "status"); !strings.HasPrefix(out, "nothing is in force\nthe node was ejected: ") {
		t.Errorf("status: %s", out)
	}
	if r := v.Exec("meshgen", "audit"); r.Code != 0 || !strings.Contains(r.Stdout, "the node was ejected") {
		t.Errorf("audit: %+v", r)
	}
	if out := v.Run("meshgen", "explain", "container:m-x"); !strings.Contains(out, "is no longer meshgen's: the node was ejected") {
		t.Errorf("explain: %s", out)
	}
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "container:m-x is taken") {
		t.Errorf("switch: %+v", r)
	}

	v.Run("sh", "-ec", `rm /usr/bin/meshgen /usr/lib/systemd/system-generators/meshgen-generator
rm -r /usr/lib/meshgen /etc/meshgen /var/lib/meshgen; find / -xdev -name 'meshgen-*.service' -path '*/systemd/system/*' -delete`)
	v.PowerCut()
	v.Boot()
	for _, unit := range ejectables {
		v.awaitUp(unit)
	}
	v.Run("mkdir", "/etc/meshgen")
	v.Run("ln", "-s", "x", "/etc/meshgen/ejected") // for the look that follows
	v.mustBePlain()
	v.mustRun("m-p-infra", "m-x", "m-y")
	if got := v.Run("podman", "inspect", "--format={{len .Config.Labels}} {{range .Mounts}}{{.Destination}} {{end}}", "m-x"); strings.Contains(got, "meshgen") || !strings.Contains(got, "/data") {
		t.Errorf("m-x: %s", got)
	}
}

// What lies in the way of an ejection is not ours: it is refused, and nothing is
// touched.
func TestEjectReplacesNothing(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(ejectable)
	v.Switch()
	v.WriteFile("/etc/containers/systemd/sub/m-x.container", quadlet("other"))
	v.WriteFile("/etc/containers/systemd/m-net.network", "[Network]\n")
	v.WriteFile("/etc/systemd/system/timers.target.wants/m-tick.timer", "")
	r := v.Exec("meshgen", "eject", "--yes")
	if r.Code != 3 || !strings.HasSuffix(r.Stderr, "refused: nothing was touched\n") {
		t.Fatalf("eject: %+v", r)
	}
	for _, words := range []string{
		"/etc/containers/systemd/m-net.network: a file is there",
		"timers.target.wants/m-tick.timer: something else is there",
		"m-x.service: is defined by /etc/containers/systemd/sub/m-x.container",
	} {
		if !strings.Contains(r.Stderr, words) {
			t.Errorf("eject does not say %q: %s", words, r.Stderr)
		}
	}
	if got := v.inForce(); got != "1" {
		t.Errorf("generation %s is in force", got)
	}
	if v.Exists("/etc/containers/systemd/m-x.container") || strings.Contains(v.ReadFile("/var/lib/meshgen/ledger"), `"eject"`) {
		t.Error("something was begun")
	}
}

// An ejection is killed at one call after the other, every now and then by a power cut.
// What ran runs, whatever reload or boot comes; no switch does anything in between; and
// the next ejection ends as an unbroken one does.
func TestEjectSurvivesKills(t *testing.T) {
	v := Boot(t)
	if v.Exec("stat", "/usr/bin/nth").Code != 0 {
		t.Skip("nth is for amd64")
	}
	v.WriteManifest(ejectable)
	v.Switch()
	v.Run("sh", "-ec", "mkdir /root/saved; cp -a /etc/meshgen /root/saved/etc; cp -a /var/lib/meshgen /root/saved/var")
	again := func() { // meshgen's as it was
		v.Run("sh", "-ec", `rm -rf /etc/containers/systemd /etc/containers/.meshgen-eject /etc/meshgen /var/lib/meshgen
rm -rf /etc/systemd/system/.meshgen-eject /etc/systemd/system/m-* /etc/systemd/system/*.wants/m-*
cp -a /root/saved/etc /etc/meshgen; cp -a /root/saved/var /var/lib/meshgen
systemctl daemon-reload`)
	}
	before := v.run()
	v.Run("nth", "-bus", "-log=/run/nth.log", "meshgen", "eject", "--yes")
	total := strings.Count(v.ReadFile("/run/nth.log"), "\n")
	ran := 0
	all := points(t, total, 16)
	for i, n := range all {
		again()
		v.Exec("nth", "-bus", "-log=/run/nth.log", "-kill="+strconv.Itoa(n), "meshgen", "eject", "--yes")
		calls := strings.Split(strings.TrimSpace(v.ReadFile("/run/nth.log")), "\n")
		at := calls[len(calls)-1]
		if !strings.HasSuffix(at, ": killed") {
			continue
		}
		ran++
		if i%4 == 3 {
			at += ", and the power cut"
			v.PowerCut()
			v.Boot()
			for _, unit := range ejectables {
				v.awaitUp(unit)
			}
			before = v.run()
		}
		v.Run("systemctl", "daemon-reload")
		if now := v.run(); now != before {
			t.Fatalf("%s: something was done to what runs:\n%s\nwas\n%s", at, now, before)
		}
		if begun := strings.Contains(v.ReadFile("/var/lib/meshgen/ledger"), `{"event":"eject"`); begun && !strings.Contains(v.Run("meshgen", "status"), "the node was ejected") {
			if r := v.Exec("meshgen", "switch"); r.Code != 1 || !strings.Contains(r.Stderr, "meshgen eject finishes it") {
				t.Errorf("%s: switch: %+v", at, r)
			}
		}
		v.Run("meshgen", "eject", "--yes")
		if now := v.run(); now != before {
			t.Errorf("%s: the next ejection did something to what runs:\n%s\nwas\n%s", at, now, before)
		}
		v.mustBePlain()
		if t.Failed() {
			t.Fatalf("%s, of %d calls", at, total)
		}
	}
	t.Logf("killed %d times", ran)
	if ran < len(all)*3/4 {
		t.Errorf("killed %d times only, at %d points", ran, len(all))
	}
}
