package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"meshgen/internal/durable"
	"meshgen/internal/hint"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// keepFound copies what is adopted, and returns once the copies are on the disk:
// nothing of it has been touched by then.
func (m *move) keepFound(ctx context.Context) error {
	if !slices.ContainsFunc(m.plan.Adopt, func(a Adoption) bool { return a.Was.Dir != "" }) {
		return nil
	}
	l := m.node.Layout
	dir := ""
	var staged []durable.Staged
	for _, a := range m.plan.Adopt {
		if a.Was.Dir == "" {
			continue
		}
		dir = filepath.Join(l.State, a.Was.Dir)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		more, err := m.copyFound(ctx, a)
		staged = append(staged, more...)
		if err != nil {
			return errors.Join(err, discard(staged))
		}
	}
	more, err := m.inspectedPods(ctx, dir)
	if staged = append(staged, more...); err != nil {
		return errors.Join(err, discard(staged))
	}
	if err := durable.Sync(dir); err != nil {
		return errors.Join(err, discard(staged))
	}
	for _, s := range staged {
		if err := s.Rename(); err != nil {
			return err
		}
	}
	return durable.Sync(dir)
}

// copyFound stages the copies of one thing.
func (m *move) copyFound(ctx context.Context, a Adoption) (staged []durable.Staged, err error) {
	l := m.node.Layout
	for _, f := range a.Was.Files {
		if err := asJudged(l, f); err != nil {
			return staged, err
		}
		if f.Copy == "" {
			continue
		}
		s, err := durable.StageCopy(l.Path(f.Path), l.State, filepath.Join(a.Was.Dir, f.Copy))
		if err != nil {
			return staged, err
		}
		staged = append(staged, s)
	}
	switch a.Was.What {
	case wasSecret:
		return m.copySecret(ctx, a)
	case wasContainer:
	default:
		return staged, nil
	}
	known, err := m.node.Podman.InspectContainer(ctx, a.Was.ID)
	if err != nil {
		return staged, err
	}
	s, err := durable.Stage(l.State, filepath.Join(a.Was.Dir, inspection(a.Target)), known.Text, 0o600, -1, -1)
	return append(staged, s), err
}

// inspection returns the name of what podman said of a container.
func inspection(t units.Target) string { return t.Name() + ".inspect.json" }

// asJudged sees that a file is as it was when it was judged.
func asJudged(l state.Layout, f state.AdoptedFile) error {
	at := l.Path(f.Path)
	if f.Link != "" {
		if to, err := os.Readlink(at); err != nil || to != f.Link {
			return changedSince(f.Path)
		}
		return nil
	}
	now, there, err := fileState(at)
	if err == nil && (!there || now.Digest != f.Digest) {
		err = changedSince(f.Path)
	}
	return err
}

const lookAtIt = "look at it, then switch again"

func changedSince(what string) error {
	return hint.Add(fmt.Errorf("%s: changed while the switch was under way", what), lookAtIt)
}

// putAside stops what is adopted, by the one who runs it, takes its start at boot
// away, and makes room for what has its place. All of it can be given back.
func (m *move) putAside(ctx context.Context) error {
	if len(m.plan.Adopt) == 0 {
		return nil
	}
	for _, a := range m.plan.Adopt {
		for _, f := range a.Was.Files {
			if err := asJudged(m.node.Layout, f); err != nil {
				return err
			}
		}
	}
	if m.node.Systemd != nil {
		if err := m.stopFound(ctx); err != nil {
			return err
		}
	}
	if err := m.unlinkFound(); err != nil {
		return err
	}
	for _, a := range m.plan.Adopt {
		m.progress(Event{Step: a.step(), Ended: true})
	}
	return nil
}

func (m *move) stopFound(ctx context.Context) error {
	if err := m.podsUnderWay(ctx); err != nil {
		return err
	}
	if err := m.foundContainers(ctx, func(o host.Object, a Adoption) error {
		if o.Name != a.Target.Name() || o.Frozen {
			return changedSince(string(a.Target))
		}
		if a.Was.Restart == "" {
			return nil
		}
		return m.node.Podman.SetRestart(ctx, o.ID, "no")
	}); err != nil {
		return err
	}
	stop := m.plan.stopsFound()
	if err := m.mustBeDown(ctx, stop, m.jobs(ctx, host.Stop, stop)); err != nil {
		return err
	}
	if err := m.foundContainers(ctx, func(o host.Object, a Adoption) error {
		if o.Running {
			if err := m.node.Podman.StopContainer(ctx, o.ID); err != nil {
				return fmt.Errorf("%s: stop: %w", a.Target, err)
			}
		}
		return m.asideNow(ctx, a)
	}); err != nil {
		return err
	}
	return m.stopPods(ctx)
}

// asideNow gives a container the name that it has while it is not in force, unless
// it was made to be removed as it stops.
func (m *move) asideNow(ctx context.Context, a Adoption) error {
	m.node.forget()
	o, there, err := m.node.byID(ctx, a.Was.ID)
	if err != nil || !there || o.Name == a.Was.Aside {
		return err
	}
	if a.Was.Aside == "" {
		return hint.Add(fmt.Errorf("%s: %s was to remove it as it stopped, and did not", a.Target, a.Was.Unit), lookAtIt)
	}
	if err := m.node.Podman.RenameContainer(ctx, o.ID, a.Was.Aside); err != nil {
		return fmt.Errorf("%s: put aside as %s: %w", a.Target, a.Was.Aside, err)
	}
	m.node.forget()
	return nil
}

