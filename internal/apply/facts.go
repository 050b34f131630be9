package apply

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"meshgen/policy"
	"meshgen/state"
	"meshgen/units"
)

// facts returns what a policy may ask about a transition: see [policy.FactTable].
// What does not apply, or is not known without a further look, is left out.
func (j judgement) facts(t state.Transition) map[string]string {
	f := map[string]string{
		"transition": string(t.Kind), "resource": t.Resource.String(), "module": t.Resource.Module,
		"kind": string(t.Resource.Kind), "id": t.Resource.ID,
		"data":         strconv.FormatBool(j.holdsData(t)),
		"node.adopted": strconv.FormatBool(j.adopted),
	}
	put := func(key, value string) {
		if value != "" {
			f[key] = value
		}
	}
	put("node.name", j.node)
	if j.generation > 0 {
		put("generation", strconv.Itoa(j.generation))
	}
	for side, target := range map[string]units.Target{"from": t.From, "to": t.To} {
		if target != "" {
			f[side], f[side+".kind"], f[side+".name"] = string(target), target.Kind(), target.Name()
		}
	}
	put("change", string(t.Change))
	put("dependents", j.dependents(t.Resource))
	put("candidates", j.candidates(t))
	for name, setting := range j.settings(t) {
		f["policy."+name] = setting
	}
	j.declaredFacts(t, put)
	j.recordFacts(t, put)
	if t.Kind == state.Takeover {
		j.occupantFacts(t, f, put)
	} else {
		j.oursFacts(t, put)
	}
	for key := range f {
		if row, known := policy.FactOf(key); known && !row.In(string(t.Kind)) {
			delete(f, key) // what the table does not promise for it, nobody relies on
		}
	}
	return f
}

// holdsData reports whether what the transition is about holds data: of a volume's
// names, only that of the volume itself. A directory does where something is in it that is
// not of meshgen, and one that is gone may have.
func (j judgement) holdsData(t state.Transition) bool {
	switch {
	case t.Resource.Kind == units.KindDir && t.Change == state.Gone:
		was := j.old[t.Resource].Dir // else it was never in force, and perhaps never made
		return was != nil && was.Path == t.From.Name()
	case t.Resource.Kind == units.KindDir:
		return j.seen.Dirs[cmp.Or(t.From, t.To)].Holds
	}
	if t.Kind == state.Rename {
		return t.From.Kind() == units.TargetVolume
	}
	return t.Resource.Kind == units.KindVolume
}

// list returns the words in order, once each.
func list(words []string) string {
	words = slices.Clone(words)
	slices.Sort(words)
	return strings.Join(slices.Compact(words), " ")
}

// settings returns what the manifest says to the policy of a transition. Of what is
// no longer declared, what was said last counts.
func (j judgement) settings(t state.Transition) map[string]string {
	if r, declared := j.now[t.Resource]; declared {
		return r.Policy
	}
	return j.was(t).Policy
}

func (j judgement) dependents(a units.Address) string {
	var found []string
	for _, r := range j.now {
		if slices.Contains(r.Uses, a) {
			found = append(found, r.Address.String())
		}
	}
	return list(found)
}

// candidates returns the resources that a transfer may come from.
func (j judgement) candidates(t state.Transition) string {
	if t.Kind != state.Transfer {
		return ""
	}
	var found []string
	for _, a := range t.Candidates {
		found = append(found, a.String())
	}
	if r, ok := j.records[t.From]; ok && len(found) == 0 {
		found = []string{cmp.Or(r.Recorded, r.Resource).String()}
	}
	return list(found)
}

func (j judgement) declaredFacts(t state.Transition, put func(key, value string)) {
	r, declared := j.now[t.Resource]
	if !declared {
		return
	}
	put("declared.image", r.Value("Container", "Image"))
	var ports []string
	for _, p := range units.Ports(r) {
		ports = append(ports, p.Target().Name())
	}
	put("declared.ports", list(ports))
	if r.File != nil {
		put("declared.digest", r.File.Digest)
		return
	}
	u := j.unit[t.Resource]
	put("declared.digest", cmp.Or(u.Text, u.Digest))
}

