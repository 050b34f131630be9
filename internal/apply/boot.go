package apply

import (
	"context"
	"errors"
	"fmt"

	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// AtBoot connects to a machine that is booting, before any unit of a generation
// has started. There is no bus yet: systemd is asked by its own socket.
func AtBoot(ctx context.Context, l state.Layout) (Machine, error) {
	m := Machine{Converter: LocalConverter(l), Settle: settleFor, Booting: true}
	podman, err := host.FindPodman()
	if err != nil {
		return m, err
	}
	systemd, err := host.DialManager(context.WithoutCancel(ctx))
	if err != nil {
		return m, err
	}
	m.Systemd, m.Podman = systemd, podman
	return m, nil
}

// recoverAtBoot ends the switch that the boot found unfinished. What systemd was
// given is the generation in force, so that is the aim, on whichever side of the
// flip the switch was cut short; its files are put right, and what is no longer
// declared is retired. Nothing is started, and no job is waited for: systemd
// holds the jobs of the boot back until this has ended. The units that were due
// stay so, for whatever starts them now starts them by the right definition.
//
// Where it fails the switch stays unfinished, and what is in force stays so.
func (n *Node) recoverAtBoot(ctx context.Context, s state.Switch, current state.Generation, progress Progress) (Outcome, error) {
	if err := n.mustBeDown(ctx, current); err != nil {
		return Outcome{}, err
	}
	out := Outcome{From: s.Generation, To: current.Number, Result: state.Undone}
	if current.Number == s.Generation {
		out.From, out.Result = s.From, state.Done
	}
	from, err := n.generation(out.From)
	if err != nil {
		return Outcome{}, err
	}
	m, err := n.again(ctx, from, current, progress)
	if err != nil {
		return Outcome{}, err
	}
	m.undoing = out.Result == state.Undone
	if err := m.act(ctx); err != nil {
		return Outcome{From: out.From, To: out.To}, fmt.Errorf("put the files of generation %d right: %w", current.Number, err)
	}
	sweepOwn(n.Layout)
	events, left := m.retire(ctx)
	if left != nil && out.Result == state.Done {
		out.Result = state.Failed
	}
	events = append(events, n.dueAtBoot(current)...)
	events = append(events, state.Event{Kind: state.EventEnd, Generation: s.Generation, Result: out.Result})
	if err := n.Ledger.Append(events...); err != nil {
		return out, errors.Join(left, err)
	}
	return out, errors.Join(left, state.ClearPending(n.Layout))
}

// mustBeDown sees that nothing of ours runs yet. Beside what runs, a name could
// be taken for gone that is not.
func (n *Node) mustBeDown(ctx context.Context, current state.Generation) error {
	var names []string
	for _, u := range current.Units {
		names = append(names, u.Name)
	}
	for _, r := range n.records() {
		if r.Target.Kind() == units.TargetUnit {
			names = append(names, r.Target.Name())
		}
	}
	found, err := n.Systemd.Units(ctx, names)
	if err != nil {
		return err
	}
	for _, name := range names {
		if found[name].Up() {
			return fmt.Errorf("%s: is %s: this is no boot\nhint: run meshgen recover without --boot, or switch", name, found[name].Active)
		}
	}
	return nil
}

// dueAtBoot says of the units that are due in a generation that they were down
// at a boot.
func (n *Node) dueAtBoot(g state.Generation) []state.Event {
	var events []state.Event
	for _, u := range g.Units {
		t := units.Of(units.TargetUnit, u.Name)
		if r, ok := n.Ledger.Record(t); ok && r.State == state.Live && r.Due {
			events = append(events, state.Event{Kind: state.EventDue, Target: t, Why: state.Boot})
		}
	}
	return events
}
