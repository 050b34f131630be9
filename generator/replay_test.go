package generator

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meshgen/state"
	"meshgen/units"
)

// machine is a root directory with generations in it.
type machine struct {
	*testing.T
	layout state.Layout
}

func newMachine(t *testing.T) machine {
	return machine{t, state.NewLayout(t.TempDir(), "")}
}

// write writes a file below the root.
func (m machine) write(path, text string) {
	m.Helper()
	path = m.layout.Path(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.Fatal(err)
	}
}

func (m machine) link(to, path string) {
	m.Helper()
	path = m.layout.Path(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.Fatal(err)
	}
	if err := os.Symlink(to, path); err != nil {
		m.Fatal(err)
	}
}

// generation writes generation n with these units, all of which are wanted by
// multi-user.target, and fences.
func (m machine) generation(n int, services []string, fences ...Fence) {
	m.Helper()
	tree := state.Tree{Files: map[string][]byte{ConvertedFile: []byte("quadlet\n")}, Links: map[string]string{}}
	g := state.Generation{Number: n}
	var given []Given
	for _, s := range services {
		u := Given{s, []string{"multi-user.target.wants/" + s}, "[Service]\nExecStart=/bin/" + s + "\n# " + strconv.Itoa(n)}
		given = append(given, u)
		g.Units = append(g.Units, state.Unit{
			Name: s, Resource: units.Address{Module: "m", Kind: units.KindUnit, ID: s}, Text: state.TextDigest(u.Text), Links: u.Links,
		})
		tree.Files[NormalDir+"/"+s] = []byte(u.Text)
	}
	tree.Files[UnitsFile] = FormatUnits(given)
	if len(fences) > 0 {
		tree.Files[FencesFile] = []byte(FormatFences(fences))
	}
	if err := state.WriteGeneration(m.layout, g, tree, 0); err != nil {
		m.Fatal(err)
	}
}

// converter gives the machine a converter that is this script.
func (m machine) converter(body string) {
	m.Helper()
	m.write("usr/libexec/podman/quadlet", "#!/bin/sh\n"+body)
	if err := os.Chmod(m.layout.Path("usr/libexec/podman/quadlet"), 0o755); err != nil {
		m.Fatal(err)
	}
}

func (m machine) current(n int) {
	m.Helper()
	if err := state.SetCurrent(m.layout, n); err != nil {
		m.Fatal(err)
	}
}

// bridge raises the bridge of a switch from one generation to another.
func (m machine) bridge(from, to string) {
	m.Helper()
	m.link(m.layout.Generations()+"/"+from, "run/meshgen/bridge/old")
	m.link(m.layout.Generations()+"/"+to, "run/meshgen/bridge/new")
}

// replay runs the generator, and returns what systemd is given: a line for each
// unit and link, with where it comes from or leads, and for each fence, with the
// units in it.
func (m machine) replay() ([]string, error) {
	m.Helper()
	dir := m.TempDir()
	d := Dirs{Normal: dir + "/normal", Early: dir + "/early", Late: dir + "/late"}
	for _, path := range []string{d.Normal, d.Early, d.Late} {
		if err := os.Mkdir(path, 0o755); err != nil {
			m.Fatal(err)
		}
	}
	err := Replay(m.layout, d)
	var given []string
	walk := func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if e.Type()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(path)
			if rest, ok := strings.CutPrefix(to, m.layout.Generations()+"/"); ok {
				to = rest
			}
			given = append(given, name+" -> "+to)
			return err
		}
		text, err := os.ReadFile(path)
		if _, names, ok := strings.Cut(string(text), "\nWants="); ok {
			for pulled := range strings.FieldsSeq(names) {
				given = append(given, "normal/multi-user.target.wants/"+pulled+" -> ../"+pulled)
			}
			return err
		}
		if before, n, ok := strings.Cut(string(text), "\n# "); ok && strings.HasPrefix(before, "[Service]") {
			given = append(given, name+" -> "+n+"/out/normal/"+filepath.Base(path))
			return err
		}
		given = append(given, name+": "+strings.Join(strings.Fields(strings.Join(strings.SplitAfter(string(text), "\n")[2:], "")), " "))
		return err
	}
	if err := filepath.WalkDir(dir, walk); err != nil {
		m.Fatal(err)
	}
	return given, err
}

func (m machine) wantGiven(want ...string) {
	m.Helper()
	given, err := m.replay()
	if err != nil {
		m.Error(err)
	}
	if diff := cmp.Diff(want, given); diff != "" {
		m.Error(diff)
	}
}

