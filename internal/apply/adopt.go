package apply

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"meshgen/generator"
	"meshgen/state"
	"meshgen/units"
)

// Adoption is a found thing whose place a switch takes, after it has put it where
// it can be given back from.
type Adoption struct {
	Target   units.Target
	Resource units.Address
	Was      state.Adoption
	// Kept is the directory of the copies, on the host; "" where there are none.
	Kept string
	// Same says that it is what is declared: it runs on, or lies on, as it is.
	Same bool
}

// What a found thing is: [state.Adoption].
const (
	wasContainer = "container"
	wasPod       = "pod"
	wasVolume    = "volume"
	wasNetwork   = "network"
	wasSecret    = "secret"
	wasFile      = "file"
	wasDir       = "directory"
	wasUnit      = "unit"
	wasQuadlet   = "quadlet"
	wasMask      = "mask"
	wasDropIn    = "dropin"
)

// adoption looks closer at what is to be adopted.
type adoption struct {
	node     *Node
	compiled Compiled
	seen     sight
	number   int // of the generation that adopts
	resource map[units.Address]units.Resource
	takes    map[units.Target]bool // the containers and pods that go together

	byUnit map[string][]state.Transition // what goes, by the unit that runs it
	byID   map[string]state.Transition   // the containers that go
	pods   map[string]*state.AdoptedPod  // that units make, by their ids: they go

	adopted []Adoption
	faults  units.Faults
}

// adopt returns what the transitions were decided to adopt, with all that it takes
// to give it back, and the faults of what cannot be given back or cannot be as it
// is declared.
func (n *Node) adopt(ctx context.Context, p Prepared, number int) ([]Adoption, units.Faults, error) {
	a := adoption{node: n, compiled: p.compiled, seen: p.before.seen, number: number, resource: byAddress(p.compiled.Generation)}
	a.byUnit, a.byID, a.pods = map[string][]state.Transition{}, map[string]state.Transition{}, map[string]*state.AdoptedPod{}
	var objects []state.Transition
	for _, t := range p.Transitions {
		if t.Kind != state.Takeover || t.Decision != state.Adopt {
			continue
		}
		if a.keptAlready(t) {
			continue
		}
		by := a.seen.observed.Taken[t.To]
		if by.Unfit != "" {
			a.fault(t, by.Unfit, by.Instead+", "+holdIt)
			continue
		}
		if t.To.Kind() == units.TargetDir {
			if err := a.dir(t, by); err != nil {
				return nil, nil, err
			}
			continue
		}
		switch by.What {
		case wasUnit, wasQuadlet, wasMask, wasDropIn:
			if err := a.unit(t, by); err != nil {
				return nil, nil, err
			}
		case wasFile, "symlink":
			if err := a.file(t, by); err != nil {
				return nil, nil, err
			}
		case wasContainer, wasPod, wasVolume, wasNetwork, wasSecret:
			objects = append(objects, t) // their units come first
		}
	}
	a.takes = map[units.Target]bool{}
	for _, t := range objects {
		a.takes[t.To] = t.To.Kind() == units.TargetContainer || t.To.Kind() == units.TargetPod
	}
	for _, t := range objects {
		if err := a.object(ctx, t, a.seen.observed.Taken[t.To]); err != nil {
			return nil, nil, err
		}
	}
	a.quadletsNeed()
	if err := a.podsWhole(ctx); err != nil {
		return nil, nil, err
	}
	err := a.together(ctx)
	return a.adopted, a.faults, err
}

func (a *adoption) fault(t state.Transition, message, hint string) {
	a.faults = append(a.faults, units.Fault{
		Position: t.Position, Message: fmt.Sprintf("%s: %s cannot be adopted: %s", t.Resource, t.To, message), Hint: hint,
	})
}

// holdIt is what can always be done instead.
const holdIt = `or leave it alone with policy: takeover: "hold"`

