package apply

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"meshgen/generator"
	"meshgen/internal/durable"
	"meshgen/internal/hint"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// Limits says what counts as surplus.
type Limits struct {
	// Generations is how many of the newest are none.
	Generations int
	// Backups is the age from which a backup is; 0 where none is.
	Backups time.Duration
	// Volumes tells that the held volumes are, Adopted that what was put aside is when
	// its place was adopted; with both, held volumes that were adopted are too.
	Volumes, Adopted bool
}

// Surplus is what lies on a node and is not needed to run it.
type Surplus struct {
	Generations []int
	Backups     []Backup
	// Copies are of what was adopted, and nothing would give it back any more.
	Copies []Backup
	// Aside is what was adopted, as far as it was put aside.
	Aside []KeptAside
	// Volumes are held, bear our mark, and nothing has them.
	Volumes []HeldVolume
	// Gone are held volumes that are not there any more.
	Gone []units.Target
	// Kept are held volumes, and what was adopted, by a former ledger too, that have to
	// stay, each with the reason.
	Kept []KeptVolume
	// Log tells that the ledger takes far more room than what it says.
	Log bool

	limits Limits
}

// Backup is a copy of a file as other hands had left it.
type Backup struct {
	Path string    `json:"path"`
	Time time.Time `json:"time"`
}

// HeldVolume is a volume that is no longer declared.
type HeldVolume struct {
	Target   units.Target  `json:"target"`
	Resource units.Address `json:"resource"`
	Size     int64         `json:"size"` // bytes on the disk; -1 where that is not known
	Since    time.Time     `json:"since,omitzero"`
	Why      string        `json:"why,omitempty"` // it is held
	// Named are the generations that stay on the disk and declare the volume: a
	// rollback to one of them would not find its data.
	Named []int `json:"named,omitempty"`
}

// Takes returns its size as it is shown.
func (v HeldVolume) Takes() string {
	if v.Size < 0 {
		return "of unknown size"
	}
	return size(uint64(v.Size))
}

// KeptVolume is a held volume that is not removed.
type KeptVolume struct {
	Target units.Target `json:"target"`
	Reason string       `json:"reason"`
}

// Empty reports whether there is nothing to remove.
func (s Surplus) Empty() bool {
	return len(s.Generations)+len(s.Backups)+len(s.Copies)+len(s.Aside)+len(s.Volumes)+len(s.Gone) == 0 && !s.Log
}

// Surplus finds what can go. The generation in force stays, and the one that a
// rollback leads to. The node has to be locked, with no switch left unfinished.
func (n *Node) Surplus(ctx context.Context, limits Limits) (Surplus, error) {
	s := Surplus{limits: limits}
	if err := n.settled(); err != nil {
		return s, err
	}
	var err error
	if s.Generations, err = state.Surplus(n.Layout, limits.Generations, n.rollbackAim()...); err != nil {
		return s, err
	}
	if s.Backups, err = oldBackups(n.Layout, limits.Backups); err != nil {
		return s, err
	}
	s.Log = n.Ledger.Bulky()
	if limits.Backups > 0 || limits.Adopted {
		age := limits.Backups
		if limits.Adopted {
			age = 0
		}
		if s.Copies, err = n.leftCopies(age); err != nil {
			return s, err
		}
	}
	if (limits.Volumes || limits.Adopted) && n.Podman == nil {
		what := "volumes"
		if !limits.Volumes {
			what = "what was adopted"
		}
		return s, hint.Add(errors.New(what+": podman cannot be asked below --root"), "run it on the machine itself")
	}
	if limits.Adopted {
		if err := n.keptAside(&s); err != nil {
			return s, err
		}
	}
	if limits.Volumes {
		err = n.heldVolumes(ctx, &s)
	}
	return s, err
}

// rollbackAim returns the generation that a rollback without a number leads to.
func (n *Node) rollbackAim() []int {
	if number, err := n.before(); err == nil {
		return []int{number}
	}
	return nil
}

