package apply

import (
	"fmt"
	"slices"
	"strings"

	"meshgen/internal/hint"
	"meshgen/state"
	"meshgen/units"
)

// releases finds what was adopted and is to be given back: what the generation
// says, or the one that is in force said and could not be done, and what a switch
// that did not stand had adopted.
func (b before) releases(desired state.Generation) []state.Record {
	if len(b.adopted) == 0 {
		return nil
	}
	stands := b.generation.Number
	if b.undoes(desired) {
		stands = desired.Number
	}
	declared := holders(desired)
	var back []state.Record
	for _, r := range b.adopted {
		_, asked := desired.Released[r.Target]
		_, owed := b.generation.Released[r.Target]
		_, stays := declared[r.Target]
		lapsed := r.State != state.Retired && r.Adoption.Generation > stands
		if !stays && (asked || owed || lapsed) {
			back = append(back, r)
		}
	}
	return back
}

// givesBack reports whether a set gives back what was adopted for a resource, or is
// without it for that.
func givesBack(adopted []state.Record, desired state.Generation, a units.Address) bool {
	asked := func(t units.Target) bool { _, is := desired.Released[t]; return is }
	return slices.ContainsFunc(adopted, func(r state.Record) bool { return r.Resource == a && asked(r.Target) }) ||
		slices.ContainsFunc(desired.Held, func(h state.Holding) bool {
			return h.Resource == a && slices.ContainsFunc(h.Taken, func(t state.Transition) bool { return asked(t.To) })
		})
}

// takesPlace plans for a unit of a resource that adopts something, and reports
// whether it is one: where that ran, ours runs.
func (p *planner) takesPlace(u state.Unit) bool {
	ran, adopts := false, false
	for _, a := range p.plan.Adopt {
		if a.Resource != u.Resource {
			continue
		}
		if a.Same && a.Was.What == wasUnit {
			return true // it runs on
		}
		adopts = true
		ran = ran || a.Was.Running
	}
	if adopts && (u.Wanted || ran) {
		p.start[u.Name] = true
		p.because("start", u.Name, "takes the place of what is adopted")
	}
	return adopts
}

// operated returns the resources that the operator has adopt what is in their way:
// who names one of a resource's names means all of them.
func (b before) operated() map[units.Address]bool {
	resources := map[units.Address]bool{}
	for _, t := range b.transitions {
		if t.Kind == state.Takeover && slices.Contains(b.operator, t.To) {
			resources[t.Resource] = true
		}
	}
	return resources
}

// notInTheWay refuses to adopt by hand what is in no resource's way.
func notInTheWay(by asked, transitions []state.Transition, resources []units.Resource, held []state.Holding) units.Faults {
	var faults units.Faults
	var taken []string
	for _, t := range transitions {
		if t.Kind == state.Takeover {
			taken = append(taken, string(t.To))
		}
	}
	for _, t := range slices.Concat(by.taken, by.idle) {
		if slices.Contains(taken, string(t)) {
			continue
		}
		f := units.Fault{Message: string(t) + ": is in the way of no declared resource", Hint: "declare what is to have its place first"}
		if r, needs, waits := waiting(t, resources, held); waits {
			f = units.Fault{
				Position: r.Position, Message: fmt.Sprintf("%s: %s needs %s, which is held", t, r.Address, needs),
				Hint: "`" + hint.Command(append([]string{"meshgen", "adopt"}, forAll(r, by.taken, resources, held)...)...) + "` takes the place of all that it needs",
			}
		} else if r, ours := declaredBy(t, resources); ours {
			f = units.Fault{Position: r.Position, Message: fmt.Sprintf("%s: nothing is in its way: it is of %s, as declared", t, r.Address), Hint: "there is nothing to adopt"}
		} else if near := nearest(string(t), taken); near != "" {
			f.Hint = "nearest: " + near
		} else if len(taken) > 0 {
			f.Hint = "in the way are: " + strings.Join(taken, ", ")
		}
		faults = append(faults, f)
	}
	return faults
}

// declaredBy returns the resource that a name is of.
func declaredBy(t units.Target, resources []units.Resource) (units.Resource, bool) {
	i := slices.IndexFunc(resources, func(r units.Resource) bool { return slices.Contains(units.Targets(r), t) })
	if i < 0 {
		return units.Resource{}, false
	}
	return resources[i], true
}

// forAll returns what has to be adopted in one go for a resource: what was asked for
// and is in its own way, and what is in the way of what it needs.
func forAll(r units.Resource, taken []units.Target, resources []units.Resource, held []state.Holding) []string {
	var names []string
	for _, t := range taken {
		if slices.Contains(units.Targets(r), t) {
			names = appendNew(names, string(t))
		}
	}
	for _, t := range inTheWayOf(r.Address, resources, held) {
		names = appendNew(names, string(t))
	}
	return names
}

// waiting returns the resource that a name is of, where that is held since it needs
// another that is.
func waiting(t units.Target, resources []units.Resource, held []state.Holding) (r units.Resource, needs units.Address, waits bool) {
	for _, r := range resources {
		if !slices.Contains(units.Targets(r), t) {
			continue
		}
		for _, h := range held {
			if h.Resource == r.Address && h.Needs != (units.Address{}) {
				return r, h.Needs, true
			}
		}
	}
	return r, needs, false
}
