package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"meshgen/internal/hint"
	"meshgen/state"
	"meshgen/units"
)

// Releasing returns the input of a switch that gives back what was adopted under the
// names that words mean, with what else was adopted for the same: what is declared to
// have one of those names is left out. A resource that took its place once, and has
// another name by now, stays. A name that was not adopted is refused, and so is one
// whose resource others refer to, and what would run on the data of one that stays.
func (n *Node) Releasing(ctx context.Context, in Input, words []string) (Input, error) {
	if err := n.settled(); err != nil {
		return in, err
	}
	back := map[units.Target]state.Record{}
	var errs []error
	for _, word := range words {
		records, err := n.toGiveBack(word)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, r := range records {
			back[r.Target] = r
		}
	}
	leaves := n.leave(in, back)
	errs = append(errs, n.podsParted(back)...)
	stay := slices.DeleteFunc(slices.Clone(in.Resources), func(r units.Resource) bool { return leaves[r.Address] })
	for _, r := range stay {
		for _, a := range r.Uses {
			if leaves[a] {
				errs = append(errs, hint.Add(fmt.Errorf("%s: %s uses it, at %s", a, r.Address, r.Position), "give that back too, or take it out of the manifest first"))
			}
		}
	}
	parted := n.partedFrom(back)
	errs = append(errs, parted...)
	for _, t := range slices.Sorted(maps.Keys(back)) {
		if len(parted) == 0 { // else what stays may leave with the rest
			errs = append(errs, n.besideSuccessor(ctx, back[t], stay, in.Moved))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return in, err
	}
	in.Held = slices.Clone(in.Held)
	for _, r := range in.Resources {
		if leaves[r.Address] {
			in.Held = append(in.Held, heldReleased(r, back))
		}
	}
	slices.SortFunc(in.Held, func(a, b state.Holding) int { return a.Resource.Compare(b.Resource) })
	in.Resources = stay
	in.Released = map[units.Target]string{}
	for t := range back {
		in.Released[t] = state.ByHand
	}
	return in, nil
}

// leave returns the resources that are declared to have a name of what is given back,
// and adds to that what goes with it: what had the other names of those, and of what
// nothing has the name of any more, what was adopted for the same resource by the same
// switch.
func (n *Node) leave(in Input, back map[units.Target]state.Record) map[units.Address]bool {
	leaves, holder := map[units.Address]bool{}, map[units.Target]units.Address{}
	for _, r := range in.Resources {
		for _, t := range units.Targets(r) {
			holder[t] = r.Address
		}
	}
	adopted := n.adopted()
	for more := true; more; {
		more = false
		for t := range back {
			if a, held := holder[t]; held {
				leaves[a] = true
			}
		}
		for _, r := range adopted {
			a, held := holder[r.Target]
			together := func(of state.Record) bool {
				return of.Resource == r.Resource && of.Adoption.Generation == r.Adoption.Generation
			}
			_, already := back[r.Target]
			if !already && (leaves[a] || (!held && slices.ContainsFunc(slices.Collect(maps.Values(back)), together))) {
				back[r.Target], more = r, true
			}
		}
	}
	return leaves
}

// owed reports whether something was to be given back before, and is not yet: by the
// switch to the generation in force, or by one that did not stand.
func owed(r state.Record, current state.Generation) bool {
	_, asked := current.Released[r.Target]
	return r.Adoption != nil && (asked || (r.State != state.Retired && r.Adoption.Generation > current.Number))
}

// owedFirst leaves out of an input, for one switch, what is to have the place of
// something that is still to be given back: that is finished first.
func (n *Node) owedFirst(in Input, current state.Generation) (Input, units.Faults) {
	var taken []state.Holding
	released := map[units.Target]string{}
	for _, r := range n.adopted() {
		if !owed(r, current) {
			continue
		}
		why := cmp.Or(current.Released[r.Target], notStood)
		for _, d := range in.Resources {
			if !slices.Contains(units.Targets(d), r.Target) {
				continue
			}
			released[r.Target] = why
			i := slices.IndexFunc(taken, func(h state.Holding) bool { return h.Resource == d.Address })
			if i < 0 {
				taken = append(taken, state.Holding{
					Resource: d.Address, Position: d.Position, Instead: "the switch after the one that gives it back has it come",
				})
				i = len(taken) - 1
			}
			taken[i].Taken = append(taken[i].Taken, state.Transition{
				Kind: state.Takeover, Resource: d.Address, To: r.Target, Decision: state.Hold, Policy: Operator,
				Reason: "what it was is still to be given back, which is done first", Position: d.Position,
			})
		}
	}
	if len(taken) == 0 {
		return in, nil
	}
	maps.Copy(released, in.Released)
	in, _, faults := in.hold(taken, former{generation: current, records: n.records()})
	in.Released = released
	return in, faults
}

// heldReleased says of a resource that it is left out for what is given back.
func heldReleased(r units.Resource, back map[units.Target]state.Record) state.Holding {
	h := state.Holding{Resource: r.Address, Position: r.Position}
	for _, t := range units.Targets(r) {
		if _, goes := back[t]; goes {
			h.Taken = append(h.Taken, state.Transition{
				Kind: state.Takeover, Resource: r.Address, To: t, Decision: state.Hold, Policy: Operator,
				Reason: "what it was is " + state.ByHand, Position: r.Position,
			})
		}
	}
	return h
}

// neverAdopted says why there is nothing to give back under a name.
func (n *Node) neverAdopted(r state.Record) error {
	var names []string
	for _, other := range n.Ledger.Of(r.Resource) {
		if other.Adoption != nil {
			names = append(names, string(other.Target))
		}
	}
	if len(names) > 0 {
		return hint.Add(fmt.Errorf("%s: was not adopted", r.Target), "of "+r.Resource.String()+" it was "+slices.Sorted(slices.Values(names))[0])
	}
	return fmt.Errorf("%s: was not adopted: there is nothing to give back", r.Target)
}

// adoptedSince returns what was adopted since a generation and is not declared in
// it, with why it is given back.
func (n *Node) adoptedSince(g state.Generation) map[units.Target]string {
	declared := holders(g)
	released := map[units.Target]string{}
	for _, r := range n.adopted() {
		if _, stays := declared[r.Target]; r.Adoption.Generation > g.Number && !stays {
			released[r.Target] = fmt.Sprintf("back to generation %d, which is from before", g.Number)
		}
	}
	if len(released) == 0 {
		return nil
	}
	return released
}

// adopted returns the records of what was adopted and was not given back, of gone
// names too.
func (n *Node) adopted() []state.Record {
	if n.Ledger == nil {
		return nil
	}
	return n.Ledger.Adopted()
}
