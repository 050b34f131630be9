package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"meshgen/internal/hint"
	"meshgen/state"
	"meshgen/units"
)

// unreturnable refuses to begin giving back what could not be given back: ours would
// be taken away, and nothing have its place.
func (n *Node) unreturnable(ctx context.Context, b before, plan Plan, desired state.Generation) (units.Faults, error) {
	var faults units.Faults
	for _, r := range b.releases(desired) {
		if _, asked := desired.Released[r.Target]; !asked || owed(r, b.generation) {
			continue
		}
		words := n.lacks(r)
		if words == "" && !usedAsItIs(r.Adoption) { // used as they are: nothing is taken away for them
			words = plan.Reason("release", string(r.Target)) // of what is lost
		}
		next := "put that back as it was; or let it go: take the resource out of the manifest, switch, then " + hint.Command("meshgen", "forget", string(r.Target))
		if words == "" {
			var err error
			if words, err = n.occupied(ctx, r); err != nil {
				return nil, err
			}
			next = "move that out of the way first; or let what was there go: take the resource out of the manifest, switch, then " + hint.Command("meshgen", "forget", string(r.Target))
		}
		if words == "" {
			var instead string
			words, instead = n.pinnedFor(r)
			next = instead + ", then release again"
		}
		if words != "" {
			faults = append(faults, units.Fault{
				Position: positionOf(desired, r.Resource), Message: fmt.Sprintf("%s: cannot be given back: %s", r.Target, words), Hint: next,
			})
		}
	}
	return faults, nil
}

// keptAlready refuses to adopt under a name of which an earlier adoption is kept: the
// ledger would lose that one. So it does to adopt what is put aside itself.
func (a *adoption) keptAlready(t state.Transition) bool {
	r, _ := a.node.ledgerRecord(t.To)
	if r.Adoption != nil {
		a.fault(t, fmt.Sprintf("what had the name before generation %d is still kept, and there can be one at a time", r.Adoption.Generation),
			fmt.Sprintf("move what is there out of the way, then meshgen release %s gives the former back, or meshgen forget %s lets go of it", t.To, t.To))
		return true
	}
	return false
}

// asides refuses to declare a name under which something is put aside: it is what
// a release gives back.
func (n *Node) asides(desired state.Generation) units.Faults {
	var faults units.Faults
	aside := n.putAside()
	for _, r := range desired.Resources {
		for _, t := range units.Targets(r) {
			if of, is := aside[t]; is {
				faults = append(faults, units.Fault{
					Position: r.Position, Message: fmt.Sprintf("%s: %s is what %s was before it was adopted, put aside", r.Address, t, of.Target),
					Hint: "give the resource another name",
				})
			}
		}
	}
	return faults
}

// asidesStand tells of each container that was put aside that is gone, goes by
// another name or runs.
func (n *Node) asidesStand(ctx context.Context, standings []Standing) error {
	aside := n.putAside()
	for i, s := range standings {
		if len(s.Targets) != 1 {
			continue
		}
		of, is := aside[s.Targets[0]]
		if !is || n.objects == nil {
			continue
		}
		var err error
		if standings[i].Drift, err = n.asideDrift(ctx, of); err != nil {
			return err
		}
	}
	return nil
}

// asideDrift says what became of a container that was put aside; "" where it is as it
// has to be.
func (n *Node) asideDrift(ctx context.Context, of state.Record) (string, error) {
	o, there, err := n.byID(ctx, of.Adoption.ID)
	switch {
	case err != nil:
		return "", err
	case !there:
		return "is gone: " + string(of.Target) + " cannot be given back", nil
	case o.Name != of.Adoption.Aside:
		return "is " + o.Name + " by now: " + string(of.Target) + " cannot be given back", nil
	case o.Running:
		return "runs, beside what has its place", nil
	}
	return "", nil
}

// Loss is something that was put aside, and what became of it by other hands.
type Loss struct {
	Target units.Target `json:"target"`
	Detail string       `json:"detail"`
	Hint   string       `json:"hint"`
}