// wantFault wants what is given and a fault that says so.
func (m machine) wantFault(says string, want ...string) {
	m.Helper()
	given, err := m.replay()
	if err == nil || !strings.Contains(err.Error(), says) {
		m.Errorf("error %v, want one that says %q", err, says)
	}
	if diff := cmp.Diff(want, given); diff != "" {
		m.Error(diff)
	}
}

func TestReplayGivesNothingWhereNothingIsInForce(t *testing.T) {
	newMachine(t).wantGiven()
}

func TestReplayGivesTheGenerationInForceWhole(t *testing.T) {
	m := newMachine(t)
	m.generation(1, []string{"a.service"})
	m.generation(2, []string{"b.service", "c.service"})
	m.current(2)
	m.wantGiven(
		"normal/b.service -> 2/out/normal/b.service",
		"normal/c.service -> 2/out/normal/c.service",
		"normal/multi-user.target.wants/b.service -> ../b.service",
		"normal/multi-user.target.wants/c.service -> ../c.service",
	)
}

func (m machine) pending(n int) {
	m.Helper()
	if err := state.SetPending(m.layout, n); err != nil {
		m.Fatal(err)
	}
}

// Of a switch that was cut short before its flip systemd is given the old set,
// and what undoes the switch before that set starts.
func TestReplayOfAPendingGeneration(t *testing.T) {
	m := newMachine(t)
	m.generation(1, []string{"b.service", "a.service", "srv.mount"})
	m.generation(2, []string{"c.service"})
	m.current(1)
	m.pending(2)
	m.wantGiven(
		"normal/a.service -> 1/out/normal/a.service",
		"normal/b.service -> 1/out/normal/b.service",
		"normal/meshgen-confirm.service.d/50-meshgen-after.conf: After=a.service b.service srv.mount",
		"normal/meshgen-recover.service.d/50-meshgen-before.conf: Before=a.service b.service",
		"normal/multi-user.target.wants/meshgen-recover.service -> ../meshgen-recover.service",
		"normal/multi-user.target.wants/meshgen-confirm.service -> ../meshgen-confirm.service",
		"normal/multi-user.target.wants/b.service -> ../b.service",
		"normal/multi-user.target.wants/a.service -> ../a.service",
		"normal/multi-user.target.wants/srv.mount -> ../srv.mount",
		"normal/srv.mount -> 1/out/normal/srv.mount",
	)
}

// Where the first switch was cut short there is no set, and a recovery.
func TestReplayOfAPendingFirstGeneration(t *testing.T) {
	m := newMachine(t)
	m.generation(1, []string{"a.service"})
	m.pending(1)
	m.wantGiven(
		"normal/multi-user.target.wants/meshgen-recover.service -> ../meshgen-recover.service",
		"normal/multi-user.target.wants/meshgen-confirm.service -> ../meshgen-confirm.service",
	)
}

// The recovery comes with each target that pulls in a unit, in one transaction.
func TestReplayPullsTheRecoveryInWithEachTarget(t *testing.T) {
	m := newMachine(t)
	given := []Given{{"a.service", []string{"forge.target.requires/a.service", "b.service.wants/a.service"}, "[Service]\n"}}
	tree := state.Tree{Files: map[string][]byte{ConvertedFile: nil, UnitsFile: FormatUnits(given)}}
	if err := state.WriteGeneration(m.layout, state.Generation{Number: 1}, tree, 0); err != nil {
		t.Fatal(err)
	}
	m.current(1)
	m.pending(1)
	d := Dirs{Normal: t.TempDir()}
	if err := Replay(m.layout, d); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"forge.target", "multi-user.target"} {
		text, err := os.ReadFile(d.Normal + "/" + target + ".d/50-meshgen-recover.conf")
		if err != nil || !strings.Contains(string(text), "\nWants=meshgen-recover.service meshgen-confirm.service\n") {
			t.Errorf("%s: %q, %v", target, text, err)
		}
	}
	if _, err := os.Lstat(d.Normal + "/b.service.d/50-meshgen-recover.conf"); err == nil {
		t.Error("a service pulls the recovery in: a switch that starts it would too")
	}
}

// A living switch has the bridge up, and needs no recovery.
func TestReplayOfTheBridgePullsNoRecoveryIn(t *testing.T) {
	m := newMachine(t)
	m.generation(1, []string{"a.service"})
	m.generation(2, []string{"a.service"})
	m.current(1)
	m.pending(2)
	m.bridge("1", "2")
	m.wantGiven("normal/a.service -> 1/out/normal/a.service", "normal/multi-user.target.wants/a.service -> ../a.service")
}

