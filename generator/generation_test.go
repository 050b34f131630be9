package generator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"meshgen/state"
)

// spoil changes a file below the root by hand.
func (m machine) spoil(path string, change func(string) string) {
	m.Helper()
	text, err := os.ReadFile(m.layout.Path(path))
	if err != nil {
		m.Fatal(err)
	}
	if err := os.WriteFile(m.layout.Path(path), []byte(change(string(text))), 0o644); err != nil {
		m.Fatal(err)
	}
}

// of is what systemd is given of a generation with these units.
func of(n string, services ...string) (given []string) {
	for _, s := range services {
		given = append(given, "normal/"+s+" -> "+n+"/out/normal/"+s)
	}
	for _, s := range services {
		given = append(given, "normal/multi-user.target.wants/"+s+" -> ../"+s)
	}
	return given
}

// What is wrong with the one file is made up for by the others, to the letter.
func TestReplayReadsADamagedGenerationApart(t *testing.T) {
	for name, change := range map[string]func(string) string{
		"empty":              func(string) string { return "" },
		"cut within a unit":  func(s string) string { return s[:len(s)-5] },
		"cut before a unit":  func(s string) string { return s[:strings.Index(s, "b.service")] },
		"another's":          func(string) string { return "[Service]\n" },
		"a byte of a text":   func(s string) string { return strings.Replace(s, "/bin/b", "/bin/c", 1) },
		"a byte of a head":   func(s string) string { return strings.Replace(s, "\na.service ", "\nA.service ", 1) },
		"a byte of the head": func(s string) string { return "M" + s[1:] },
		"grown":              func(s string) string { return s + "c.service 1\nx\n" },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.generation(1, []string{"x.service"})
			m.generation(2, []string{"a.service", "b.service"})
			m.current(2)
			m.spoil("etc/meshgen/generations/2/"+UnitsFile, change)
			m.wantFault("generations/2/out/units", of("2", "a.service", "b.service")...)
		})
	}
}

// A generation that is broken past that is told, and the one before is given.
func TestReplayGivesTheGenerationBeforeABrokenOne(t *testing.T) {
	for name, damage := range map[string]func(machine){
		"it is gone":            func(m machine) { m.remove("etc/meshgen/generations/3") },
		"nothing is left in it": func(m machine) { m.remove("etc/meshgen/generations/3"); m.write("etc/meshgen/generations/3/x", "") },
		"out is gone":           func(m machine) { m.remove("etc/meshgen/generations/3/out") },
		"two files are damaged": func(m machine) {
			m.spoil("etc/meshgen/generations/3/"+UnitsFile, func(s string) string { return s[:len(s)-5] })
			m.spoil("etc/meshgen/generations/3/"+NormalDir+"/b.service", func(s string) string { return s + "x" })
		},
		"its record is damaged too": func(m machine) {
			m.spoil("etc/meshgen/generations/3/"+UnitsFile, func(s string) string { return s[:len(s)-5] })
			m.spoil("etc/meshgen/generations/3/desired.json", func(s string) string { return s[:20] })
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.generation(1, []string{"a.service"})
			m.generation(2, []string{"b.service"}, Fence{"b.service", []string{"a.service"}})
			m.generation(3, []string{"b.service", "c.service"})
			m.current(3)
			damage(m)
			m.wantFault("generation 2: in its place: generation 3 is broken",
				"normal/b.service -> 2/out/normal/b.service",
				"normal/b.service.d/50-meshgen-fence.conf: Conflicts=a.service After=a.service",
				"normal/multi-user.target.wants/b.service -> ../b.service")
		})
	}
}

func (m machine) remove(path string) {
	m.Helper()
	if err := os.RemoveAll(m.layout.Path(path)); err != nil {
		m.Fatal(err)
	}
}

// The one before is the one that was in force, whatever lies between: a set that
// failed, or one that a switch has only begun with.
func TestReplayGivesWhatWasInForceBefore(t *testing.T) {
	m := newMachine(t)
	m.generation(1, []string{"a.service"})
	m.generation(2, []string{"failed.service"})
	m.generation(3, []string{"b.service"})
	m.generation(4, []string{"begun.service"})
	m.write("etc/meshgen/generations/3/"+BeforeFile, "1\n")
	m.current(3)
	m.remove("etc/meshgen/generations/3/" + UnitsFile)
	m.remove("etc/meshgen/generations/3/desired.json")
	m.wantFault("generation 1: in its place: generation 3 is broken", of("1", "a.service")...)

	// Where it is not known what is in force, it is the newest that is whole and
	// not begun.
	m.remove("etc/meshgen/current")
	m.write("etc/meshgen/current", "3\n")
	m.pending(4)
	given, err := m.replay()
	if err == nil || !strings.Contains(err.Error(), "generation 2: in its place: "+m.layout.Current()+" is broken") {
		t.Errorf("error %v", err)
	}
	if !strings.Contains(strings.Join(given, "\n"), "normal/failed.service -> 2/") {
		t.Errorf("given %q", given)
	}
}

// With no other set that is whole, what there is left is given.
func TestReplayGivesWhatIsLeft(t *testing.T) {
	m := newMachine(t)
	m.generation(1, []string{"a.service", "b.service"})
	m.current(1)
	m.spoil("etc/meshgen/generations/1/"+UnitsFile, func(s string) string { return s[:len(s)-5] })
	m.remove("etc/meshgen/generations/1/" + NormalDir)
	m.wantFault("b.service: its length is wrong", of("1", "a.service")...)
}

