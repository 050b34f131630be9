package apply

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"meshgen/generator"
	"meshgen/state"
	"meshgen/units"
)

// Prepared is what a switch would do: nothing of it is on the machine yet.
type Prepared struct {
	From, To    int // generations; To is From where nothing changes
	Transitions []state.Transition
	Rejected    units.Faults
	// Held are the resources that are left out, or left as they are: why is said
	// by the transition of one that is taken, or by Needs of one that needs it.
	Held []Holding
	Plan Plan

	before   before
	compiled Compiled
	input    Input // without what is held
}

// Prepare compiles the input, looks at the machine, compares and judges. The
// faults of a manifest that the machine's converter refuses come back as an
// error; what a decision refuses is in Rejected.
func (n *Node) Prepare(ctx context.Context, in Input) (Prepared, error) {
	current, err := n.InForce()
	if err != nil {
		return Prepared{}, err
	}
	lost := current.Number == 0 && n.hadSet()
	damaged, err := n.damaged(current)
	if err != nil {
		return Prepared{}, err
	}
	base := current
	if len(damaged) > 0 {
		base.Converter = "" // no unit of it is taken over, only the contents of files
	}
	compiled, err := n.compile(ctx, in, base)
	if err != nil {
		return Prepared{}, err
	}
	if err := n.unclaimed(ctx); err != nil {
		return Prepared{}, err
	}
	p := Prepared{From: current.Number, To: current.Number, compiled: compiled, input: in}
	if err := n.judge(ctx, &p, in, current, base, damaged); err != nil || len(p.Rejected) > 0 {
		return p, err
	}
	if err := n.adoptDecided(ctx, &p, in, current); err != nil || len(p.Rejected) > 0 {
		return p, err
	}
	compiled = p.compiled
	sizes, refused, err := n.migratable(ctx, p.Transitions, compiled.Generation)
	if err != nil || len(refused) > 0 {
		p.Rejected = refused
		return p, err
	}
	p.before.begins, p.before.lost = true, lost
	if p.Plan, err = n.plan(ctx, p.before, compiled.Generation); err != nil {
		return Prepared{}, err
	}
	for i, c := range p.Plan.Copy {
		p.Plan.Copy[i].Bytes = sizes[c.From].Bytes
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

// judge looks, compares and decides. What is held is left out of the set, and the
// rest is judged anew without it.
func (n *Node) judge(ctx context.Context, p *Prepared, in Input, current, base state.Generation, damaged map[units.Target]bool) (err error) {
	for {
		p.before, err = n.lookBefore(ctx, current, p.compiled.Generation, damaged)
		if err != nil {
			return err
		}
		p.before.operator = in.Adopt
		p.Transitions, p.Rejected = judge(p.before, p.compiled.Generation)
		p.before.transitions = p.Transitions
		p.Rejected = append(p.Rejected, n.keptOptions(p.before, p.compiled)...)
		p.input = in
		held := decidedToHold(p.Transitions)
		if len(p.Rejected) > 0 || len(held) == 0 {
			for _, h := range p.Held {
				if h.Needs == (units.Address{}) {
					p.Transitions = append(p.Transitions, h.Transition)
				}
			}
			return nil
		}
		fresh, refused := in.hold(held, p.before.generation)
		if len(refused) > 0 {
			p.Rejected = refused
			return nil
		}
		p.Held = append(p.Held, fresh.held...)
		in = fresh.input
		if p.compiled, err = n.compile(ctx, in, base); err != nil {
			return err
		}
	}
}

// adoptDecided looks closer at what was decided to be adopted. That makes a new
// generation, whatever else there is to do: what it adopts is given back where it
// does not stand.
func (n *Node) adoptDecided(ctx context.Context, p *Prepared, in Input, current state.Generation) (err error) {
	if p.Rejected = notInTheWay(in.Adopt, p.Transitions, in.Resources, p.Held); len(p.Rejected) > 0 {
		return nil
	}
	adopts := slices.ContainsFunc(p.Transitions, func(t state.Transition) bool { return t.Decision == state.Adopt })
	if !adopts {
		return nil
	}
	if p.compiled.Generation.Number > 0 {
		if p.compiled, err = Compile(ctx, n.Layout, n.Converter, p.input, state.Generation{}); err != nil {
			return err
		}
	}
	number, err := n.nextNumber(p.compiled.Generation, current)
	if err != nil {
		return err
	}
	p.before.adopt, p.Rejected, err = n.adopt(ctx, *p, number)
	return err
}

// plan makes the plan, as far as this system goes.
func (n *Node) plan(ctx context.Context, b before, desired state.Generation) (Plan, error) {
	plan := makePlan(b, desired)
	if n.Systemd == nil || n.Booting {
		return plan.offline(), nil
	}
	if n.Unit != "" {
		own, err := n.Systemd.Details(ctx, []string{n.Unit})
		if err != nil {
			return plan, err
		}
		plan = plan.ownLast(n.Unit, own[n.Unit].Invocation)
	}
	var err error
	if plan.Dependents, err = n.dependents(ctx, plan); err != nil {
		return plan, err
	}
	plan.End, err = n.outlived(ctx, plan, b)
	return plan, err
}

// dependents returns the units that are up and that systemd takes down with
// those that the plan takes down, beside those that the plan has a part for.
func (n *Node) dependents(ctx context.Context, plan Plan) ([]string, error) {
	down := append(plan.TakenDown(), plan.stopsFound()...)
	names, err := n.Systemd.Dependents(ctx, down)
	if err != nil {
		return nil, err
	}
	part := append(plan.Touched(), down...)
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(part, name) })
	found, err := n.Systemd.Units(ctx, names)
	return slices.DeleteFunc(names, func(name string) bool {
		return found[name].Active != "active" || found[name].Load == "masked"
	}), err
}

