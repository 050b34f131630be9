package apply

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// before is what a plan starts from.
type before struct {
	generation  state.Generation // that systemd has
	records     []state.Record
	seen        sight
	at          time.Time               // of the look
	inTheWay    []state.Record          // of what is taken, and not ours
	transitions []state.Transition      // judged
	adopt       []Adoption              // of what was decided so
	adopted     []state.Record          // what was adopted and was not given back, gone names too
	gone        map[units.Target]string // of those that are to be given back, what is not there any more, in words
	operator    []units.Target          // adopted by the operator's word
	// begins says that the switch was not begun before: what is done once, and
	// before the flip, is for that alone.
	begins bool
	// lost says that nothing is in force though the ledger has a set: systemd has
	// lost it, or will at the next boot.
	lost bool
}

// makePlan says what has to be done to get from before to desired. It is pure.
func makePlan(b before, desired state.Generation) Plan {
	p := planner{
		before: b, desired: desired,
		unit: map[string]state.Unit{}, of: map[units.Address]string{}, resource: byAddress(desired), old: byAddress(b.generation),
		record: map[units.Target]state.Record{}, stop: map[string]bool{}, start: map[string]bool{}, restart: map[string]bool{},
		handover: map[string]string{}, reload: map[string]bool{},
		removal: map[units.Address]state.Transition{}, kept: map[units.Target]bool{}, restores: map[units.Target]string{},
	}
	p.plan.reasons = map[reasonKey]string{}
	for _, u := range desired.Units {
		p.unit[u.Name] = u
		p.of[u.Resource] = u.Name
	}
	for _, r := range b.records {
		p.record[r.Target] = r
	}
	p.plan.Adopt = b.adopt
	for _, r := range b.releases(desired) {
		if b.gone[r.Target] == "" {
			p.plan.Release = append(p.plan.Release, r.Target)
		} else {
			p.plan.Lost = append(p.plan.Lost, r.Target)
			p.because("release", string(r.Target), b.gone[r.Target])
		}
	}
	for _, t := range b.transitions {
		switch {
		case t.Kind == state.Remove:
			p.removal[t.Resource] = t
		case t.Kind == state.Drift && t.Decision == state.Keep:
			p.kept[t.To] = true
		case t.Kind == state.Drift && t.Decision == state.Restore && b.seen.observed.Missing[t.To] != "":
			p.restores[t.To] = t.Reason
		}
	}
	p.names()
	p.files()
	p.dirs()
	p.secrets()
	p.givesSecretsBack()
	for _, r := range b.records {
		if r.Target.Kind() == units.TargetUnit && r.State == state.Live {
			p.oldUnit(r)
		}
	}
	for _, u := range desired.Units {
		if r, ours := p.record[units.Of(units.TargetUnit, u.Name)]; !ours || r.State != state.Live {
			p.newUnit(u)
		}
	}
	p.networks()
	p.restore()
	p.copies()
	p.contention()
	p.pods()
	p.sockets()
	return p.finish()
}

// planner builds a plan.
type planner struct {
	before
	desired  state.Generation
	unit     map[string]state.Unit            // desired, by name
	of       map[units.Address]string         // name of the desired unit
	resource map[units.Address]units.Resource // desired
	old      map[units.Address]units.Resource // of the generation before
	record   map[units.Target]state.Record
	stop     map[string]bool
	start    map[string]bool
	restart  map[string]bool
	reload   map[string]bool
	handover map[string]string // old name by new
	removal  map[units.Address]state.Transition
	kept     map[units.Target]bool   // left as other hands made them
	restores map[units.Target]string // podman's objects that are put right, with why
	plan     Plan
}

func (p *planner) because(op Op, unit, reason string) { p.plan.because(op, unit, reason) }

// oldUnit plans for a unit that the ledger has live.
func (p *planner) oldUnit(r state.Record) {
	name := r.Target.Name()
	seen := p.seen.units[name]
	u, kept := p.unit[name]
	switch {
	case kept:
		p.keptUnit(r, u, seen)
	case !seen.Up() || p.seen.foreign[name] != "":
	case seen.Stranded():
		p.stop[name] = true
		p.because("stop", name, "systemd has lost its definition")
		p.succeed(r.Resource)
	default:
		p.renamedUnit(r, name)
	}
}

