package apply

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"meshgen/generator"
	"meshgen/state"
	"meshgen/units"
)

// Prepared is what a switch would do: nothing of it is on the machine yet.
type Prepared struct {
	From, To    int // generations; To is From where nothing changes
	Transitions []state.Transition
	Rejected    units.Faults
	// Held are the resources that are left out, or left as they are.
	Held []state.Holding
	// Losses are what was put aside and cannot be given back as it is now.
	Losses []Loss
	Plan   Plan

	before   before
	compiled Compiled
	input    Input // without what is held
	asked    asked
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
	in, barred := n.owedFirst(in, current)
	if len(barred) > 0 {
		return Prepared{From: current.Number, To: current.Number, Rejected: barred}, nil
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
	if faults := n.asides(compiled.Generation); len(faults) > 0 {
		return Prepared{From: current.Number, To: current.Number, Rejected: faults}, nil
	}
	p := Prepared{From: current.Number, To: current.Number, Held: in.Held, compiled: compiled, input: in}
	p.before.lost = lost
	if p.Losses, err = n.losses(ctx); err != nil {
		return p, err
	}
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
	p.before.begins = true
	if p.Plan, err = n.plan(ctx, p.before, compiled.Generation); err != nil {
		return Prepared{}, err
	}
	for i, c := range p.Plan.Copy {
		p.Plan.Copy[i].Bytes = sizes[c.From].Bytes
	}
	if p.Rejected = unreachable(n.Layout, p.Plan, compiled.Generation); len(p.Rejected) > 0 {
		return p, nil
	}
	if p.Rejected, err = n.unreturnable(ctx, p.before, p.Plan, compiled.Generation); err != nil || len(p.Rejected) > 0 {
		return p, err
	}
	if p.Rejected = n.unmovable(p.Plan, p.before.seen, compiled.Generation); len(p.Rejected) > 0 {
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
	stays := map[units.Address]units.Resource{}
	var held []state.Holding // for what is in their way now
	for first := true; ; first = false {
		lost := p.before.lost
		if p.before, err = n.lookBefore(ctx, current, p.compiled.Generation, &whole{damaged}); err != nil {
			return err
		}
		p.before.lost = lost
		if p.input = in; first {
			if p.asked, p.Rejected = in.asked(p.before.transitions); len(p.Rejected) > 0 {
				return nil
			}
		}
		p.before.operator = p.asked.taken
		judged, refused := judge(ctx, p.before, p.compiled.Generation, n.asker(current.Number))
		p.before.transitions = judged
		p.Transitions = withTaken(judged, held)
		p.Rejected = append(refused, n.keptOptions(p.before, p.compiled)...)
		taken := withInstead(heldTakeovers(judged), p.before.seen.observed.Taken)
		if len(taken) == 0 {
			return nil
		}
		was := former{generation: p.before.generation, records: p.before.records, transitions: judged, lost: p.before.lost}
		fresh, left, barred := in.hold(taken, was)
		if barred = append(barred, cornered(taken, stays)...); len(barred) > 0 {
			p.Rejected = append(barred, beside(p.Rejected, fresh.Held)...)
			slices.SortStableFunc(p.Rejected, func(a, b units.Fault) int { return a.Position.Compare(b.Position) })
			return nil
		}
		maps.Copy(stays, left)
		held = append(held, taken...)
		in, p.Held = fresh, fresh.Held
		if p.compiled, err = n.compile(ctx, in, base); err != nil {
			return err
		}
	}
}

// adoptDecided looks closer at what was decided to be adopted. That makes a new
// generation, whatever else there is to do: what it adopts is given back where it
// does not stand.
func (n *Node) adoptDecided(ctx context.Context, p *Prepared, in Input, current state.Generation) (err error) {
	if p.Rejected = notInTheWay(p.asked, p.Transitions, in.Resources, p.Held); len(p.Rejected) > 0 {
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

// withTaken adds the takeovers that are held to the other transitions.
func withTaken(transitions []state.Transition, held []state.Holding) []state.Transition {
	all := slices.Clone(transitions)
	for _, h := range held {
		all = append(all, h.Taken...)
	}
	slices.SortStableFunc(all, func(a, b state.Transition) int { return a.Resource.Compare(b.Resource) })
	return all
}

// plan makes the plan, as far as this system goes.
func (n *Node) plan(ctx context.Context, b before, desired state.Generation) (Plan, error) {
	var err error
	if b.gone, err = n.gone(ctx, b, desired); err != nil {
		return Plan{}, err
	}
	plan := makePlan(b, desired)
	if n.Systemd == nil || n.Booting {
		offline := plan.offline()
		if n.Booting { // podman is there
			offline.Make = plan.Make
		}
		return offline, nil
	}
	if n.Unit != "" {
		own, err := n.Systemd.Details(ctx, []string{n.Unit})
		if err != nil {
			return plan, err
		}
		plan = plan.ownLast(n.Unit, own[n.Unit].Invocation)
	}
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
	same := current.Number > 0 && len(in.Released) == 0 && in.Digest == current.Manifest && sameHeld(in.Held, current.Held) && fingerprint(n.Converter) == current.Converter
	if same && len(in.Held) == 0 {
		return Compiled{Generation: current}, nil
	}
	var err error
	if in.Resources, err = n.sealed(in.Resources); err != nil {
		return Compiled{}, err
	}
	c, err := Compile(ctx, n.Layout, n.Converter, in, current)
	// What is held as it was may be in one form or another.
	if err == nil && same && slices.EqualFunc(c.Generation.Resources, current.Resources, sameDeclared) {
		return Compiled{Generation: current}, nil
	}
	return c, err
}

// sameHeld reports whether the same resources are held, whatever is in their way.
func sameHeld(a, b []state.Holding) bool {
	return slices.EqualFunc(a, b, func(a, b state.Holding) bool { return a.Resource == b.Resource })
}

// sameDeclared reports whether two resources are equal in all but their positions.
func sameDeclared(a, b units.Resource) bool {
	return sameResource(a, b) && maps.Equal(a.Policy, b.Policy) && samePolicy(a.Wasm, b.Wasm)
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

// whole is what a look is for that sees what other hands did. One that takes a
// switch on, or back, has that in the next one's.
type whole struct {
	damaged map[units.Target]bool
}

func (n *Node) lookBefore(ctx context.Context, from, desired state.Generation, all *whole) (before, error) {
	var b before
	b.generation, b.records = state.Rehome(desired, from, n.records())
	var err error
	if b.seen, err = n.look(ctx, desired, b.records); err != nil {
		return b, err
	}
	b.adopted = n.adopted()
	b.at = time.Now()
	for t := range b.seen.observed.Taken {
		if r, known := n.ledgerRecord(t); known && r.State == state.Found {
			b.inTheWay = append(b.inTheWay, r)
		}
	}
	if all != nil {
		b.seen.observed.Damaged = all.damaged
		if err := n.lookForAstray(ctx, desired, &b); err != nil {
			return b, err
		}
	}
	if err := n.lookForSecrets(ctx, desired, &b); err != nil {
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
	copies, err := filepath.Glob(n.Layout.Adopted() + "/*")
	for _, dir := range copies { // which a former ledger may have made
		if number, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			next = max(next, number+1)
		}
	}
	return next, err
}