func (a *adoption) add(t state.Transition, was state.Adoption, same bool) {
	was.Generation = a.number
	if was.What == wasContainer || was.What == wasPod || was.What == wasSecret || slices.ContainsFunc(was.Files, func(f state.AdoptedFile) bool { return f.Copy != "" }) {
		was.Dir = filepath.Join(adoptedDir, strconv.Itoa(a.number))
	}
	x := Adoption{Target: t.To, Resource: t.Resource, Was: was, Same: same}
	if was.Dir != "" {
		x.Kept = filepath.Join(a.node.Layout.State, was.Dir)
	}
	a.adopted = append(a.adopted, x)
}

// adoptedDir has the copies, below the state directory.
const adoptedDir = "adopted"

func (a *adoption) file(t state.Transition, by state.Occupant) error {
	f, err := a.keep(t.To.Name())
	if err != nil {
		return err
	}
	a.add(t, state.Adoption{What: wasFile, ID: f.Digest, Files: []state.AdoptedFile{f}}, by.Same)
	return nil
}

// stuck refuses a file that has other names, or cannot be taken from its place.
func (a *adoption) stuck(t state.Transition, path string) bool {
	why, instead := immovable(a.node.Layout, path)
	if why != "" {
		a.fault(t, why, instead+", "+holdIt)
	}
	return why != ""
}

// keep says how a file or link is kept.
func (a *adoption) keep(path string) (state.AdoptedFile, error) {
	f := state.AdoptedFile{Path: path}
	at := a.node.Layout.Path(path)
	info, err := os.Lstat(at)
	if err != nil {
		return f, err
	}
	if info.Mode()&os.ModeSymlink != 0 {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			f.Owner, f.Time = [2]int{int(st.Uid), int(st.Gid)}, info.ModTime()
		}
		f.Link, err = os.Readlink(at)
		return f, err
	}
	s, _, err := fileState(at)
	f.Digest, f.Copy = s.Digest, copyName(path)
	return f, err
}

// copyName returns the name of a path's copy, which systemd and podman would take
// for no unit, and which fits: a file name has 255 bytes at most.
func copyName(path string) string {
	name := strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "!")
	if len(name) > 200 {
		name = name[:100] + "…" + state.TextDigest(name)
	}
	return name + ".kept"
}

func (a *adoption) unit(t state.Transition, by state.Occupant) error {
	name := t.To.Name()
	d, err := a.definition(t, name)
	if err != nil || d.barred {
		return err
	}
	up := a.seen.units[name].Up()
	if by.What == wasMask && up {
		a.fault(t, name+" is masked and still up, and systemd would not start it again", "stop it or unmask it by hand, "+holdIt)
		return nil
	}
	same := by.What == wasUnit && len(d.files) == 1+d.links && up && a.isAsDeclared(t.Resource, d.files[0].Path)
	a.byUnit[name] = append(a.byUnit[name], t)
	a.add(t, state.Adoption{What: by.What, Unit: name, Running: up, Files: d.files}, same)
	return nil
}

// isAsDeclared reports whether a unit file says what the unit of a resource is to
// say, but for our mark.
func (a *adoption) isAsDeclared(r units.Address, path string) bool {
	text, err := os.ReadFile(a.node.Layout.Path(path))
	return err == nil && slices.ContainsFunc(a.compiled.Generation.Units, func(u state.Unit) bool {
		return u.Resource == r && u.Digest == units.RunDigest(string(text))
	})
}

// defined is all that defines a unit on a machine, or changes or enables it, and
// that is its owner's.
type defined struct {
	files  []state.AdoptedFile
	links  int // how many of the files are links that enable it
	barred bool
}

// definition collects what has to be taken out of the way for a unit, or says what
// cannot be.
func (a *adoption) definition(t state.Transition, unit string) (d defined, err error) {
	root := a.node.Layout.Root
	var paths []string
	for _, path := range generator.Definers(root, unit) {
		path = relative(a.node.Layout, path)
		if why, instead := unfitDefinition(a.node.Layout, unit, path); why != "" {
			d.barred = true
			a.fault(t, why, instead+", "+holdIt)
		}
		paths = append(paths, path)
		if isQuadlet(path) {
			paths = append(paths, within(a.node.Layout, path+".d")...)
		}
	}
	if paths = append(paths, dropIns(a.node.Layout, unit)...); len(paths) == 0 {
		return d, nil
	}
	links := a.enablement(unit)
	for _, path := range append(paths, links...) {
		if at, is := obstacle(a.node.Layout, filepath.Dir(path)); at != "" {
			d.barred = true
			a.fault(t, path+": "+at+" is a "+is, "the way to a file has to be of directories: no link is followed")
			continue
		}
		if a.stuck(t, path) {
			d.barred = true
			continue
		}
		f, err := a.keep(path)
		if err != nil {
			return d, err
		}
		d.files = append(d.files, f)
	}
	d.links = len(links)
	return d, nil
}

