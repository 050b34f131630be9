package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"meshgen/internal/apply"
	"meshgen/internal/hint"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// Join tells what in the view is not as the generation in force says. What listens,
// and what is ignored, it knows nothing of: see [Report.Hear] and [Report.Ignore].
func Join(v apply.View) Report {
	j := joiner{View: v, declared: map[units.Target]units.Resource{}, unit: map[string]state.Unit{}, told: map[units.Target]bool{}}
	for _, r := range v.Generation.Resources {
		for _, t := range units.Targets(r) {
			j.declared[t] = r
		}
	}
	for _, u := range v.Generation.Units {
		j.unit[u.Name] = u
	}
	j.report = Report{At: v.At, Generation: v.Generation.Number, Unseen: []string{}, Notes: []string{}}
	for _, err := range v.Unseen {
		j.report.Unseen = append(j.report.Unseen, err.Error())
	}
	if words := j.underWay(); words != "" {
		j.report.Notes = append(j.report.Notes, words)
	}
	j.heldBack()
	j.drift()
	j.dropIns()
	j.declaredUnits()
	j.declaredPods()
	j.paused()
	j.podmans()
	j.records()
	j.stranded()
	j.definitions()
	j.generated()
	j.files()
	j.report.sort()
	return j.report
}

// joiner builds a report. Names are told once: what has been told under a better
// class is not told again.
type joiner struct {
	apply.View
	declared map[units.Target]units.Resource
	unit     map[string]state.Unit // declared
	told     map[units.Target]bool
	moving   map[units.Address]bool // what the switch that is under way changes
	report   Report
}

// underWay says how it stands with a switch that has not ended. What one that runs is
// about to do is for it to tell, and not for us.
func (j *joiner) underWay() string {
	s := j.Unfinished
	switch {
	case s == nil:
		return ""
	case !j.Busy:
		return fmt.Sprintf("a switch to generation %d was cut short; meshgen recover finishes or undoes it", s.Generation)
	}
	j.moving = map[units.Address]bool{}
	for _, t := range s.Transitions {
		j.moving[t.Resource] = true
	}
	return fmt.Sprintf("a switch to generation %d is under way: what it moves is left out here", s.Generation)
}

// moves reports whether a finding is of what the switch that is under way moves, or of
// a unit that it may have taken down for that.
func (j *joiner) moves(f Finding) bool {
	if j.moving == nil {
		return false
	}
	for _, t := range append([]units.Target{f.Target}, f.Also...) {
		if r, ok := j.Records[t]; ok && j.moving[r.Resource] {
			return true
		}
	}
	return f.Class == Stopped || j.moving[f.Resource]
}

// tell adds a finding, of which the rest is known from the ledger.
func (j *joiner) tell(f Finding) {
	j.told[f.Target] = true
	for _, t := range f.Also {
		j.told[t] = true
	}
	if r, ok := j.Records[f.Target]; ok && f.Resource == (units.Address{}) && r.State != state.Found {
		f.Resource = r.Resource
	}
	if f.Class != Found { // that was before the first
		f.Generation = j.generationAt(f.Since)
	}
	unsaid := f.Class == Stale && j.Blind // it may be declared
	if !unsaid && !j.moves(f) {
		j.report.add(f)
	}
}

// generationAt returns the generation that was in force at a moment.
func (j *joiner) generationAt(t time.Time) int {
	number := 0
	for _, s := range j.Switches {
		end := s.End
		if t.Nanosecond() == 0 {
			end = end.Truncate(time.Second) // podman tells no more than that
		}
		if !s.End.IsZero() && !end.After(t) && (s.Result == state.Done || s.Result == state.Failed) {
			number = s.Generation
		}
	}
	return number
}

