package apply

import (
	"context"
	"slices"

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
	if err := n.unclaimed(ctx); err != nil {
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
	if current.Number > 0 && in.Digest == current.Manifest && fingerprint(n.Converter) == current.Converter {
		return Compiled{Generation: current}, nil
	}
	return Compile(ctx, n.Layout, n.Converter, in, current)
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