// oldBackups returns the backups of drifted files that are older than that; none
// where it is 0.
func oldBackups(l state.Layout, age time.Duration) ([]Backup, error) {
	if age == 0 {
		return nil, nil
	}
	entries, err := os.ReadDir(l.Backups())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var old []Backup
	for _, e := range entries {
		stamp, _, ok := strings.Cut(e.Name(), "!")
		made, parseErr := time.Parse(backupTime, stamp)
		if ok && parseErr == nil && e.Type().IsRegular() && time.Since(made) > age {
			old = append(old, Backup{Path: filepath.Join(l.Backups(), e.Name()), Time: made})
		}
	}
	return old, err
}

// backupTime is how the time stands before the path in the name of a backup.
const backupTime = "20060102T150405Z"

func (n *Node) heldVolumes(ctx context.Context, s *Surplus) error {
	current, err := n.InForce()
	if err != nil {
		return err
	}
	named, err := n.volumesOf(s.Generations)
	if err != nil {
		return err
	}
	n.forget()
	for _, r := range n.records() {
		if r.State != state.Held || r.Target.Kind() != units.TargetVolume {
			continue
		}
		o, there, err := n.object(ctx, r.Target)
		if err != nil {
			return err
		}
		if !there {
			s.Gone = append(s.Gone, r.Target)
			continue
		}
		why, err := n.needed(ctx, r, o, current)
		if err != nil {
			return err
		}
		if why == "" && r.Adoption != nil && !s.limits.Adopted {
			why = "it was adopted as it is: " + hint.Command("meshgen", "release", string(r.Target)) + " gives it back, and --adopted as well removes it"
		}
		if why != "" {
			s.Kept = append(s.Kept, KeptVolume{r.Target, why})
			continue
		}
		s.Volumes = append(s.Volumes, HeldVolume{Target: r.Target, Resource: r.Resource, Size: sizeBelow(o.Mountpoint), Since: r.Last.Time, Why: r.Why, Named: named[r.Target]})
	}
	return nil
}

// volumesOf returns which generations on the disk declare each volume, but for
// those that are to go.
func (n *Node) volumesOf(going []int) (map[units.Target][]int, error) {
	numbers, err := state.Numbers(n.Layout)
	if err != nil {
		return nil, err
	}
	by := map[units.Target][]int{}
	for _, number := range numbers {
		if slices.Contains(going, number) {
			continue
		}
		g, err := state.ReadGeneration(n.Layout, number)
		if err != nil {
			continue // no rollback leads there either
		}
		for _, r := range g.Resources {
			for _, t := range units.Targets(r) {
				if t.Kind() == units.TargetVolume {
					by[t] = append(by[t], number)
				}
			}
		}
	}
	return by, nil
}

// needed says why a held volume has to stay: who has it, or that it is not ours;
// "" where nothing speaks for it.
func (n *Node) needed(ctx context.Context, r state.Record, o host.Object, current state.Generation) (string, error) {
	if !marked(o, r) {
		return "it does not bear meshgen's mark", nil
	}
	users, err := n.Podman.VolumeUsers(ctx, o.Name)
	if err != nil {
		return "", err
	}
	if len(users) > 0 {
		names := make([]string, len(users))
		for i, u := range users {
			names[i] = u.Name
		}
		return "container " + strings.Join(names, ", ") + " has it", nil
	}
	for _, c := range current.Resources {
		for _, key := range volumeKeys {
			if slices.ContainsFunc(c.Values("Container", key), func(value string) bool { return namesVolume(value, o.Name) }) {
				return fmt.Sprintf("%s at %s names it", c.Address, c.Position), nil
			}
		}
	}
	for service, path := range generator.Quadlets(n.Layout.Root) {
		if quadletNames(path, o.Name) {
			return service + " names it, in " + path, nil
		}
	}
	return "", nil
}

// volumeKeys are the keys of a Quadlet in which a volume can be named.
var volumeKeys = [...]string{"Volume", "VolumeName", "Mount", "PodmanArgs"} //nolint:gochecknoglobals // a constant list

// namesVolume reports whether the value of such a key may name a volume of
// podman's.
func namesVolume(value, volume string) bool {
	words := strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune(` ,:="'`, c) })
	return slices.Contains(words, volume)
}

