//go:build systemd

package vmtests

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// settled runs the command of each finding, of which there are to be these, and wants
// no finding after that.
func (v *Machine) settled(want ...string) {
	v.t.Helper()
	report := v.auditOf(10)
	if diff := cmp.Diff(want, classes(report.Findings)); diff != "" {
		v.t.Errorf("findings (-want +got):\n%s", diff)
	}
	for _, f := range report.Findings {
		if r := v.Exec("sh", "-ec", f.Fix); r.Code != 0 {
			v.t.Errorf("%s: exit %d\n%s%s", f.Fix, r.Code, r.Stdout, r.Stderr)
		}
	}
	v.auditOf(0)
}

// A service whose KillMode spares its children ends, and its definition goes, by a
// switch and by hand: what it left runs and listens on, and is told with that.
func TestAuditTellsOfWhatAUnitLeft(t *testing.T) {
	v := Boot(t)
	v.Run("sh", "-ec", "mount=$(podman image mount localhost/probe:1); install $mount/bin/probe /usr/local/bin/probe; podman image unmount localhost/probe:1")
	const forks = "/bin/sh -c 'setsid probe serve :PORT & sleep 0.1'"
	v.WriteManifest(single(`units: "fork.service": {
		Service: {Type: "forking", KillMode: "process", GuessMainPID: "no", ExecStart: "` + strings.ReplaceAll(forks, "PORT", "6001") + `"}
		Install: WantedBy: "multi-user.target"
	}`))
	v.Switch()
	v.WriteFile("/etc/systemd/system/hand.service", "[Service]\nType=oneshot\nKillMode=process\nExecStart="+strings.ReplaceAll(forks, "PORT", "6002")+"\n")
	v.Run("sh", "-ec", "systemctl daemon-reload; systemctl start hand; rm /etc/systemd/system/hand.service; systemctl daemon-reload")
	v.WriteManifest(single(""))
	if r := v.Exec("meshgen", "switch", "--allow-empty"); r.Code != 4 {
		t.Errorf("switch: %+v", r)
	}

	for _, f := range v.auditOf(10).Findings {
		if len(f.Listens) != 1 || f.Listens[0].Process != "probe" {
			t.Errorf("%s listens on %v", f.Target, f.Listens)
		}
	}
	v.settled("foreign unit:hand.service", "stale unit:m-fork.service")
}

// The container of a unit of ours is taken away by hand, and another put in its place:
// what is printed has ours run again.
func TestAuditHasAReplacedContainerComeBack(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`containers: web: {name: "web", Container: {Image: "localhost/probe:1", Network: "none"}, Install: WantedBy: "multi-user.target"}`))
	v.Switch()
	v.Run("sh", "-ec", "podman rm --force --time=0 web; podman run --detach --replace --name=web --network=none localhost/probe:2")
	v.Await("its unit is down", func() bool { return v.Show("web.service", "ActiveState")["ActiveState"] == "failed" })
	v.settled("drifted container:web")
	if got := v.Show("web.service", "ActiveState")["ActiveState"]; got != "active" {
		t.Errorf("web.service is %s", got)
	}
}

// Units that somebody defined in other places than /etc run as well: until the next
// boot, and beside what a distribution ships.
func TestAuditTellsOfUnitsOutsideOfEtc(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`containers: db: {Container: {Image: "localhost/probe:1", Network: "none"}}`))
	v.Switch()
	for _, path := range []string{"/run/systemd/system/passing.service", "/usr/local/lib/systemd/system/local.service"} {
		v.WriteFile(path, "[Service]\nExecStart=/usr/bin/sleep inf\n[Install]\nWantedBy=multi-user.target\n")
	}
	v.Run("sh", "-ec", "cp /usr/lib/systemd/system/meshgen-*.service /usr/local/lib/systemd/system/; systemctl daemon-reload; systemctl start passing; systemctl enable --now local")
	v.settled("foreign unit:local.service", "foreign unit:passing.service")
	v.mustBeGone("passing.service")
	v.mustBeGone("local.service")
}

// What is printed for the instances of a template, and for a unit that was linked, stops
// them by their definition before that goes.
func TestAuditSettlesTemplatesAndLinks(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`containers: db: {Container: {Image: "localhost/probe:1", Network: "none"}}`))
	v.Switch()
	v.WriteFile("/etc/containers/systemd/quad@.container", "[Container]\nImage=localhost/probe:1\nNetwork=none\n")
	v.WriteFile("/etc/systemd/system/plain@.service", "[Service]\nExecStart=/usr/bin/sleep inf\n")
	v.WriteFile("/opt/linked.service", "[Service]\nExecStart=/usr/bin/sleep inf\nExecStop=/usr/bin/touch /run/stopped-by-its-own\n")
	v.Run("sh", "-ec", "systemctl daemon-reload; systemctl link /opt/linked.service; systemctl start quad@1 plain@1 plain@2 linked")
	v.settled("foreign container:systemd-quad_1", "foreign unit:linked.service", "foreign unit:plain@.service", "foreign unit:quad@.service")
	v.Run("test", "-e", "/run/stopped-by-its-own")
	for _, unit := range []string{"quad@1.service", "plain@1.service", "plain@2.service", "linked.service"} {
		v.mustBeGone(unit)
	}
}
