package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"meshgen/internal/durable"
	"meshgen/internal/hint"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// actDeadline bounds each wait for systemd. systemd ends most jobs by itself, by
// TimeoutStartSec= and TimeoutStopSec=; this is for those that have none.
const actDeadline = 15 * time.Minute

// move is one run from a generation to another.
type move struct {
	node     *Node
	from, to state.Generation
	plan     Plan
	records  map[units.Target]state.Record // before the move
	seen     sight
	progress Progress

	begun   time.Time
	undoing bool      // the set that it leads to was in force before
	stood   bool      // so was the one that is undone
	owed    bool      // something that was adopted is still to be given back
	left    error     // what could not be given back
	fragile bool      // one failure brings the old set back
	inForce bool      // current points to what the move leads to
	started time.Time // when the last job ended that brought a unit up
	early   []string  // units that somebody started before the new set was in force
	ran     []string  // units that were given a job to come up
	failed  []string  // units that did not come up
	faults  map[string]error

	// supplanted are the copies of what is given back and has another in its place.
	supplanted map[units.Target][]string
}

// act does what the plan says, step by step. The ledger has the intent already.
// It returns with everything done, or with what it could not do; inForce tells
// on which side of the flip it ended.
func (m *move) act(ctx context.Context) error {
	if err := m.makeDirs(); err != nil {
		return err
	}
	staged, err := m.stageFiles()
	if err != nil {
		return err
	}
	steps := []func(context.Context) error{
		m.keepFound,
		m.raiseBridge,
		m.rescue,
		m.stopUnits,
		m.endOutlived,
		m.freeNetworks,
		m.copyVolumes,
		m.putAside,
		func(ctx context.Context) error { return m.flip(ctx, staged) },
		func(context.Context) error { return m.node.keepCopies(m.to) },
		m.handOver,
		m.lowerBridge,
		m.clear,
		m.undoAdoptions,
		m.startUnits,
		m.confirm,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			if !m.inForce {
				err = errors.Join(err, discard(staged))
			}
			return err
		}
	}
	return nil
}

func discard(staged []durable.Staged) error {
	var errs []error
	for _, s := range slices.Backward(staged) {
		errs = append(errs, s.Discard())
	}
	return errors.Join(errs...)
}

// flip puts the new set in force: directories, config files and secrets first, then every
// unit at once by one link.
func (m *move) flip(ctx context.Context, staged []durable.Staged) error {
	if err := m.setDirs(); err != nil {
		return err
	}
	if err := m.renameFiles(staged); err != nil {
		return err
	}
	if err := m.makeSecrets(ctx); err != nil {
		return err
	}
	if m.to.Number == 0 {
		if err := durable.Remove(m.node.Layout.Current()); err != nil {
			return err
		}
	} else if err := state.SetCurrent(m.node.Layout, m.to.Number); err != nil {
		return err
	}
	m.inForce = true
	return nil
}

// jobs runs a verb over units and returns those whose job was not done.
func (m *move) jobs(ctx context.Context, verb host.Verb, names []string) []host.Job {
	return m.jobsOf(ctx, Op(verb), verb, names)
}

// jobsOf is jobs for a step that the owner knows by another word than systemd.
func (m *move) jobsOf(ctx context.Context, op Op, verb host.Verb, names []string) []host.Job {
	if m.node.Systemd == nil || len(names) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, actDeadline)
	defer cancel()
	step := func(name string) Step {
		return Step{Op: op, Target: units.Of(units.TargetUnit, name), Reason: m.plan.Reason(op, name)}
	}
	for _, name := range names {
		m.progress(Event{Step: step(name)})
		if verb == host.Start || verb == host.Restart {
			// systemd refuses a unit that was started five times in ten
			// seconds, and a set that is brought back must not be refused.
			_ = m.node.Systemd.ResetFailed(ctx, name) // the job tells what is wrong
		}
	}
	jobs := m.node.Systemd.Run(ctx, verb, names, func(j host.Job) {
		m.progress(Event{Step: step(j.Unit), Ended: true, Took: j.Took, Err: j.Err})
	})
	if verb != host.Stop {
		m.started = time.Now()
		m.ran = append(m.ran, names...)
	}
	return slices.DeleteFunc(jobs, func(j host.Job) bool { return j.Err == nil })
}

