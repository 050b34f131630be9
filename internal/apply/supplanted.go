package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"meshgen/state"
	"meshgen/units"
)

// supplant notes the copy of what is given back and has another in its place: its
// owner has put that there, and it stays.
func (m *move) supplant(r state.Record, f state.AdoptedFile, lies state.FileState) error {
	if f.Copy == "" || lies.Digest == f.Digest {
		return nil // nothing is lost
	}
	path := filepath.Join(r.Adoption.Dir, f.Copy)
	kept := filepath.Join(m.node.Layout.State, path)
	if _, err := os.Lstat(kept); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // it was changed before it was copied
		}
		return err
	}
	if m.supplanted == nil {
		m.supplanted = map[units.Target][]string{}
	}
	m.supplanted[r.Target] = appendNew(m.supplanted[r.Target], path)
	m.progress(Event{Step: Step{Op: "keep", Target: r.Target, Reason: f.Path + " is another by now; what it was is in " + kept}, Ended: true})
	return nil
}

// leftCopy is a copy that is left of what had a name before.
type leftCopy struct {
	of   units.Target
	path string // on the host
}

func (c leftCopy) is() string {
	return fmt.Sprintf("what it was before is in %s", c.path)
}

func (c leftCopy) goes() string {
	return fmt.Sprintf("meshgen gc --adopted removes %s, which nothing gives back", c.path)
}

// stillLeft returns the copies that are left of what had a name, as far as they are
// there.
func (n *Node) stillLeft(r state.Record) []leftCopy {
	var left []leftCopy
	for _, path := range r.Left {
		at := filepath.Join(n.Layout.State, path)
		if _, err := os.Lstat(at); err == nil {
			left = append(left, leftCopy{r.Target, at})
		}
	}
	return left
}

// leftBehind returns a standing of each name of which a copy is left that nothing
// gives back.
func (n *Node) leftBehind() []Standing {
	if n.Ledger == nil {
		return nil
	}
	var found []Standing
	for _, r := range n.Ledger.Records() {
		s := Standing{Address: r.Resource, Kind: r.Resource.Kind, Targets: []units.Target{r.Target}, State: string(state.Held), Since: r.Found.Time}
		for _, c := range n.stillLeft(r) {
			s.Why = c.is() + "; " + c.goes()
			found = append(found, s)
		}
	}
	return found
}
