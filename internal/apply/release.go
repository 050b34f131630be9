package apply

import (
	"errors"
	"fmt"
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
		r, err := n.named(word)
		if err == nil && r.Adoption == nil {
			err = n.neverAdopted(r)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		leaves[r.Resource] = true
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
	declared := declarations(g)
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
