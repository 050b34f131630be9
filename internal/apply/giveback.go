package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"meshgen/internal/durable"
	"meshgen/internal/hint"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// giveBack gives back what was adopted and is not to be ours any more, and records
// what is given back. Each of its acts may have been done already, by a run that
// was cut short. What cannot be given back is told, and tried again by the next
// switch.
func (m *move) giveBack(ctx context.Context) error {
	var back []state.Record
	var errs []error
	for _, t := range m.plan.Release {
		r, ok := m.node.ledgerRecord(t)
		if !ok || r.Adoption == nil {
			continue
		}
		if r.Adoption.What == wasSecret { // before the containers that are given it
			if err := m.secretBack(ctx, r); err != nil {
				errs = append(errs, err)
				continue
			}
			back = append(back, r)
			continue
		}
		if m.node.Booting && r.Adoption.What != wasFile && r.Adoption.What != wasDir {
			m.owed = true // systemd and podman cannot be told before the boot has ended
			continue
		}
		if err := errors.Join(m.filesBack(r), m.dirBack(r)); err != nil {
			errs = append(errs, err)
			continue
		}
		back = append(back, r)
	}
	if m.node.Systemd != nil && !m.node.Booting {
		var err error
		if back, err = m.runBack(ctx, back); err != nil {
			errs = append(errs, err)
		}
	}
	events, lost := m.discardLost(ctx)
	errs = append(errs, lost)
	for _, r := range back {
		why := m.releasedWhy(r)
		m.progress(Event{Step: Step{Op: "release", Target: r.Target, Reason: why}, Ended: true})
		events = append(events, state.Event{Kind: state.EventRelease, Generation: m.to.Number, Target: r.Target, Why: why, Left: m.supplanted[r.Target]})
		events = append(events, m.asideGone(r)...)
	}
	if len(events) > 0 {
		errs = append(errs, m.node.Ledger.Append(events...))
	}
	return errors.Join(errs...)
}

// undoAdoptions gives back what a switch that is undone had adopted, before what
// was up is started. What cannot be given back does not keep the rest down. Of any
// other switch it is the secrets alone, which what starts may name.
func (m *move) undoAdoptions(ctx context.Context) error {
	if m.undoing {
		m.left = m.giveBack(ctx)
		return nil
	}
	for _, t := range m.plan.Release {
		if r, ok := m.node.ledgerRecord(t); ok && r.Adoption != nil && r.Adoption.What == wasSecret {
			_ = m.secretBack(ctx, r) // tried again, and told, when all else is given back
		}
	}
	return nil
}

// releasedWhy says why something is given back.
func (m *move) releasedWhy(r state.Record) string {
	return cmp.Or(m.to.Released[r.Target], m.from.Released[r.Target], notStood)
}

// notStood is why something is given back that nobody asked for.
const notStood = "the switch that adopted it did not stand"

// asideGone are the events that say that nothing has the name any more which a
// container had while it was put aside.
func (m *move) asideGone(r state.Record) []state.Event {
	if r.Adoption.Aside == "" {
		return nil
	}
	t := units.Of(units.TargetContainer, r.Adoption.Aside)
	if aside, ok := m.node.ledgerRecord(t); !ok || (aside.State != state.Held && aside.State != state.Live) {
		return nil
	}
	return []state.Event{{Kind: state.EventRetire, Generation: m.to.Number, Target: t, Why: "is " + string(r.Target) + " again"}}
}

// filesBack puts the files and links of what was adopted back in their places, and
// returns once they are on the disk.
func (m *move) filesBack(r state.Record) error {
	var staged []durable.Staged
	var dirs []string
	for _, f := range r.Adoption.Files {
		s, back, err := m.fileBack(r, f)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: not given back: %w", r.Target, err), discard(staged))
		}
		if back {
			staged = append(staged, s)
			dirs = append(dirs, filepath.Dir(m.node.Layout.Path(f.Path)))
		}
	}
	if err := durable.Sync(dirs...); err != nil {
		return errors.Join(err, discard(staged))
	}
	for _, s := range staged {
		if err := s.Rename(); err != nil {
			return err
		}
	}
	return durable.Sync(dirs...)
}

