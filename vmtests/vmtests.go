// Package vmtests has the scenarios that need a real machine, and what a test
// asks for one with: [Boot].
//
// A test on a machine carries the build tag systemd. Where no machine can be
// had it is skipped with the reason, or fails if $MESHGEN_REQUIRE_MACHINE is 1,
// as it is in CI.
package vmtests

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"meshgen/vmtests/machine"
)

// Manifest is the directory on a machine that holds its manifest.
const Manifest = "/etc/meshgen/manifest"

// awaitDeadline is how long [Machine.Await] waits.
const awaitDeadline = 30 * time.Second

// parts are built once for each test process.
//
//nolint:gochecknoglobals // the tests of a process share nothing else
var parts = sync.OnceValues(func() (machine.Parts, error) {
	return machine.Prepare(context.Background())
})

// Machine is a machine that belongs to a test: what does not work on it ends
// the test.
type Machine struct {
	t testing.TB
	m *machine.Machine
}

// Boot returns a running machine of the test's own, with meshgen installed and
// the images localhost/probe:1 and :2 in podman. It goes when the test is done;
// a failed test has the end of its journal in its log. From its first machine on a test
// runs beside others, as many as there are processors.
func Boot(t testing.TB) *Machine {
	t.Helper()
	besideOthers(t)
	if err := machine.Check(); err != nil {
		if os.Getenv("MESHGEN_REQUIRE_MACHINE") == "1" {
			t.Fatalf("no machine: %v", err)
		}
		t.Skipf("no machine: %v", err)
	}
	p, err := parts()
	if err != nil {
		t.Fatal(err)
	}
	m, err := machine.New(p)
	if err != nil {
		t.Fatal(err)
	}
	v := &Machine{t: t, m: m}
	t.Cleanup(v.close)
	v.Boot()
	return v
}

// booted has the names of the tests that have had a machine.
//
//nolint:gochecknoglobals // a test may say once that it is parallel
var booted sync.Map

func besideOthers(t testing.TB) {
	_, again := booted.LoadOrStore(t.Name(), true)
	if p, ok := t.(interface{ Parallel() }); ok && !again {
		t.Cleanup(func() { booted.Delete(t.Name()) })
		p.Parallel()
	}
}

func (v *Machine) close() {
	v.t.Helper()
	if v.t.Failed() {
		v.logJournal()
	}
	if err := v.m.Close(); err != nil {
		v.t.Error(err)
	}
}

func (v *Machine) logJournal() {
	v.t.Helper()
	if !v.m.On() {
		v.t.Log("the machine is off: no journal")
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	journal, err := v.m.Run(ctx, "journalctl", "--no-pager", "--lines=100", "--output=short-precise")
	v.t.Logf("the end of the journal:\n%s", journal)
	if err != nil {
		v.t.Log(err)
	}
}

// Boot starts a machine that is off, and waits until it is running and what it
// has to finish of a switch that was cut short has ended, well or not. No units fail
// but those that may.
func (v *Machine) Boot(mayFail ...string) {
	v.t.Helper()
	if err := v.m.Boot(v.t.Context(), mayFail...); err != nil {
		v.t.Fatal(err)
	}
	v.Await("a recovery has ended", func() bool {
		state := v.Show("meshgen-confirm.service", "ActiveState")["ActiveState"]
		return state == "inactive" || state == "failed"
	})
}

// PowerCut takes the power away: see [machine.Machine.PowerCut].
func (v *Machine) PowerCut() {
	v.t.Helper()
	if err := v.m.PowerCut(); err != nil {
		v.t.Fatal(err)
	}
}

// PowerOff shuts the machine down: see [machine.Machine.PowerOff].
func (v *Machine) PowerOff() {
	v.t.Helper()
	if err := v.m.PowerOff(v.t.Context()); err != nil {
		v.t.Fatal(err)
	}
}

// Command returns a command to be run on the machine: see
// [machine.Machine.Command].
func (v *Machine) Command(args ...string) *exec.Cmd {
	return v.m.Command(v.t.Context(), args...)
}

// Exec runs a command on the machine, whatever its exit code.
func (v *Machine) Exec(args ...string) machine.Result {
	v.t.Helper()
	r, err := v.m.Exec(v.t.Context(), args...)
	if err != nil {
		v.t.Fatal(err)
	}
	return r
}

// Run runs a command on the machine, which must exit with 0, and returns its
// stdout.
func (v *Machine) Run(args ...string) string {
	v.t.Helper()
	stdout, err := v.m.Run(v.t.Context(), args...)
	if err != nil {
		v.t.Fatal(err)
	}
	return stdout
}

// WriteFile writes a file on the machine, and the directories that it lacks.
func (v *Machine) WriteFile(path, text string) {
	v.t.Helper()
	if err := v.m.WriteFile(v.t.Context(), path, []byte(text), 0o644); err != nil {
		v.t.Fatal(err)
	}
}

// ReadFile returns the text of a file on the machine.
func (v *Machine) ReadFile(path string) string {
	v.t.Helper()
	return v.Run("cat", path)
}

// Exists reports whether there is anything at a path on the machine, a
// dangling symlink included.
func (v *Machine) Exists(path string) bool {
	v.t.Helper()
	return v.Exec("stat", path).Code == 0
}

// WriteManifest makes text the machine's manifest, in one file.
func (v *Machine) WriteManifest(text string) {
	v.t.Helper()
	v.WriteFile(Manifest+"/mesh.cue", text)
}

// Switch runs meshgen switch, which must succeed, and returns its stdout.
func (v *Machine) Switch(args ...string) string {
	v.t.Helper()
	return v.Run(append([]string{"meshgen", "switch"}, args...)...)
}

// Show returns properties of a unit as systemctl show gives them.
func (v *Machine) Show(unit string, properties ...string) map[string]string {
	v.t.Helper()
	values := make(map[string]string)
	out := v.Run("systemctl", "show", "--property="+strings.Join(properties, ","), "--", unit)
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		values[name] = value
	}
	return values
}

// Containers returns the names of the containers that run, sorted.
func (v *Machine) Containers() []string {
	v.t.Helper()
	return strings.Fields(v.Run("podman", "ps", "--sort=names", "--format={{.Names}}"))
}

// Await waits until a condition holds; what says in the test's log what it was.
func (v *Machine) Await(what string, holds func() bool) {
	v.t.Helper()
	deadline := time.After(awaitDeadline)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			v.t.Fatalf("%s: not within %v", what, awaitDeadline)
		case <-tick.C:
		}
	}
}
