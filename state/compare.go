package state

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"
	"unsafe"

	"meshgen/units"
)

// Observed is what a look at the machine found, of what the comparison asks.
type Observed struct {
	// Files are the regular files at the paths of declared and of live files.
	Files map[units.Target]FileState
	// Dirs are what lies at the paths of declared directories and of those that were.
	Dirs map[units.Target]DirState
	// Taken are the declared targets that exist and that the ledger does not
	// have as ours, with what holds each.
	Taken map[units.Target]Occupant
	// Overridden are the units of ours that other hands keep systemd from
	// running as they are declared, with how, in words. Masked are those of them
	// that are masked.
	Overridden map[units.Target]string
	Masked     map[units.Target]bool
	// Missing are podman's objects of ours that are not there under their names
	// any more, with how, in words. Foreign are those that are somebody else's.
	Missing, Foreign map[units.Target]string
	// Astray says how of those that are not just gone, or another's now.
	Astray map[units.Target]Change
	// Damaged are the units of the generation in force that are no longer as
	// they were written.
	Damaged map[units.Target]bool
}

// Occupant is what holds a name on the machine and is not ours. Words alone is
// always set; of the rest, what such a thing has.
type Occupant struct {
	Words string
	What  string // container, pod, volume, network, secret, unit, quadlet, mask, dropin, file, directory, symlink, special

	Running  bool
	ID       string // podman's
	Image    string
	ImageID  string
	Labels   map[string]string
	Ports    []string // protocol/port, protocol/address:port
	Networks []string
	Created  time.Time
	Pod      string // that has the container
	Unit     string // that runs the container, or holds the name
	Driver   string // of a volume, a network or a secret
	Path     string // of a file or a definition
	Digest   string // sha256 of the content at Path, in hexadecimal
	// Released says that it was given back by its owner's word.
	Released bool
	// Same says that it is just as it is declared, so that nothing of it would
	// have to change.
	Same bool
	// Unfit is why it can never be adopted as it is, and Instead what to do; "" where
	// nothing is known to be against it.
	Unfit, Instead string
}

// FileState is a config file as it lies on the machine.
type FileState struct {
	Digest string // sha256 of the content, in hexadecimal; of what is no regular file "a directory" or such
	Meta   string // see [FileMeta]
}

// DirState is what lies at the path of a directory.
type DirState struct {
	Is   string // what it is instead, "a file" or such; "" of a directory
	Meta string // see [DirMeta]
	// Holds says that something is in it that no switch is to remove.
	Holds bool
}

// TextDigest returns the sha256 of a text, in hexadecimal.
func TextDigest(text string) string {
	// A copy of each unit's text would cost more than its digest.
	sum := sha256.Sum256(unsafe.Slice(unsafe.StringData(text), len(text))) //nolint:gosec // only read
	return hex.EncodeToString(sum[:])
}

// Compare returns the transitions that lead from what the ledger's records and
// the machine have to what is declared, in the order of addresses. It is pure,
// and decides nothing.
func Compare(desired Generation, records []Record, seen Observed) []Transition {
	c := comparison{
		seen: seen, live: map[units.Target]Record{}, of: map[units.Address][]Record{}, transferred: map[units.Address]bool{},
	}
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
	position map[units.Address]units.Position
	unit     map[units.Address]Unit
	first    map[units.Target]units.Address // of declared resources, by the target each is best known by
	// transferred are the addresses whose first name a resource at another
	// address has now.
	transferred map[units.Address]bool
	found       []Transition
}

func (c *comparison) declare(desired Generation) {
	c.position = make(map[units.Address]units.Position, len(desired.Resources))
	c.unit = make(map[units.Address]Unit, len(desired.Units))
	c.first = make(map[units.Target]units.Address, len(desired.Resources))
	for _, r := range desired.Resources {
		c.position[r.Address] = r.Position
		c.first[units.Targets(r)[0]] = r.Address
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
		if by, taken := c.seen.Taken[t]; taken {
			c.add(Transition{Kind: Takeover, Resource: r.Address, To: t, Reason: by.Words})
		}
	}
	first, former := targets[0], r.Address
	record, ours := c.live[first]
	ours = ours && !record.OnTheWay() // else it is made the resource's now
	c.drifted(r.Address, first)
	c.astray(r.Address, units.Object(r))
	c.moved(r.Address, first)
	switch {
	case ours && record.Resource == r.Address:
	case c.named(r.Address): // and this name is new to it
	case ours && record.State == Live && c.declaredNowhere(record.Resource):
		c.add(c.transfer(r.Address, targets))
		c.transferred[record.Resource] = true
		former = record.Resource
	case c.left(r.Address, targets):
		return
	default:
		c.add(Transition{Kind: Create, Resource: r.Address, To: first})
		return
	}
	renamed := c.renames(r.Address, former, targets)
	if r.Address.Kind == units.KindFile {
		if ours && record.Resource == r.Address {
			c.file(r, record)
		}
		return
	}
	if r.Address.Kind == units.KindDir {
		if ours && record.Resource == r.Address {
			c.dir(r, record)
		}
		return
	}
	if r.Address.Kind == units.KindSecret {
		if ours && !renamed && (record.Digest != r.Secret.Digest || record.State == Held) {
			c.add(Transition{Kind: Update, Resource: r.Address, From: first, To: first})
		}
		return
	}
	changed := c.changed(r.Address, record)
	if former != r.Address {
		changed = record.Digest != c.unit[r.Address].Digest // the text names the address
	}
	if ours && !renamed && changed {
		c.add(Transition{Kind: Update, Resource: r.Address, From: first, To: first})
	}
}