// fileBack stages what is to be put back at one path, if that is not there as it
// was.
func (m *move) fileBack(r state.Record, f state.AdoptedFile) (s durable.Staged, back bool, err error) {
	l := m.node.Layout
	at := l.Path(f.Path)
	lies, there, err := fileState(at)
	if err != nil {
		return s, false, err
	}
	kept := filepath.Join(l.State, r.Adoption.Dir, f.Copy)
	if there && isAsItWas(at, f, kept) {
		return s, false, nil
	}
	undone := m.undoing && r.Adoption.Generation == m.from.Number // else it was adopted long ago
	if there && undone && (r.Adoption.What != wasFile || m.never(r.Target)) {
		return s, false, m.supplant(r, f, lies) // its owner changed it before we came to it, or since
	}
	if there && !mayReplace(r, lies) && !writtenBy(m.from, r.Target, map[units.Target]state.FileState{r.Target: lies}) {
		return s, false, hint.Add(fmt.Errorf("%s: somebody else has put something there", f.Path),
			"move that out of the way, then switch again; what it was is "+keptAs(f, kept))
	}
	if there {
		if err := m.backUp(r.Target); err != nil {
			return s, false, err
		}
	}
	if f.Link != "" {
		s, err = durable.StageLink(f.Link, l.Root, f.Path, f.Owner[0], f.Owner[1], f.Time)
		return s, true, err
	}
	if words := wrongCopy(f, kept); words != "" {
		return s, false, hint.Add(errors.New(words), "put that back as it was, then switch again")
	}
	s, err = durable.StageCopy(kept, l.Root, f.Path)
	return s, true, err
}

func keptAs(f state.AdoptedFile, kept string) string {
	if f.Link != "" {
		return "a link to " + f.Link
	}
	return kept
}

// isAsItWas reports whether what was adopted lies in its place: it was not taken
// away yet, or was put back.
func isAsItWas(at string, f state.AdoptedFile, kept string) bool {
	if f.Link != "" {
		to, err := os.Readlink(at)
		return err == nil && to == f.Link
	}
	s, there, err := fileState(at)
	if err != nil || !there || s.Digest != f.Digest {
		return false
	}
	was, errWas := os.Lstat(kept)
	is, errIs := os.Lstat(at)
	if errors.Is(errWas, fs.ErrNotExist) {
		return true // no copy, and so nothing was done to it
	}
	return errWas == nil && errIs == nil && state.MetaOf(was) == state.MetaOf(is) && was.ModTime().Equal(is.ModTime())
}

