package apply

import (
	"slices"

	"meshgen/internal/hint"
	"meshgen/state"
	"meshgen/units"
)

// names finds what is to be recorded: emitted, retired, held.
func (p *planner) names() {
	declared := map[units.Target]bool{}
	for _, r := range p.desired.Resources {
		for _, t := range units.Targets(r) {
			declared[t] = true
			if p.kept[t] && (t.Kind() == units.TargetFile || t.Kind() == units.TargetDir || t.Kind() == units.TargetSecret) {
				continue // what is not written is not recorded
			}
			if p.emits(t, r) {
				p.plan.Emit = append(p.plan.Emit, t)
			}
		}
	}
	for _, r := range p.desired.Resources {
		declared[imageOf(r)] = true
	}
	for _, r := range p.records {
		switch {
		case declared[r.Target] || r.State == state.Held || slices.Contains(p.plan.Release, r.Target):
		case r.OnTheWay() && (p.staysFor(r) || p.isUsed(r)):
		case p.holds(r):
			p.plan.Hold = append(p.plan.Hold, r.Target)
		case p.staysFor(r) || (p.undoes() && p.isUsed(r)):
			p.passOn(r)
		case p.isUsed(r):
			p.plan.Hold = append(p.plan.Hold, r.Target)
		case p.seen.inUse[r.Target]:
		default:
			if r.Adoption != nil && p.gone[r.Target] == "" {
				p.because("retire", string(r.Target), keptWords(r))
			}
			p.plan.Retire = append(p.plan.Retire, r.Target)
		}
	}
}

// holds reports whether a name that is no longer declared is let be: that of a
// volume, unless its resource goes for good, and what a policy keeps.
func (p *planner) holds(r state.Record) bool {
	removal, goes := p.removal[r.Resource]
	switch {
	case r.Target.Kind() == units.TargetUnit || partial(r):
		return false
	case p.gone[r.Target] != "" && usedAsItIs(r.Adoption): // it was to be given back, and nothing is there to be let be
		return false
	case usedAsItIs(r.Adoption): // used as it was found: there is no copy
		p.because("hold", string(r.Target), "it was adopted as it is; "+hint.Command("meshgen", "release", string(r.Target))+" gives it back")
		return true
	case p.undoes() && (r.Target.Kind() == units.TargetVolume || r.HeldUntil == p.generation.Number):
		p.because("hold", string(r.Target), "it was there before, or holds data")
		return true
	case r.Target.Kind() == units.TargetImage:
		p.because("hold", string(r.Target), "others may use it")
		return true
	case goes && removal.Decision == state.Keep:
		p.because("hold", string(r.Target), removal.Why())
		return true
	case r.Target.Kind() == units.TargetVolume && (!goes || removal.Decision != state.Removed):
		p.because("hold", string(r.Target), "it holds data")
		return true
	case p.seen.observed.Dirs[r.Target].Holds:
		p.because("hold", string(r.Target), "it holds something that is not of meshgen")
		return true
	}
	return false
}

// undoes reports whether the plan leads back to a set that was in force before.
// What it takes away is not what somebody no longer declares.
func (p *planner) undoes() bool { return p.before.undoes(p.desired) }

func (b before) undoes(desired state.Generation) bool {
	return !b.begins && b.generation.Number > desired.Number
}

// staysFor reports whether a directory is on the way to something that is declared.
func (p *planner) staysFor(r state.Record) bool {
	if r.Target.Kind() != units.TargetDir {
		return false
	}
	_, stays := declaredIn(r.Target.Name(), p.desired.Resources)
	return stays
}

// isUsed reports whether a directory is one that something declared would not start
// without.
func (p *planner) isUsed(r state.Record) bool {
	if _, there := p.seen.observed.Dirs[r.Target]; r.Target.Kind() != units.TargetDir || (!there && !r.OnTheWay()) {
		return false
	}
	by, is := usedIn(r.Target.Name(), p.desired.Resources)
	if is {
		p.because("hold", string(r.Target), usedWords(by))
	}
	return is
}

func usedWords(by units.Resource) string {
	return "it stays for " + by.Address.String() + ", which does not start without"
}

// emits reports whether the ledger does not yet have the target just so.
func (p *planner) emits(t units.Target, r units.Resource) bool {
	record, ours := p.record[t]
	if !ours || record.State != state.Live || record.Resource != r.Address || record.Recorded != (units.Address{}) {
		return true
	}
	switch t.Kind() {
	case units.TargetUnit:
		return p.unit[t.Name()].Differs(record)
	case units.TargetFile:
		return record.Digest != r.File.Digest || record.Definition != state.FileMeta(*r.File)
	case units.TargetDir:
		return record.Definition != state.DirMeta(*r.Dir)
	case units.TargetSecret:
		return record.Digest != r.Secret.Digest
	}
	return false
}

// files finds the files to write, and who is told of it.
func (p *planner) files() {
	for _, r := range p.desired.Resources {
		if r.Address.Kind != units.KindFile {
			continue
		}
		t := units.Of(units.TargetFile, r.File.Path)
		want := state.FileState{Digest: r.File.Digest, Meta: state.FileMeta(*r.File)}
		record := p.record[t]
		lies, there := p.seen.observed.Files[t]
		if p.kept[t] || (there && lies == want && (record.State == state.Live || p.plan.adopts(t))) {
			continue
		}
		p.plan.Write = append(p.plan.Write, r)
		if there && lies.Digest == want.Digest {
			continue // only mode or owner: nothing to be read again
		}
		for _, n := range r.File.Notify {
			p.notify(p.of[n.Resource], n.Action, r.File.Path)
		}
	}
}

func (p *planner) notify(unit, action, path string) {
	if !p.seen.units[unit].Up() {
		return
	}
	p.plan.Notified = append(p.plan.Notified, unit)
	if action == "reload" {
		p.because("reload", unit, path+" changes")
		p.reload[unit] = true
		return
	}
	p.because("restart", unit, path+" changes")
	p.restart[unit] = true
}