// The bridge counts whatever is in force: old whole, and of new the names that
// old lacks, which nothing is to start by itself.
func TestReplayOfTheBridge(t *testing.T) {
	m := newMachine(t)
	m.generation(1, []string{"a.service", "kept.service"})
	m.generation(2, []string{"b.service", "kept.service"}, Fence{"b.service", []string{"a.service"}})
	for _, current := range []int{1, 2} {
		m.current(current)
		if current == 1 {
			m.bridge("1", "2")
		}
		m.wantGiven(
			"normal/a.service -> 1/out/normal/a.service",
			"normal/b.service -> 2/out/normal/b.service",
			"normal/b.service.d/50-meshgen-fence.conf: Conflicts=a.service After=a.service",
			"normal/kept.service -> 1/out/normal/kept.service",
			"normal/multi-user.target.wants/a.service -> ../a.service",
			"normal/multi-user.target.wants/kept.service -> ../kept.service",
		)
	}
}

// Half a bridge is none: it is raised by its second link.
func TestReplayOfHalfABridge(t *testing.T) {
	m := newMachine(t)
	m.generation(1, []string{"a.service"})
	m.current(1)
	m.link(m.layout.Generation(1), "run/meshgen/bridge/old")
	m.wantGiven("normal/a.service -> 1/out/normal/a.service", "normal/multi-user.target.wants/a.service -> ../a.service")
}

func TestReplayFencesPredecessors(t *testing.T) {
	m := newMachine(t)
	m.generation(1, []string{"c.service", "d.service"}, Fence{"c.service", []string{"a.service", "b.service"}}, Fence{"gone.service", []string{"a.service"}})
	m.current(1)
	m.wantGiven(
		"normal/c.service -> 1/out/normal/c.service",
		"normal/c.service.d/50-meshgen-fence.conf: Conflicts=a.service b.service After=a.service b.service",
		"normal/d.service -> 1/out/normal/d.service",
		"normal/multi-user.target.wants/c.service -> ../c.service",
		"normal/multi-user.target.wants/d.service -> ../d.service",
	)
}

// A fence never stops what has a predecessor's name now and is not of meshgen.
func TestFenceSparesWhatIsFound(t *testing.T) {
	for name, found := range map[string]func(machine){
		"a unit of the owner's": func(m machine) { m.write("etc/systemd/system/a.service", "[Service]\n") },
		"a unit of a package":   func(m machine) { m.write("usr/lib/systemd/system/a.service", "[Service]\n") },
		"a transient unit":      func(m machine) { m.write("run/systemd/transient/a.service", "[Service]\n") },
		"a masked unit":         func(m machine) { m.link("/dev/null", "etc/systemd/system/a.service") },
		"a Quadlet":             func(m machine) { m.write("etc/containers/systemd/a.container", "[Container]\n") },
		"a Quadlet further in":  func(m machine) { m.write("etc/containers/systemd/web/a.container", "[Container]\n") },
		"a Quadlet of another name": func(m machine) {
			m.write("usr/share/containers/systemd/x.container", "[Container]\nServiceName = a\n")
		},
		"a kube Quadlet": func(m machine) { m.write("run/containers/systemd/a.kube", "[Kube]\n") },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.generation(1, []string{"c.service"}, Fence{"c.service", []string{"a.service", "b.service"}})
			m.current(1)
			found(m)
			m.wantGiven(
				"normal/c.service -> 1/out/normal/c.service",
				"normal/c.service.d/50-meshgen-fence.conf: Conflicts=b.service After=b.service",
				"normal/multi-user.target.wants/c.service -> ../c.service",
			)
		})
	}
}

// A fence counts where what has the name is not a service of that name, or is
// what a switch puts there itself.
func TestFenceCountsBesideWhatIsNoSuchService(t *testing.T) {
	for name, found := range map[string]func(machine){
		"a Quadlet that becomes another service": func(m machine) { m.write("etc/containers/systemd/a.volume", "[Volume]\n") },
		"a Quadlet with a name of its own":       func(m machine) { m.write("etc/containers/systemd/a.container", "[Container]\nServiceName=x\n") },
		"a Quadlet of a user":                    func(m machine) { m.write("etc/containers/systemd/users/a.container", "[Container]\n") },
		"a link of a switch":                     func(m machine) { m.link("/run/meshgen/rescue/a.service", "run/systemd/system/a.service") },
		"a file that is no unit":                 func(m machine) { m.write("etc/systemd/system/a.service.bak", "[Service]\n") },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.generation(1, []string{"c.service"}, Fence{"c.service", []string{"a.service"}})
			m.current(1)
			found(m)
			m.wantGiven(
				"normal/c.service -> 1/out/normal/c.service",
				"normal/c.service.d/50-meshgen-fence.conf: Conflicts=a.service After=a.service",
				"normal/multi-user.target.wants/c.service -> ../c.service",
			)
		})
	}
}

