// Package generator holds what a generation gives systemd. [Convert] has the
// machine's own Quadlet converter make it, when a switch stages a generation;
// [Replay] hands it to systemd, at boot and at every daemon-reload.
//
// Replay is the boot path: it knows no CUE, no policy, no bus and no network,
// waits for no lock and writes nothing but units and drop-ins below the
// directories that systemd gives it. It follows systemd.generator(7).
package generator

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"meshgen/state"
)

// The parts of a generation's out directory.
const (
	NormalDir = "out/normal"
	// FencesFile has a line for each unit with predecessors: its name, then
	// theirs.
	FencesFile = "out/fences"
	// RetiredFile has a line for each unit name that is no longer in force: the name,
	// then the sha256 of each definition that it had.
	RetiredFile = "out/retired"
	// BeforeFile has the number of the generation that was in force before.
	BeforeFile = "out/before"
	// ConvertedFile is there where a converter made units of the Quadlets, and has
	// its [Converter.Maker]. What needs no converter is given either way.
	ConvertedFile = "out/converted"
)

// Dirs are the three directories that systemd gives a generator.
type Dirs struct {
	Normal, Early, Late string
}

// Warning is what went wrong and was made up for: systemd has all that it is to have.
type Warning struct{ Err error }

func (w Warning) Error() string { return w.Err.Error() }

func (w Warning) Unwrap() error { return w.Err }

// Replay gives systemd the units of the generation in force, by copies in d.
// While a switch has its bridge up, that is the old generation whole and of the
// new one the names that the old lacks, without their enablement. Where a switch
// was cut short, [RecoverUnit] is pulled in before the units and [ConfirmUnit]
// after them; where there never was one and there is a manifest, [SwitchUnit].
//
// Where the generation in force is broken, it is the one before that is given. A
// name that was retired is masked where a definition of ours for it is back.
//
// It does what it can, and waits for nothing but a converter, for some seconds: the
// error is all that could not be done, and each [Warning].
func Replay(l state.Layout, d Dirs) error {
	r := replay{layout: l, dirs: d, given: map[string]bool{}}
	ends, bridged, err := bridge(l)
	r.fault(err)
	if bridged {
		r.others = othersServices(l.Root)
		n := r.whole(ends[0])
		r.names(ends[1])
		r.fences(ends[1])
		r.masks(n)
		return r.errors()
	}
	n, ok, err := state.Current(l)
	r.fault(err)
	switch {
	case ok || err != nil:
		r.others = othersServices(l.Root)
		n = r.whole(n)
		r.fences(n)
		r.masks(n)
	default:
		r.first()
	}
	r.recovery()
	return r.errors()
}

// bridge returns the generations at both ends of the bridge, where one is up.
func bridge(l state.Layout) (ends [2]int, up bool, err error) {
	for i, name := range []string{"old", "new"} {
		path := filepath.Join(l.Bridge(), name)
		to, err := os.Readlink(path)
		if errors.Is(err, os.ErrNotExist) {
			return ends, false, nil
		}
		if err != nil {
			return ends, false, err
		}
		if ends[i], err = strconv.Atoi(filepath.Base(to)); err != nil {
			return ends, false, fmt.Errorf("%s: leads to %s, which is no generation", path, to)
		}
	}
	return ends, true, nil
}

// replay is one run of the generator.
type replay struct {
	layout state.Layout
	dirs   Dirs
	others map[string][]string // services that Quadlets on the machine make, with their paths, the strongest first
	given  map[string]bool     // services that this run has handed to systemd
	wanted []string            // what pulls some of them in
	faults []error
}

func (r *replay) fault(err error) {
	if err != nil {
		r.faults = append(r.faults, err)
	}
}

func (r *replay) warn(err error) {
	if err != nil {
		r.faults = append(r.faults, Warning{err})
	}
}

func (r *replay) errors() error { return errors.Join(r.faults...) }

// hand hands over the units that systemd was not given yet, and returns those that
// it was.
func (r *replay) hand(units []Given) []Given {
	var now []Given
	for _, u := range units {
		if r.given[u.Name] {
			continue
		}
		// podman's generator writes over what stands where it wants to
		// write: what it will make itself is left to it.
		if paths := r.others[u.Name]; len(paths) > 0 {
			r.fault(fmt.Errorf("%s: left to %s, which is not of meshgen", u.Name, paths[0]))
			continue
		}
		if err := give(r.dirs.Normal+"/"+u.Name, u.Text); err != nil {
			r.fault(err)
			continue
		}
		r.given[u.Name] = true
		now = append(now, u)
	}
	return now
}

// give hands a unit file to systemd: as a copy, since a link would let systemctl
// enable make links of its own to a generation, which outlive it. It calls the
// kernel itself: a file of package os is made for waiting, and takes twice the
// time. Nothing is left of a file that could not be written whole: an empty one would
// be a mask.
func give(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return &os.PathError{Op: "create", Path: path, Err: err}
	}
	n, err := unix.Write(fd, []byte(text))
	if err == nil && n < len(text) {
		err = io.ErrShortWrite
	}
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return errors.Join(&os.PathError{Op: "write", Path: path, Err: err}, unix.Unlink(path))
	}
	return nil
}

