package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"meshgen/generator"
	"meshgen/internal/hint"
	"meshgen/state"
	"meshgen/units"
)

// Options says how far a switch goes.
type Options struct {
	// Rollback has the old set brought back when a unit of the new one fails.
	Rollback bool
	// Keep is how many old generations stay on the disk.
	Keep int
}

// Outcome is how a switch ended.
type Outcome struct {
	From, To int
	Result   state.Result // "" where it has not ended: the next switch takes it on
	// Failed are the units that did not come up, each with what is wrong and
	// the last lines of its log.
	Failed []string
	// Incomplete tells that some of them are of a set that was brought back.
	Incomplete bool
}

// Switch does what was prepared. The ledger names everything before it exists.
// Where a unit of the new set fails, the old set is brought back, unless the
// options say otherwise.
func (n *Node) Switch(ctx context.Context, p Prepared, o Options, progress Progress) (Outcome, error) {
	out := Outcome{From: p.From, To: p.From}
	if len(p.Rejected) > 0 {
		return out, p.Rejected
	}
	if p.Plan.Empty() {
		out.Result = state.Done
		return out, nil
	}
	to, err := n.stage(ctx, &p)
	if _, rejected := errors.AsType[units.Faults](err); rejected {
		return out, err
	}
	if err != nil {
		return out, hint.Add(fmt.Errorf("%w\nnothing was touched", err), "mend that, then switch again")
	}
	if err := n.intend(ctx, p, to, o); err != nil {
		return out, hint.Add(fmt.Errorf("%w\nnothing was acted on; the next switch undoes what was recorded", err), "mend that, then switch again")
	}
	ctx = context.WithoutCancel(ctx) // half a switch is worse than a late end
	m := n.move(p.before, p.Plan, to, progress)
	return n.carry(ctx, m, o)
}

func (n *Node) move(b before, plan Plan, to state.Generation, progress Progress) *move {
	records := make(map[units.Target]state.Record, len(b.records))
	for _, r := range b.records {
		records[r.Target] = r
	}
	return &move{
		node: n, from: b.generation, to: to, plan: plan, records: records, seen: b.seen, progress: progress,
		faults: map[string]error{}, begun: time.Now(),
	}
}

// stage has everything on the disk that the new set is made of, and the images
// that it runs on the machine. A generation that is in force already is there.
func (n *Node) stage(ctx context.Context, p *Prepared) (state.Generation, error) {
	g := p.compiled.Generation
	if g.Number == p.To {
		return g, nil
	}
	pulled, err := n.pull(ctx, p)
	if err != nil {
		return g, err
	}
	if pulled { // which may have taken minutes
		n.forget()
		if faults, err := n.guard(ctx, p.Plan, g); err != nil || len(faults) > 0 {
			return g, errors.Join(err, faults)
		}
	}
	g.Number = p.To
	g.Decisions = p.Transitions
	if err := n.ensureLedger(); err != nil {
		return g, err
	}
	if err := n.keepSecretKey(); err != nil {
		return g, err
	}
	if f := fences(g, n.Ledger.Records()); len(f) > 0 {
		p.compiled.Tree.Files[generator.FencesFile] = []byte(generator.FormatFences(f))
	}
	if p.From > 0 {
		p.compiled.Tree.Files[generator.BeforeFile] = []byte(strconv.Itoa(p.From) + "\n")
	}
	if t := n.retired(p.before.generation, g); len(t) > 0 {
		p.compiled.Tree.Files[generator.RetiredFile] = []byte(generator.FormatRetired(t))
	}
	return g, state.WriteGeneration(n.Layout, g, p.compiled.Tree, p.From)
}

// ensureLedger makes the ledger where there is none: without one nobody would
// answer for what a switch brings.
func (n *Node) ensureLedger() (err error) {
	if n.Ledger == nil {
		n.Ledger, err = state.CreateLedger(n.Layout, n.machineID)
	}
	return err
}