// losses tells of containers that were put aside and are not as they have to be.
// Podman is asked only where its index, which costs no run of it, does not have them.
func (n *Node) losses(ctx context.Context) ([]Loss, error) {
	aside := n.putAside()
	if len(aside) == 0 || n.objects == nil || n.Store == nil || n.Booting {
		return nil, nil
	}
	var found []Loss
	ids, known := n.Store.Containers()
	for _, t := range slices.Sorted(maps.Keys(aside)) {
		of := aside[t]
		if r, _ := n.ledgerRecord(t); r.State != state.Held || (known && ids[of.Adoption.Aside] == of.Adoption.ID) {
			continue
		}
		words, err := n.asideDrift(ctx, of)
		if err != nil {
			return nil, err
		}
		if words != "" {
			found = append(found, Loss{t, words, "`" + hint.Command("meshgen", "forget", string(t)) + "` has it told no more"})
		}
	}
	return found, nil
}

// positionOf returns where a resource is declared, held or not; none where it is not.
func positionOf(g state.Generation, a units.Address) units.Position {
	if h, held := holding(g, a); held {
		return h.Position
	}
	return byAddress(g)[a].Position
}

// lacks says which copy is gone or is not as it was made, of something that does not
// lie in its place again; "" where there is none.
func (n *Node) lacks(r state.Record) string {
	if r.Adoption.What == wasSecret {
		_, words := n.keptSecret(r)
		return words
	}
	for _, f := range r.Adoption.Files {
		if f.Copy == "" {
			continue
		}
		kept := filepath.Join(n.Layout.State, r.Adoption.Dir, f.Copy)
		if words := wrongCopy(f, kept); words != "" && !lies(n.Layout.Path(f.Path), f) {
			return words
		}
	}
	if r.Adoption.What == wasContainer && r.Adoption.Aside == "" && r.Adoption.Dir != "" {
		kept := filepath.Join(n.Layout.State, r.Adoption.Dir, inspection(r.Target))
		if _, err := os.Lstat(kept); errors.Is(err, os.ErrNotExist) {
			return "what podman said of it is gone from " + kept
		}
	}
	return ""
}

// wrongCopy says that a copy is not there, or does not hold what was copied; "" where
// it does.
func wrongCopy(f state.AdoptedFile, kept string) string {
	is, there, err := fileState(kept)
	switch {
	case err != nil:
		return "the copy of " + f.Path + " cannot be read: " + err.Error()
	case !there:
		return "the copy of " + f.Path + " is gone from " + kept
	case is.Digest != f.Digest:
		return "the copy of " + f.Path + " was changed: " + kept
	}
	return ""
}

// lies reports whether a file has the content that it was adopted with.
func lies(at string, f state.AdoptedFile) bool {
	is, there, err := fileState(at)
	return err == nil && there && is.Digest == f.Digest
}

// occupied says what lies where something is to be put back, and is not ours; "" where
// nothing does.
func (n *Node) occupied(ctx context.Context, r state.Record) (string, error) {
	for _, f := range r.Adoption.Files {
		at := n.Layout.Path(f.Path)
		is, there, err := fileState(at)
		if err != nil {
			return "", err
		}
		if there && !isAsItWas(at, f, filepath.Join(n.Layout.State, r.Adoption.Dir, f.Copy)) && !mayReplace(r, is) {
			return f.Path + ": somebody else has put something there", nil
		}
	}
	if r.Adoption.What == wasSecret {
		return n.secretTaken(ctx, r)
	}
	return "", nil
}

// mayReplace reports whether what lies where something is to be put back is ours, by
// what it says: of a unit nothing is, and of a file nothing that its owner made or
// changed since.
func mayReplace(r state.Record, lies state.FileState) bool {
	return r.Adoption.What == wasFile && (lies.Digest == r.Digest || lies.Digest == r.Adoption.Files[0].Digest)
}
