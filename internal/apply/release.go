package apply

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"meshgen/internal/hint"
	"meshgen/state"
	"meshgen/units"
)

// Releasing returns the input of a switch that gives back what was adopted under
// the names that words mean: their resources are left out of it. A name that was
// not adopted is refused, and so is one that other declared resources refer to.
func (n *Node) Releasing(in Input, words []string) (Input, error) {
	if err := n.settled(); err != nil {
		return in, err
	}
	leaves := map[units.Address]bool{}
	var errs []error
	for _, word := range words {
		records, err := n.toGiveBack(word)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, r := range records {
			if err := n.passedOn(r, in); err != nil {
				errs = append(errs, err)
				continue
			}
			leaves[r.Resource] = true
		}
	}
	errs = append(errs, n.podsParted(leaves)...)
	stay := slices.DeleteFunc(slices.Clone(in.Resources), func(r units.Resource) bool { return leaves[r.Address] })
	for _, r := range stay {
		for _, a := range r.Uses {
			if leaves[a] {
				errs = append(errs, hint.Add(fmt.Errorf("%s: %s uses it, at %s", a, r.Address, r.Position), "give that back too, or take it out of the manifest first"))
			}
		}
	}
	errs = append(errs, n.partedFrom(leaves)...)
	if len(errs) > 0 {
		return in, errors.Join(errs...)
	}
	for _, r := range in.Resources {
		if leaves[r.Address] {
			in.Held = append(slices.Clone(in.Held), n.heldReleased(r))
		}
	}
	in.Resources = stay
	slices.SortFunc(in.Held, func(a, b state.Holding) int { return a.Resource.Compare(b.Resource) })
	in.Released = map[units.Target]string{}
	for _, r := range n.adopted() {
		if leaves[r.Resource] {
			in.Released[r.Target] = state.ByHand
		}
	}
	return in, nil
}

// ErrPassedOn is why something is not given back that would run beside what took its
// place.
var ErrPassedOn = errors.New("took its place, and has another name or address by now: both would run")

// passedOn refuses to give back what had a name while the resource that took its place
// is declared under another, or at another address than it has: there would be two of
// one service.
func (n *Node) passedOn(r state.Record, in Input) error {
	line := n.successors(r, in)
	for _, d := range in.Resources {
		has := slices.Contains(units.Targets(d), r.Target)
		if (line[d.Address] && !has) || (has && d.Address != r.Resource) {
			return hint.Add(fmt.Errorf("%s: %s at %s %w", r.Target, d.Address, d.Position, ErrPassedOn),
				"switch first, where it only moves; else take it out of the manifest and switch, then release")
		}
	}
	return nil
}

// successors returns the addresses that the resource of a name has had, and those to
// which moves and transfers have led since.
func (n *Node) successors(r state.Record, in Input) map[units.Address]bool {
	line := map[units.Address]bool{r.Resource: true}
	for _, a := range r.Earlier {
		line[a] = true
	}
	names := map[units.Target]bool{r.Target: true}
	for a := range line {
		for _, other := range n.Ledger.Of(a) {
			names[other.Target] = true
		}
	}
	for _, s := range n.Switches() {
		if s.Generation <= r.Adoption.Generation {
			continue
		}
		if g, err := state.ReadGeneration(n.Layout, s.Generation); err == nil { // of one that is pruned the ledger may know
			follow(line, g.Moved)
		}
		for _, t := range s.Transitions {
			if (t.Kind == state.Rename || t.Kind == state.Transfer) && names[t.From] {
				line[t.Resource], names[t.To] = true, true
			}
		}
	}
	follow(line, in.Moved)
	return line
}

// follow adds the addresses to which moves lead.
func follow(line map[units.Address]bool, moved units.Moves) {
	for _, a := range slices.Collect(maps.Keys(line)) {
		_, _ = moved.Until(a, func(to units.Address) bool {
			line[to] = true
			return false
		})
	}
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
				taken = append(taken, state.Holding{Resource: d.Address, Position: d.Position})
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
func (n *Node) heldReleased(r units.Resource) state.Holding {
	h := state.Holding{Resource: r.Address, Position: r.Position}
	for _, record := range n.adopted() {
		if record.Resource == r.Address {
			h.Taken = append(h.Taken, state.Transition{
				Kind: state.Takeover, Resource: r.Address, To: record.Target, Decision: state.Hold, Policy: Operator,
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