// left tells of a volume or a directory that the resource left behind, held, when it was no longer
// declared, and that has another name than the one it is to have now: with its
// data, that is a rename.
func (c *comparison) left(a units.Address, targets []units.Target) bool {
	var last Record
	for _, r := range c.of[a] {
		switch {
		case !mayHoldData(r.Target) || r.State != Held:
		case slices.Contains(targets, r.Target):
			return false // it is taken up again
		case !r.Last.Time.Before(last.Last.Time):
			last = r
		}
	}
	for _, t := range targets {
		if last.Target != "" && t.Kind() == last.Target.Kind() {
			c.add(Transition{Kind: Rename, Resource: a, From: last.Target, To: t})
			return true
		}
	}
	return false
}

func mayHoldData(t units.Target) bool {
	return t.Kind() == units.TargetVolume || t.Kind() == units.TargetDir
}

// drifted tells what other hands did to a unit that is declared and ours.
func (c *comparison) drifted(a units.Address, t units.Target) {
	if record, ours := c.live[t]; !ours || record.Resource != a || record.State != Live {
		return
	}
	if how := c.seen.Overridden[t]; how != "" {
		change := Overridden
		if c.seen.Masked[t] {
			change = Masked
		}
		c.add(Transition{Kind: Drift, Resource: a, From: t, To: t, Change: change, Reason: how})
	}
	if c.seen.Damaged[t] {
		c.add(Transition{Kind: Drift, Resource: a, From: t, To: t, Change: Damaged, Reason: "its definition was changed by other hands"})
	}
}

// astray tells what other hands did to a podman object that is declared and ours, or
// passes to the resource from an address that is not declared any more.
func (c *comparison) astray(a units.Address, t units.Target) {
	if record, ours := c.live[t]; !ours || record.State != Live || (record.Resource != a && !c.declaredNowhere(record.Resource)) {
		return
	}
	if how := c.seen.Missing[t]; how != "" {
		c.add(Transition{Kind: Drift, Resource: a, From: t, To: t, Change: cmp.Or(c.seen.Astray[t], Gone), Reason: how})
	}
	if how := c.seen.Foreign[t]; how != "" {
		c.add(Transition{Kind: Drift, Resource: a, From: t, To: t, Change: Remade, Reason: how})
	}
}

// moved tells from where the manifest says that the resource came, while the
// ledger has it there.
func (c *comparison) moved(a units.Address, first units.Target) {
	for _, r := range c.of[a] {
		if r.Recorded != (units.Address{}) && r.Target.Kind() == first.Kind() && !r.OnTheWay() {
			c.add(Transition{Kind: Transfer, Resource: a, From: r.Target, To: first, Reason: "moved from " + r.Recorded.String()})
			return
		}
	}
}

// transfer tells which resources, no longer declared, have the names that are to
// be this one's.
func (c *comparison) transfer(a units.Address, targets []units.Target) Transition {
	var formers []units.Address
	var words []string
	for _, t := range targets {
		r, ours := c.live[t]
		if ours && t.Kind() != units.TargetPort && c.mayBe(r.Resource, a) && !slices.Contains(formers, r.Resource) {
			formers = append(formers, r.Resource)
			words = append(words, r.Resource.String())
		}
	}
	t := Transition{Kind: Transfer, Resource: a, From: targets[0], To: targets[0], Reason: "was " + strings.Join(words, " or ")}
	if len(formers) > 1 {
		t.Candidates = formers
	}
	return t
}

// mayBe reports whether a resource that is no longer declared may be the declared
// one at address a: whether no other has its name.
func (c *comparison) mayBe(former, a units.Address) bool {
	return c.declaredNowhere(former) && !slices.ContainsFunc(c.of[former], func(r Record) bool {
		by, declared := c.first[r.Target]
		return declared && by != a
	})
}