// enablement has targets pull units in, as the links in their .wants, .requires
// and .upholds directories would: one drop-in each says the same at once.
func (r *replay) enablement(units []Given) {
	pulled := map[string][]string{}
	for _, u := range units {
		for _, link := range u.Links {
			dir, _, _ := strings.Cut(link, "/")
			pulled[dir] = append(pulled[dir], u.Name)
		}
	}
	for dir, names := range pulled {
		i := strings.LastIndexByte(dir, '.')
		key := map[string]string{".wants": "Wants", ".requires": "Requires", ".upholds": "Upholds"}[dir[max(i, 0):]]
		if key == "" {
			r.fault(fmt.Errorf("%s: no enablement that is known", dir))
			continue
		}
		r.wanted = append(r.wanted, dir[:i])
		r.dropIn(dir[:i], dir[i+1:], "# What meshgen has enabled.\n[Unit]\n"+key+"="+strings.Join(names, " ")+"\n")
	}
}

func (r *replay) dropIn(unit, name, text string) {
	into := r.dirs.Normal + "/" + unit + ".d"
	//nolint:gosec // systemctl reads it as anyone
	if err := os.MkdirAll(into, 0o755); err != nil {
		r.fault(err)
		return
	}
	r.fault(give(into+"/50-meshgen-"+name+".conf", text))
}

// The units that finish or undo, at a boot, a switch that was cut short: what has
// to be done before the units in force start, and what after.
const (
	RecoverUnit = "meshgen-recover.service"
	ConfirmUnit = "meshgen-confirm.service"
)

// recovery pulls in [RecoverUnit] and [ConfirmUnit] with the targets that pull in
// units of ours, where a switch is unfinished. To the generator one that runs
// looks like one that was cut short. There it does no harm: a reload starts
// nothing of what a target wants that is reached already, and the units' program
// leaves a switch alone that holds the lock.
func (r *replay) recovery() {
	n, pending, err := state.Pending(r.layout)
	if err != nil || !pending {
		r.fault(err)
		return
	}
	if _, err := os.Stat(r.layout.Generation(n)); err != nil {
		r.fault(fmt.Errorf("%s: leads to no generation: %w", r.layout.Pending(), err))
		return
	}
	targets := map[string]bool{"multi-user.target": true}
	for _, unit := range r.wanted {
		if strings.HasSuffix(unit, ".target") {
			targets[unit] = true
		}
	}
	for target := range targets {
		r.dropIn(target, "recover", "# A switch was cut short.\n[Unit]\nWants="+RecoverUnit+" "+ConfirmUnit+"\n")
	}
	if len(r.given) > 0 {
		names := slices.Sorted(maps.Keys(r.given))
		r.dropIn(ConfirmUnit, "after", "# What is to be up by then.\n[Unit]\nAfter="+strings.Join(names, " ")+"\n")
		names = slices.DeleteFunc(names, mounts)
		r.dropIn(RecoverUnit, "before", "# What must not start before.\n[Unit]\nBefore="+strings.Join(names, " ")+"\n")
	}
}

// mounts reports whether a unit is one that local-fs.target waits for, and the
// recovery waits for that: to order it after would be a circle.
func mounts(unit string) bool {
	return strings.HasSuffix(unit, ".mount") || strings.HasSuffix(unit, ".automount")
}

// fences has systemd stop the predecessors of a unit before the unit starts,
// and the unit before a predecessor starts. A predecessor whose name is
// now somebody else's is left alone.
func (r *replay) fences(n int) {
	fences, err := ReadFences(filepath.Join(r.layout.Generation(n), FencesFile))
	r.fault(err)
	for _, f := range fences {
		if !r.given[f.Unit] {
			continue
		}
		r.fence(f)
	}
}

func (r *replay) fence(f Fence) {
	var ours []string
	for _, name := range f.Predecessors {
		if r.given[name] || (len(r.others[name]) == 0 && definition(r.layout.Root, name) == "") {
			ours = append(ours, name)
		}
	}
	if len(ours) > 0 {
		r.dropIn(f.Unit, "fence", fenceText(ours))
	}
}

// Fence says which units must not run beside Unit: those that held its place
// before it.
type Fence struct {
	Unit         string
	Predecessors []string
}

// FormatFences returns the text that [ReadFences] reads.
func FormatFences(fences []Fence) string {
	var b strings.Builder
	for _, f := range fences {
		b.WriteString(f.Unit + " " + strings.Join(f.Predecessors, " ") + "\n")
	}
	return b.String()
}

// ReadFences reads the fences of a generation; a file that is not there has
// none.
func ReadFences(path string) ([]Fence, error) {
	data, err := readFile(path, mostOfUnits)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var fences []Fence
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		if len(words) > 1 {
			fences = append(fences, Fence{Unit: words[0], Predecessors: words[1:]})
		}
	}
	return fences, nil
}

const fenceName = "50-meshgen-fence.conf"

// WriteFence writes a drop-in for unit below dir. Conflicts= has either one's
// start stop the other, After= has the stop come first: systemd.unit(5).
func WriteFence(dir, unit string, predecessors []string) error {
	into := dir + "/" + unit + ".d"
	if err := os.MkdirAll(into, 0o755); err != nil { //nolint:gosec // systemctl reads it as anyone
		return err
	}
	const flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	f, err := os.OpenFile(into+"/"+fenceName, flags, 0o644) //nolint:gosec // systemctl reads it as anyone
	if err != nil {
		return err
	}
	_, err = f.WriteString(fenceText(predecessors))
	return errors.Join(err, f.Close())
}

func fenceText(predecessors []string) string {
	names := strings.Join(predecessors, " ")
	return "# The names that this unit had before.\n[Unit]\nConflicts=" + names + "\nAfter=" + names + "\n"
}

// RemoveFence removes what [WriteFence] wrote in a unit's drop-in directory, and
// the directory where nothing else is in it.
func RemoveFence(dir string) error {
	// The fence may be gone and its directory not: a switch was killed between.
	if err := os.Remove(filepath.Join(dir, fenceName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
