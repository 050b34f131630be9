package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"meshgen/internal/hint"
	"meshgen/state"
	"meshgen/units"
)

// gone says of what was adopted and is to be given back what is not there any more:
// removed by other hands, or made anew, or with its copy gone. Podman is asked only
// where something of its own is to be given back.
func (n *Node) gone(ctx context.Context, b before, desired state.Generation) (map[units.Target]string, error) {
	gone := map[units.Target]string{}
	for _, r := range b.releases(desired) {
		undone := b.undoes(desired) && r.Adoption.Generation == b.generation.Number
		words, err := n.goneDir(r)
		if err == nil && words == "" {
			words, err = n.goneObject(ctx, r)
		}
		if err != nil {
			return nil, err
		}
		if words == "" && !undone { // one that was cut short may not have come to its copies
			words = n.goneCopy(r)
		}
		if words != "" {
			gone[r.Target] = words
		}
	}
	return gone, nil
}

func (n *Node) goneObject(ctx context.Context, r state.Record) (string, error) {
	if n.objects == nil || n.Booting {
		return "", nil
	}
	was := r.Adoption
	switch was.What {
	case wasContainer:
		if was.Aside == "" || was.Unit != "" {
			return "", nil // its unit makes it anew, or says that it cannot
		}
		if _, there, err := n.byID(ctx, was.ID); err != nil || there {
			return "", err
		}
		return fmt.Sprintf("container %.12s, which was kept as %s, is gone", was.ID, was.Aside), nil
	case wasSecret:
		return n.goneSecret(ctx, r)
	case wasVolume, wasNetwork:
		o, there, err := n.object(ctx, r.Target)
		switch {
		case err != nil:
			return "", err
		case !there:
			return "the " + was.What + " is gone", nil
		case born(o) != was.ID:
			return "the " + was.What + " is gone, and another has its name", nil
		}
	}
	return "", nil
}

// goneCopy says which copy of a file is gone that does not lie in its place again.
func (n *Node) goneCopy(r state.Record) string {
	for _, f := range r.Adoption.Files {
		if f.Copy == "" {
			continue
		}
		kept := filepath.Join(n.Layout.State, r.Adoption.Dir, f.Copy)
		if _, err := os.Lstat(kept); errors.Is(err, os.ErrNotExist) && !isAsItWas(n.Layout.Path(f.Path), f, kept) {
			return "the copy of " + f.Path + " is gone from " + kept
		}
	}
	return ""
}

// discardLost returns what to record of what is not there to be given back, and
// tells of it, once: the name is as free as any other from then on.
func (m *move) discardLost(ctx context.Context) (events []state.Event, lost error) {
	var errs []error
	for _, t := range m.plan.Lost {
		words := m.plan.Reason("release", string(t))
		err := hint.Add(fmt.Errorf("%s: not given back: %s", t, words), "nothing can bring it back; what is declared may have its name again")
		m.progress(Event{Step: Step{Op: "release", Target: t}, Ended: true, Err: err})
		errs = append(errs, err)
		events = append(events, state.Event{Kind: state.EventDiscard, Generation: m.to.Number, Target: t, Why: words})
		events = append(events, m.asideLeft(ctx, t, words)...)
	}
	return events, errors.Join(errs...)
}

// asideLeft returns what to record of the container that was put aside of a name that
// is given back no more: that it is gone, or else that nothing but its owner's word
// has it go.
func (m *move) asideLeft(ctx context.Context, t units.Target, words string) []state.Event {
	r, _ := m.node.ledgerRecord(t)
	if r.Adoption == nil || r.Adoption.Aside == "" {
		return nil
	}
	aside, ok := m.node.ledgerRecord(units.Of(units.TargetContainer, r.Adoption.Aside))
	if !ok || aside.State != state.Held {
		return nil
	}
	if m.node.objects != nil && !m.node.Booting {
		_, there, err := m.node.byID(ctx, r.Adoption.ID)
		if err == nil && !there {
			return []state.Event{{Kind: state.EventRetire, Generation: m.to.Number, Target: aside.Target, Why: "removed by other hands"}}
		}
	}
	why := fmt.Sprintf("put aside, and %s cannot be given back: %s; `meshgen gc --adopted` removes it", t, words)
	return []state.Event{{Kind: state.EventHold, Target: aside.Target, Why: why}}
}

// orphans returns the records of containers that were put aside and that no adoption
// has any more: they are known by podman's id.
func (n *Node) orphans() []state.Record {
	has := n.putAside()
	return slices.DeleteFunc(n.records(), func(r state.Record) bool {
		_, named := has[r.Target]
		return named || r.State != state.Held || r.Target.Kind() != units.TargetContainer || r.Origin != state.OriginAdopted || r.Digest == ""
	})
}