func (c *comparison) declaredNowhere(a units.Address) bool {
	_, ok := c.position[a]
	return !ok
}

// named reports whether the resource has a name of its own on the machine. A
// directory that was made for it is none, nor an image, nor what was let go.
func (c *comparison) named(a units.Address) bool {
	return slices.ContainsFunc(c.of[a], func(r Record) bool {
		switch r.Target.Kind() {
		case units.TargetPort, units.TargetImage:
			return false
		}
		return r.State == Live && !r.OnTheWay()
	})
}

// renames finds the targets of the resource, which was at the address former,
// that are to be others of their kind. A port is no name: it moves with its
// unit.
func (c *comparison) renames(a, former units.Address, targets []units.Target) bool {
	found := false
	for _, t := range targets {
		if t.Kind() == units.TargetPort {
			continue
		}
		for _, r := range c.of[former] {
			if r.Target.Kind() != t.Kind() || r.Target == t || r.State == Held || r.OnTheWay() || slices.Contains(targets, r.Target) {
				continue
			}
			c.add(Transition{Kind: Rename, Resource: a, From: r.Target, To: t})
			found = true
		}
	}
	return found
}

func (c *comparison) changed(a units.Address, record Record) bool {
	return record.State == Held || c.unit[a].Differs(record)
}

// Differs reports whether the ledger has the unit otherwise than it is to be.
func (u Unit) Differs(r Record) bool {
	return r.Digest != u.Digest || (u.Text != "" && TextDigest(r.Definition) != u.Text)
}

// file compares a file with its record and with what lies on the machine.
func (c *comparison) file(r units.Resource, record Record) {
	t := units.Of(units.TargetFile, r.File.Path)
	want := FileState{Digest: r.File.Digest, Meta: FileMeta(*r.File)}
	recorded := FileState{Digest: record.Digest, Meta: record.Definition}
	if recorded != want {
		c.add(Transition{Kind: Update, Resource: r.Address, From: t, To: t})
	}
	lies, there := c.seen.Files[t]
	drift := func(change Change, reason string) {
		c.add(Transition{Kind: Drift, Resource: r.Address, From: t, To: t, Change: change, Reason: reason})
	}
	switch {
	case !there:
		drift(Gone, "is gone")
	case strings.HasPrefix(lies.Digest, "a "):
		drift(lies.inPlace(), "is "+lies.Digest)
	case lies.Digest != recorded.Digest && lies.Digest != want.Digest:
		drift(ChangedContent, "content changed by other hands")
	case lies.Meta != recorded.Meta && lies.Meta != want.Meta:
		drift(ChangedMode, "is "+lies.Meta+", should be "+want.Meta)
	}
}

// dir compares a directory with its record and with what lies on the machine. What was
// let be is taken up as it is, with the mode and the owner that are declared now.
func (c *comparison) dir(r units.Resource, record Record) {
	t := units.Of(units.TargetDir, r.Dir.Path)
	want := DirMeta(*r.Dir)
	if record.Definition != want || record.State == Held {
		c.add(Transition{Kind: Update, Resource: r.Address, From: t, To: t})
	}
	lies, there := c.seen.Dirs[t]
	drift := func(change Change, reason string) {
		c.add(Transition{Kind: Drift, Resource: r.Address, From: t, To: t, Change: change, Reason: reason})
	}
	switch {
	case record.State == Held:
	case !there:
		drift(Gone, "is gone with what it held, and made anew it is EMPTY")
	case lies.Is != "":
		drift(lies.inPlace(), "is "+lies.Is)
	case !Between(lies.Meta, record.Definition, want):
		drift(ChangedMode, "is "+lies.Meta+", should be "+want)
	}
}

// inPlace says what stands in the place of a directory.
func (s DirState) inPlace() Change {
	switch s.Is {
	case "a file":
		return File
	case "a symbolic link":
		return Symlink
	}
	return Special
}

// inPlace says what stands in the place of a regular file.
func (s FileState) inPlace() Change {
	switch s.Digest {
	case "a directory":
		return Directory
	case "a symbolic link":
		return Symlink
	}
	return Special
}

// removals finds the resources that are no longer declared.
func (c *comparison) removals(records []Record) {
	seen := map[units.Address]bool{}
	for _, r := range records {
		if r.State == Held || r.OnTheWay() || !c.declaredNowhere(r.Resource) || seen[r.Resource] || c.transferred[r.Resource] {
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
	case units.KindDir:
		return units.TargetDir
	case units.KindVolume:
		return units.TargetVolume
	case units.KindSecret:
		return units.TargetSecret
	case units.KindContainer, units.KindPod, units.KindNetwork, units.KindUnit:
	}
	return units.TargetUnit
}