// drift tells what other hands did to what is declared.
func (j *joiner) drift() {
	for _, d := range j.Drift {
		t := d.Transition
		f := Finding{Class: Drifted, Target: t.To, Resource: t.Resource, Owner: meshgen, Detail: t.Reason, Fix: switchFix}
		switch t.Change {
		case state.Gone:
			f.Class = Missing
		case state.Overridden, state.Masked:
			f.Class = Shadowed
			f.Fix, f.Owner = j.unshadow(t)
			f.Since = changed(j.Layout.Path(f.Owner))
		case state.ChangedContent, state.ChangedMode, state.Directory, state.Symlink, state.Special, state.File, state.Damaged, state.Renamed, state.Remade:
		}
		switch {
		case t.Decision == state.Keep && isWanted(t):
			f.Class, f.Detail, f.Fix = Held, f.Detail+", and its policy keeps it so", ""
		case t.Decision != state.Restore && f.Class != Shadowed:
			f.Fix = j.refused(t)
			if f.Fix == "" {
				f.Detail = sentence(f.Detail, d.Hint)
			}
		}
		if kind := t.To.Kind(); kind == units.TargetFile || kind == units.TargetDir {
			f.Since = changed(j.Layout.Path(t.To.Name()))
		}
		j.tell(f)
	}
}

// isWanted reports whether somebody decided to keep a drift. The built-in policy keeps,
// unasked, what it has no right to change.
func isWanted(t state.Transition) bool {
	return t.Policy != state.BuiltinPolicy || t.Facts["policy.drift"] == string(state.Keep)
}

// declaredUnits tells of the units that are declared and not there, or down while
// they are to run.
func (j *joiner) declaredUnits() {
	for _, u := range j.Generation.Units {
		t := units.Of(units.TargetUnit, u.Name)
		seen, known := j.Units[u.Name]
		if !known || j.told[t] {
			continue // nothing was seen, or nothing more is to be said
		}
		f := Finding{Class: Stopped, Target: t, Resource: u.Resource, Owner: meshgen, Since: j.Details[u.Name].Changed}
		if object := units.Object(j.declared[t]); object != "" {
			if j.told[object] {
				continue
			}
			f.Also = []units.Target{object}
		}
		switch {
		case seen.Load == "not-found" && seen.Up():
			f.Class, f.Detail, f.Fix = Drifted, limbo, "systemctl daemon-reload"
		case seen.Load == "not-found":
			f.Class, f.Detail, f.Fix = Missing, "systemd does not know it", "systemctl daemon-reload && systemctl start "+operand(u.Name)
		case seen.Load != "loaded":
			f.Class, f.Detail = Drifted, "systemd cannot use its definition: "+seen.Load
			f.Fix = switchFix
		case seen.Active == "failed":
			f.Detail = "failed: " + cmp.Or(j.Details[u.Name].Result, "no reason is known")
			f.Fix = "systemctl reset-failed " + operand(u.Name) + " && systemctl start " + hint.Quote(u.Name)
		case seen.Sub == "auto-restart" && j.isLooping(u):
			f.Detail = fmt.Sprintf("fails, and is started again: %d times by now", j.Downs[u.Name].Restarts)
			f.Fix = "journalctl -n 30 -u " + operand(u.Name)
		case seen.Active == "inactive" && seen.Job == "" && u.Wanted && !j.isDone(u):
			f.Detail, f.Fix = "is stopped", "systemctl start "+operand(u.Name)
		default:
			continue
		}
		j.tell(f)
	}
}

// isDone reports whether a unit that is down is so rightly: it runs once, and has, or
// its conditions do not hold.
func (j *joiner) isDone(u state.Unit) bool {
	details, down := j.Details[u.Name], j.Downs[u.Name]
	return down.Unmet || (details.Type == "oneshot" && details.Result == "success" && !down.Remains)
}

// isLooping reports whether a service that is about to be started again gets nowhere.
// One that ended well is told to run anew; one that failed once, a moment ago, may do
// so no more.
func (j *joiner) isLooping(u state.Unit) bool {
	return j.Details[u.Name].Result != "success" && j.Downs[u.Name].Restarts > 1
}

