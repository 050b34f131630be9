package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"meshgen/generator"
	"meshgen/internal/durable"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// Prepared is what a switch would do: nothing of it is on the machine yet.
type Prepared struct {
	From, To    int // generations; To is From where nothing changes
	Transitions []state.Transition
	Rejected    units.Faults
	Plan        Plan

	before   before
	compiled Compiled
}

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
}

// Prepare compiles the input, looks at the machine, compares and judges. The
// faults of a manifest that the machine's converter refuses come back as an
// error; what a decision refuses is in Rejected.
func (n *Node) Prepare(ctx context.Context, in Input) (Prepared, error) {
	current, err := n.InForce()
	if err != nil {
		return Prepared{}, err
	}
	compiled, err := n.compile(ctx, in, current)
	if err != nil {
		return Prepared{}, err
	}
	p := Prepared{From: current.Number, To: current.Number, compiled: compiled}
	p.before, err = n.lookBefore(ctx, current, compiled.Generation)
	if err != nil {
		return Prepared{}, err
	}
	p.Transitions, p.Rejected = judge(p.before.transitions, current, compiled.Generation)
	if len(p.Rejected) > 0 {
		return p, nil
	}
	if p.Plan, err = n.plan(ctx, p.before, compiled.Generation); err != nil {
		return Prepared{}, err
	}
	if p.Rejected = unreachable(n.Layout, p.Plan.Write); len(p.Rejected) > 0 {
		return p, nil
	}
	if p.Rejected, err = n.guard(ctx, p.Plan, compiled.Generation); err != nil || len(p.Rejected) > 0 {
		return p, err
	}
	if !p.Plan.Empty() {
		p.To, err = n.nextNumber(compiled.Generation, current)
	}
	return p, err
}

// plan makes the plan, as far as this system goes.
func (n *Node) plan(ctx context.Context, b before, desired state.Generation) (Plan, error) {
	plan := makePlan(b, desired)
	if n.Systemd == nil {
		return plan.offline(), nil
	}
	var err error
	plan.Dependents, err = n.dependents(ctx, plan)
	return plan, err
}

// dependents returns the units that are up and that systemd takes down with
// those that the plan takes down, beside those that the plan has a part for.
func (n *Node) dependents(ctx context.Context, plan Plan) ([]string, error) {
	down := plan.TakenDown()
	names, err := n.Systemd.Dependents(ctx, down)
	if err != nil {
		return nil, err
	}
	part := append(plan.Touched(), down...)
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(part, name) })
	found, err := n.Systemd.Units(ctx, names)
	return slices.DeleteFunc(names, func(name string) bool { return found[name].Active != "active" }), err
}

// compile spares the work where the manifest is that of the generation in force
// and the converter the one that made it.
func (n *Node) compile(ctx context.Context, in Input, current state.Generation) (Compiled, error) {
	converter, ok := generator.FindConverter(n.Layout.Root)
	if !ok && n.Systemd != nil {
		return Compiled{}, errors.New("quadlet: not on this machine\nhint: it comes with podman 4.4 and later")
	}
	if current.Number > 0 && in.Digest == current.Manifest && converter.Fingerprint == current.Converter {
		return Compiled{Generation: current}, nil
	}
	return Compile(ctx, n.Layout, in, current)
}

func (n *Node) lookBefore(ctx context.Context, from, desired state.Generation) (before, error) {
	b := before{generation: from, records: n.records()}
	var err error
	if b.seen, err = n.look(ctx, desired, b.records); err != nil {
		return b, err
	}
	b.transitions = state.Compare(desired, b.records, b.seen.observed)
	return b, nil
}

// nextNumber returns the number of the generation to be written: the one in
// force where it is the same.
func (n *Node) nextNumber(desired, current state.Generation) (int, error) {
	if desired.Number == current.Number && current.Number > 0 {
		return current.Number, nil
	}
	numbers, err := state.Numbers(n.Layout)
	if err != nil {
		return 0, err
	}
	next := 1
	if n.Ledger != nil {
		for _, s := range n.Ledger.Switches() {
			next = max(next, s.Generation+1)
		}
	}
	for _, number := range numbers {
		next = max(next, number+1)
	}
	return next, nil
}

