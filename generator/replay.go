// Package generator holds what a generation gives systemd. [Convert] has the
// machine's own Quadlet converter make it, when a switch stages a generation;
// [Replay] hands it to systemd, at boot and at every daemon-reload.
//
// Replay is the boot path: it knows no CUE, no policy, no bus and no network,
// waits for no lock and writes nothing but units and drop-ins below the
// directories that systemd gives it. It follows systemd.generator(7).
package generator

import (
	"bufio"
	"context"
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
	"time"

	"golang.org/x/sys/unix"

	"meshgen/state"
	"meshgen/units"
)

// The parts of a generation's out directory.
const (
	NormalDir = "out/normal"
	// FencesFile has a line for each unit with predecessors: its name, then
	// theirs.
	FencesFile = "out/fences"
	// ConvertedFile is there where a converter made units of the Quadlets. What
	// needs no converter is given either way.
	ConvertedFile = "out/converted"
)

// convertDeadline bounds a conversion at boot: systemd gives all generators
// together 90 seconds.
const convertDeadline = 20 * time.Second

// Dirs are the three directories that systemd gives a generator.
type Dirs struct {
	Normal, Early, Late string
}

// Replay gives systemd the units of the generation in force, by copies in d.
// While a switch has its bridge up, that is the old generation whole and of the
// new one the names that the old lacks, without their enablement. Where a switch
// was cut short, [RecoverUnit] is pulled in before the units and [ConfirmUnit]
// after them.
//
// It does what it can: the error tells all that could not be done.
func Replay(l state.Layout, d Dirs) error {
	old, bridged, err := bridge(l)
	if bridged {
		return errors.Join(err, replayBridge(l, d, old))
	}
	n, ok, currentErr := state.Current(l)
	r := replay{layout: l, dirs: d, given: map[string]bool{}}
	if ok {
		r.others = Quadlets(l.Root)
		r.whole(n)
		r.fences(n)
	}
	r.recovery()
	return errors.Join(err, currentErr, r.errors())
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

func replayBridge(l state.Layout, d Dirs, ends [2]int) error {
	r := replay{layout: l, dirs: d, others: Quadlets(l.Root), given: map[string]bool{}}
	r.whole(ends[0])
	r.names(ends[1])
	r.fences(ends[1])
	return r.errors()
}

// replay is one run of the generator.
type replay struct {
	layout state.Layout
	dirs   Dirs
	others map[string]string // services that other definitions on the machine make
	given  map[string]bool   // services that this run has handed to systemd
	wanted []string          // what pulls some of them in
	faults []error
}

func (r *replay) fault(err error) {
	if err != nil {
		r.faults = append(r.faults, err)
	}
}

func (r *replay) errors() error { return errors.Join(r.faults...) }

// whole hands over a generation with its enablement.
func (r *replay) whole(n int) {
	now := r.names(n)
	dir := r.layout.Generation(n)
	if _, err := os.Lstat(filepath.Join(dir, ConvertedFile)); errors.Is(err, os.ErrNotExist) {
		now = append(now, r.hand(r.convert(dir))...)
	}
	r.enablement(now)
}

// convert runs the machine's converter, for a generation that was made where
// there was none.
func (r *replay) convert(dir string) []Given {
	paths, _ := filepath.Glob(filepath.Join(dir, "quadlet", "*")) // the pattern is sound
	if len(paths) == 0 {
		return nil
	}
	c, ok := FindConverter(r.layout.Root)
	if !ok {
		r.fault(fmt.Errorf("%s: not converted, and there is no quadlet on this machine", dir))
		return nil
	}
	quadlets := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path) //nolint:gosec // of a generation
		r.fault(err)
		quadlets[filepath.Base(path)] = units.Guarded(string(text), GuardProgram)
	}
	ctx, cancel := context.WithTimeout(context.Background(), convertDeadline)
	defer cancel()
	out, refused, err := c.Convert(ctx, quadlets, strings.TrimPrefix(filepath.Join(dir, "quadlet"), strings.TrimSuffix(r.layout.Root, "/")))
	r.fault(err)
	for _, refusal := range refused {
		r.fault(fmt.Errorf("%s: %s", filepath.Join(dir, "quadlet", refusal.File), refusal.Message))
	}
	var made []Given
	for _, name := range slices.Sorted(maps.Keys(out.Units)) {
		u := Given{Name: name, Text: out.Units[name]}
		for link := range out.Links {
			if filepath.Base(link) == name {
				u.Links = append(u.Links, link)
			}
		}
		made = append(made, u)
	}
	return made
}

// names hands over the units of a generation that systemd was not given yet, and
// returns those that it was.
func (r *replay) names(n int) []Given {
	units, err := ReadUnits(filepath.Join(r.layout.Generation(n), UnitsFile))
	r.fault(err)
	return r.hand(units)
}

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
		if path, ok := r.others[u.Name]; ok {
			r.fault(fmt.Errorf("%s: left to %s, which is not of meshgen", u.Name, path))
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
// time.
func give(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return &os.PathError{Op: "create", Path: path, Err: err}
	}
	n, err := unix.Write(fd, []byte(text))
	if err == nil && n < len(text) {
		err = io.ErrShortWrite
	}
	return errors.Join(err, unix.Close(fd))
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
		r.fault(r.fence(f))
	}
}

func (r *replay) fence(f Fence) error {
	var ours []string
	for _, name := range f.Predecessors {
		if r.given[name] || (r.others[name] == "" && definition(r.layout.Root, name) == "") {
			ours = append(ours, name)
		}
	}
	if len(ours) == 0 {
		return nil
	}
	return WriteFence(r.dirs.Normal, f.Unit, ours)
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
	f, err := os.Open(path) //nolint:gosec // a path of the layout's
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read-only
	var fences []Fence
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) > 1 {
			fences = append(fences, Fence{Unit: words[0], Predecessors: words[1:]})
		}
	}
	return fences, lines.Err()
}

const fenceName = "50-meshgen-fence.conf"

// WriteFence writes a drop-in for unit below dir. Conflicts= has either one's
// start stop the other, After= has the stop come first: systemd.unit(5).
func WriteFence(dir, unit string, predecessors []string) error {
	into := dir + "/" + unit + ".d"
	if err := os.MkdirAll(into, 0o755); err != nil { //nolint:gosec // systemctl reads it as anyone
		return err
	}
	names := strings.Join(predecessors, " ")
	text := "# The names that this unit had before.\n[Unit]\nConflicts=" + names + "\nAfter=" + names + "\n"
	f, err := os.OpenFile(into+"/"+fenceName, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644) //nolint:gosec // systemctl reads it as anyone
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
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
