package apply

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"meshgen/internal/host"
	"meshgen/policy"
	"meshgen/state"
	"meshgen/units"
)

// Operator is the name under which what was decided by hand is shown.
const Operator = "operator"

const leaveIt = "what meshgen did not make it does not touch: give the resource another name, or move what is there out of the way"

// judge decides the transitions that need it, and returns them with the
// refusals.
func judge(ctx context.Context, b before, desired state.Generation, ask asker) ([]state.Transition, units.Faults) {
	j := newJudgement(b, desired)
	judged := make([]state.Transition, len(b.transitions))
	var refused units.Faults
	for i, t := range b.transitions {
		if policy.Offers(string(t.Kind)) != nil {
			t = j.decide(ctx, ask, t)
		}
		own := ownRefusal(t)
		t, hint := j.permit(t)
		if own != "" {
			hint = own
		}
		if t.Decision == state.Refuse {
			refused = append(refused, units.Fault{Position: t.Position, Message: t.Resource.String() + ": " + refusal(t, j.now[t.Resource]), Hint: hint})
		}
		judged[i] = t
	}
	refused = append(refused, strayed(b.generation, desired, migrations(judged), b.seen.observed.Dirs)...)
	slices.SortStableFunc(refused, func(a, b units.Fault) int { return a.Position.Compare(b.Position) })
	return judged, refused
}

// ownRefusal says what to do where a policy of the module's own refuses, with reason
// or since it is at fault: the settings of the built-in one are not asked for. ""
// where it does not refuse.
func ownRefusal(t state.Transition) string {
	switch {
	case t.Decision != state.Refuse || t.Policy == policy.BuiltinName || t.Policy == Operator || t.Policy == "":
		return ""
	case t.Kind == state.Remove:
		return "declare it again without wasm, switch, then take it away; meshgen policy test " + t.Policy + " tries the policy"
	}
	return "meshgen policy show " + t.Policy + " looks at it, meshgen policy test tries it; without wasm the built-in policy decides"
}

func byAddress(g state.Generation) map[units.Address]units.Resource {
	m := make(map[units.Address]units.Resource, len(g.Resources))
	for _, r := range g.Resources {
		m[r.Address] = r
	}
	return m
}

// judgement is what decisions are taken on.
type judgement struct {
	at         time.Time // of the look
	node       string
	adopted    bool // the node has a past
	generation int  // in force
	seen       state.Observed
	running    map[string]host.Unit // units, by name
	// records are what the ledger has of what is ours, and of what is in the way.
	records  map[units.Target]state.Record
	operator map[units.Address]bool           // that the operator has adopt what is in their way
	released map[units.Address]bool           // of which the switch gives back what was adopted
	old, now map[units.Address]units.Resource // before and desired
	unit     map[units.Address]state.Unit     // desired
	holder   map[units.Target]units.Resource  // before, by the first target
}

func newJudgement(b before, desired state.Generation) judgement {
	j := judgement{
		at: b.at, node: desired.Node, adopted: desired.Adopted, generation: b.generation.Number, seen: b.seen.observed, running: b.seen.units,
		records: map[units.Target]state.Record{}, old: byAddress(b.generation), now: byAddress(desired),
		operator: b.operated(), released: map[units.Address]bool{}, unit: map[units.Address]state.Unit{}, holder: map[units.Target]units.Resource{},
	}
	for _, r := range slices.Concat(b.inTheWay, b.records) {
		j.records[r.Target] = r
	}
	for _, t := range b.transitions {
		j.released[t.Resource] = givesBack(b.adopted, desired, t.Resource)
	}
	for _, u := range desired.Units {
		j.unit[u.Resource] = u
	}
	for _, r := range b.generation.Resources {
		j.holder[units.Targets(r)[0]] = r
	}
	return j
}

// was returns what the resource of a transition was before.
func (j judgement) was(t state.Transition) units.Resource {
	if r, ok := j.old[t.Resource]; ok {
		return r
	}
	return j.holder[t.From] // it had another address
}

// of returns the resource whose policy decides a transition: of what is no longer
// declared, what was said last counts.
func (j judgement) of(t state.Transition) units.Resource {
	if r, declared := j.now[t.Resource]; declared {
		return r
	}
	return j.was(t)
}