// stopUnits stops what cannot be handed over, and sees that it is down. A unit
// that ended badly is down all the same.
func (m *move) stopUnits(ctx context.Context) error {
	triggers := slices.IndexFunc(m.plan.Stop, func(name string) bool { return turnToStop(name) > 0 })
	if triggers < 0 {
		triggers = len(m.plan.Stop)
	}
	failed := append(m.jobs(ctx, host.Stop, m.plan.Stop[:triggers]), m.jobs(ctx, host.Stop, m.plan.Stop[triggers:])...)
	return m.mustBeDown(ctx, m.plan.Stop, failed)
}

// mustBeDown sees that units are down after jobs that stopped them. What is left of
// the container of one that failed is removed: systemd takes a unit for down whose
// processes it has killed, and the container may outlive them.
func (m *move) mustBeDown(ctx context.Context, names []string, failed []host.Job) error {
	if m.node.Systemd == nil || len(names) == 0 {
		return nil
	}
	found, err := m.node.Systemd.Units(ctx, names)
	if err != nil {
		return err
	}
	var errs []error
	for _, j := range failed {
		if found[j.Unit].Up() {
			errs = append(errs, j.Err)
		}
	}
	for _, name := range names {
		record, ours := m.records[units.Of(units.TargetUnit, name)]
		switch {
		case found[name].Up():
			errs = append(errs, fmt.Errorf("%s: stopped, and still up", name))
		case ours && (found[name].Active == "failed" || slices.Contains(m.plan.Astray, name)):
			m.node.forget()
			errs = append(errs, m.removeMadeBy(ctx, record))
		}
	}
	return errors.Join(errs...)
}

// clear sees that nothing of a name that is to go has come up since it was looked
// at, by hand or through what depends on it, before anything starts beside it.
// systemd may have read its units since, and lost what would stop it.
func (m *move) clear(ctx context.Context) error {
	if m.node.Systemd == nil {
		return nil
	}
	var names []string
	for _, t := range m.plan.Retire {
		if t.Kind() == units.TargetUnit && m.seen.foreign[t.Name()] == "" {
			names = append(names, t.Name())
		}
	}
	const tries = 3 // whoever starts it again and again is told
	for range tries {
		up, err := m.stillUp(ctx, names)
		if err != nil || len(up) == 0 {
			return err
		}
		if err := m.putBack(ctx, up); err != nil {
			return err
		}
		failed := m.jobs(ctx, host.Stop, up)
		if err := m.mustBeDown(ctx, up, failed); err != nil {
			return err
		}
		if err := errors.Join(sweepBridge(m.node.Layout), m.reload(ctx)); err != nil {
			return err
		}
	}
	return hint.Add(fmt.Errorf("%s: stopped again and again, and started again", strings.Join(names, ", ")), "find out what starts it")
}

func (m *move) stillUp(ctx context.Context, names []string) (up []string, err error) {
	if m.node.Systemd == nil {
		return nil, nil
	}
	found, err := m.node.Systemd.Units(ctx, names)
	for _, name := range names {
		if found[name].Up() {
			up = append(up, name)
		}
	}
	return up, err
}