// ownerDirs are where an owner defines units, changes and enables them: systemd.unit(5).
//
//nolint:gochecknoglobals // a constant list
var ownerDirs = []string{"/etc/systemd/system.control", "/run/systemd/system.control", "/etc/systemd/system", "/run/systemd/system"}

// within returns the files and links in a directory of drop-ins.
func within(l state.Layout, dir string) []string {
	entries, _ := os.ReadDir(l.Path(dir)) // systemd reads none that cannot be read
	var paths []string
	for _, e := range entries {
		if (e.Type().IsRegular() || e.Type()&os.ModeSymlink != 0) && !strings.HasPrefix(e.Name(), "50-meshgen-") {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// dropIns returns what its owner changes a unit by.
func dropIns(l state.Layout, unit string) []string {
	var paths []string
	for _, dir := range ownerDirs {
		paths = append(paths, within(l, filepath.Join(dir, unit+".d"))...)
	}
	return paths
}

// enablement returns the links by which a unit is enabled, and its aliases with
// theirs.
func (a *adoption) enablement(unit string) []string {
	names := []string{unit}
	var links []string
	for _, dir := range ownerDirs {
		entries, _ := os.ReadDir(a.node.Layout.Path(dir))
		for _, e := range entries {
			to, err := os.Readlink(a.node.Layout.Path(filepath.Join(dir, e.Name())))
			if err == nil && e.Name() != unit && filepath.Base(to) == unit && isUnitName(e.Name()) {
				names = append(names, e.Name())
				links = append(links, filepath.Join(dir, e.Name()))
			}
		}
	}
	for _, dir := range ownerDirs {
		for _, kind := range []string{"wants", "requires", "upholds"} {
			for _, name := range names {
				found, _ := filepath.Glob(a.node.Layout.Path(dir) + "/*." + kind + "/" + name) // the pattern is sound
				for _, path := range found {
					if _, err := os.Readlink(path); err == nil {
						links = append(links, relative(a.node.Layout, path))
					}
				}
			}
		}
	}
	return links
}

// quadletsNeed refuses to take away a Quadlet that another of the owner's refers
// to: podman's generator would drop that one.
func (a *adoption) quadletsNeed() {
	taken := map[string]units.Address{} // by the path of a Quadlet
	for _, x := range a.adopted {
		for _, f := range x.Was.Files {
			if isQuadlet(f.Path) && filepath.Ext(f.Path) != ".conf" {
				taken[f.Path] = x.Resource
			}
		}
	}
	if len(taken) == 0 {
		return
	}
	others := generator.Quadlets(a.node.Layout.Root)
	for _, service := range slices.Sorted(maps.Keys(others)) {
		path := relative(a.node.Layout, others[service])
		text, err := os.ReadFile(others[service])
		if _, goes := taken[path]; goes || err != nil {
			continue
		}
		for _, quadlet := range slices.Sorted(maps.Keys(taken)) {
			if r := taken[quadlet]; refersTo(string(text), filepath.Base(quadlet)) {
				a.faults = append(a.faults, units.Fault{
					Position: a.resource[r].Position,
					Message:  fmt.Sprintf("%s: %s cannot be adopted: %s refers to it", r, quadlet, path),
					Hint:     "adopt both in one switch, " + holdIt,
				})
			}
		}
	}
}

// refersTo reports whether a value of a Quadlet begins with the name of another.
func refersTo(text, name string) bool {
	for line := range strings.Lines(text) {
		_, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		for word := range strings.FieldsSeq(value) {
			word, _, _ = strings.Cut(word, ":")
			if word == name || strings.HasSuffix(word, "="+name) || strings.Contains(word, "="+name+",") {
				return true
			}
		}
	}
	return false
}
