package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// podmans tells of podman's objects that are not declared.
func (j *joiner) podmans() {
	for _, o := range sorted(j.Objects[units.TargetPod]) {
		j.object(units.Of(units.TargetPod, o.Name), o)
	}
	for _, o := range sorted(j.Objects[units.TargetContainer]) {
		if o.Infra || o.External || j.inToldPod(o) {
			continue // podman's own, or another tool's, or told with its pod
		}
		j.object(units.Of(units.TargetContainer, o.Name), o)
	}
	for _, kind := range []string{units.TargetNetwork, units.TargetVolume, units.TargetSecret} {
		for _, o := range sorted(j.Objects[kind]) {
			if (kind == units.TargetNetwork && o.Name == "podman") || (o.Anonymous && !j.Unused[o.Name]) {
				continue // there from the start; or goes with its container
			}
			j.object(units.Of(kind, o.Name), o)
		}
	}
}

func sorted(objects map[string]host.Object) []host.Object {
	all := make([]host.Object, 0, len(objects))
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		all = append(all, objects[name])
	}
	return all
}

func (j *joiner) inToldPod(o host.Object) bool {
	return o.PodName != "" && j.told[units.Of(units.TargetPod, o.PodName)]
}

// object tells of an object that is not declared.
func (j *joiner) object(t units.Target, o host.Object) {
	r := j.Records[t]
	if _, declared := j.declared[t]; declared || j.told[t] || r.State == state.Held || j.isDeclaredOnes(o) {
		return
	}
	f := Finding{Class: j.strange(r), Target: t, Owner: j.owner(o), Since: o.Created, Fix: removal(t, o)}
	said := what(t, o)
	switch {
	case r.State == state.Live:
		f.Class, f.Owner, f.Fix = Stale, meshgen, switchFix
		said += ", no longer declared"
	case r.State == state.Found && r.Emissions > 0: // let go, whatever mark it bears
		f.Class, f.Fix = Found, ""
	case o.Labels[units.MarkLabel] != "":
		f.Class, f.Owner = Stale, meshgen
		f.Resource, _ = units.ParseAddress(o.Labels[units.MarkLabel]) // the zero one where it is none
		said += fmt.Sprintf(", bears meshgen's mark, of %s", o.Labels[units.MarkLabel])
	case f.Class == Found:
		f.Fix = ""
	}
	f.Detail = sentence(said, j.past(t))
	if o.Unit != "" {
		j.withUnit(&f, t, o)
	}
	if t.Kind() == units.TargetPod {
		f.Also = append(f.Also, j.inPod(o)...)
	}
	j.tell(f)
}

// withUnit adds what is to be said of the unit that runs an object.
func (j *joiner) withUnit(f *Finding, t units.Target, o host.Object) {
	unit := units.Of(units.TargetUnit, o.Unit)
	u := j.Units[o.Unit]
	left := j.Left[o.Unit] != nil && o.Running
	if _, declared := j.unit[o.Unit]; declared || (!u.Up() && !left) {
		return
	}
	f.Also = append(f.Also, unit)
	switch {
	case left || u.Stranded():
		// Who had it before the first switch has lost it since.
		if f.Class == Found {
			f.Class = Foreign
		}
		if f.Fix != switchFix {
			f.Fix = removal(t, o) // the unit ends with it, by itself
		}
		how := limbo
		if left {
			how = "has ended, and left it"
		}
		f.Detail = sentence(f.Detail, o.Unit+" "+how, about(o.Unit, j.past(unit)))
	case f.Class == Foreign:
		if path := j.Definitions[o.Unit]; path != "" {
			f.Fix = j.undefine(o.Unit, path)
		} else {
			f.Fix = "systemctl stop " + operand(o.Unit)
		}
		f.Detail = sentence(f.Detail, "run by "+o.Unit)
	}
}

// about says of what something is said, where there is more than one.
func about(name, words string) string {
	if words == "" || words == unknownPast {
		return ""
	}
	return name + " " + words
}

// inPod returns the containers of a pod but for its own.
func (j *joiner) inPod(pod host.Object) []units.Target {
	var in []units.Target
	for _, o := range sorted(j.Objects[units.TargetContainer]) {
		if o.Pod == pod.ID && !o.Infra {
			in = append(in, units.Of(units.TargetContainer, o.Name))
		}
	}
	return in
}

// isDeclaredOnes reports whether a container is that of a unit that is declared, under
// another name: the drift of that tells of it.
func (j *joiner) isDeclaredOnes(o host.Object) bool {
	u, declared := j.unit[o.Unit]
	return declared && o.ID != "" && j.Records[units.Of(units.TargetUnit, u.Name)].Container == o.ID
}

// what says what an object is.
func what(t units.Target, o host.Object) string {
	switch t.Kind() {
	case units.TargetContainer:
		does := "does not run"
		switch {
		case o.Running:
			does = "runs"
		case o.Frozen:
			does = "is paused"
		}
		return fmt.Sprintf("a container of image %s, %s", o.Image, does)
	case units.TargetVolume:
		if o.Anonymous {
			return "a volume without a name, which no container uses"
		}
	}
	return "a " + t.Kind()
}

// owner says who has an object that is not ours.
func (j *joiner) owner(o host.Object) string {
	project := cmp.Or(o.Labels["io.podman.compose.project"], o.Labels["com.docker.compose.project"])
	switch {
	case o.Unit != "" && j.Definitions[o.Unit] != "":
		return j.Definitions[o.Unit]
	case o.Unit != "":
		return o.Unit
	case project != "":
		return "compose project " + project
	}
	return ""
}
