package apply

import (
	"fmt"
	"slices"

	"meshgen/state"
	"meshgen/units"
)

// Holding is a declared resource that a switch leaves out: what has its name is
// somebody else's, or it needs a resource of which that is so. One that the node
// has already stays as it is.
type Holding struct {
	Resource units.Address `json:"resource"`
	// Transition is the takeover that was decided to be held; zero where Needs
	// says which other resource it waits for.
	Transition state.Transition `json:"transition,omitzero"`
	Needs      units.Address    `json:"needs,omitzero"`
}

// String says why the resource is held.
func (h Holding) String() string {
	if h.Needs != (units.Address{}) {
		return fmt.Sprintf("%s: held: it needs %s", h.Resource, h.Needs)
	}
	return fmt.Sprintf("%s: held: %s is taken: %s", h.Resource, h.Transition.To, h.Transition.Reason)
}

// decidedToHold returns the takeovers that were decided so, the first of each
// resource.
func decidedToHold(transitions []state.Transition) []Holding {
	var held []Holding
	for _, t := range transitions {
		again := slices.ContainsFunc(held, func(h Holding) bool { return h.Resource == t.Resource })
		if t.Kind == state.Takeover && t.Decision == state.Hold && !again {
			held = append(held, Holding{Resource: t.Resource, Transition: t})
		}
	}
	return held
}

// reduced is an input without what is held.
type reduced struct {
	input Input
	held  []Holding // with those that need them
}

// hold takes resources out of an input, and what needs them; what the node has in
// a former form is left in that. Refused is what can be left neither out nor as it
// is: something that it needs would go, or its name is wanted for another.
func (in Input) hold(taken []Holding, former state.Generation) (reduced, units.Faults) {
	held := withNeedy(taken, in.Resources)
	was := byAddress(former)
	out := in
	out.Resources = nil
	for _, r := range in.Resources {
		if !isHeld(held, r.Address) {
			out.Resources = append(out.Resources, r)
			continue
		}
		out.Held = append(slices.Clone(out.Held), r.Address)
		if before, there := was[r.Address]; there {
			before.Position = r.Position
			out.Resources = append(out.Resources, before)
		}
	}
	slices.SortFunc(out.Held, units.Address.Compare)
	out.Held = slices.Compact(out.Held)
	return reduced{out, held}, unheld(out, held, was)
}

func isHeld(held []Holding, a units.Address) bool {
	return slices.ContainsFunc(held, func(h Holding) bool { return h.Resource == a })
}

// withNeedy adds those that refer to what is held, over any number of others.
func withNeedy(held []Holding, resources []units.Resource) []Holding {
	held = slices.Clone(held)
	for more := true; more; {
		more = false
		for _, r := range resources {
			if isHeld(held, r.Address) {
				continue
			}
			for _, a := range r.Uses {
				if isHeld(held, a) {
					held = append(held, Holding{Resource: r.Address, Needs: a})
					more = true
					break
				}
			}
		}
	}
	return held
}

// unheld refuses what is left as it was beside what it does not go with.
func unheld(in Input, held []Holding, was map[units.Address]units.Resource) units.Faults {
	now := map[units.Address]units.Resource{}
	owner := map[units.Target]units.Resource{}
	var refused units.Faults
	for _, r := range in.Resources {
		now[r.Address] = r
		for _, t := range units.Targets(r) {
			if other, taken := owner[t]; taken {
				if !isHeld(held, r.Address) {
					r, other = other, r
				}
				refused = append(refused, units.Fault{
					Position: r.Position,
					Message:  fmt.Sprintf("%s: is held as it is, and %s is to have %s", r.Address, other.Address, t),
					Hint:     "switch to the one first, and to the other when what is in the way of the first is gone",
				})
			}
			owner[t] = r
		}
	}
	for _, r := range in.Resources {
		if !isHeld(held, r.Address) {
			continue
		}
		for _, a := range r.Uses {
			needed, declared := now[a]
			if declared && units.QuadletFile(needed) == units.QuadletFile(was[a]) && units.Unit(needed) == units.Unit(was[a]) {
				continue
			}
			refused = append(refused, units.Fault{
				Position: r.Position,
				Message:  fmt.Sprintf("%s: is held as it is, and needs %s as that was", r.Address, a),
				Hint:     "let that stay declared as it was until what is in the way is gone",
			})
		}
	}
	return refused
}
