package apply

import (
	"context"
	"errors"
	"fmt"

	"meshgen/internal/hint"
	"meshgen/state"
	"meshgen/units"
)

// A ledger that is lost is made anew from what carries our mark. What may be taken
// for ours is decided so that what was found is never taken:
//
//   - every name that the generation in force declares: it was put in force by a
//     switch, which had made sure of each. A file of it that is not as it was
//     written counts too, as one that other hands changed: the next switch
//     keeps a copy before it puts it right.
//   - a unit that systemd has from one of our generator's files, by the mark in
//     it, or that systemd has lost and that made something which bears our mark.
//   - a podman object that bears our mark of its own, and not by its image.
//   - of other generations on the disk nothing by its name alone. A file counts
//     only where a switch was cut short, and only if it is, to the mode, what was
//     to be written.
//
// A directory that was made for a file bears no mark and stays. What was forgotten
// may bear one still, and the ledger alone knew of that: so a volume that is not
// declared is held, and a network that no unit of ours makes.

// rebuilt is the origin of what a rebuilt ledger has.
const rebuilt = "rebuilt"

// Mark is something on the machine that is ours, or looks so.
type Mark struct {
	Target   units.Target  `json:"target"`
	Resource units.Address `json:"resource,omitzero"`
	// State is declared, stale, held or left.
	State  string `json:"state"`
	Detail string `json:"detail,omitempty"`
}

// The states of a mark.
const (
	Declared = "declared" // by the generation in force
	Stale    = "stale"    // ours, and to be removed by the next switch
	Left     = "left"     // not taken for ours
)

// Marks are all that a ledger can be made from.
type Marks struct {
	Why        error // the ledger cannot be used
	Generation int   // in force; 0 where none is
	Pending    int   // that a switch was on its way to; 0 where none was
	Marks      []Mark
	Found      []units.Target // what is not ours

	events []state.Event
}

// OpenLost opens and locks a node whose ledger cannot be used: it is missing,
// damaged, another machine's, or has nothing in it while a generation is in force.
// A node whose ledger can be used is refused, and so is one whose ledger is of a
// newer meshgen.
func OpenLost(ctx context.Context, l state.Layout, connect Connect) (*Node, error) {
	lock, err := state.Acquire(l)
	if err != nil {
		return nil, err
	}
	n := &Node{Layout: l, lock: lock}
	if err := n.openLost(ctx, connect); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *Node) openLost(ctx context.Context, connect Connect) (err error) {
	if n.machineID, err = readMachineID(n.Layout); err != nil {
		return err
	}
	if n.lost, err = lost(n.Layout, n.machineID); err != nil {
		return err
	}
	n.Machine, err = connect(ctx, n.Layout)
	n.forget()
	return err
}

// lost says why a ledger cannot be used; the error is where it can, or where that
// is no reason to make another.
func lost(l state.Layout, machine string) (why, err error) {
	ledger, why := state.OpenLedger(l, machine)
	damage, damaged := errors.AsType[*state.DamageError](why)
	_, foreign := errors.AsType[*state.ForeignError](why)
	switch {
	case why == nil && blank(ledger):
		return fmt.Errorf("%s: holds nothing", l.Ledger()), nil
	case why == nil:
		return nil, hint.Add(fmt.Errorf("%s: in order, and a new one would know less", l.Ledger()), "move it away first where it is to be made anew all the same")
	case damaged && !damage.Newer():
		return fmt.Errorf("%s:%d: %s", damage.Path, damage.Line, damage.What), nil
	case foreign:
		return fmt.Errorf("%s: of another machine", l.Ledger()), nil
	case errors.Is(why, state.ErrNoLedger), errors.Is(why, state.ErrLedgerLost):
		return fmt.Errorf("%s: missing", l.Ledger()), nil
	}
	return nil, why
}

// Marks looks for all that bears our mark, and for what does not. It writes
// nothing.
func (n *Node) Marks(ctx context.Context) (Marks, error) {
	b := rebuilder{node: n, taken: map[units.Target]bool{}, marks: Marks{Why: n.lost}}
	for _, step := range []func(context.Context) error{b.generations, b.manager, b.declared, b.files, b.objects, b.units, b.unfinished, b.survey} {
		if err := step(ctx); err != nil {
			return Marks{}, err
		}
	}
	return b.marks, nil
}

// Rebuild writes a ledger from the marks. What is in the place of the ledger is set
// aside, to the path that is returned.
func (n *Node) Rebuild(m Marks) (aside string, err error) {
	aside, err = state.SetAside(n.Layout)
	if err != nil && !errors.Is(err, state.ErrNoLedger) {
		return "", err
	}
	if n.Ledger, err = state.CreateLedger(n.Layout, n.machineID); err != nil {
		return aside, err
	}
	return aside, n.Ledger.Append(m.events...)
}
