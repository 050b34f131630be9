package apply

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"meshgen/internal/hint"
	"meshgen/state"
	"meshgen/units"
)

// Forget lets names of ours go, at their owner's word: nothing is removed, and
// what is there is the owner's from now on. A name that is declared is refused,
// and so is one that the ledger does not have as ours; then none is let go. The
// node has to be locked.
func (n *Node) Forget(words []string) ([]state.Record, error) {
	if err := n.settled(); err != nil {
		return nil, err
	}
	current, err := n.InForce()
	if err != nil {
		return nil, err
	}
	declared := declarations(current)
	var forgotten []state.Record
	var events []state.Event
	var errs []error
	for _, word := range words {
		r, err := n.named(word)
		var more []state.Event
		if err == nil {
			more, err = n.letGo(r, declared[r.Target])
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		forgotten = append(forgotten, r)
		events = append(events, more...)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return forgotten, n.Ledger.Append(events...)
}

// settled refuses what cannot be done beside a switch that was cut short: which
// of its names stay is not decided yet.
func (n *Node) settled() error {
	if n.Ledger == nil {
		return fmt.Errorf("%s: nothing was ever switched to here", n.Layout.Ledger())
	}
	if err := n.beingEjected(); err != nil {
		return err
	}
	unfinished, err := n.Unfinished()
	if err == nil && unfinished != "" {
		err = hint.Add(errors.New(unfinished), "meshgen switch first")
	}
	return err
}

// letGo returns the events that let a target go, and what was adopted with it: the
// copy that is kept of what had a name that is gone, or the place of which it was put
// aside.
func (n *Node) letGo(r state.Record, by units.Resource) ([]state.Event, error) {
	const why = "let go at its owner's word"
	if (r.State == state.Retired || r.State == state.Found) && r.Adoption != nil && by.Address == (units.Address{}) {
		events := []state.Event{{Kind: state.EventDiscard, Target: r.Target, Why: why}}
		if aside, ok := n.Ledger.Record(units.Of(units.TargetContainer, r.Adoption.Aside)); ok && aside.State == state.Held {
			events = append(events, state.Event{Kind: state.EventForget, Target: aside.Target, Why: why})
		}
		return events, nil
	}
	if err := mayLetGo(r, by); err != nil {
		return nil, err
	}
	events := []state.Event{{Kind: state.EventForget, Target: r.Target, Why: why}}
	of, ok := n.asideOf(r.Target)
	switch {
	case ok && len(of.Adoption.Files) > 0:
		return nil, hint.Add(fmt.Errorf("%s: is %s, put aside, and so is the unit that ran it", r.Target, of.Target),
			hint.Command("meshgen", "release", string(of.Target))+" gives both back")
	case ok:
		events = append(events, state.Event{Kind: state.EventDiscard, Target: of.Target, Why: string(r.Target) + ", which it was put aside as, was " + why})
	}
	return events, nil
}

// asideOf returns the record of what a container was before it was put aside under a
// name; false where none was.
func (n *Node) asideOf(t units.Target) (state.Record, bool) {
	r, is := n.putAside()[t]
	return r, is
}

// putAside returns the records of containers that are put aside, by the names that
// those have meanwhile.
func (n *Node) putAside() map[units.Target]state.Record {
	of := map[units.Target]state.Record{}
	for _, r := range n.adopted() {
		if r.Adoption.Aside != "" {
			of[units.Of(units.TargetContainer, r.Adoption.Aside)] = r
		}
	}
	return of
}

// mayLetGo reports why a target cannot be let go. by is the resource that declares
// it, if any.
func mayLetGo(r state.Record, by units.Resource) error {
	switch {
	case by.Address != units.Address{}:
		next := "take it out of the manifest first; a switch then removes it, unless it is to be kept"
		if r.Target.Kind() == units.TargetVolume {
			next = "take it out of the manifest and switch: it is held then, and can be let go"
		}
		return hint.Add(fmt.Errorf("%s: declared by %s at %s", r.Target, by.Address, by.Position), next)
	case r.State == state.Retired:
		return fmt.Errorf("%s: gone since %s: there is nothing to let go", r.Target, r.Retired.Time.Local().Format(time.DateTime))
	case r.State == state.Found:
		return fmt.Errorf("%s: not of meshgen as it is", r.Target)
	}
	return nil
}

// declarations returns the resources of a generation by the names that they
// hold. A directory on the way to several counts as the first one's.
func declarations(g state.Generation) map[units.Target]units.Resource {
	by := holders(g)
	for _, r := range g.Resources {
		path := ownPath(r)
		for i, c := range path {
			dir := units.Of(units.TargetDir, path[:i])
			if _, taken := by[dir]; c == '/' && i > 0 && !taken {
				by[dir] = r
			}
		}
	}
	return by
}

// holders returns the resources of a generation by the names that are their own.
func holders(g state.Generation) map[units.Target]units.Resource {
	by := map[units.Target]units.Resource{}
	for _, r := range g.Resources {
		for _, t := range units.Targets(r) {
			by[t] = r
		}
	}
	return by
}

// named returns the record of the target that a word means: kind:name, or the
// name alone where that is clear, as units and files are shown.
func (n *Node) named(word string) (state.Record, error) {
	if n.Ledger == nil {
		return state.Record{}, fmt.Errorf("%s: nothing is recorded here yet", word)
	}
	meant, known := n.matches(word)
	switch {
	case len(meant) == 1:
		return meant[0], nil
	case len(meant) > 1:
		var names []string
		for _, r := range meant {
			names = append(names, string(r.Target))
		}
		return state.Record{}, hint.Add(errors.New(word+ambiguous), strings.Join(names, ", "))
	}
	return state.Record{}, unknown(word, known)
}

// matches returns the records of the targets that a word may mean, one where it
// says exactly which, and beside them all targets that the ledger has.
func (n *Node) matches(word string) (meant []state.Record, known []string) {
	var targets []units.Target
	for _, r := range n.Ledger.Records() {
		targets = append(targets, r.Target)
		known = append(known, string(r.Target))
	}
	for _, t := range meanings(word, targets) {
		r, _ := n.Ledger.Record(t)
		meant = append(meant, r)
	}
	return meant, known
}

// shownBare reports whether a target is shown by its name alone, which tells what
// it is.
func shownBare(t units.Target) bool {
	return t.Kind() == units.TargetUnit || t.Kind() == units.TargetFile
}

// unknown says that a word means nothing, and what is like it.
func unknown(word string, known []string) error {
	next := showsAll
	if near := nearest(word, known); near != "" {
		next = "nearest: " + near
	}
	return hint.Add(fmt.Errorf("%s: the ledger has no such name", word), next)
}