// intend records what the switch is about to do.
func (n *Node) intend(ctx context.Context, p Prepared, to state.Generation, o Options) error {
	begin := state.Event{
		Kind: state.EventBegin, Generation: to.Number, From: p.From, Manifest: to.Manifest, Transitions: p.Transitions,
	}
	if !o.Rollback {
		begin.Rollback = state.Never
	}
	found, err := n.survey(ctx)
	if err != nil {
		return err
	}
	more, err := n.emissions(p.Plan, to)
	if err != nil {
		return err
	}
	if err := n.Ledger.Append(slices.Concat([]state.Event{begin}, found, more)...); err != nil {
		return err
	}
	return state.SetPending(n.Layout, to.Number)
}

// emissions are the events that name what a plan brings, and the units that have
// to be started again should it be cut short.
func (n *Node) emissions(plan Plan, to state.Generation) ([]state.Event, error) {
	var events []state.Event
	owner := map[units.Target]units.Resource{}
	for _, r := range to.Resources {
		for _, t := range units.Targets(r) {
			owner[t] = r
		}
	}
	for _, t := range plan.Emit { // a directory that is not declared any more, and stays for what is in it
		if _, declared := owner[t]; !declared && t.Kind() == units.TargetDir {
			owner[t], _ = declaredIn(t.Name(), to.Resources)
		}
	}
	digest := map[string]string{}
	for _, u := range to.Units {
		digest[u.Name] = u.Digest
	}
	for _, t := range plan.Emit { // systemd makes the directory that it mounts at
		if where := owner[t].Value("Mount", "Where"); where != "" && t.Kind() == units.TargetUnit {
			events = append(events, n.dirEvents(owner[t], where+"/it", to)...)
		}
	}
	for _, d := range plan.Dirs {
		events = append(events, n.dirEvents(owner[d.target()], d.Path, to)...)
	}
	for _, r := range plan.Write { // also one that is put back: its directory may be gone too
		events = append(events, n.dirEvents(r, r.File.Path, to)...)
	}
	for _, t := range plan.Emit {
		r := owner[t]
		e := state.Event{Kind: state.EventEmit, Generation: to.Number, Target: t, Resource: r.Address}
		e.Origin, e.Definition = plan.origin(t)
		switch t.Kind() {
		case units.TargetUnit:
			text, err := os.ReadFile(filepath.Join(n.Layout.Generation(to.Number), generator.NormalDir, t.Name()))
			if err != nil && to.Converter != "" {
				return nil, err
			}
			e.Digest, e.Definition = digest[t.Name()], string(text)
			if record, ours := n.ledgerRecord(t); ours && e.Definition == "" {
				e.Definition = record.Definition // made below --root: what runs is stopped by that
			}
		case units.TargetFile:
			e.Digest, e.Definition = r.File.Digest, state.FileMeta(*r.File)
		case units.TargetDir:
			if r.Dir != nil && r.Dir.Path == t.Name() {
				e.Definition = state.DirMeta(*r.Dir)
				if record, ours := n.ledgerRecord(t); ours && record.OnTheWay() {
					e.Digest = plan.was(t)
				}
			}
		case units.TargetSecret:
			e.Digest = r.Secret.Digest
		}
		events = append(events, e)
	}
	for _, a := range plan.Adopt {
		events = append(events, a.events()...)
	}
	return slices.Concat(events, n.due(plan, events), plan.Last.due()), nil
}

// dirEvents name the directories on the way to a path that will be made for a
// resource, but for those that are declared.
func (n *Node) dirEvents(r units.Resource, path string, to state.Generation) []state.Event {
	var events []state.Event
	for _, dir := range missingDirs(n.Layout, path) {
		if slices.ContainsFunc(to.Resources, func(r units.Resource) bool { return r.Dir != nil && r.Dir.Path == dir }) {
			continue
		}
		events = append(events, state.Event{
			Kind: state.EventEmit, Generation: to.Number, Target: units.Of(units.TargetDir, dir), Resource: r.Address, Origin: "written",
		})
	}
	return events
}

// due are the units that the plan starts, and those that it takes down.
func (n *Node) due(plan Plan, emitted []state.Event) []state.Event {
	ours := map[units.Target]bool{}
	for _, e := range emitted {
		ours[e.Target] = true
	}
	names := slices.Concat(plan.Touched(), plan.TakenDown(), plan.Dependents, plan.Masked)
	var events []state.Event
	seen := map[string]bool{}
	for _, name := range names {
		t := units.Of(units.TargetUnit, name)
		record, ok := n.Ledger.Record(t)
		if seen[name] || (!ours[t] && (!ok || record.State != state.Live)) {
			continue
		}
		seen[name] = true
		e := state.Event{Kind: state.EventDue, Target: t}
		switch {
		case slices.Contains(plan.Notified, name):
			e.Why = state.Again
		case slices.Contains(plan.Idle, name):
			e.Why = state.Idle
		}
		events = append(events, e)
	}
	return events
}