func (j judgement) recordFacts(t state.Transition, put func(key, value string)) {
	r, known := j.records[cmp.Or(t.From, t.To)]
	if !known {
		return
	}
	put("record.state", string(r.State))
	put("record.origin", r.Origin)
	if r.Last.Generation > 0 {
		put("record.generation", strconv.Itoa(r.Last.Generation))
	}
}

// occupantFacts tell of what has the name that a resource is to have.
func (j judgement) occupantFacts(t state.Transition, f map[string]string, put func(key, value string)) {
	by, there := j.seen.Taken[t.To]
	record := j.records[t.To]
	f["observed.exists"] = strconv.FormatBool(there)
	f["observed.released"] = strconv.FormatBool(record.Origin == state.OriginReleased && record.Why == state.ByHand)
	if !there {
		return
	}
	f["observed.running"] = strconv.FormatBool(by.Running)
	f["observed.same"] = strconv.FormatBool(by.Same)
	put("observed.owner", owner(by, record))
	put("observed.what", by.What)
	put("observed.id", by.ID)
	put("observed.image", by.Image)
	put("observed.image.id", by.ImageID)
	put("observed.ports", list(by.Ports))
	put("observed.networks", list(by.Networks))
	put("observed.digest", by.Digest)
	put("observed.path", by.Path)
	put("observed.unit", by.Unit)
	put("observed.pod", by.Pod)
	for name, value := range by.Labels {
		f["observed.label."+name] = value // which may be ""
	}
	if !by.Created.IsZero() {
		put("observed.age", strconv.FormatInt(int64(max(0, j.at.Sub(by.Created))/time.Second), 10))
	}
}

// owner says whose something is that has a name of ours.
func owner(by state.Occupant, record state.Record) string {
	switch {
	case strings.HasPrefix(by.Path, "/usr/"):
		return "package"
	case record.State == state.Held:
		return "meshgen" // it was let be, and is not as it is to be now
	case record.State == state.Found:
		return "found"
	}
	return "foreign"
}

// oursFacts tell of what is ours, as far as the look has it. Podman is asked about
// none of it.
func (j judgement) oursFacts(t state.Transition, put func(key, value string)) {
	record, known := j.records[t.From]
	if !known {
		return
	}
	put("observed.owner", "meshgen")
	switch t.From.Kind() {
	case units.TargetFile:
		lies, there := j.seen.Files[t.From]
		put("observed.exists", strconv.FormatBool(there))
		if !there {
			return
		}
		put("observed.path", t.From.Name())
		by := fileHolder(t.From.Name(), lies)
		put("observed.what", by.What)
		put("observed.digest", by.Digest)
		if r, declared := j.now[t.Resource]; declared && r.File != nil {
			put("observed.same", strconv.FormatBool(lies == stateOf(*r.File)))
		}
	case units.TargetDir:
		lies, there := j.seen.Dirs[t.From]
		put("observed.exists", strconv.FormatBool(there))
		if r, declared := j.now[t.Resource]; there && declared && r.Dir != nil {
			by := dirHolder(t.From.Name(), lies, *r.Dir)
			put("observed.path", by.Path)
			put("observed.what", by.What)
			put("observed.same", strconv.FormatBool(by.Same))
		}
	case units.TargetUnit:
		u, there := j.running[t.From.Name()]
		if !there {
			return
		}
		put("observed.exists", strconv.FormatBool(u.Up() || u.Load == "loaded" || u.Load == "masked"))
		put("observed.running", strconv.FormatBool(u.Up()))
		put("observed.unit", t.From.Name())
		put("observed.what", "unit")
		if t.Change == state.Masked {
			put("observed.what", "mask")
		}
	case units.TargetContainer, units.TargetPod:
		unit := units.Unit(j.was(t))
		if u, there := j.running[unit]; there {
			put("observed.running", strconv.FormatBool(u.Up()))
			put("observed.unit", unit)
		}
		put("observed.id", record.Container)
		put("observed.what", t.From.Kind())
	case units.TargetVolume, units.TargetNetwork:
		put("observed.what", t.From.Kind())
	}
}