// declaredPods tells of pods that are gone while their units are up: the unit of a
// pod does not see that.
func (j *joiner) declaredPods() {
	pods, listed := j.Objects[units.TargetPod]
	if !listed {
		return
	}
	for _, r := range j.Generation.Resources {
		t := units.Object(r)
		if r.Address.Kind != units.KindPod || j.told[t] {
			continue
		}
		name := units.Unit(r)
		if _, there := pods[t.Name()]; !there && j.Units[name].Active == "active" {
			j.tell(Finding{
				Class: Missing, Target: t, Also: []units.Target{units.Of(units.TargetUnit, name)}, Resource: r.Address, Owner: meshgen,
				Detail: "the pod is gone, and its unit is up", Fix: "systemctl restart " + operand(name),
			})
		}
	}
}

// paused tells of containers that are declared and that somebody had podman pause:
// their units do not see that either.
func (j *joiner) paused() {
	for _, o := range sorted(j.Objects[units.TargetContainer]) {
		t := units.Of(units.TargetContainer, o.Name)
		r, declared := j.declared[t]
		if !o.Frozen || !declared || j.told[t] {
			continue
		}
		unit := units.Unit(r)
		j.tell(Finding{
			Class: Stopped, Target: t, Also: []units.Target{units.Of(units.TargetUnit, unit)}, Resource: r.Address, Owner: meshgen,
			Detail: "is paused", Fix: "podman unpause " + operand(o.Name),
		})
	}
}

// records tells of what the ledger has as ours, and that is no longer declared.
func (j *joiner) records() {
	for _, t := range slices.Sorted(maps.Keys(j.Records)) {
		r := j.Records[t]
		if _, declared := j.declared[t]; declared || j.told[t] {
			continue
		}
		switch r.State {
		case state.Live:
			j.leftover(r)
		case state.Held:
			j.held(r)
		case state.Retired, state.Found:
		}
	}
}

// leftover tells of what a switch has not taken away yet, if it is there.
func (j *joiner) leftover(r state.Record) {
	name, f := r.Target.Name(), Finding{Class: Stale, Target: r.Target, Owner: meshgen, Since: r.Last.Time, Fix: switchFix}
	switch r.Target.Kind() {
	case units.TargetUnit:
		u := j.Units[name]
		if !u.Up() && u.Active != "failed" {
			return
		}
		f.Detail = "is no longer declared, and is " + u.Active
		if u.Stranded() {
			f.Detail += "; systemd has lost its definition"
		}
	case units.TargetFile:
		if !lies(j.Layout.Path(name)) {
			return
		}
		f.Detail = "is no longer declared, and is there"
	default: // podman's objects are told where podman's are; the rest is no name of its own
		return
	}
	j.tell(f)
}

// held tells of what was ours and is let be, if it is there.
func (j *joiner) held(r state.Record) {
	f := Finding{Class: Held, Target: r.Target, Owner: meshgen, Since: r.Last.Time, Detail: r.Why}
	switch kind := r.Target.Kind(); kind {
	case units.TargetVolume:
		f.Class = Retained
		fallthrough
	case units.TargetContainer, units.TargetPod, units.TargetNetwork, units.TargetSecret:
		if objects, listed := j.Objects[kind]; listed {
			if _, there := objects[r.Target.Name()]; !there {
				return
			}
		}
	case units.TargetFile:
		if !lies(j.Layout.Path(r.Target.Name())) {
			return
		}
	case units.TargetDir:
		f.Class = Retained
		if !lies(j.Layout.Path(r.Target.Name())) {
			return
		}
	case units.TargetUnit:
		if !j.Units[r.Target.Name()].Up() {
			return
		}
	default:
		return
	}
	j.tell(f)
}