// podman's generator would write through our link, so a name that it makes is
// left to it, with its enablement; the rest is given.
func TestReplayLeavesNamesToFoundQuadlets(t *testing.T) {
	m := newMachine(t)
	m.generation(1, []string{"a.service", "b.service"}, Fence{"a.service", []string{"x.service"}})
	m.current(1)
	m.write("etc/containers/systemd/deep/a.container", "[Container]\n")
	m.wantFault("a.service: left to "+m.layout.Path("etc/containers/systemd/deep/a.container")+", which is not of meshgen",
		"normal/b.service -> 1/out/normal/b.service",
		"normal/multi-user.target.wants/b.service -> ../b.service",
	)
}

// What cannot be given is told of, and what can be is given.
func TestReplayOfBrokenState(t *testing.T) {
	t.Run("current leads to no generation", func(t *testing.T) {
		m := newMachine(t)
		m.link("elsewhere", "etc/meshgen/current")
		m.wantFault(`current: leads to "elsewhere", which is no generation`)
	})
	t.Run("current leads to a generation that is gone", func(t *testing.T) {
		m := newMachine(t)
		m.link("generations/7", "etc/meshgen/current")
		m.wantFault("generations/7/out/units: no such file or directory")
	})
	t.Run("the bridge leads to no generation", func(t *testing.T) {
		m := newMachine(t)
		m.generation(1, []string{"a.service"})
		m.current(1)
		m.link("/nowhere", "run/meshgen/bridge/old")
		m.link(m.layout.Generation(1), "run/meshgen/bridge/new")
		m.wantFault("bridge/old: leads to /nowhere, which is no generation",
			"normal/a.service -> 1/out/normal/a.service", "normal/multi-user.target.wants/a.service -> ../a.service")
	})
	for says, broken := range map[string]func(machine){
		"pending: leads to \"elsewhere\", which is no generation": func(m machine) { m.link("elsewhere", "etc/meshgen/pending") },
		"pending: leads to no generation":                         func(m machine) { m.link("generations/7", "etc/meshgen/pending") },
		"pending: readlink":                                       func(m machine) { m.write("etc/meshgen/pending", "2\n") },
	} {
		t.Run(says, func(t *testing.T) {
			m := newMachine(t)
			m.generation(1, []string{"a.service"})
			m.current(1)
			broken(m)
			m.wantFault(says, "normal/a.service -> 1/out/normal/a.service", "normal/multi-user.target.wants/a.service -> ../a.service")
		})
	}
	t.Run("no converter for what was not converted", func(t *testing.T) {
		m := newMachine(t)
		m.unconverted("a.container")
		m.wantFault("generations/1: not converted, and there is no quadlet on this machine",
			"normal/b.service -> 1/out/normal/b.service", "normal/multi-user.target.wants/b.service -> ../b.service")
	})
}

// unconverted puts generation 1 in force, which no converter has seen, with these
// Quadlets and a plain unit, b.service.
func (m machine) unconverted(quadlets ...string) {
	m.Helper()
	tree := state.Tree{Files: map[string][]byte{UnitsFile: FormatUnits([]Given{
		{"b.service", []string{"multi-user.target.wants/b.service"}, "[Service]\nExecStart=/bin/b\n# 1"},
	})}}
	for _, name := range quadlets {
		tree.Files["quadlet/"+name] = []byte("[Container]\nImage=localhost/x\n")
	}
	if err := state.WriteGeneration(m.layout, state.Generation{Number: 1}, tree, 0); err != nil {
		m.Fatal(err)
	}
	m.current(1)
}

// Plain units need no converter: with nothing else there, none is missed.
func TestReplayOfPlainUnitsNeedsNoConverter(t *testing.T) {
	m := newMachine(t)
	m.unconverted()
	m.wantGiven("normal/b.service -> 1/out/normal/b.service", "normal/multi-user.target.wants/b.service -> ../b.service")
}