// carry carries a move through, and brings the old set back where it fails.
func (n *Node) carry(ctx context.Context, m *move, o Options) (Outcome, error) {
	lost := n.lostBefore(m.from)
	m.fragile = o.Rollback && m.from.Number != m.to.Number && !lost
	err := m.act(ctx)
	failed := m.reports(ctx)
	switch {
	case err != nil && !m.inForce && (m.from.Number == m.to.Number || lost):
		// There is no other set to bring back: what was to be put right stays
		// as it is, and must not stand in the way of the next switch.
		return n.giveUp(m, err)
	case err != nil && !m.inForce:
		n.reopen()
		out, undo := n.retreat(ctx, m.to, m.from, state.Undone, m.undo(), m.progress)
		out.From = m.from.Number
		return out, errors.Join(err, undo)
	case (err != nil || len(failed) > 0) && m.fragile:
		n.reopen()
		out, back := n.retreat(ctx, m.to, m.from, state.RolledBack, m.undo(), m.progress)
		out.Failed = append(failed, out.Failed...)
		return out, errors.Join(err, back)
	}
	return n.close(ctx, m, o, failed, err)
}

// reopen reads the ledger again, which takes no more once an append failed: what
// was in the way then, a full disk say, may be gone. Where it cannot be read, the
// next append says so.
func (n *Node) reopen() {
	if ledger, err := state.OpenLedger(n.Layout, n.machineID); err == nil {
		_ = n.Ledger.Close() // every append that returned is on the disk
		n.Ledger = ledger
	}
}

// lostBefore reports whether nothing was in force before a switch, though one had
// brought a set into force by then: that is lost, and to go back to nothing would
// take away all that runs.
func (n *Node) lostBefore(from state.Generation) bool {
	if _, ejected, err := state.Ejected(n.Layout); err == nil && ejected {
		return false // it was taken out of force
	}
	return from.Number == 0 && slices.ContainsFunc(n.Switches(), func(s state.Switch) bool {
		return s.Result == state.Done || s.Result == state.Failed
	})
}

// giveUp ends a switch that was to put the set in force right, and could not.
func (n *Node) giveUp(m *move, err error) (Outcome, error) {
	out := Outcome{From: m.from.Number, To: m.to.Number, Result: state.Undone}
	end := n.Ledger.Append(state.Event{Kind: state.EventEnd, Generation: m.to.Number, Result: state.Undone})
	return out, errors.Join(err, end, state.ClearPending(n.Layout))
}

// close retires what is stale and ends the switch.
func (n *Node) close(ctx context.Context, m *move, o Options, failed []string, err error) (Outcome, error) {
	out := Outcome{From: m.from.Number, To: m.to.Number, Failed: failed, Result: state.Done}
	var events []state.Event
	if err == nil { // else systemd may still have what is to go, and could start it again
		events, err = m.retire(ctx)
		err = errors.Join(err, m.giveBack(ctx))
	}
	if err != nil || len(failed) > 0 {
		out.Result = state.Failed
	}
	s, open := n.unfinished()
	if open {
		events = append(events, state.Event{Kind: state.EventEnd, Generation: s.Generation, Result: out.Result})
	}
	if len(events) > 0 {
		if appendErr := n.Ledger.Append(events...); appendErr != nil {
			out.Result = ""
			return out, errors.Join(err, hint.Add(
				fmt.Errorf("generation %d is in force, and the end of the switch is not recorded: %w", out.To, appendErr), "the next switch finishes it"))
		}
	}
	if clearErr := errors.Join(state.ClearEjected(n.Layout), state.ClearPending(n.Layout)); clearErr != nil {
		return out, errors.Join(err, clearErr)
	}
	return out, errors.Join(err, n.compact(), state.Prune(n.Layout, o.Keep, m.from.Number, m.to.Number), m.giveLast(ctx))
}
