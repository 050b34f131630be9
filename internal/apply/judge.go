package apply

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"meshgen/state"
	"meshgen/units"
)

// builtin is the name under which the decisions of the program itself are
// shown.
const builtin = "builtin"

const leaveIt = "what meshgen did not make it does not touch: give the resource another name, or move what is there out of the way"

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
	refused = append(refused, strayed(before, desired, migrations(judged))...)
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
		return t, leaveIt
	case state.Rename:
		t.Decision = state.Follow
		if t.From.Kind() == units.TargetVolume {
			return decideVolume(t, desired)
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
		if t.Reason == "is a directory" {
			t.Decision = state.Refuse
			return t, "move it out of the way"
		}
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
	case state.Drift:
		return t.To.Name() + " " + t.Reason
	case state.Create, state.Update, state.Transfer, state.Remove:
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

// strayed refuses a container that would find an empty volume where it had its
// data: the volume that it mounts there is not the one it mounted, which is no
// longer declared, but one that is new. That is a rename in all but name.
// What is migrated finds its data.
func strayed(before, desired state.Generation, migrated map[units.Target]units.Target) units.Faults {
	was, is := volumes(before), volumes(desired)
	old := map[string]units.Resource{}
	for _, r := range before.Resources {
		old[units.Unit(r)] = r
	}
	at := byAddress(before)
	var refused units.Faults
	for _, r := range desired.Resources {
		former, ok := at[r.Address]
		if !ok {
			former, ok = old[units.Unit(r)]
		}
		if !ok {
			former, ok = moved(before, byAddress(desired), r)
		}
		if r.Address.Kind != units.KindContainer || !ok {
			continue
		}
		had := mounts(former)
		for path, now := range mounts(r) {
			then, there := was[had[path]], is[now]
			if then == "" || there == "" || then == there || migrated[then] == there || declares(is, then) || declares(was, there) {
				continue
			}
			refused = append(refused, units.Fault{
				Position: r.Position,
				Message:  fmt.Sprintf("%s: would find %s at %s, where it has its data in %s", r.Address, there, path, then),
				Hint:     fmt.Sprintf("keep the data with VolumeName: %q in the new volume, or declare the new volume in a switch of its own first", then.Name()),
			})
		}
	}
	return refused
}

// moved returns the container that is no longer declared and that this one looks
// like, of another module by the same id.
func moved(before state.Generation, desired map[units.Address]units.Resource, r units.Resource) (units.Resource, bool) {
	for _, former := range before.Resources {
		if _, stays := desired[former.Address]; stays || former.Address.Kind != r.Address.Kind || former.Address.ID != r.Address.ID {
			continue
		}
		if former.Value("Container", "Image") == r.Value("Container", "Image") {
			return former, true
		}
	}
	return units.Resource{}, false
}

func declares(volumes map[string]units.Target, object units.Target) bool {
	for _, v := range volumes {
		if v == object {
			return true
		}
	}
	return false
}

// volumes returns the volumes of a generation by the names of their Quadlets.
func volumes(g state.Generation) map[string]units.Target {
	found := map[string]units.Target{}
	for _, r := range g.Resources {
		if r.Address.Kind == units.KindVolume {
			found[units.QuadletFile(r)] = units.Object(r)
		}
	}
	return found
}

// mounts returns the Quadlets of the volumes that a container mounts, by path.
func mounts(r units.Resource) map[string]string {
	found := map[string]string{}
	for _, v := range r.Values("Container", "Volume") {
		if fields := strings.Split(v, ":"); len(fields) > 1 {
			found[fields[1]] = fields[0]
		}
	}
	for _, v := range r.Values("Container", "Mount") {
		options := map[string]string{}
		for field := range strings.SplitSeq(v, ",") {
			name, value, _ := strings.Cut(field, "=")
			options[name] = value
		}
		path := cmp.Or(options["destination"], options["dst"], options["target"])
		found[path] = cmp.Or(options["source"], options["src"])
	}
	return found
}
