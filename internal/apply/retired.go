package apply

import (
	"maps"
	"os"
	"path/filepath"
	"slices"

	"meshgen/generator"
	"meshgen/state"
	"meshgen/units"
)

// retired returns the unit names that were in force before a generation and are not in
// it, each with the digests of its definitions: the service, the Quadlet, and what was
// adopted for it. The generator keeps them down should a backup bring one back. A name
// that was let go or is given back is its owner's.
func (n *Node) retired(from, to state.Generation) []generator.Retired {
	// One that other hands have spoilt is a help that is missed, and no more.
	before, _ := generator.ReadRetired(filepath.Join(n.Layout.Generation(from.Number), generator.RetiredFile))
	digests := map[string]map[string]bool{}
	add := func(name, digest string) {
		if digests[name] == nil {
			digests[name] = map[string]bool{}
		}
		if digest != "" {
			digests[name][digest] = true
		}
	}
	for _, t := range before {
		for _, d := range t.Digests {
			add(t.Unit, d)
		}
	}
	resources := byAddress(from)
	for _, u := range from.Units {
		add(u.Name, u.Text)
		if file := units.QuadletFile(resources[u.Resource]); file != "" {
			add(u.Name, n.quadletDigest(from, file))
		}
	}
	for _, r := range n.records() {
		if r.Adoption == nil {
			continue
		}
		for _, name := range []string{r.Adoption.Unit, r.Target.Name()} {
			if name == r.Target.Name() && r.Target.Kind() != units.TargetUnit || digests[name] == nil {
				continue
			}
			for _, f := range r.Adoption.Files {
				add(name, f.Digest)
			}
		}
	}
	for _, u := range to.Units {
		delete(digests, u.Name)
	}
	var retired []generator.Retired
	for _, name := range slices.Sorted(maps.Keys(digests)) {
		t := units.Of(units.TargetUnit, name)
		record, known := n.ledgerRecord(t)
		_, released := to.Released[t]
		if !released && (!known || record.State != state.Found) && len(digests[name]) > 0 {
			retired = append(retired, generator.Retired{Unit: name, Digests: slices.Sorted(maps.Keys(digests[name]))})
		}
	}
	return retired
}

// quadletDigest returns the digest of a Quadlet of a generation; "" where it cannot be
// read.
func (n *Node) quadletDigest(g state.Generation, file string) string {
	text, err := os.ReadFile(filepath.Join(n.Layout.Generation(g.Number), "quadlet", file)) //nolint:gosec // of a generation
	if err != nil {
		return ""
	}
	return state.TextDigest(string(text))
}