// quadletNames reports whether a Quadlet that is not of meshgen names a volume.
func quadletNames(path, volume string) bool {
	f, err := os.Open(path) //nolint:gosec // a Quadlet on the machine
	if err != nil {
		return false // it makes no container either
	}
	defer func() { _ = f.Close() }() // read-only
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), "=")
		if slices.Contains(volumeKeys[:], strings.TrimSpace(key)) && namesVolume(value, volume) {
			return true
		}
	}
	return false
}

// sizeBelow returns how many bytes a directory takes on the disk; -1 where that
// cannot be told.
func sizeBelow(dir string) int64 {
	if dir == "" {
		return -1
	}
	var blocks int64
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			blocks += s.Blocks
		}
		return nil
	})
	if err != nil {
		return -1
	}
	return blocks * 512 // stat(2)
}

// Discard removes the surplus. Each volume is looked at again, and what podman
// says is used stays. A name is retired once its absence was seen. All that could
// not be done is in the error; the rest is done.
func (n *Node) Discard(ctx context.Context, s Surplus, progress Progress) error {
	ctx = context.WithoutCancel(ctx)
	errs := []error{n.discardVolumes(ctx, s, progress), n.discardAside(ctx, s, progress), n.removeCopies(s.Copies)}
	if len(s.Generations) > 0 {
		errs = append(errs, state.Prune(n.Layout, s.limits.Generations, n.rollbackAim()...))
	}
	for _, b := range s.Backups {
		errs = append(errs, durable.Remove(b.Path))
	}
	return errors.Join(append(errs, n.compact())...)
}

// compact has the ledger take no more room than what it says needs, where that
// pays.
func (n *Node) compact() error {
	if !n.Ledger.Bulky() {
		return nil
	}
	return n.Ledger.Compact()
}

func (n *Node) discardVolumes(ctx context.Context, s Surplus, progress Progress) error {
	var intents, ends []state.Event
	for _, v := range s.Volumes {
		intents = append(intents, state.Event{Kind: state.EventHold, Target: v.Target, Why: "no longer declared; to be removed at its owner's word"})
	}
	if len(intents) > 0 {
		if err := n.Ledger.Append(intents...); err != nil {
			return err
		}
	}
	var errs []error
	for _, v := range s.Volumes {
		begin := time.Now()
		err := n.removeVolume(ctx, v.Target)
		progress(Event{Step: Step{Op: "remove", Target: v.Target}, Ended: true, Took: time.Since(begin), Err: err})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if r, _ := n.Ledger.Record(v.Target); r.Adoption != nil {
			ends = append(ends, state.Event{Kind: state.EventDiscard, Target: v.Target, Why: "removed at its owner's word"})
		}
		ends = append(ends, state.Event{Kind: state.EventRetire, Target: v.Target, Why: "removed at its owner's word"})
	}
	for _, t := range s.Gone {
		ends = append(ends, state.Event{Kind: state.EventRetire, Target: t, Why: "removed by other hands"})
	}
	if len(ends) > 0 {
		errs = append(errs, n.Ledger.Append(ends...))
	}
	return errors.Join(errs...)
}

// removeVolume removes a volume that is as it was judged, and sees it gone.
func (n *Node) removeVolume(ctx context.Context, t units.Target) error {
	current, err := n.InForce()
	if err != nil {
		return err
	}
	n.forget()
	r, _ := n.Ledger.Record(t)
	o, there, err := n.object(ctx, t)
	if err != nil || !there {
		return err
	}
	why, err := n.needed(ctx, r, o, current)
	if err == nil && why != "" {
		err = fmt.Errorf("%s: not removed: %s", t, why)
	}
	if err != nil {
		return err
	}
	if err := n.Podman.RemoveVolume(ctx, o.Name); err != nil {
		return fmt.Errorf("%s: remove: %w", t, err)
	}
	n.forget()
	if _, there, err = n.object(ctx, t); err == nil && there {
		err = fmt.Errorf("%s: removed, and still there", t)
	}
	return err
}
