package apply

import (
	"fmt"
	"slices"

	"meshgen/state"
	"meshgen/units"
)

// builtin is the name under which the decisions of the program itself are
// shown.
const builtin = "builtin"

// judge decides the transitions that need it, and returns them with the
// refusals. before is the generation in force.
func judge(transitions []state.Transition, before, desired state.Generation) ([]state.Transition, units.Faults) {
	judged := make([]state.Transition, len(transitions))
	var refused units.Faults
	old, now := byAddress(before), byAddress(desired)
	holder := map[units.Target]units.Resource{}
	for _, r := range before.Resources {
		holder[units.Targets(r)[0]] = r
	}
	for i, t := range transitions {
		was, ok := old[t.Resource]
		if !ok {
			was = holder[t.From] // it had another address
		}
		t, hint := decide(t, was, now[t.Resource])
		if t.Decision != "" {
			t.Policy = builtin
		}
		if t.Decision == state.Refuse {
			refused = append(refused, units.Fault{Position: t.Position, Message: t.Resource.String() + ": " + refusal(t, now[t.Resource]), Hint: hint})
		}
		judged[i] = t
	}
	slices.SortStableFunc(refused, func(a, b units.Fault) int { return a.Position.Compare(b.Position) })
	return judged, refused
}

func byAddress(g state.Generation) map[units.Address]units.Resource {
	m := make(map[units.Address]units.Resource, len(g.Resources))
	for _, r := range g.Resources {
		m[r.Address] = r
	}
	return m
}

// decide is the table of decisions.
func decide(t state.Transition, before, desired units.Resource) (decided state.Transition, hint string) {
	volume := t.Resource.Kind == units.KindVolume
	switch t.Kind {
	case state.Takeover:
		t.Decision = state.Refuse
		return t, "what meshgen did not make it does not touch: give the resource another name, or move what is there out of the way"
	case state.Rename:
		t.Decision = state.Follow
		if t.From.Kind() == units.TargetVolume {
			t.Decision = state.Refuse
			t.Reason = "its data would stay behind and an empty volume take its place"
			return t, fmt.Sprintf("keep the data where it is with VolumeName: %q", t.From.Name())
		}
	case state.Update:
		if volume && !sameSection(before, desired, "Volume") {
			t.Decision = state.Refuse
			t.Reason = "podman cannot change a volume that exists"
			return t, "give it back its former options, or declare a new volume beside it"
		}
	case state.Transfer:
		t.Decision = state.Transferred
	case state.Remove:
		t.Decision = state.Removed
		if volume {
			t.Decision = state.Keep
			t.Reason = "a volume holds data"
		}
	case state.Drift:
		t.Decision = state.Restore
	case state.Create:
	}
	return t, ""
}

// refusal says what was refused, in words.
func refusal(t state.Transition, r units.Resource) string {
	switch t.Kind {
	case state.Takeover:
		return fmt.Sprintf("%s is taken: %s, and it is not of meshgen", t.To, t.Reason)
	case state.Rename:
		return fmt.Sprintf("rename of %s to %s: %s", t.From, t.To, t.Reason)
	case state.Create, state.Update, state.Transfer, state.Remove, state.Drift:
	}
	return fmt.Sprintf("%s of %s: %s", t.Kind, units.Object(r), t.Reason)
}

// sameSection reports whether a section says the same in both, whatever its
// place in the manifest.
func sameSection(a, b units.Resource, section string) bool {
	pick := func(r units.Resource) units.Resource {
		for _, s := range r.Sections {
			if s.Name == section {
				return units.Resource{Sections: []units.Section{s}}
			}
		}
		return units.Resource{}
	}
	return sameResource(pick(a), pick(b))
}