// decide has the policy of the resource decide, where its owner has not: by
// meshgen adopt, or by meshgen release, now or before.
func (j judgement) decide(ctx context.Context, ask asker, t state.Transition) state.Transition {
	switch {
	case t.Kind == state.Takeover && j.operator[t.Resource]:
		t.Decision, t.Policy = state.Adopt, Operator
	case t.Kind == state.Takeover && j.seen.Taken[t.To].Released:
		t.Decision, t.Policy = state.Hold, Operator
		t.Reason += "; it was " + state.ByHand
	case t.Kind == state.Remove && j.released[t.Resource]:
		t.Decision, t.Policy = state.Removed, Operator
		if j.holdsData(t) || t.Resource.Kind == units.KindDir {
			t.Decision = state.Keep
		}
	default:
		t = ask.decide(ctx, j.of(t).Wasm, j.facts(t), t)
	}
	return t
}

// permit refuses what no policy may decide so, and puts what was decided in
// words, with what to do next where it was refused. Transitions that nobody has to
// decide get words alone.
func (j judgement) permit(t state.Transition) (decided state.Transition, hint string) {
	switch t.Kind {
	case state.Takeover:
		if by := j.seen.Taken[t.To]; t.Decision == state.Refuse && by.Unfit != "" {
			return t, by.Instead
		}
		if t.Decision == state.Refuse {
			return t, leaveIt
		}
	case state.Rename:
		return j.rename(t)
	case state.Update:
		was := j.was(t)
		if t.Resource.Kind == units.KindVolume && was.Address.Kind == units.KindVolume && !sameSection(was, j.now[t.Resource], "Volume") {
			t.Decision, t.Policy = state.Refuse, policy.BuiltinName
			t.Reason = "podman cannot change a volume that exists"
			return t, "give it back its former options, or declare a new volume beside it"
		}
	case state.Transfer:
		return j.transfer(t)
	case state.Remove:
		return j.remove(t)
	case state.Drift:
		return j.drift(t)
	case state.Create:
		if former, ok := j.lookalike(t.Resource); ok {
			t.Reason = fmt.Sprintf("looks like %s, which goes; if it is the same, say moved: [{from: %q, to: %q}]", former, former, t.Resource)
		}
	}
	return t, ""
}

func (j judgement) rename(t state.Transition) (decided state.Transition, hint string) {
	switch {
	case t.From.Kind() == units.TargetVolume:
		return permitVolume(t)
	case t.From.Kind() == units.TargetDir && j.holdsData(t):
		return refuseToLeave(t)
	case t.Decision == state.Refuse:
		return t, fmt.Sprintf("give it back the name %s, or allow it with policy: rename: \"follow\"", t.From.Name())
	}
	t.Decision = state.Follow // there is nothing to migrate
	return t, ""
}

// refuseToLeave refuses to give another path to a directory that holds something: that
// would stay behind.
func refuseToLeave(t state.Transition) (decided state.Transition, hint string) {
	if t.Decision != state.Refuse {
		t.Decision, t.Reason = state.Refuse, "what it holds would stay behind, and an empty one take its place"
	}
	from, to := t.From.Name(), t.To.Name()
	return t, fmt.Sprintf("give it back its path; or stop what uses it, move it with mv %s %s, then meshgen adopt %s", from, to, t.To)
}

func (j judgement) transfer(t state.Transition) (decided state.Transition, hint string) {
	switch {
	case len(t.Candidates) > 1:
		t.Decision = state.Refuse
		return t, fmt.Sprintf("say which, with moved: [{from: %q, to: %q}]", t.Candidates[0], t.Resource)
	case t.Decision == state.Refuse:
		return t, "give it back its former address, or allow it with policy: transfer: \"transfer\""
	}
	return t, ""
}

func (j judgement) remove(t state.Transition) (decided state.Transition, hint string) {
	switch {
	case t.Resource.Kind == units.KindDir && t.Decision == state.Removed && j.holdsData(t):
		t.Decision, t.Reason = state.Keep, "it holds something that is not of meshgen, and stays"
	case t.Resource.Kind == units.KindDir && t.Decision == state.Removed:
		declared := slices.SortedFunc(maps.Values(j.now), func(a, b units.Resource) int { return cmp.Compare(a.Address.String(), b.Address.String()) })
		if in, stays := declaredIn(t.From.Name(), declared); stays {
			t.Reason = fmt.Sprintf("it stays as long as it is on the way to %s", in.Address)
		} else if by, used := usedIn(t.From.Name(), declared); used {
			t.Reason = usedWords(by)
		}
	case t.Decision == state.Keep && runs(t.Resource.Kind):
		t.Decision = state.Refuse
		t.Reason = "without its unit nothing could stop it any more"
		return t, "declare it again, or let it go with policy: remove: \"remove\" before it is taken away"
	case t.Decision == state.Refuse && runs(t.Resource.Kind):
		return t, "declare it again, or let it go with policy: remove: \"remove\" before it is taken away"
	case t.Decision == state.Refuse:
		return t, "declare it again, with policy: remove: \"remove\", before it goes"
	}
	return t, ""
}