func (m *move) freeNetworks(ctx context.Context) error {
	m.node.forget()
	for _, t := range m.plan.Free {
		if _, err := m.removeObject(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// handOver starts each renamed unit: its fence has systemd stop the old one
// first, in the same transaction.
func (m *move) handOver(ctx context.Context) error {
	var names, olds []string
	for _, h := range m.plan.Handover {
		names = append(names, h.New)
		olds = append(olds, h.Old)
	}
	var err error
	if m.early, err = m.startedEarly(ctx); err != nil {
		return err
	}
	// One that somebody has started since systemd knows it has read the files of
	// the old set. One that is down must not be restarted: where each of the two
	// has a fence against the other, as in a rename back, systemd finds a cycle in
	// a restart and a stop, and none in a start and a stop.
	begun, err := m.stillUp(ctx, names)
	if err != nil {
		return err
	}
	down := slices.DeleteFunc(names, func(name string) bool { return slices.Contains(begun, name) })
	for _, j := range append(m.jobsOf(ctx, HandOver, host.Restart, begun), m.jobsOf(ctx, HandOver, host.Start, down)...) {
		m.fail(j.Unit, j.Err)
	}
	up, err := m.stillUp(ctx, olds)
	if err != nil {
		return err
	}
	// What its successor's start did not stop is stopped now, while systemd
	// still has its definition.
	err = m.mustBeDown(ctx, up, m.jobs(ctx, host.Stop, up))
	m.foreseeRetirement(ctx)
	return err
}

// foreseeRetirement has podman list its containers while systemd reads its units
// again, where one is to be retired: all that are to go are down by now.
func (m *move) foreseeRetirement(ctx context.Context) {
	m.node.forget()
	for _, t := range m.plan.Retire {
		if t.Kind() == units.TargetContainer {
			m.node.Foresee(ctx)
			return
		}
	}
}

// fail notes a unit that did not come up; the first cause counts.
func (m *move) fail(unit string, err error) {
	if m.faults[unit] == nil {
		m.failed = append(m.failed, unit)
		m.faults[unit] = err
	}
}

// startUnits brings up what is new or changed, and what was up before and went
// down with a unit that it needs.
func (m *move) startUnits(ctx context.Context) error {
	if len(m.failed) > 0 && m.fragile {
		return nil // the set will not stand: no more is started
	}
	early, err := m.startedEarly(ctx)
	if err != nil {
		return err
	}
	early = slices.DeleteFunc(early, func(name string) bool { // those came with what was handed over
		return slices.Contains(m.plan.Bridge, name) && !slices.Contains(m.early, name)
	})
	for _, step := range []struct {
		verb  host.Verb
		names []string
	}{{host.Reload, m.plan.ReloadUnits}, {host.Restart, slices.Concat(m.plan.Restart, early)}, {host.Start, m.plan.Start}} {
		for _, j := range m.jobs(ctx, step.verb, step.names) {
			m.fail(j.Unit, j.Err)
		}
	}
	interrupted, err := m.interrupted(ctx)
	if err != nil {
		return err
	}
	for _, j := range m.jobs(ctx, host.Start, interrupted) {
		// One that is not of meshgen is said, and decides nothing.
		if m.declares(j.Unit) {
			m.fail(j.Unit, j.Err)
		}
	}
	return nil
}

// startedEarly returns the units that are to be started, and that somebody has
// started since they were looked at: by the definition or the files of the old
// set, for all that is known.
func (m *move) startedEarly(ctx context.Context) ([]string, error) {
	up, err := m.stillUp(ctx, m.plan.Start)
	return slices.DeleteFunc(up, func(name string) bool {
		kind := m.kind(name)
		return kind == units.KindNetwork || kind == units.KindVolume || strings.HasSuffix(name, ".target")
	}), err
}

// kind returns the kind of the resource that a unit of the new set is of.
func (m *move) kind(unit string) units.Kind {
	for _, u := range m.to.Units {
		if u.Name == unit {
			return u.Resource.Kind
		}
	}
	return ""
}

func (m *move) declares(unit string) bool {
	return slices.ContainsFunc(m.to.Units, func(u state.Unit) bool { return u.Name == unit })
}

// interrupted returns the units that were up, that the plan has no other part
// for, and that went down. One that systemd is bringing up again is among them:
// a job to start it is waited for.
func (m *move) interrupted(ctx context.Context) ([]string, error) {
	if m.node.Systemd == nil {
		return nil, nil
	}
	were := slices.Concat(m.plan.Dependents, m.ran)
	for _, u := range m.to.Units {
		if u.Resource.Kind == units.KindUnit && (!u.Wanted || m.seen.units[u.Name].Active == "activating") {
			continue // a timer's or a socket's, which comes and goes; or a job that has come to its end
		}
		if seen := m.seen.units[u.Name]; seen.Up() && seen.Load != "masked" && !slices.Contains(were, u.Name) {
			were = append(were, u.Name)
		}
	}
	touched := slices.Concat(m.plan.Touched(), m.plan.Stop)
	now, err := m.node.Systemd.Units(ctx, were)
	return slices.DeleteFunc(were, func(name string) bool {
		state := now[name].Active
		switch {
		case slices.Contains(m.ran, name): // systemd is bringing it up again with what it needs
			return m.faults[name] != nil || (state != "activating" && state != "deactivating")
		case slices.Contains(touched, name) || state == "active":
			return true
		}
		return !slices.Contains(m.plan.Dependents, name) && state != "inactive"
	}), err
}

// confirm sees that each unit of the plan is up and from our definition, and
// records what it was started with.
func (m *move) confirm(ctx context.Context) error {
	if m.node.Systemd == nil {
		return nil
	}
	names := slices.Clone(m.ran)
	for _, u := range m.to.Units {
		if slices.Contains(m.plan.Touched(), u.Name) {
			continue // where it was not given its job, nothing is known of it
		}
		if r, ok := m.node.Ledger.Record(units.Of(units.TargetUnit, u.Name)); ok && r.State == state.Live && (r.Due || r.Started == "") && !slices.Contains(names, u.Name) &&
			m.seen.observed.Overridden[r.Target] == "" {
			names = append(names, u.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	if err := m.settle(ctx); err != nil {
		return err
	}
	found, err := m.node.Systemd.Units(ctx, names)
	if err != nil {
		return err
	}
	details, err := m.node.Systemd.Details(ctx, names)
	if err != nil {
		return err
	}
	downs, err := m.node.Systemd.Downs(ctx, slices.DeleteFunc(slices.Clone(names), func(name string) bool { return found[name].Up() }))
	if err != nil {
		return err
	}
	var started []state.Event
	for _, u := range m.to.Units {
		if !slices.Contains(names, u.Name) || u.Name == m.plan.Last.Unit || found[u.Name].Load == "masked" {
			continue
		}
		err := m.verdict(u.Name, found[u.Name], details[u.Name], downs[u.Name])
		if err != nil {
			m.progress(Event{Step: Step{Op: "confirm", Target: units.Of(units.TargetUnit, u.Name)}, Ended: true, Err: err})
			m.fail(u.Name, err)
			continue // it stays due: the next switch tries again
		}
		if d := details[u.Name]; found[u.Name].Up() || slices.Contains(m.ran, u.Name) || slices.Contains(m.plan.Confirm, u.Name) {
			started = append(started, state.Event{
				Kind: state.EventStarted, Generation: m.to.Number,
				Target: units.Of(units.TargetUnit, u.Name), Digest: u.Digest, Invocation: d.Invocation,
				Container: containerOf(m.node.Layout, u.Name),
			})
		}
	}
	if len(started) == 0 {
		return nil
	}
	return m.node.Ledger.Append(started...)
}

// settle waits until every unit that was brought up has been so for a moment.
func (m *move) settle(ctx context.Context) error {
	left := time.NewTimer(time.Until(m.started.Add(m.node.Settle)))
	defer left.Stop()
	select {
	case <-left.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// verdict says what is wrong with a unit that is to be up. One whose conditions do not
// hold is as its owner wrote it.
func (m *move) verdict(name string, u host.Unit, d host.Details, down host.Down) error {
	planned := slices.Contains(m.ran, name)
	switch {
	case !planned && (!u.Up() || u.Active == "activating" && d.Type == "oneshot"):
		return nil
	case u.Load != "loaded":
		return fmt.Errorf("%s: systemd has it as %s", name, u.Load)
	case d.Fragment != generatedBy+name:
		return fmt.Errorf("%s: runs from %s, which is not of meshgen", name, d.Fragment)
	case m.node.definedBy(name, d) != "":
		return fmt.Errorf("%s: runs from what was made of %s, which is not of meshgen", name, d.Source)
	case u.Active == "active" && d.Type == "notify" && m.node.Systemd.PayloadEnded(d.ControlGroup):
		return fmt.Errorf("%s: its container ended at once", name)
	case u.Active == "active" || u.Active == "reloading":
		return nil
	case u.Active == "inactive" && (down.Unmet || d.Type == "oneshot" && d.Result == "success"):
		return nil
	case u.Sub == "auto-restart":
		return fmt.Errorf("%s: ended (%s) and waits to be started again", name, d.Result)
	}
	return fmt.Errorf("%s: %s (%s)", name, u.Active, d.Result)
}

// generatedBy is where systemd has the units that its generators made.
const generatedBy = "/run/systemd/generator/"