// Unfinished says of a switch that has not ended whether it runs or was cut
// short, and what is left to do; "" where there is none.
func (n *Node) Unfinished() (string, error) {
	s, ok := n.unfinished()
	if !ok {
		return "", nil
	}
	if pid, held := state.Holder(n.Layout); held && pid != os.Getpid() {
		return fmt.Sprintf("a switch to generation %d is under way, process %d", s.Generation, pid), nil
	}
	current, _, err := state.Current(n.Layout)
	if err != nil {
		return "", err
	}
	if current == s.Generation {
		return fmt.Sprintf("the switch to generation %d was cut short after it was in force; the next switch finishes it", s.Generation), nil
	}
	return fmt.Sprintf("the switch to generation %d was cut short before it was in force; the next switch undoes it", s.Generation), nil
}

func (n *Node) unfinished() (state.Switch, bool) {
	if n.Ledger == nil {
		return state.Switch{}, false
	}
	return n.Ledger.Unfinished()
}

// Recover finishes or undoes a switch that was cut short: where its generation
// was in force already it goes forward, else back. Without one it only sweeps
// what may be left in /run.
func (n *Node) Recover(ctx context.Context, o Options, progress Progress) (Outcome, error) {
	s, ok := n.unfinished()
	if !ok {
		return Outcome{}, errors.Join(clearPending(n.Layout), sweepOwn(n.Layout))
	}
	ctx = context.WithoutCancel(ctx)
	current, err := n.InForce()
	if err != nil {
		return Outcome{}, err
	}
	if current.Number == s.Generation {
		from, err := n.generation(s.From)
		if err != nil {
			return Outcome{}, err
		}
		return n.advance(ctx, from, current, o, progress)
	}
	aim, err := n.generation(s.Generation)
	if err != nil {
		return Outcome{}, err
	}
	return n.retreat(ctx, aim, current, state.Undone, progress)
}

// clearPending removes the link of a switch that had ended but for that.
func clearPending(l state.Layout) error {
	if _, pending, err := state.Pending(l); err != nil || !pending {
		return err
	}
	return state.ClearPending(l)
}

// sweepOwn removes the temporaries that a switch cut short may have left in
// meshgen's own directories, and what it kept in /run.
func sweepOwn(l state.Layout) error {
	for _, dir := range []string{l.Config, l.State, l.Backups()} {
		if resolved, err := filepath.EvalSymlinks(dir); err == nil {
			_, _ = durable.Sweep("/", resolved) // litter does no harm
		}
	}
	return errors.Join(state.Tidy(l), sweepBridge(l))
}

// generation reads a generation; 0 is the empty one.
func (n *Node) generation(number int) (state.Generation, error) {
	if number == 0 {
		return state.Generation{}, nil
	}
	return state.ReadGeneration(n.Layout, number)
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
		return out, fmt.Errorf("%w\nhint: nothing was touched; switch again when that is mended", err)
	}
	if err := n.intend(p, to); err != nil {
		return out, err
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
	return &move{node: n, from: b.generation, to: to, plan: plan, records: records, seen: b.seen, progress: progress,
		faults: map[string]error{}, begun: time.Now()}
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
	// A generation without a ledger would be one that nobody answers for.
	if n.Ledger == nil {
		ledger, err := state.CreateLedger(n.Layout, n.machine)
		if err != nil {
			return g, err
		}
		n.Ledger = ledger
	}
	if f := fences(g, n.Ledger.Records()); len(f) > 0 {
		p.compiled.Tree.Files[generator.FencesFile] = []byte(generator.FormatFences(f))
	}
	return g, state.WriteGeneration(n.Layout, g, p.compiled.Tree, p.From)
}