// compile spares the work where the manifest is that of the generation in force
// and the converter the one that made it.
func (n *Node) compile(ctx context.Context, in Input, current state.Generation) (Compiled, error) {
	if current.Number > 0 && len(in.Released) == 0 && in.Digest == current.Manifest && slices.Equal(in.Held, current.Held) && fingerprint(n.Converter) == current.Converter {
		return Compiled{Generation: current}, nil
	}
	return Compile(ctx, n.Layout, n.Converter, in, current)
}

// hadSet reports whether the ledger knows of a set that was in force and whose
// units are live.
func (n *Node) hadSet() bool {
	return slices.ContainsFunc(n.records(), func(r state.Record) bool {
		return r.Target.Kind() == units.TargetUnit && r.State == state.Live
	})
}

// damaged returns the units of the generation in force that are no longer as they
// were written.
func (n *Node) damaged(g state.Generation) (map[units.Target]bool, error) {
	if g.Converter == "" {
		return nil, nil // the generator makes them at boot
	}
	given, err := generator.ReadUnits(filepath.Join(n.Layout.Generation(g.Number), generator.UnitsFile))
	damaged := map[units.Target]bool{}
	for _, u := range g.Units {
		damaged[units.Of(units.TargetUnit, u.Name)] = true
	}
	if err != nil && !errors.Is(err, generator.ErrUnits) {
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return damaged, nil
	}
	text := make(map[string]string, len(given))
	for _, u := range given {
		text[u.Name] = u.Text
	}
	for _, u := range g.Units {
		if t, ok := text[u.Name]; ok && state.TextDigest(t) == u.Text {
			delete(damaged, units.Of(units.TargetUnit, u.Name))
		}
	}
	return damaged, nil
}

func (n *Node) lookBefore(ctx context.Context, from, desired state.Generation, damaged map[units.Target]bool) (before, error) {
	var b before
	b.generation, b.records = state.Rehome(desired, from, n.records())
	var err error
	if b.seen, err = n.look(ctx, desired, b.records); err != nil {
		return b, err
	}
	b.seen.observed.Damaged = damaged
	b.adopted = n.adopted()
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