// succeed starts the unit that has the place of one that is stopped.
func (p *planner) succeed(a units.Address) {
	if successor, ok := p.of[a]; ok && !p.seen.units[successor].Up() {
		p.start[successor] = true
	}
}

func (p *planner) keptUnit(r state.Record, u state.Unit, seen host.Unit) {
	switch {
	case seen.Load == "masked": // its owner's word
	case p.booted(r, u, seen):
		settled := seen.Active != "activating" || seen.Sub == "auto-restart"
		if settled && p.seen.observed.Overridden[r.Target] == "" { // else it is by the owner's definition that it runs now
			p.plan.Confirm = append(p.plan.Confirm, u.Name)
		}
	case !seen.Up() && r.Due && r.DueWhy == state.Last && r.Invocation != p.seen.invocations[u.Name]: // it had its job since
	case !seen.Up() || (r.Due && seen.Active == "deactivating"):
		if r.Due || ((r.Digest != u.Digest || p.lost) && u.Wanted) {
			p.start[u.Name] = true
		}
		if p.start[u.Name] && (!r.Due || r.DueWhy == state.Idle) {
			p.plan.Idle = append(p.plan.Idle, u.Name)
		}
	case r.Resource.Kind != u.Resource.Kind:
		p.stop[u.Name] = true
		p.start[u.Name] = true
		p.because("stop", u.Name, "it becomes a "+string(u.Resource.Kind)+"'s")
	case u.Resource.Kind == units.KindUnit:
		p.plainUnit(r, u, seen)
	case p.seen.observed.Damaged[r.Target]:
		p.restart[u.Name] = true
		p.because("restart", u.Name, "its definition was changed by other hands")
	case u.Resource.Kind != units.KindContainer || p.runs(r, u): // of a network or a pod more is to be done
	case p.identityChanges(r, u):
		p.stop[u.Name] = true
		p.start[u.Name] = true
		p.because("stop", u.Name, "its container gets another name")
	default:
		p.restart[u.Name] = true
		if r.Started == u.Digest {
			p.because("restart", u.Name, "a switch was cut short on its way to restart it")
		} else {
			p.because("restart", u.Name, "its definition changed")
		}
	}
}

// booted reports whether a unit that was due at a boot was started since, by the
// definition that it is to have. One that is down again without a fault was
// stopped by its owner.
func (p *planner) booted(r state.Record, u state.Unit, seen host.Unit) bool {
	if !r.Due || r.DueWhy != state.Boot || r.Digest != u.Digest || seen.Active == "deactivating" {
		return false
	}
	return seen.Up() || (seen.Active == "inactive" && p.seen.invocations[u.Name] != "")
}

// runs reports whether a unit that is up runs by the definition that it is to
// have. Where a switch was cut short on its way to restart it, only the very run
// that the ledger has counts; else, one that boot started runs by what was
// recorded last.
func (p *planner) runs(r state.Record, u state.Unit) bool {
	if r.Due && r.DueWhy == state.Again {
		return false // a file that it reads changed
	}
	if r.Due && r.DueWhy == state.Last {
		return r.Invocation != p.seen.invocations[u.Name] // it had its job since
	}
	if r.Due {
		return r.Started == u.Digest && r.Invocation == p.seen.invocations[u.Name]
	}
	return r.Started == u.Digest || (r.Started == "" && r.Digest == u.Digest)
}

// identityChanges reports whether a unit of a kept name is to run another
// container than it does: its ExecStop= must then run before systemd reads the
// new definition.
func (p *planner) identityChanges(r state.Record, u state.Unit) bool {
	was, ok := p.old[r.Resource]
	if !ok {
		was, ok = p.old[u.Resource]
	}
	return ok && units.Unit(was) == u.Name && units.Object(was) != units.Object(p.resource[u.Resource])
}

