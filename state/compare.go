package state

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"meshgen/units"
)

// Observed is what a look at the machine found, of what the comparison asks.
type Observed struct {
	// Files are the regular files at the paths of declared and of live files.
	Files map[units.Target]FileState
	// Taken are the declared targets that exist and that the ledger does not
	// have as ours, with what holds each, in words.
	Taken map[units.Target]string
}

// FileState is a config file as it lies on the machine.
type FileState struct {
	Digest string // sha256 of the content, in hexadecimal
	Meta   string // see [FileMeta]
}

// TextDigest returns the sha256 of a text, in hexadecimal.
func TextDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Compare returns the transitions that lead from what the ledger's records and
// the machine have to what is declared, in the order of addresses. It is pure,
// and decides nothing.
func Compare(desired Generation, records []Record, seen Observed) []Transition {
	c := comparison{seen: seen, live: map[units.Target]Record{}, of: map[units.Address][]Record{}}
	for _, r := range records {
		c.live[r.Target] = r
		c.of[r.Resource] = append(c.of[r.Resource], r)
	}
	c.declare(desired)
	for _, r := range desired.Resources {
		c.resource(r)
	}
	c.removals(records)
	slices.SortStableFunc(c.found, func(a, b Transition) int { return a.Resource.Compare(b.Resource) })
	return c.found
}

type comparison struct {
	seen     Observed
	live     map[units.Target]Record // ours, live or held
	of       map[units.Address][]Record
	declared map[units.Target]units.Address
	position map[units.Address]units.Position
	unit     map[units.Address]Unit
	found    []Transition
}

func (c *comparison) declare(desired Generation) {
	c.declared = map[units.Target]units.Address{}
	c.position = make(map[units.Address]units.Position, len(desired.Resources))
	c.unit = make(map[units.Address]Unit, len(desired.Units))
	for _, r := range desired.Resources {
		c.position[r.Address] = r.Position
		for _, t := range units.Targets(r) {
			c.declared[t] = r.Address
		}
	}
	for _, u := range desired.Units {
		c.unit[u.Resource] = u
	}
}

func (c *comparison) add(t Transition) {
	t.Position = c.position[t.Resource]
	c.found = append(c.found, t)
}

// resource compares one declared resource.
func (c *comparison) resource(r units.Resource) {
	targets := units.Targets(r)
	for _, t := range targets {
		if holder := c.seen.Taken[t]; holder != "" {
			c.add(Transition{Kind: Takeover, Resource: r.Address, To: t, Reason: holder})
		}
	}
	first := targets[0]
	record, ours := c.live[first]
	switch {
	case ours && record.Resource == r.Address:
	case len(c.of[r.Address]) > 0: // it has names, and this one is new to it
	case ours && c.declaredNowhere(record.Resource):
		c.add(Transition{Kind: Transfer, Resource: r.Address, From: first, To: first, Reason: "was " + record.Resource.String()})
	default:
		c.add(Transition{Kind: Create, Resource: r.Address, To: first})
		return
	}
	renamed := c.renames(r.Address, targets)
	if r.Address.Kind == units.KindFile {
		c.file(r, record, ours && record.Resource == r.Address)
		return
	}
	if ours && !renamed && c.changed(r.Address, record) {
		c.add(Transition{Kind: Update, Resource: r.Address, From: first, To: first})
	}
}

func (c *comparison) declaredNowhere(a units.Address) bool {
	_, ok := c.position[a]
	return !ok
}

// renames finds the targets of the resource that are to be others of their
// kind. A port is no name: it moves with its unit.
func (c *comparison) renames(a units.Address, targets []units.Target) bool {
	found := false
	for _, t := range targets {
		if t.Kind() == units.TargetPort {
			continue
		}
		for _, r := range c.of[a] {
			if r.Target.Kind() != t.Kind() || r.Target == t || r.State == Held || slices.Contains(targets, r.Target) {
				continue
			}
			c.add(Transition{Kind: Rename, Resource: a, From: r.Target, To: t})
			found = true
		}
	}
	return found
}

func (c *comparison) changed(a units.Address, record Record) bool {
	u := c.unit[a]
	return record.State == Held || record.Digest != u.Digest || TextDigest(record.Definition) != u.Text
}

func (c *comparison) file(r units.Resource, record Record, ours bool) {
	if !ours {
		return
	}
	t := units.Of(units.TargetFile, r.File.Path)
	want := FileState{Digest: r.File.Digest, Meta: FileMeta(*r.File)}
	recorded := FileState{Digest: record.Digest, Meta: record.Definition}
	if recorded != want {
		c.add(Transition{Kind: Update, Resource: r.Address, From: t, To: t})
	}
	lies, there := c.seen.Files[t]
	switch {
	case !there:
		c.add(Transition{Kind: Drift, Resource: r.Address, From: t, To: t, Reason: "is gone"})
	case lies.Digest != recorded.Digest && lies.Digest != want.Digest:
		c.add(Transition{Kind: Drift, Resource: r.Address, From: t, To: t, Reason: "content changed by other hands"})
	case lies.Meta != recorded.Meta && lies.Meta != want.Meta:
		c.add(Transition{Kind: Drift, Resource: r.Address, From: t, To: t, Reason: "is " + lies.Meta + ", should be " + want.Meta})
	}
}

// removals finds the resources that are no longer declared, and what is left of
// names that a resource once had.
func (c *comparison) removals(records []Record) {
	seen := map[units.Address]bool{}
	for _, r := range records {
		if r.State == Held || !c.declaredNowhere(r.Resource) || seen[r.Resource] {
			continue
		}
		if _, kept := c.declared[r.Target]; kept {
			continue
		}
		if r.Target.Kind() == bestKnown(r.Resource.Kind) {
			seen[r.Resource] = true
			c.add(Transition{Kind: Remove, Resource: r.Resource, From: r.Target})
		}
	}
}

// bestKnown returns the kind of target by which a removed resource is named.
func bestKnown(k units.Kind) string {
	switch k {
	case units.KindFile:
		return units.TargetFile
	case units.KindVolume:
		return units.TargetVolume
	case units.KindContainer, units.KindNetwork:
	}
	return units.TargetUnit
}
