package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"meshgen/internal/durable"
	"meshgen/internal/hint"
	"meshgen/state"
	"meshgen/units"
)

// ejected is why names are let go that an ejection leaves to the owner.
const ejected = "the node was ejected"

// Eject has the machine run on without meshgen: what it runs is defined by plain
// files, and everything that meshgen had is its owner's. Nothing is started, stopped
// or removed. A process that dies on the way leaves a machine that runs the same set,
// and the next ejection takes it on. The node has to be locked.
func (n *Node) Eject(ctx context.Context, e Ejection, progress Progress) error {
	if e.Done {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // a machine is meshgen's or it is not
	if !e.resumed {
		if err := n.Ledger.Append(state.Event{Kind: state.EventEject, Generation: e.Generation}); err != nil {
			return err
		}
	}
	err := n.eject(ctx, e, progress)
	if err != nil {
		err = hint.Add(fmt.Errorf("%w\nwhat runs runs on", err), "mend that; meshgen eject goes on from there")
	}
	return err
}

func (n *Node) eject(ctx context.Context, e Ejection, progress Progress) error {
	if err := n.writePlainUnits(e, progress); err != nil {
		return err
	}
	if err := n.writeQuadlets(e, progress); err != nil {
		return err
	}
	if err := state.Eject(n.Layout); err != nil {
		return err
	}
	if err := n.reread(ctx, e, progress); err != nil {
		return err
	}
	return n.Ledger.Append(append(n.lettingGo(), state.Event{Kind: state.EventEject, Generation: e.Generation, Result: state.Done})...)
}

// writePlainUnits writes the units of systemd's own, and the links that enable them.
func (n *Node) writePlainUnits(e Ejection, progress Progress) error {
	files := slices.DeleteFunc(slices.Clone(e.Files), func(f PlainFile) bool { return f.quadlet })
	if len(files) == 0 {
		return nil
	}
	if err := n.stagePlain(files, unitsStaging); err != nil {
		return errors.Join(err, os.RemoveAll(n.Layout.Path(unitsStaging)))
	}
	if err := n.place(files, unitsStaging, progress); err != nil {
		return err
	}
	if err := n.linkUnits(files); err != nil {
		return err
	}
	return durable.Sync(n.Layout.Path(unitsDir))
}

// linkUnits makes the links that enable plain units, as systemctl enable would.
func (n *Node) linkUnits(files []PlainFile) error {
	for _, f := range files {
		for _, link := range f.Links {
			at := n.Layout.Path(link)
			if dir := filepath.Dir(link); !present(filepath.Dir(at)) {
				if err := durable.MakeDir(n.Layout.Root, dir, 0o755, -1, -1); err != nil {
					return err
				}
			}
			err := os.Symlink(f.Path, at)
			if err != nil && (!errors.Is(err, fs.ErrExist) || occupiedLink(at, f.Path) != "") {
				return err
			}
		}
	}
	return nil
}

// writeQuadlets puts all Quadlets in their place at once, then each in its own.
func (n *Node) writeQuadlets(e Ejection, progress Progress) error {
	files := slices.DeleteFunc(slices.Clone(e.Files), func(f PlainFile) bool { return !f.quadlet })
	together := n.Layout.Path(quadletsTogether)
	isMissing := func(f PlainFile) bool { return !present(n.Layout.Path(f.Path)) }
	if slices.ContainsFunc(files, isMissing) && !present(together) {
		if err := n.putTogether(files); err != nil {
			return errors.Join(err, os.RemoveAll(n.Layout.Path(quadletsStaging)))
		}
	}
	if !present(together) {
		return os.RemoveAll(n.Layout.Path(quadletsStaging))
	}
	return n.place(files, quadletsTogether, progress)
}

// putTogether has podman see all Quadlets from one rename on.
func (n *Node) putTogether(files []PlainFile) error {
	if err := n.stagePlain(files, quadletsStaging); err != nil {
		return err
	}
	if !present(n.Layout.Path(quadletsDir)) {
		if err := durable.MakeDir(n.Layout.Root, quadletsDir, 0o755, -1, -1); err != nil {
			return err
		}
	}
	return durable.Rename(n.Layout.Path(quadletsStaging), n.Layout.Path(quadletsTogether))
}

// stagePlain writes files into a directory that is nobody's place for them yet, and
// has them reach the disk. What an ejection that died left in it goes.
func (n *Node) stagePlain(files []PlainFile, dir string) error {
	if err := os.RemoveAll(n.Layout.Path(dir)); err != nil {
		return err
	}
	for _, f := range files {
		s, err := durable.Stage(n.Layout.Root, filepath.Join(dir, filepath.Base(f.Path)), []byte(f.text), 0o644, -1, -1)
		if err != nil {
			return err
		}
		if err := s.Rename(); err != nil {
			return err
		}
	}
	return durable.Sync(n.Layout.Path(dir))
}

// place gives each file its own place and removes the directory that it was in. It is
// by a second name, which replaces nothing, and a reload in between may read either.
func (n *Node) place(files []PlainFile, from string, progress Progress) error {
	for _, f := range files {
		at := n.Layout.Path(f.Path)
		if holds(at, f.text) {
			continue // an ejection that died had come so far
		}
		if err := os.Link(filepath.Join(n.Layout.Path(from), filepath.Base(at)), at); err != nil {
			return err
		}
		progress(Event{Step: Step{Op: "write", Target: units.Of(units.TargetFile, f.Path)}, Ended: true})
	}
	top := filepath.Dir(n.Layout.Path(from))
	if err := durable.Sync(top); err != nil {
		return err
	}
	if err := os.RemoveAll(n.Layout.Path(from)); err != nil {
		return err
	}
	return durable.Sync(top)
}

func present(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// reread has systemd read the plain files, and sees that it has lost no unit.
func (n *Node) reread(ctx context.Context, e Ejection, progress Progress) error {
	if n.Systemd == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, actDeadline)
	defer cancel()
	step, begin := Step{Op: "reload", Reason: "systemd reads its units again"}, time.Now()
	progress(Event{Step: step})
	err := n.Systemd.Reload(ctx)
	progress(Event{Step: step, Ended: true, Took: time.Since(begin), Err: err})
	if err != nil {
		return err
	}
	found, err := n.Systemd.Units(ctx, e.names)
	if err != nil {
		return err
	}
	var lost []string
	for _, name := range e.names {
		if load := found[name].Load; load != "loaded" && load != "masked" {
			lost = append(lost, name+" is "+load)
		}
	}
	if len(lost) > 0 {
		return errors.New("systemd has no definition of a unit: " + strings.Join(lost, ", "))
	}
	return nil
}

// lettingGo returns the events that let everything go. What was adopted is not given
// back any more: what stands in its place is the owner's as well.
func (n *Node) lettingGo() []state.Event {
	var events []state.Event
	for _, r := range n.adopted() {
		events = append(events, state.Event{Kind: state.EventDiscard, Target: r.Target, Why: ejected})
	}
	for _, r := range n.records() {
		events = append(events, state.Event{Kind: state.EventForget, Target: r.Target, Why: ejected})
	}
	return events
}