// intend records what the switch is about to do.
func (n *Node) intend(p Prepared, to state.Generation) error {
	events := []state.Event{{
		Kind: state.EventBegin, Generation: to.Number, From: p.From, Manifest: to.Manifest, Transitions: p.Transitions,
	}}
	more, err := n.emissions(p.Plan, to)
	if err != nil {
		return err
	}
	if err := n.Ledger.Append(append(events, more...)...); err != nil {
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
	digest := map[string]string{}
	for _, u := range to.Units {
		digest[u.Name] = u.Digest
	}
	for _, t := range plan.Emit {
		r := owner[t]
		e := state.Event{Kind: state.EventEmit, Generation: to.Number, Target: t, Resource: r.Address, Origin: "written"}
		switch t.Kind() {
		case units.TargetUnit:
			text, err := os.ReadFile(filepath.Join(n.Layout.Generation(to.Number), generator.NormalDir, t.Name()))
			if err != nil && to.Converter != "" {
				return nil, err
			}
			e.Digest, e.Definition = digest[t.Name()], string(text)
		case units.TargetFile:
			e.Digest, e.Definition = r.File.Digest, state.FileMeta(*r.File)
			for _, dir := range missingDirs(n.Layout, r.File.Path) {
				events = append(events, state.Event{
					Kind: state.EventEmit, Generation: to.Number, Target: units.Of(units.TargetDir, dir), Resource: r.Address, Origin: "written",
				})
			}
		}
		events = append(events, e)
	}
	return append(events, n.due(plan, events)...), nil
}

// due are the units that the plan starts, and those that it takes down.
func (n *Node) due(plan Plan, emitted []state.Event) []state.Event {
	ours := map[units.Target]bool{}
	for _, e := range emitted {
		ours[e.Target] = true
	}
	names := slices.Concat(plan.Touched(), plan.TakenDown(), plan.Dependents)
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
		if slices.Contains(plan.Notified, name) {
			e.Why = state.Again
		}
		events = append(events, e)
	}
	return events
}

// carry carries a move through, and brings the old set back where it fails.
func (n *Node) carry(ctx context.Context, m *move, o Options) (Outcome, error) {
	m.fragile = o.Rollback && m.from.Number != m.to.Number
	err := m.act(ctx)
	failed := m.reports(ctx)
	switch {
	case err != nil && !m.inForce && m.from.Number == m.to.Number:
		// There is no other set to bring back: what was to be put right stays
		// as it is, and must not stand in the way of the next switch.
		return n.giveUp(m, err)
	case err != nil && !m.inForce:
		out, undo := n.retreat(ctx, m.to, m.from, state.Undone, m.progress)
		out.From = m.from.Number
		return out, errors.Join(err, undo)
	case (err != nil || len(failed) > 0) && m.fragile:
		out, back := n.retreat(ctx, m.to, m.from, state.RolledBack, m.progress)
		out.Failed = append(failed, out.Failed...)
		return out, errors.Join(err, back)
	}
	return n.close(ctx, m, o, failed, err)
}

// giveUp ends a switch that changed nothing.
func (n *Node) giveUp(m *move, err error) (Outcome, error) {
	out := Outcome{From: m.from.Number, To: m.to.Number, Result: state.Undone}
	end := n.Ledger.Append(state.Event{Kind: state.EventEnd, Generation: m.to.Number, Result: state.Undone})
	return out, errors.Join(err, end, state.ClearPending(n.Layout))
}

// close retires what is stale and ends the switch.
func (n *Node) close(ctx context.Context, m *move, o Options, failed []string, err error) (Outcome, error) {
	out := Outcome{From: m.from.Number, To: m.to.Number, Failed: failed, Result: state.Done}
	events, left := m.retire(ctx)
	if err = errors.Join(err, left); err != nil || len(failed) > 0 {
		out.Result = state.Failed
	}
	s, open := n.unfinished()
	if open {
		events = append(events, state.Event{Kind: state.EventEnd, Generation: s.Generation, Result: out.Result})
	}
	if len(events) > 0 {
		if appendErr := n.Ledger.Append(events...); appendErr != nil {
			return out, errors.Join(err, appendErr)
		}
	}
	if clearErr := state.ClearPending(n.Layout); clearErr != nil {
		return out, errors.Join(err, clearErr)
	}
	return out, errors.Join(err, state.Prune(n.Layout, o.Keep, m.from.Number, m.to.Number))
}

