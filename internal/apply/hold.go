package apply

import (
	"cmp"
	"fmt"
	"slices"

	"meshgen/state"
	"meshgen/units"
)

// heldTakeovers returns what is to be held, with all the takeovers of each
// resource that were decided so.
func heldTakeovers(transitions []state.Transition) []state.Holding {
	var held []state.Holding
	for _, t := range transitions {
		if t.Kind != state.Takeover || t.Decision != state.Hold {
			continue
		}
		i := slices.IndexFunc(held, func(h state.Holding) bool { return h.Resource == t.Resource })
		if i < 0 {
			held = append(held, state.Holding{Resource: t.Resource, Position: t.Position})
			i = len(held) - 1
		}
		held[i].Taken = append(held[i].Taken, t)
	}
	return held
}

// former is what the node has before a switch, as far as holding asks.
type former struct {
	generation  state.Generation
	records     []state.Record
	transitions []state.Transition // judged
	lost        bool               // the set that the ledger has is not at hand
}

// hold takes resources out of an input, and what needs them; what the node has in
// a former form is left in that. Refused is what can be left neither out nor as it
// is: something that it needs would go, or its name is wanted for another.
//
// stays are those that are left as they are, by their addresses in that form.
func (in Input) hold(taken []state.Holding, was former) (reduced Input, stays map[units.Address]units.Resource, refused units.Faults) {
	held := withNeedy(taken, in.Resources)
	for i, h := range held {
		held[i].Adopt = inTheWayOf(h.Resource, in.Resources, held)
		for _, a := range withNeeds(h.Resource, in.Resources) {
			for _, other := range held {
				if other.Resource == a {
					held[i].Instead = cmp.Or(held[i].Instead, other.Instead)
				}
			}
		}
	}
	reduced = in
	reduced.Resources = nil
	reduced.Held = append(slices.Clone(in.Held), held...)
	slices.SortStableFunc(reduced.Held, func(a, b state.Holding) int { return a.Resource.Compare(b.Resource) })
	reduced.Held = slices.CompactFunc(reduced.Held, func(a, b state.Holding) bool { return a.Resource == b.Resource })
	stays = map[units.Address]units.Resource{}
	for _, r := range in.Resources {
		if !isHeld(held, r.Address) {
			reduced.Resources = append(reduced.Resources, r)
			continue
		}
		before, there, fault := was.form(r)
		if fault.Message != "" {
			refused = append(refused, fault)
		}
		if there {
			refused = append(refused, in.parted(r, before, held)...)
			before.Position = r.Position
			reduced.Resources = append(reduced.Resources, before)
			stays[before.Address] = before
		}
	}
	refused = append(refused, contested(reduced.Resources, stays)...)
	return reduced, stays, append(refused, needed(reduced.Resources, stays, byAddress(was.generation))...)
}

func isHeld(held []state.Holding, a units.Address) bool {
	return slices.ContainsFunc(held, func(h state.Holding) bool { return h.Resource == a })
}

// withNeedy adds those that refer to what is held, over any number of others.
func withNeedy(held []state.Holding, resources []units.Resource) []state.Holding {
	held = slices.Clone(held)
	for more := true; more; {
		more = false
		for _, r := range resources {
			if isHeld(held, r.Address) {
				continue
			}
			i := slices.IndexFunc(r.Uses, func(a units.Address) bool { return isHeld(held, a) })
			if i >= 0 {
				held = append(held, state.Holding{Resource: r.Address, Needs: r.Uses[i], Position: r.Position})
				more = true
			}
		}
	}
	return held
}

// inTheWayOf returns what is in the way of a resource and of all that it needs.
func inTheWayOf(a units.Address, resources []units.Resource, held []state.Holding) []units.Target {
	var targets []units.Target
	for _, a := range withNeeds(a, resources) {
		for _, h := range held {
			if h.Resource != a {
				continue
			}
			for _, t := range h.Taken {
				targets = append(targets, t.To)
			}
		}
	}
	return targets
}

// withNeeds returns an address and those that its resource refers to, over any number
// of others.
func withNeeds(a units.Address, resources []units.Resource) []units.Address {
	needed := []units.Address{a}
	for i := 0; i < len(needed); i++ {
		for _, r := range resources {
			for _, uses := range r.Uses {
				if r.Address == needed[i] && !slices.Contains(needed, uses) {
					needed = append(needed, uses)
				}
			}
		}
	}
	return needed
}