// runBack has systemd and podman take up again what is given back: what has its
// name of ours goes first. It returns what is given back.
func (m *move) runBack(ctx context.Context, records []state.Record) (back []state.Record, err error) {
	if len(records) == 0 {
		return nil, nil
	}
	var errs []error
	reread := false
	for _, r := range records {
		reread = reread || (r.Adoption.What != wasFile && len(r.Adoption.Files) > 0)
	}
	if reread {
		if err := m.reload(ctx); err != nil {
			return nil, err
		}
	}
	m.node.forget()
	var start []string
	var named []state.Record
	for _, r := range records {
		err := m.oursGone(ctx, r)
		switch r.Adoption.What {
		case wasContainer:
			err = errors.Join(err, m.containerBack(ctx, r))
			start = appendNew(start, r.Adoption.Unit)
		case wasPod:
			err = errors.Join(err, m.podNamed(ctx, r))
		case wasUnit, wasQuadlet:
			if r.Adoption.Running {
				start = appendNew(start, r.Target.Name())
			}
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if pod := r.Adoption.Pod; pod != nil {
			start = appendNew(start, pod.Unit)
		}
		named = append(named, r)
	}
	back, err = m.containersUp(ctx, named)
	errs = append(errs, err)
	up, err := m.stillUp(ctx, start)
	if err != nil {
		return nil, err
	}
	start = slices.DeleteFunc(start, func(name string) bool { return slices.Contains(up, name) })
	for _, j := range m.jobs(ctx, host.Start, slices.Concat(start, m.downWithFound(ctx))) {
		if slices.Contains(start, j.Unit) { // else it is the owner's, and decides nothing
			errs = append(errs, fmt.Errorf("%s: given back, and does not start: %w", j.Unit, j.Err))
		}
	}
	return back, errors.Join(errs...)
}

// oursGone clears away what is left of a unit of ours that has ended badly, under a
// name that is given back.
func (m *move) oursGone(ctx context.Context, r state.Record) error {
	if r.Target.Kind() != units.TargetUnit {
		return nil
	}
	found, err := m.node.Systemd.Units(ctx, []string{r.Target.Name()})
	if err != nil || found[r.Target.Name()].Active != "failed" {
		return err
	}
	return errors.Join(m.node.Systemd.ResetFailed(ctx, r.Target.Name()), m.removeMadeBy(ctx, m.records[r.Target]))
}

func appendNew(names []string, name string) []string {
	if name == "" || slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// downWithFound returns the units that went down with what was adopted.
func (m *move) downWithFound(ctx context.Context) []string {
	up, err := m.stillUp(ctx, m.plan.Dependents)
	return slices.DeleteFunc(slices.Clone(m.plan.Dependents), func(name string) bool {
		return err != nil || slices.Contains(up, name) || m.declares(name)
	})
}

// containerBack gives a container its name and its restart policy back.
func (m *move) containerBack(ctx context.Context, r state.Record) error {
	was := r.Adoption
	if has, there, err := m.node.object(ctx, r.Target); err != nil {
		return err
	} else if there && has.ID != was.ID && (was.Aside != "" || has.Unit != was.Unit) { // else its unit has made it anew
		if !marked(has, r) {
			return hint.Add(fmt.Errorf("%s: not given back: container %.12s has the name by now", r.Target, has.ID),
				"give that another name, then switch again; what had it is kept as "+cmp.Or(was.Aside, filepath.Join(was.Dir, inspection(r.Target))))
		}
		if err := m.removeMarked(ctx, r.Target, has); err != nil {
			return err
		}
	}
	o, there, err := m.node.byID(ctx, was.ID)
	if err != nil || !there {
		return err // it went as its unit stopped, which makes it anew
	}
	podman := m.node.Podman
	if o.Name != r.Target.Name() && o.Name != was.Aside {
		return hint.Add(fmt.Errorf("%s: not given back: container %.12s, which it was, has been given the name %s", r.Target, o.ID, o.Name),
			fmt.Sprintf("rename it to %s, then switch again", cmp.Or(was.Aside, r.Target.Name())))
	}
	if o.Name != r.Target.Name() {
		if err := podman.RenameContainer(ctx, o.ID, r.Target.Name()); err != nil {
			return fmt.Errorf("%s: not given back: %w", r.Target, err)
		}
		m.node.forget()
	}
	if was.Restart != "" {
		if err := podman.SetRestart(ctx, o.ID, was.Restart); err != nil {
			return fmt.Errorf("%s: restart policy: %w", r.Target, err)
		}
	}
	return nil
}

// containersUp starts what ran without a unit, in its pod where it was in one, once
// all have their names and nothing of ours is in the way. It returns what is given
// back by then.
func (m *move) containersUp(ctx context.Context, named []state.Record) (back []state.Record, err error) {
	var errs []error
	pods := map[state.AdoptedPod]error{}
	for _, r := range named {
		if pod := r.Adoption.Pod; pod != nil {
			if _, done := pods[*pod]; !done {
				pods[*pod] = m.podBack(ctx, *pod)
				errs = append(errs, pods[*pod])
			}
			if pods[*pod] != nil {
				continue
			}
		}
		if err := m.containerUp(ctx, r); err != nil {
			errs = append(errs, err)
			continue
		}
		back = append(back, r)
	}
	return back, errors.Join(errs...)
}

func (m *move) containerUp(ctx context.Context, r state.Record) error {
	was := r.Adoption
	if was.What != wasContainer || !was.Running || was.Unit != "" {
		return nil
	}
	o, there, err := m.node.byID(ctx, was.ID)
	if err != nil || !there || o.Running {
		return err
	}
	if err := m.node.Podman.StartContainer(ctx, o.ID); err != nil {
		return fmt.Errorf("%s: given its name back, and does not start: %w", r.Target, err)
	}
	m.node.forget()
	return nil
}