// advance takes an unfinished switch on from where it was cut short.
func (n *Node) advance(ctx context.Context, from, to state.Generation, o Options, progress Progress) (Outcome, error) {
	m, err := n.again(ctx, from, to, progress)
	if err != nil {
		return Outcome{}, err
	}
	return n.carry(ctx, m, o)
}

// again makes the move from one generation to another anew, by what the ledger
// and the machine say now, and records what it brings.
func (n *Node) again(ctx context.Context, from, to state.Generation, progress Progress) (*move, error) {
	sweep(n.Layout, from, to)
	n.forget()
	b, err := n.lookBefore(ctx, from, to)
	if err != nil {
		return nil, err
	}
	plan, err := n.plan(ctx, b, to)
	if err != nil {
		return nil, err
	}
	plan.Reread = n.Systemd != nil // what systemd was given last is not known
	events, err := n.emissions(plan, to)
	if err != nil {
		return nil, err
	}
	if len(events) > 0 {
		if err := n.Ledger.Append(events...); err != nil {
			return nil, err
		}
	}
	return n.move(b, plan, to, progress), nil
}

// sweep removes the temporaries that a switch cut short may have left beside the
// files of either generation.
func sweep(l state.Layout, generations ...state.Generation) {
	var dirs []string
	for _, g := range generations {
		for _, r := range g.Resources {
			if r.File != nil {
				dirs = append(dirs, filepath.Dir(r.File.Path))
			}
		}
	}
	_, _ = durable.Sweep(l.Root, dirs...) // litter, and none of it lies where a link leads
}

// retreat brings back the set that an unfinished switch came from.
func (n *Node) retreat(ctx context.Context, from, to state.Generation, result state.Result, progress Progress) (Outcome, error) {
	out := Outcome{From: from.Number, To: to.Number, Result: result}
	m, err := n.again(ctx, from, to, progress)
	if err != nil {
		out.Result = ""
		return out, err
	}
	m.undoing = true
	if err := m.act(ctx); err != nil {
		out.Result = ""
		return out, fmt.Errorf("bring back generation %d: %w\nhint: the next switch tries again", to.Number, err)
	}
	out.Failed = m.reports(ctx)
	events, left := m.retire(ctx)
	if s, open := n.unfinished(); open {
		events = append(events, state.Event{Kind: state.EventEnd, Generation: s.Generation, Result: result})
	}
	if err := n.Ledger.Append(events...); err != nil {
		return out, errors.Join(left, err)
	}
	return out, errors.Join(left, state.ClearPending(n.Layout))
}

// awaitEnd gives systemd a moment to log how a unit that is on its way down came
// to its end.
func (m *move) awaitEnd(ctx context.Context, name string) {
	deadline := time.After(2 * time.Second)
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		found, err := m.node.Systemd.Units(ctx, []string{name})
		if u := found[name]; err != nil || !u.Up() || u.Sub == "auto-restart" {
			return
		}
		select {
		case <-deadline:
			return
		case <-look.C:
		}
	}
}

// reports says of each unit that did not come up what is wrong, with the last
// lines of its log.
func (m *move) reports(ctx context.Context) []string {
	var reports []string
	for _, name := range m.failed {
		report := name
		if err := m.faults[name]; err != nil {
			report = err.Error()
		}
		m.awaitEnd(ctx, name)
		for _, line := range host.Journal(ctx, name, m.begun, 8) {
			report += "\n    " + line
		}
		reports = append(reports, report)
	}
	return reports
}