// heldBack tells of what is declared and left out.
func (j *joiner) heldBack() {
	in := map[units.Address]bool{}
	for _, r := range j.Generation.Resources {
		in[r.Address] = true
	}
	for _, h := range j.Generation.Held {
		if len(h.Taken) == 0 || in[h.Resource] {
			continue // it waits for another that is told
		}
		for _, t := range h.Taken {
			j.told[t.To] = true
		}
		j.report.add(Finding{
			Class: Held, Target: h.Taken[0].To, Resource: h.Resource, Detail: "declared, and left out: " + h.Why(), Fix: h.Command(),
			Since: j.Generation.Time, Generation: j.Generation.Number,
		})
	}
}

// stranded tells of units that run while systemd has lost their definition, of those
// that ended so and left processes, and of those of ours that failed and are gone.
func (j *joiner) stranded() {
	for _, name := range slices.Sorted(maps.Keys(j.Units)) {
		u, t := j.Units[name], units.Of(units.TargetUnit, name)
		r, recorded := j.Records[t]
		isFailed, left := u.Load == "not-found" && u.Active == "failed" && recorded, j.Left[name]
		if _, declared := j.unit[name]; declared || j.told[t] || (!u.Stranded() && !isFailed && left == nil) {
			continue
		}
		f := Finding{Class: Foreign, Target: t, Since: j.Details[name].Changed, Fix: "systemctl stop " + operand(name)}
		if recorded && (r.State == state.Retired || r.State == state.Live) {
			f.Class, f.Owner = Stale, meshgen
		}
		reset := "systemctl reset-failed " + operand(name)
		switch {
		case left != nil && u.Active == "failed":
			f.Detail, f.Fix = sentence("has failed, and left "+some(left), lost), "systemctl kill "+operand(name)+" && "+reset
		case left != nil:
			f.Detail, f.Fix = sentence("has ended, and left "+some(left), lost), "systemctl kill "+operand(name)
		case isFailed:
			f.Detail, f.Fix = "failed, and has no definition any more", reset
		default:
			f.Detail = limbo
		}
		f.Detail = sentence(f.Detail, j.past(t))
		j.tell(f)
	}
}

// strange is the class of what is not ours, by its record: what the first switch sees
// it records as found, and what comes later is foreign. Before the first there is
// nothing that anybody could have asked for.
func (j *joiner) strange(r state.Record) Class {
	if r.State == state.Found || (len(j.Switches) == 0 && !j.Lost) {
		return Found
	}
	return Foreign
}

const unknownPast = "the ledger never had it"

const (
	lost  = "systemd has lost its definition"
	limbo = "runs, and " + lost
)

// some names processes, where they are many a few of them.
func some(all []host.Process) string {
	var names []string
	for _, p := range all[:min(len(all), 3)] {
		names = append(names, fmt.Sprintf("%s (%d)", p.Command, p.PID))
	}
	if len(all) > len(names) {
		names[len(names)-1] += " …"
	}
	return strings.Join(names, ", ")
}

// past says what the ledger knows of a name that is not ours now.
func (j *joiner) past(t units.Target) string {
	r, ok := j.Records[t]
	switch {
	case !ok && j.Lost:
		return "the ledger, which may know it, cannot be read"
	case !ok && len(j.Switches) == 0:
		return ""
	case !ok:
		return unknownPast
	case r.State == state.Found && r.Emissions == 0:
		return strings.TrimSuffix("was there before the first switch, "+r.Why, ", ")
	case r.State == state.Retired:
		return fmt.Sprintf("was of %s until generation %d, and was seen gone", r.Resource, r.Retired.Generation)
	case r.State == state.Found:
		return fmt.Sprintf("was of %s, and was let go", r.Resource)
	}
	return ""
}

// sentence joins what is said of a thing.
func sentence(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

// running is what is said of how a unit does; "" where systemd could not be asked.
func (j *joiner) running(name string) string {
	u := j.Units[name]
	switch {
	case len(j.Units) == 0:
		return ""
	case u.Up():
		return "runs"
	case u.Active == "failed":
		return "has failed"
	}
	return "does not run"
}