// whyGone says why a resource is not of the set any more.
func (p *planner) whyGone(a units.Address) string {
	if givesBack(p.adopted, p.desired, a) {
		return "is given back"
	}
	return "no longer declared"
}

// renamedUnit plans for a unit that is up and whose name is no longer declared.
func (p *planner) renamedUnit(r state.Record, name string) {
	successor, renamed := p.of[r.Resource]
	if !renamed {
		p.stop[name] = true
		p.because("stop", name, p.whyGone(r.Resource))
		return
	}
	p.because("stop", name, "renamed to "+successor)
	p.because("start", successor, "renamed from "+name)
	p.because(HandOver, successor, "takes the place of "+name)
	// A masked unit has lost what would stop its container: it is seen down first.
	masked := p.seen.units[name].Load == "masked"
	if masked || p.seen.units[successor].Up() || p.handover[successor] != "" || !p.bridgeable(successor) {
		p.stop[name] = true
		p.succeed(r.Resource)
		return
	}
	p.handover[successor] = name
}

// bridgeable reports whether systemd can be given the unit beside all that it
// has: its name is new, and so is, or is unchanged, all that it needs.
func (p *planner) bridgeable(name string) bool {
	had := map[string]state.Unit{}
	for _, u := range p.generation.Units {
		had[u.Name] = u
	}
	r := p.resource[p.unit[name].Resource]
	if p.plan.adopts(units.Of(units.TargetUnit, name)) || p.plan.adopts(units.Object(r)) {
		return false // its name is free when what has it is put aside
	}
	if _, ok := had[name]; ok && p.generation.Number != p.desired.Number {
		return false
	}
	for _, needs := range p.needs(name) {
		if u, ok := had[needs]; ok && u.Digest != p.unit[needs].Digest {
			return false
		}
	}
	return true
}

// needs returns the units that a unit refers to, and those that they refer to in
// turn.
func (p *planner) needs(name string) []string {
	var found []string
	seen := map[string]bool{name: true}
	for queue := []string{name}; len(queue) > 0; queue = queue[1:] {
		for _, needs := range p.refersTo(p.resource[p.unit[queue[0]].Resource]) {
			if !seen[needs] {
				seen[needs] = true
				found = append(found, needs)
				queue = append(queue, needs)
			}
		}
	}
	return found
}

// refersTo returns the declared units that a resource refers to, by the address of
// what they are of or by their own names.
func (p *planner) refersTo(r units.Resource) []string {
	var found []string
	for _, a := range r.Uses {
		if name, ok := p.of[a]; ok {
			found = append(found, name)
		}
	}
	for _, s := range r.Sections {
		for _, e := range s.Entries {
			if s.Name != "Unit" && e.Key != "Slice" && e.Key != "Sockets" {
				continue // the rest names units in addresses alone, or starts them later
			}
			for word := range strings.FieldsSeq(strings.Join(e.Values, " ")) {
				if _, ok := p.unit[word]; ok {
					found = append(found, word)
				}
			}
		}
	}
	return found
}