func TestReplayGoesOnAfterAFault(t *testing.T) {
	m := newMachine(t)
	m.generation(1, []string{"a.service", "b.service"})
	m.current(1)
	dir := t.TempDir()
	d := Dirs{Normal: dir, Early: dir, Late: dir}
	if err := os.WriteFile(filepath.Join(dir, "a.service"), []byte("another generator's"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Replay(m.layout, d); err == nil || !strings.Contains(err.Error(), "a.service") {
		t.Errorf("error %v, want one about a.service", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "b.service")); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "multi-user.target.d/50-meshgen-wants.conf")); err != nil || strings.Contains(string(text), "a.service") {
		t.Errorf("another generator's unit was enabled: %q, %v", text, err)
	}
}

func TestReadFencesReadsWhatFormatFencesWrites(t *testing.T) {
	want := []Fence{{"a.service", []string{"b.service"}}, {"c.service", []string{"d.service", "e.service"}}}
	path := filepath.Join(t.TempDir(), "fences")
	if err := os.WriteFile(path, []byte(FormatFences(want)), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := ReadFences(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, err := ReadFences(path + "-none"); err != nil || got != nil {
		t.Errorf("no file: %v, %v", got, err)
	}
}

func TestRemoveFenceLeavesWhatElseIsThere(t *testing.T) {
	dir := t.TempDir()
	if err := WriteFence(dir, "a.service", []string{"b.service"}); err != nil {
		t.Fatal(err)
	}
	if err := RemoveFence(dir + "/a.service.d"); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir + "/a.service.d"); err == nil {
		t.Error("the empty directory is still there")
	}
	if err := WriteFence(dir, "a.service", []string{"b.service"}); err != nil {
		t.Fatal(err)
	}
	other := dir + "/a.service.d/other.conf"
	if err := os.WriteFile(other, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing of ours
		if err := RemoveFence(dir + "/a.service.d"); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(other); err != nil {
		t.Error(err)
	}
}

func TestDefinitionNamesWhatIsFound(t *testing.T) {
	m := newMachine(t)
	m.write("etc/systemd/system/a.service", "")
	m.write("usr/lib/systemd/system/a.service", "")
	m.write("etc/containers/systemd/b.container", "")
	m.write("etc/containers/systemd/n.network", "")
	m.write("etc/containers/systemd/p.pod", "")
	m.link("/run/meshgen/rescue/c.service", "run/systemd/system/c.service")
	want := map[string]string{
		"a.service": "etc/systemd/system/a.service", "b.service": "etc/containers/systemd/b.container",
		"n-network.service": "etc/containers/systemd/n.network", "p-pod.service": "etc/containers/systemd/p.pod",
		"n.service": "", "c.service": "", "d.service": "",
	}
	for _, service := range slices.Sorted(maps.Keys(want)) {
		path := want[service]
		if path != "" {
			path = m.layout.Path(path)
		}
		if got := Definition(m.layout.Root, service); got != path {
			t.Errorf("%s: %q, want %q", service, got, path)
		}
	}
}

// What is converted at boot is guarded like what a switch had converted, and
// enabled beside the plain units.
func TestReplayGuardsWhatItConverts(t *testing.T) {
	m := newMachine(t)
	m.unconverted()
	ours := "[X-Meshgen]\nResource=m/container/a\n\n[Container]\nContainerName=ant\nImage=localhost/x\n"
	network := "[X-Meshgen]\nResource=m/network/n\n\n[Network]\n"
	m.write("etc/meshgen/generations/1/quadlet/a.container", ours)
	m.write("etc/meshgen/generations/1/quadlet/n.network", network)
	m.converter(`
made() { cat "$QUADLET_UNIT_DIRS/$1"; printf '\n[Service]\nExecStart=podman run --label io.meshgen.resource=m/container/a x\n'; }
made a.container >"$2/a.service"
made n.network >"$2/n-network.service"
mkdir "$2/multi-user.target.wants"
ln -s ../a.service "$2/multi-user.target.wants/a.service"
`)
	const made = "\n[Service]\nExecStart=podman run --label io.meshgen.resource=m/container/a x\n"
	dir := t.TempDir()
	if err := Replay(m.layout, Dirs{Normal: dir, Early: dir, Late: dir}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"a.service":         units.WithFragment(units.Guarded(ours, GuardProgram) + made),
		"n-network.service": network + made,
		"multi-user.target.d/50-meshgen-wants.conf": "# What meshgen has enabled.\n[Unit]\nWants=b.service a.service\n",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(text) != want {
			t.Errorf("%s is %q, error %v; want %q", name, text, err, want)
		}
	}
}