// form returns a resource as the node has it: at its address, or at the one from
// which it would pass to that.
func (f former) form(r units.Resource) (before units.Resource, there bool, fault units.Fault) {
	fault = units.Fault{Position: r.Position, Message: r.Address.String() + ": is to be held as it is"}
	for _, before = range f.generation.Resources {
		if before.Address == r.Address {
			return before, true, units.Fault{}
		}
	}
	for _, t := range f.transitions {
		if t.Kind != state.Transfer || t.Resource != r.Address {
			continue
		}
		if t.Decision == state.Refuse {
			fault.Message += ", and which it was is not clear: it " + t.Reason
			fault.Hint = "say which with moved, or move what is in its way"
			return units.Resource{}, false, fault
		}
		for _, before = range f.generation.Resources {
			if slices.Contains(units.Targets(before), t.From) {
				return before, true, units.Fault{}
			}
		}
	}
	live := func(record state.Record) bool { return record.Resource == r.Address && record.State == state.Live }
	if f.lost && slices.ContainsFunc(f.records, live) {
		fault.Message += ", and the set that it was of is lost"
		fault.Hint = "give it back the names that it had, or move what is in its way"
		return units.Resource{}, false, fault
	}
	return units.Resource{}, false, units.Fault{}
}

// parted refuses to have a resource stay on a volume that it is to leave to another:
// the two would be at the same data.
func (in Input) parted(r, before units.Resource, held []state.Holding) units.Faults {
	var refused units.Faults
	for _, a := range before.Uses {
		if a.Kind != units.KindVolume || slices.Contains(r.Uses, a) {
			continue
		}
		for _, other := range in.Resources {
			if slices.Contains(other.Uses, a) && !isHeld(held, other.Address) {
				refused = append(refused, units.Fault{
					Position: r.Position,
					Message:  fmt.Sprintf("%s: is to be held as it is, on %s, which %s at %s is to use", r.Address, a, other.Address, other.Position),
					Hint:     "let that do without until what is in the way of the first is gone",
				})
			}
		}
	}
	return refused
}

// contested refuses to have a resource stay as it was while another is to have a
// name of it.
func contested(resources []units.Resource, stays map[units.Address]units.Resource) units.Faults {
	owner := map[units.Target]units.Resource{}
	var refused units.Faults
	said := map[units.Address]bool{}
	for _, r := range resources {
		for _, t := range units.Targets(r) {
			other, taken := owner[t]
			owner[t] = r
			if !taken {
				continue
			}
			held, wants := r, other
			if _, ok := stays[r.Address]; !ok {
				held, wants = other, r
			}
			if said[held.Address] {
				continue
			}
			said[held.Address] = true
			refused = append(refused, units.Fault{
				Position: held.Position,
				Message:  fmt.Sprintf("%s: is to be held as it is, and %s at %s is to have %s", held.Address, wants.Address, wants.Position, t),
				Hint:     "let that have another name until what is in the way of the first is gone",
			})
		}
	}
	return refused
}

// needed refuses to have a resource stay as it was while what it refers to does
// not.
func needed(resources []units.Resource, stays, was map[units.Address]units.Resource) units.Faults {
	now := map[units.Address]units.Resource{}
	for _, r := range resources {
		now[r.Address] = r
	}
	var refused units.Faults
	for _, r := range resources {
		if _, ok := stays[r.Address]; !ok {
			continue
		}
		for _, a := range r.Uses {
			n, declared := now[a]
			if declared && units.QuadletFile(n) == units.QuadletFile(was[a]) && units.Unit(n) == units.Unit(was[a]) {
				continue
			}
			refused = append(refused, units.Fault{
				Position: r.Position,
				Message:  fmt.Sprintf("%s: is to be held as it is, and needs %s as that was", r.Address, a),
				Hint:     "let that stay declared as it was until what is in the way is gone",
			})
		}
	}
	return refused
}

// cornered refuses what is to stay as it was, of which a name is somebody else's
// too: it can be left neither so nor out.
func cornered(taken []state.Holding, stays map[units.Address]units.Resource) units.Faults {
	var refused units.Faults
	for _, h := range taken {
		if _, ok := stays[h.Resource]; ok {
			refused = append(refused, units.Fault{
				Position: h.Position, Message: fmt.Sprintf("%s: is to be held as it is, and %s", h.Resource, h.Why()), Hint: leaveIt,
			})
		}
	}
	return refused
}

// beside returns the refusals that are of no resource that is held: those of one
// that is are of what it is not to become yet.
func beside(refused units.Faults, held []state.Holding) units.Faults {
	return slices.DeleteFunc(slices.Clone(refused), func(f units.Fault) bool {
		return slices.ContainsFunc(held, func(h state.Holding) bool { return h.Position == f.Position })
	})
}