// runs reports whether what is of that kind runs on the machine.
func runs(k units.Kind) bool {
	switch k {
	case units.KindVolume, units.KindNetwork, units.KindFile, units.KindDir, units.KindSecret:
		return false
	case units.KindContainer, units.KindPod, units.KindUnit:
	}
	return true
}

func (j judgement) drift(t state.Transition) (decided state.Transition, hint string) {
	// What is found is not ours, and a mask is its owner's word.
	found := t.Change == state.Overridden || t.Change == state.Masked || t.Change == state.Remade
	inDirsPlace := t.Resource.Kind == units.KindDir && (t.Change == state.File || t.Change == state.Symlink || t.Change == state.Special)
	switch {
	case t.Decision == state.Restore && inDirsPlace:
		t.Decision = state.Refuse
		t.Reason += ", and what was found is not overwritten"
		return t, "move it out of the way, and the directory back with what it held; or have the policy keep it"
	case t.Change == state.Directory:
		t.Decision = state.Refuse
		return t, "move it out of the way"
	case t.Decision == state.Restore && found:
		t.Decision = state.Refuse
		t.Reason += ", and what was found is not overwritten"
		return t, "have the policy keep it, or put it right by hand"
	case t.Decision == state.Refuse && t.Change == state.Gone && t.Resource.Kind == units.KindDir && j.holdsData(t):
		return t, fmt.Sprintf("bring it back with what it held, or make it with mkdir %s; or have an empty one with policy: drift: \"restore\"", t.To.Name())
	case t.Decision == state.Refuse && t.Change == state.Gone && j.holdsData(t):
		return t, fmt.Sprintf("bring its data back, with podman volume create %s and podman volume import, or have an empty one with policy: drift: \"restore\"", t.To.Name())
	case t.Decision == state.Refuse:
		return t, "look at what changed, and put it back or into the manifest"
	}
	return t, ""
}

// lookalike returns the address of the one resource that goes and that the one
// that comes is equal to, in all but its names.
func (j judgement) lookalike(a units.Address) (units.Address, bool) {
	var former []units.Address
	for other, r := range j.old {
		if _, stays := j.now[other]; !stays && alike(r, j.now[a]) {
			former = append(former, other)
		}
	}
	for other, r := range j.now {
		if _, was := j.old[other]; !was && other != a && alike(r, j.now[a]) {
			return units.Address{}, false
		}
	}
	if len(former) != 1 {
		return units.Address{}, false
	}
	return former[0], true
}

// alike reports whether two resources are equal in all but their names.
func alike(a, b units.Resource) bool {
	if a.Address.Kind != b.Address.Kind {
		return false
	}
	if a.File != nil {
		return a.File.Digest == b.File.Digest
	}
	if a.Secret != nil {
		return a.Secret.Digest == b.Secret.Digest
	}
	if a.Dir != nil {
		return false // many have one mode and owner
	}
	return sameResource(nameless(a), nameless(b))
}

// nameless returns the resource without what it is called and what that leads
// to.
func nameless(r units.Resource) units.Resource {
	r.Address, r.Name, r.Uses = units.Address{Kind: r.Address.Kind}, "", nil
	sections := slices.Clone(r.Sections)
	for i, s := range sections {
		sections[i].Entries = slices.DeleteFunc(slices.Clone(s.Entries), func(e units.Entry) bool {
			switch e.Key {
			case "ContainerName", "PodName", "VolumeName", "NetworkName", "ServiceName":
				return true
			}
			return false
		})
	}
	r.Sections = sections
	return r
}