// foundContainers does something with each container that is adopted, as it is
// now. One that is gone is none any more.
func (m *move) foundContainers(ctx context.Context, do func(host.Object, Adoption) error) error {
	m.node.forget()
	for _, a := range m.plan.Adopt {
		if a.Was.What != wasContainer {
			continue
		}
		o, there, err := m.node.byID(ctx, a.Was.ID)
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		if err := do(o, a); err != nil {
			return err
		}
	}
	return nil
}

// asidesLost are the events that say of containers which were to be put aside that
// they went as their units stopped: those had made them for one run.
func (m *move) asidesLost(ctx context.Context) ([]state.Event, error) {
	if m.node.objects == nil {
		return nil, nil
	}
	var events []state.Event
	for _, r := range m.node.Ledger.Live() {
		if r.Adoption == nil || r.Adoption.Aside == "" || r.Adoption.Generation != m.to.Number {
			continue
		}
		t := units.Of(units.TargetContainer, r.Adoption.Aside)
		aside, ok := m.node.ledgerRecord(t)
		if _, there, err := m.node.byID(ctx, r.Adoption.ID); err != nil {
			return events, err
		} else if !there && ok && aside.State == state.Held {
			events = append(events, state.Event{Kind: state.EventRetire, Generation: m.to.Number, Target: t, Why: "went as its unit stopped"})
		}
	}
	return events, nil
}

// byID returns the container of an id, whatever its name is.
func (n *Node) byID(ctx context.Context, id string) (host.Object, bool, error) {
	if n.objects == nil {
		return host.Object{}, false, nil
	}
	containers, err := n.objects.get(ctx, units.TargetContainer)
	for _, o := range containers {
		if o.ID == id {
			return o, true, err
		}
	}
	return host.Object{}, false, err
}

// unlinkFound takes away what defines and enables units that are adopted.
func (m *move) unlinkFound() error {
	var dirs []string
	for _, a := range m.plan.Adopt {
		if a.Was.What == wasFile {
			continue // written over, and never absent
		}
		for _, f := range a.Was.Files {
			if err := asJudged(m.node.Layout, f); err != nil {
				return err
			}
			if err := durable.Unlink(m.node.Layout.Root, f.Path); err != nil {
				return err
			}
			dirs = append(dirs, filepath.Dir(m.node.Layout.Path(f.Path)))
		}
	}
	return durable.Sync(dirs...)
}

// stopsFound are the units that run what is adopted, and are stopped for it.
func (p Plan) stopsFound() []string {
	var names []string
	for _, a := range p.Adopt {
		stops := a.Was.Unit != "" && (a.Was.What == wasContainer || (a.Was.Running && !a.Same))
		if stops {
			names = appendNew(names, a.Was.Unit)
		}
		if pod := a.Was.Pod; pod != nil {
			names = appendNew(names, pod.Unit)
		}
	}
	return names
}

// adopts reports whether the plan takes the place of what has a name.
func (p Plan) adopts(t units.Target) bool {
	return slices.ContainsFunc(p.Adopt, func(a Adoption) bool { return a.Target == t })
}

// step says what becomes of what is adopted.
func (a Adoption) step() Step {
	s := Step{Op: "adopt", Target: a.Target}
	kept := "kept in " + cmp.Or(a.Kept, "the ledger")
	switch a.Was.What {
	case wasVolume, wasNetwork, wasDir:
		s.Reason = "as it is"
	case wasFile:
		s.Reason = kept
		if a.Same {
			s.Reason += "; it is as declared, and not written"
		}
	case wasPod:
		s.Reason = "stopped by " + a.Was.Unit + ", which makes one each time"
	case wasMask:
		s.Reason = "the mask is taken away"
	case wasSecret:
		s.Reason = kept + "; it is made anew with what is declared"
		if a.Same {
			s.Reason = kept + "; it holds what is declared, and is made anew for meshgen's mark alone"
		}
	case wasContainer:
		switch {
		case a.Was.Aside == "":
			s.Reason = "stopped by " + a.Was.Unit + ", which makes one each time"
		case a.Was.Unit != "":
			s.Reason = "stopped by " + a.Was.Unit + ", kept as " + a.Was.Aside
		default:
			s.Reason = "kept as " + a.Was.Aside
		}
		if a.Was.Pod != nil {
			s.Reason += ", in the pod " + a.Was.Pod.Name
		}
	default:
		s.Reason = a.Was.Files[0].Path + " is " + kept
		if a.Same {
			s.Reason += "; it runs on"
		}
	}
	return s
}

// events are what the ledger has to have of an adoption before anything is done.
func (a Adoption) events() []state.Event {
	was := a.Was
	events := []state.Event{{Kind: state.EventAdopt, Generation: was.Generation, Target: a.Target, Adoption: &was}}
	if was.Aside == "" {
		return events
	}
	t := units.Of(units.TargetContainer, was.Aside)
	return append(events,
		state.Event{Kind: state.EventEmit, Generation: was.Generation, Target: t, Resource: a.Resource, Digest: was.ID, Origin: state.OriginAdopted},
		state.Event{Kind: state.EventHold, Target: t, Why: "put aside, to be given back as " + string(a.Target)},
	)
}
