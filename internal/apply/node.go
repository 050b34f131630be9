// Package apply moves a node from the set it runs to the set it is told to run,
// and is the only writer of managed things.
//
// [Node.Prepare] compiles, looks, compares and judges, and touches nothing; [Node.Switch]
// does the same and then acts. What is prepared is plain values: a generation,
// transitions, a plan. Finishing or undoing a switch that was cut short and
// rolling back are the same acts with another generation as their aim.
//
// Two rules hold in every act. The ledger names a thing before the thing is
// there; and a name leaves the ledger's live set only after its absence was
// seen. What the switch does and what a power cut leaves after each step is
// told in docs/architecture.md.
package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"meshgen/internal/hint"
	"meshgen/policy"
	"meshgen/state"
)

// Node is a node whose ledger is open. Close it when done.
type Node struct {
	Layout state.Layout
	Ledger *state.Ledger // nil where there is none yet
	Machine

	machineID string
	secretKey []byte // nil until it is asked for
	lost      error  // why the ledger cannot be used; nil where it can
	lock      *state.Lock
	objects   *listing
	policies  *policy.Runtime  // nil until one is asked
	inForce   state.Generation // as last read
}

// Open opens the node for reading: no lock is taken, and nothing is written but what
// was compiled of policies.
func Open(ctx context.Context, l state.Layout, connect Connect) (*Node, error) {
	n := &Node{Layout: l}
	return n, n.open(ctx, connect)
}

// OpenLocked opens the node for a switch and holds its lock until Close. The
// error is a *state.LockedError where another holds it.
func OpenLocked(ctx context.Context, l state.Layout, connect Connect) (*Node, error) {
	lock, err := state.Acquire(l)
	if err != nil {
		return nil, err
	}
	n := &Node{Layout: l, lock: lock}
	if err := n.open(ctx, connect); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *Node) open(ctx context.Context, connect Connect) (err error) {
	if n.machineID, err = readMachineID(n.Layout); err != nil {
		return err
	}
	n.Ledger, err = state.OpenLedger(n.Layout, n.machineID)
	if errors.Is(err, state.ErrNoLedger) {
		err = unledgered(n.Layout)
	} else if err == nil && blank(n.Ledger) {
		err = unforced(n.Layout, "holds nothing")
	}
	if err != nil {
		return err
	}
	n.Machine, err = connect(ctx, n.Layout)
	n.forget()
	return err
}

// unledgered says whether a node may begin without a ledger: only one that was
// never given anything.
func unledgered(l state.Layout) error {
	if err := unforced(l, "missing"); err != nil {
		return err
	}
	numbers, err := state.Numbers(l)
	if err == nil && len(numbers) > 0 {
		err = hint.Add(fmt.Errorf("%s: missing, and %s holds generations", l.Ledger(), l.Generations()), lostHint)
	}
	return err
}

// unforced refuses a node whose ledger knows of nothing while a generation is in
// force. One that no switch got to the end of may lie there.
func unforced(l state.Layout, ledger string) error {
	number, inForce, err := state.Current(l)
	if err == nil && inForce {
		err = hint.Add(fmt.Errorf("%s: %s, and generation %d is in force", l.Ledger(), ledger, number), lostHint)
	}
	return err
}

// blank reports whether a ledger has nothing in it, or is not there.
func blank(l *state.Ledger) bool {
	return l == nil || (len(l.Switches()) == 0 && len(l.Records()) == 0)
}

// lostHint is what to do where a ledger is missing.
const lostHint = "the ledger knows what meshgen wrote here: bring it back from a backup; without one, `meshgen rebuild` makes one from the marks on this machine"

// readMachineID returns the id of the machine, machine-id(5); "" below --root
// where the image has none yet.
func readMachineID(l state.Layout) (string, error) {
	text, err := os.ReadFile(l.Path("/etc/machine-id"))
	if errors.Is(err, os.ErrNotExist) && l.Root != "/" {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the machine's id: %w", err)
	}
	id := strings.TrimSpace(string(text))
	if id == "uninitialized" {
		id = ""
	}
	return id, nil
}

// Close gives back the lock and the connections.
func (n *Node) Close() error {
	var errs []error
	if n.Systemd != nil {
		n.Systemd.Close()
	}
	if n.policies != nil {
		errs = append(errs, n.policies.Close())
	}
	if n.Ledger != nil {
		errs = append(errs, n.Ledger.Close())
	}
	if n.lock != nil {
		errs = append(errs, n.lock.Close())
	}
	return errors.Join(errs...)
}

// InForce returns the generation in force; Number 0 where there is none.
func (n *Node) InForce() (state.Generation, error) {
	number, ok, err := state.Current(n.Layout)
	if err != nil || !ok {
		return state.Generation{}, err
	}
	if n.inForce.Number != number {
		g, err := state.ReadGeneration(n.Layout, number)
		if errors.Is(err, os.ErrNotExist) {
			return state.Generation{}, nil // it is made anew
		}
		if err != nil {
			return state.Generation{}, err
		}
		n.inForce = g
	}
	return n.inForce, nil
}

// records returns the ledger's records that are ours: live and held.
func (n *Node) records() []state.Record {
	if n.Ledger == nil {
		return nil
	}
	return n.Ledger.Live()
}