// refusal says what was refused, in words.
func refusal(t state.Transition, r units.Resource) string {
	if ownRefusal(t) != "" && t.Said != "" {
		cause := t.Spoken()
		t.Said = ""
		return cause + "; " + refusal(t, r)
	}
	switch t.Kind {
	case state.Takeover:
		return fmt.Sprintf("%s is taken: %s", t.To, t.Why())
	case state.Rename:
		return strings.TrimSuffix(fmt.Sprintf("rename of %s to %s: %s", t.From, t.To, t.Why()), ": ")
	case state.Drift:
		return t.To.Name() + " " + t.Why()
	case state.Remove:
		return strings.TrimSuffix(fmt.Sprintf("%s is to go: %s", t.From, t.Why()), ": ")
	case state.Transfer:
		return fmt.Sprintf("transfer of %s: it %s", t.To, t.Why())
	case state.Create, state.Update:
	}
	return fmt.Sprintf("%s of %s: %s", t.Kind, units.Object(r), t.Why())
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
// What is migrated finds its data. A declared directory that it mounts is as a volume is,
// where the old one holds something and the new one does not.
func strayed(
	before, desired state.Generation, migrated map[units.Target]units.Target, dirs map[units.Target]state.DirState,
) units.Faults {
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
		if !ok || (r.Address.Kind != units.KindContainer && r.Address.Kind != units.KindPod) {
			continue
		}
		had := mounts(former)
		for path, now := range mounts(r) {
			then, there := was[had[path]], is[now]
			if then == "" || there == "" || then == there || migrated[then] == there || declares(is, then) || declares(was, there) {
				continue
			}
			if dirs[there].Holds || (then.Kind() == units.TargetDir && !dirs[then].Holds) {
				continue
			}
			refused = append(refused, units.Fault{
				Position: r.Position,
				Message:  fmt.Sprintf("%s: would find %s at %s, where it has its data in %s", r.Address, there, path, then),
				Hint:     findIt(then, there),
			})
		}
	}
	return refused
}

// findIt says how a container finds its data.
func findIt(then, there units.Target) string {
	if then.Kind() != there.Kind() {
		return fmt.Sprintf("move the data by hand first; to begin empty, declare %s in a switch of its own first", there)
	}
	if there.Kind() == units.TargetDir {
		return fmt.Sprintf("stop it, move the data with mv %s %s, then meshgen adopt %s; to begin empty, declare the new directory in a switch of its own first",
			then.Name(), there.Name(), there)
	}
	return fmt.Sprintf("say where it came from with moved, or keep the data with VolumeName: %q in the new volume; to begin empty, declare the new volume in a switch of its own first", then.Name())
}

// moved returns the container that is no longer declared and that this one looks
// like: of another module by the same id, or the only one of its image.
func moved(before state.Generation, desired map[units.Address]units.Resource, r units.Resource) (units.Resource, bool) {
	var gone []units.Resource
	for _, former := range before.Resources {
		_, stays := desired[former.Address]
		if stays || former.Address.Kind != r.Address.Kind {
			continue
		}
		if former.Address.ID == r.Address.ID {
			return former, true
		}
		if former.Value("Container", "Image") == r.Value("Container", "Image") {
			gone = append(gone, former)
		}
	}
	if len(gone) != 1 {
		return units.Resource{}, false
	}
	return gone[0], true
}

func declares(volumes map[string]units.Target, object units.Target) bool {
	for _, v := range volumes {
		if v == object {
			return true
		}
	}
	return false
}

// volumes returns the volumes of a generation by the names of their Quadlets, and the
// directories by their paths: by what a container names as the source of a mount.
func volumes(g state.Generation) map[string]units.Target {
	found := map[string]units.Target{}
	for _, r := range g.Resources {
		if r.Address.Kind == units.KindVolume {
			found[units.QuadletFile(r)] = units.Object(r)
		}
		if r.Dir != nil {
			found[r.Dir.Path] = units.Of(units.TargetDir, r.Dir.Path)
		}
	}
	return found
}

// mounts returns the Quadlets of the volumes that a container or a pod mounts, by
// path.
func mounts(r units.Resource) map[string]string {
	found := map[string]string{}
	for _, v := range append(r.Values("Container", "Volume"), r.Values("Pod", "Volume")...) {
		if fields := strings.Split(v, ":"); len(fields) > 1 {
			found[filepath.Clean(fields[1])] = clean(fields[0])
		}
	}
	for _, v := range r.Values("Container", "Mount") {
		options := map[string]string{}
		for field := range strings.SplitSeq(v, ",") {
			name, value, _ := strings.Cut(field, "=")
			options[name] = value
		}
		path := cmp.Or(options["destination"], options["dst"], options["target"])
		found[filepath.Clean(path)] = clean(cmp.Or(options["source"], options["src"]))
	}
	return found
}

// clean returns the shortest form of what is mounted, where that is a path.
func clean(source string) string {
	if filepath.IsAbs(source) {
		return filepath.Clean(source)
	}
	return source
}
