package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"meshgen/internal/durable"
	"meshgen/internal/hint"
	"meshgen/state"
	"meshgen/units"
)

// KeptAside is what was adopted and could be given back.
type KeptAside struct {
	Target units.Target `json:"target"`
	// Aside is the name of its container, "" where it has none.
	Aside      string   `json:"aside,omitempty"`
	Copies     []string `json:"copies,omitempty"` // paths
	Generation int      `json:"generation"`       // that adopted it

	id string // podman's
}

// copies returns the paths of the copies of what was adopted.
func (n *Node) copies(r state.Record) []string {
	var paths []string
	dir := filepath.Join(n.Layout.State, r.Adoption.Dir)
	for _, f := range r.Adoption.Files {
		if f.Copy != "" {
			paths = append(paths, filepath.Join(dir, f.Copy))
		}
	}
	if pod := r.Adoption.Pod; pod != nil && pod.Unit != "" {
		paths = append(paths, filepath.Join(dir, podInspection(*pod)))
	}
	if r.Adoption.What == wasContainer {
		paths = append(paths, filepath.Join(dir, inspection(r.Target)))
	}
	if r.Adoption.What == wasSecret {
		content, said := secretCopies(r.Target)
		paths = append(paths, filepath.Join(dir, content), filepath.Join(dir, said))
	}
	return paths
}

// leftCopies returns the copies that no adoption in the ledger has, of what was given
// back or whose place was adopted from another since, and that are older than that.
func (n *Node) leftCopies(age time.Duration) ([]Backup, error) {
	has := map[string]bool{}
	for _, r := range n.adopted() {
		for _, path := range n.copies(r) {
			has[path] = true
		}
	}
	known := n.adopters()
	var left []Backup
	err := filepath.WalkDir(n.Layout.Adopted(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || has[path] || !e.Type().IsRegular() || !known[filepath.Base(filepath.Dir(path))] {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		made := info.ModTime()
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			made = time.Unix(st.Ctim.Unix()) // the other time is that of what was copied
		}
		if time.Since(made) >= age {
			left = append(left, Backup{Path: path, Time: made})
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return left, err
}

// adopters returns the names of the directories that copies of this ledger's adoptions
// may be in. One that was made anew cannot say what a former one gave back.
func (n *Node) adopters() map[string]bool {
	known := map[string]bool{}
	for _, s := range n.Switches() {
		known[strconv.Itoa(s.Generation)] = true
	}
	return known
}

// formerCopies returns the directories of copies that this ledger knows nothing of.
func (n *Node) formerCopies() []string {
	known := n.adopters()
	var dirs []string
	found, _ := filepath.Glob(n.Layout.Adopted() + "/*/*") // the pattern is sound
	for _, path := range found {
		if dir := filepath.Dir(path); !known[filepath.Base(dir)] {
			dirs = appendNew(dirs, relative(n.Layout, dir))
		}
	}
	return dirs
}

// keptAside finds what was put aside. What is to be given back as soon as its place
// is free stays.
func (n *Node) keptAside(s *Surplus) error {
	current, err := n.InForce()
	if err != nil {
		return err
	}
	for _, r := range n.adopted() {
		k := KeptAside{Target: r.Target, Aside: r.Adoption.Aside, Copies: n.copies(r), Generation: r.Adoption.Generation, id: r.Adoption.ID}
		if usedAsItIs(r.Adoption) {
			continue // in its place, as it is
		}
		if _, owed := current.Released[r.Target]; owed {
			s.Kept = append(s.Kept, KeptVolume{r.Target, "it is to be given back"})
			continue
		}
		s.Aside = append(s.Aside, k)
	}
	for _, dir := range n.formerCopies() {
		s.Kept = append(s.Kept, KeptVolume{units.Of(units.TargetDir, dir), "the ledger has no switch of that number: `rm -r " + hint.Quote(dir) + "` when nothing in it is needed"})
	}
	for _, r := range n.orphans() {
		s.Aside = append(s.Aside, KeptAside{Target: r.Target, Aside: r.Target.Name(), Generation: r.First.Generation, id: r.Digest})
	}
	return nil
}

// discardAside lets go for good what was put aside: its container is removed by the
// id that was adopted, then its copies, and then that is recorded.
func (n *Node) discardAside(ctx context.Context, s Surplus, progress Progress) error {
	var intents []state.Event
	const word = "let go at its owner's word"
	for _, k := range s.Aside {
		if r, ok := n.Ledger.Record(units.Of(units.TargetContainer, k.Aside)); ok && r.State == state.Held {
			intents = append(intents, state.Event{Kind: state.EventHold, Target: r.Target, Why: "to be " + word})
		}
	}
	if len(intents) > 0 {
		if err := n.Ledger.Append(intents...); err != nil {
			return err
		}
	}
	var ends []state.Event
	var errs []error
	for _, k := range s.Aside {
		begin := time.Now()
		err := n.removeAside(ctx, k)
		for _, path := range k.Copies {
			if err == nil {
				err = removeIfThere(path)
			}
		}
		progress(Event{Step: Step{Op: "discard", Target: k.Target}, Ended: true, Took: time.Since(begin), Err: err})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if r, ok := n.Ledger.Record(k.Target); ok && r.Adoption != nil { // else it is one that no adoption has
			ends = append(ends, state.Event{Kind: state.EventDiscard, Target: k.Target, Why: word})
		}
		if r, ok := n.Ledger.Record(units.Of(units.TargetContainer, k.Aside)); ok && r.State == state.Held {
			ends = append(ends, state.Event{Kind: state.EventRetire, Target: r.Target, Why: "removed at its owner's word"})
		}
	}
	if len(ends) > 0 {
		errs = append(errs, n.Ledger.Append(ends...))
	}
	return errors.Join(errs...)
}

// removeAside removes the container that was put aside, and sees it gone. One that
// its owner has given another name, or started, is in use.
func (n *Node) removeAside(ctx context.Context, k KeptAside) error {
	if k.Aside == "" {
		return nil
	}
	n.forget()
	o, there, err := n.byID(ctx, k.id)
	switch {
	case err != nil || !there:
		return err
	case o.Name != k.Aside || o.Running:
		return fmt.Errorf("container:%s: not removed: it is %s now, or runs", k.Aside, o.Name)
	}
	if err := n.Podman.RemoveContainer(ctx, o.ID); err != nil {
		return fmt.Errorf("container:%s: remove: %w", k.Aside, err)
	}
	n.forget()
	if _, there, err = n.byID(ctx, k.id); err == nil && there {
		err = fmt.Errorf("container:%s: removed, and still there", k.Aside)
	}
	return err
}

func removeIfThere(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return durable.Remove(path)
}

// removeCopies removes copies that nothing has, and the directories that are empty
// then.
func (n *Node) removeCopies(left []Backup) error {
	var errs []error
	for _, c := range left {
		errs = append(errs, durable.Remove(c.Path))
	}
	dirs, _ := filepath.Glob(n.Layout.Adopted() + "/*") // the pattern is sound
	for _, dir := range dirs {
		_ = syscall.Rmdir(dir) // one that is not empty stays
	}
	return errors.Join(errs...)
}
