package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"meshgen/generator"
	"meshgen/internal/durable"
	"meshgen/internal/hint"
	"meshgen/state"
	"meshgen/units"
)

// Unfinished says of a switch that has not ended whether it runs or was cut
// short, and what is left to do; "" where there is none.
func (n *Node) Unfinished() (string, error) {
	if words := n.ejecting(); words != "" {
		return words + "; meshgen eject finishes it", nil
	}
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
// was in force already it goes forward, else back. One that was asked never to
// bring the old set back is not brought back here either, whatever the options
// say. Without one it only sweeps the litter that a killed process may have left.
func (n *Node) Recover(ctx context.Context, o Options, progress Progress) (Outcome, error) {
	if err := n.beingEjected(); err != nil {
		return Outcome{}, err
	}
	current, err := n.InForce()
	if err != nil {
		return Outcome{}, err
	}
	if err := n.keepCopies(current); err != nil {
		return Outcome{}, err
	}
	s, ok := n.unfinished()
	if !ok {
		sweepOwn(n.Layout)
		return Outcome{}, clearPending(n.Layout)
	}
	sweepTemps(n.Layout)
	ctx = context.WithoutCancel(ctx)
	lost := n.lostBefore(current)
	if lost && n.Booting {
		return Outcome{}, hint.Add(fmt.Errorf("%s: nothing is in force, and the ledger has a set", n.Layout.Current()), "meshgen switch makes it anew")
	}
	if n.Booting {
		return n.recoverAtBoot(ctx, s, current, progress)
	}
	if current.Number == s.Generation {
		from, err := n.generation(s.From)
		if err != nil {
			return Outcome{}, err
		}
		o.Rollback = o.Rollback && s.Rollback != state.Never
		return n.advance(ctx, from, current, o, progress)
	}
	aim, err := n.generation(s.Generation)
	if err != nil {
		return Outcome{}, err
	}
	if lost && len(aim.Resources) == 0 {
		// Its generation is gone as well: the switch that follows makes the set anew.
		end := n.Ledger.Append(state.Event{Kind: state.EventEnd, Generation: s.Generation, Result: state.Undone})
		return Outcome{From: s.Generation, Result: state.Undone}, errors.Join(end, state.ClearPending(n.Layout))
	}
	if lost {
		return n.advance(ctx, current, aim, o, progress)
	}
	return n.retreat(ctx, aim, current, state.Undone, undo{idle: n.idle()}, progress)
}

// undo is what is known of a switch that is to be undone.
type undo struct {
	down []string // units that it took down beside its own
	idle []string // units that were down before it
}

// undo returns what has to be put back after the move.
func (m *move) undo() undo { return undo{down: m.plan.Dependents, idle: m.plan.Idle} }

// idle returns the units that a switch that was cut short was to start, and that
// were down before.
func (n *Node) idle() []string {
	var names []string
	for _, r := range n.records() {
		if r.Due && r.DueWhy == state.Idle {
			names = append(names, r.Target.Name())
		}
	}
	return names
}

// clearPending removes the link of a switch that had ended but for that.
func clearPending(l state.Layout) error {
	if _, pending, err := state.Pending(l); err != nil || !pending {
		return err
	}
	return state.ClearPending(l)
}

// sweepOwn removes the temporaries that a switch cut short may have left in
// meshgen's own directories, and what it kept in /run, as far as it can: such
// litter does no harm.
func sweepOwn(l state.Layout) {
	sweepTemps(l)
	_, _ = state.Tidy(l), sweepBridge(l) // as said above
}

// sweepTemps removes the temporaries in meshgen's own directories, and those of
// conversions.
func sweepTemps(l state.Layout) {
	generator.SweepConversions()
	adopted, _ := filepath.Glob(l.Adopted() + "/*") // the pattern is sound
	for _, dir := range append([]string{l.Config, l.State, l.Backups()}, adopted...) {
		if resolved, err := filepath.EvalSymlinks(dir); err == nil {
			_, _ = durable.Sweep("/", resolved) // litter, that does no harm
		}
	}
}

// generation reads a generation that is not in force; 0 is the empty one. Of one
// that is no longer there, the ledger has the names.
func (n *Node) generation(number int) (state.Generation, error) {
	if number == 0 {
		return state.Generation{}, nil
	}
	g, err := state.ReadGeneration(n.Layout, number)
	if errors.Is(err, os.ErrNotExist) {
		return state.Generation{Number: number}, nil
	}
	return g, err
}

// advance takes an unfinished switch on from where it was cut short.
func (n *Node) advance(ctx context.Context, from, to state.Generation, o Options, progress Progress) (Outcome, error) {
	m, err := n.again(ctx, from, to, nil, progress)
	if err != nil {
		return Outcome{}, err
	}
	// Containers may have written to a copy for days: to go back would lose that.
	copied := slices.ContainsFunc(n.records(), func(r state.Record) bool {
		return r.Origin == originCopy && r.State == state.Live && r.Last.Generation == to.Number
	})
	o.Rollback = o.Rollback && !copied
	return n.carry(ctx, m, o)
}

// again makes the move from one generation to another anew, by what the ledger
// and the machine say now, and records what it brings. Units that are idle are not
// brought up by it.
func (n *Node) again(ctx context.Context, from, to state.Generation, idle []string, progress Progress) (*move, error) {
	sweep(n.Layout, from, to)
	n.sweepAdopted()
	n.forget()
	b, err := n.lookBefore(ctx, from, to, nil)
	if err != nil {
		return nil, err
	}
	b.transitions, _ = judge(ctx, b, to, n.asker(to.Number, from.Number)) // what was begun is not refused on its way
	// What the move that is taken on had written before is no other hands'.
	b.transitions = slices.DeleteFunc(b.transitions, func(t state.Transition) bool {
		return t.Kind == state.Drift && writtenBy(from, t.To, b.seen.observed.Files)
	})
	// What is to be refused is not overwritten either: the next switch refuses it.
	for i, t := range b.transitions {
		if t.Kind == state.Drift && t.Decision == state.Refuse {
			b.transitions[i].Decision = state.Keep
		}
	}
	plan, err := n.plan(ctx, b, to)
	if err != nil {
		return nil, err
	}
	plan = plan.without(idle, b.seen.units)
	// What is somebody else's by now is let be, and told: to stop at it would keep
	// all else down, and the manifest from mending it.
	barred := map[string]units.Faults{}
	if n.Systemd != nil {
		if barred, err = n.barred(ctx, plan, to); err != nil {
			return nil, err
		}
		plan = plan.sparing(barred)
		inTheWay, err := n.inTheWay(ctx, plan, barred, from, to)
		if err != nil {
			return nil, err
		}
		plan.End = append(plan.End, inTheWay...)
		faults, err := n.othersNeed(ctx, plan, to)
		if err != nil || len(faults) > 0 {
			return nil, errors.Join(err, faults.Err())
		}
	}
	plan.Reread = n.Systemd != nil && !n.Booting // what systemd was given last is not known
	events, err := n.emissions(plan, to)
	if err != nil {
		return nil, err
	}
	if len(events) > 0 {
		if err := n.Ledger.Append(events...); err != nil {
			return nil, err
		}
	}
	m := n.move(b, plan, to, progress)
	for _, name := range slices.Sorted(maps.Keys(barred)) {
		m.fail(name, barred[name])
	}
	for _, name := range plan.Barred {
		m.fail(name, fmt.Errorf("%s: is masked, and so not started", name))
	}
	return m, nil
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

// sweepAdopted removes the temporaries that one that was cut short may have left
// beside the places of what was adopted.
func (n *Node) sweepAdopted() {
	var dirs []string
	for _, r := range n.adopted() {
		for _, f := range r.Adoption.Files {
			if dir := filepath.Dir(f.Path); !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	_, _ = durable.Sweep(n.Layout.Root, dirs...) // litter, as above
}

// retreat brings back the set that an unfinished switch came from, with the units
// that were up and down before as far as that is known.
func (n *Node) retreat(ctx context.Context, from, to state.Generation, result state.Result, was undo, progress Progress) (Outcome, error) {
	out := Outcome{From: from.Number, To: to.Number, Result: result}
	idle := slices.DeleteFunc(was.idle, func(name string) bool {
		return !slices.ContainsFunc(to.Units, func(u state.Unit) bool { return u.Name == name })
	})
	_ = n.dropCopies(ctx) // first, as they may have filled the disk; what is left is retired
	m, err := n.again(ctx, from, to, idle, progress)
	if err != nil {
		out.Result = ""
		return out, err
	}
	m.undoing, m.stood = true, result == state.RolledBack
	for _, name := range was.down {
		if !slices.Contains(m.plan.Dependents, name) {
			m.plan.Dependents = append(m.plan.Dependents, name)
		}
	}
	if err := m.act(ctx); err != nil {
		out.Result = ""
		return out, hint.Add(fmt.Errorf("bring back generation %d: %w", to.Number, err), "the next switch tries again")
	}
	out.Failed = m.reports(ctx)
	out.Incomplete = len(m.failed) > 0
	events, left := m.retire(ctx)
	left = errors.Join(left, m.left)
	for _, name := range idle {
		events = append(events, state.Event{Kind: state.EventDue, Generation: to.Number, Target: units.Of(units.TargetUnit, name), Why: state.Withdrawn})
	}
	if s, open := n.unfinished(); open {
		events = append(events, state.Event{Kind: state.EventEnd, Generation: s.Generation, Result: result})
	}
	if err := n.Ledger.Append(events...); err != nil {
		return out, errors.Join(left, err)
	}
	return out, errors.Join(left, state.ClearPending(n.Layout), m.giveLast(ctx))
}