// bridge finds the units that the renamed ones need and that systemd does not
// have.
func (p *planner) bridge() []string {
	had := map[string]bool{}
	for _, u := range p.generation.Units {
		had[u.Name] = true
	}
	bridged := map[string]bool{}
	for name := range p.handover {
		for _, needs := range p.needs(name) {
			if !had[needs] && p.handover[needs] == "" {
				bridged[needs] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(bridged))
}

// newUnit plans for a unit that the ledger does not have live.
func (p *planner) newUnit(u state.Unit) {
	if p.takesPlace(u) {
		return
	}
	if _, ok := p.handover[u.Name]; ok || p.start[u.Name] || p.seen.units[u.Name].Up() || p.wasMasked(u.Resource) {
		return
	}
	if u.Wanted {
		p.start[u.Name] = true
		p.because("start", u.Name, "new")
	}
}

// wasMasked reports whether the resource is down, masked by its owner under the name
// that it had.
func (p *planner) wasMasked(a units.Address) bool {
	return slices.ContainsFunc(p.records, func(r state.Record) bool {
		seen := p.seen.units[r.Target.Name()]
		return r.Resource == a && r.Target.Kind() == units.TargetUnit && r.State == state.Live && seen.Load == "masked" && !seen.Up()
	})
}

func (p *planner) finish() Plan {
	for _, r := range p.records {
		u, kept := p.unit[r.Target.Name()]
		if kept && r.Digest != u.Digest && u.Wanted && p.seen.units[u.Name].Load == "masked" {
			p.plan.Masked = append(p.plan.Masked, u.Name)
			if !p.seen.units[u.Name].Up() {
				p.plan.Idle = append(p.plan.Idle, u.Name)
			}
		}
	}
	for name, u := range p.seen.units {
		if u.Load == "masked" && !p.plan.adopts(units.Of(units.TargetUnit, name)) { // systemd starts none of them
			if p.start[name] && (p.stop[name] || p.undoes()) {
				p.plan.Barred = append(p.plan.Barred, name)
			}
			delete(p.start, name)
			delete(p.restart, name)
			delete(p.reload, name)
		}
	}
	for name := range p.restart {
		delete(p.reload, name)
	}
	for name := range p.start {
		delete(p.restart, name)
		delete(p.reload, name)
	}
	for name, old := range p.handover {
		delete(p.start, name)
		p.plan.Handover = append(p.plan.Handover, Handover{Old: old, New: name})
	}
	p.plan.Bridge = p.bridge()
	slices.SortFunc(p.plan.Handover, func(a, b Handover) int { return cmp.Compare(a.New, b.New) })
	p.plan.Stop = slices.Sorted(maps.Keys(p.stop))
	slices.SortStableFunc(p.plan.Stop, func(a, b string) int {
		return cmp.Or(cmp.Compare(turnToStop(a), turnToStop(b)), cmp.Compare(p.rank(b), p.rank(a)))
	})
	for _, name := range p.plan.Stop {
		if p.seen.units[name].Stranded() {
			p.plan.Rescue = append(p.plan.Rescue, name)
		}
	}
	p.plan.Start = slices.Sorted(maps.Keys(p.start))
	slices.SortStableFunc(p.plan.Start, func(a, b string) int { return cmp.Compare(p.rank(a), p.rank(b)) })
	slices.SortStableFunc(p.plan.Retire, retiringOrder)
	p.plan.Restart = slices.Sorted(maps.Keys(p.restart))
	p.plan.ReloadUnits = slices.Sorted(maps.Keys(p.reload))
	p.plan.Reread = p.rereads()
	p.plan.Settings = p.decidesOtherwise() || !sameHeld(p.generation.Held, p.desired.Held)
	return p.plan
}

// decidesOtherwise reports whether what later changes are decided by is another.
func (p *planner) decidesOtherwise() bool {
	if p.generation.Number > 0 && p.generation.Adopted != p.desired.Adopted {
		return true
	}
	return slices.ContainsFunc(p.desired.Resources, func(r units.Resource) bool {
		before, was := p.old[r.Address]
		return was && (!maps.Equal(before.Policy, r.Policy) || !samePolicy(before.Wasm, r.Wasm))
	})
}

func samePolicy(a, b *units.Wasm) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Path == b.Path && a.Digest == b.Digest
}

// rank puts what others need before them: networks and volumes before
// containers, sockets before services. Within a list systemd keeps the order of
// the dependencies; this is for the eye, and for a socket, whose service knows
// no order to it before it has a job.
func (p *planner) rank(unit string) int {
	kind := p.unit[unit].Resource.Kind
	if kind == "" {
		kind = p.record[units.Of(units.TargetUnit, unit)].Resource.Kind
	}
	if kind == units.KindContainer || (kind == units.KindUnit && path.Ext(unit) == ".service") {
		return 1
	}
	return 0
}

// rereads reports whether a unit file comes, goes or changes.
func (p *planner) rereads() bool {
	isUnit := func(t units.Target) bool { return t.Kind() == units.TargetUnit }
	return slices.ContainsFunc(p.plan.Emit, isUnit) || slices.ContainsFunc(p.plan.Retire, isUnit) || len(p.seen.observed.Damaged) > 0 || p.lost
}