// A file of units of a meshgen that wrote no first line is taken as it is.
func TestReplayReadsUnitsWithoutTheirFirstLine(t *testing.T) {
	m := newMachine(t)
	m.generation(1, []string{"a.service"})
	m.current(1)
	m.spoil("etc/meshgen/generations/1/"+UnitsFile, func(s string) string { return s[strings.Index(s, "\n")+1:] })
	m.wantGiven(of("1", "a.service")...)
}

// retired adds to a generation names that were in force before, each with the
// definitions that it had.
func (m machine) retired(n string, retired ...Retired) {
	m.write(filepath.Join("etc/meshgen/generations", n, RetiredFile), FormatRetired(retired))
}

// A definition of ours that a backup brings back is masked, and no other's is.
func TestReplayMasksWhatIsRetiredAndBack(t *testing.T) {
	const unit, quadlet = "[Service]\nExecStart=/bin/gone\n", "[Container]\nImage=localhost/gone\n"
	masked := append([]string{"early/gone.service -> /dev/null"}, of("1", "a.service")...)
	for name, c := range map[string]struct {
		back func(machine)
		want []string
	}{
		"a unit file": {func(m machine) { m.write("etc/systemd/system/gone.service", unit) }, masked},
		"a Quadlet":   {func(m machine) { m.write("etc/containers/systemd/web/gone.container", quadlet) }, masked},
		"both": {func(m machine) {
			m.write("etc/systemd/system/gone.service", unit)
			m.write("etc/containers/systemd/gone.container", quadlet)
		}, masked},
		"nothing":           {func(machine) {}, of("1", "a.service")},
		"another unit file": {func(m machine) { m.write("etc/systemd/system/gone.service", unit+"# mine\n") }, of("1", "a.service")},
		"another Quadlet":   {func(m machine) { m.write("etc/containers/systemd/gone.container", quadlet+"# mine\n") }, of("1", "a.service")},
		"ours before another's": {func(m machine) {
			m.write("etc/systemd/system/gone.service", unit)
			m.write("usr/lib/systemd/system/gone.service", "[Service]\n")
		}, of("1", "a.service")},
		"what a switch puts back": {func(m machine) {
			m.write("run/meshgen/rescue/gone.service", unit)
			m.link("/run/meshgen/rescue/gone.service", "run/systemd/system/gone.service")
		}, of("1", "a.service")},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.generation(1, []string{"a.service"})
			m.retired("1", Retired{"gone.service", []string{state.TextDigest(unit), state.TextDigest(quadlet)}}, Retired{"a.service", []string{state.TextDigest(unit)}})
			m.current(1)
			c.back(m)
			given, err := m.replay()
			if len(c.want) == 3 && (err == nil || !strings.Contains(err.Error(), "gone.service: masked: ")) || len(c.want) == 2 && err != nil {
				t.Errorf("error %v", err)
			}
			if strings.Join(given, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("given %q, want %q", given, c.want)
			}
		})
	}
}

// A name that the set to come has again is not masked while a switch hands it over.
func TestReplayMasksNothingOfTheBridge(t *testing.T) {
	m := newMachine(t)
	const text = "[Service]\n"
	m.generation(1, []string{"a.service"})
	m.generation(2, []string{"b.service"})
	m.retired("1", Retired{"b.service", []string{state.TextDigest(text)}})
	m.write("etc/systemd/system/b.service", text)
	m.current(1)
	m.bridge("1", "2")
	m.wantGiven(
		"normal/a.service -> 1/out/normal/a.service",
		"normal/b.service -> 2/out/normal/b.service",
		"normal/multi-user.target.wants/a.service -> ../a.service",
	)
}

// The first switch is pulled in by a manifest alone.
func TestReplayOfAFirstBoot(t *testing.T) {
	const pulled = "normal/multi-user.target.wants/meshgen-switch.service -> ../meshgen-switch.service"
	for name, c := range map[string]struct {
		make func(machine)
		want []string
	}{
		"a manifest":                 {func(m machine) { m.write("etc/meshgen/manifest/mesh.cue", "") }, []string{pulled}},
		"a link to one":              {func(m machine) { m.link("/srv/mesh.cue", "etc/meshgen/manifest/mesh.cue") }, []string{pulled}},
		"a linked directory":         {func(m machine) { m.write("srv/mesh/mesh.cue", ""); m.link("../../srv/mesh", "etc/meshgen/manifest") }, []string{pulled}},
		"what an undone switch left": {func(m machine) { m.write("etc/meshgen/manifest/mesh.cue", ""); m.generation(1, []string{"a.service"}) }, []string{pulled}},
		"no CUE":                     {func(m machine) { m.write("etc/meshgen/manifest/README", "") }, nil},
		"nothing":                    {func(machine) {}, nil},
		"a node that was ejected": {func(m machine) {
			m.write("etc/meshgen/manifest/mesh.cue", "")
			m.generation(1, []string{"a.service"})
			m.link("generations/1", "etc/meshgen/ejected")
		}, nil},
		"a set in force": {func(m machine) {
			m.write("etc/meshgen/manifest/mesh.cue", "")
			m.generation(1, []string{"a.service"})
			m.current(1)
		}, of("1", "a.service")},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			c.make(m)
			m.wantGiven(c.want...)
		})
	}
	m := newMachine(t)
	m.write("etc/meshgen/manifest/mesh.cue", "")
	m.generation(1, []string{"a.service"})
	m.pending(1)
	given, err := m.replay()
	if err != nil || strings.Contains(strings.Join(given, "\n"), SwitchUnit) {
		t.Errorf("beside a recovery: %q, %v", given, err)
	}
}
