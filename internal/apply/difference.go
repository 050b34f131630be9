package apply

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"meshgen/state"
	"meshgen/units"
)

// Difference is how a switch would change one file, unit or secret.
type Difference struct {
	Target   units.Target  `json:"target"`
	Resource units.Address `json:"resource,omitzero"`
	// From and To are what it is called: a path, or the name of a Quadlet or a unit;
	// "" where it comes, or goes.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Was and Is are a file's mode and owner where they differ, as "0640 0:117".
	Was string `json:"was,omitempty"`
	Is  string `json:"is,omitempty"`
	// Diff is in the unified format, without its head; "" where the content is the
	// same, or is not shown: then Withheld says why, and what can be said of it.
	Diff     string `json:"diff,omitempty"`
	Withheld string `json:"withheld,omitempty"`
}

// Bounds of what is shown.
const (
	mostDiffBytes = 1 << 20 // of a content
	mostDiffLines = 400     // of a difference
)

// Differences returns how a switch would change the machine: its files against
// what lies on the disk, the Quadlets and units against those in force. The content
// of a secret is never shown, wherever it stands. Of what not everybody on the
// machine may read, and of a variable that is called like a password, it says that it
// changes; all shows these.
func (n *Node) Differences(p Prepared, all bool) ([]Difference, error) {
	d := differ{node: n, p: p, all: all, veil: veil{lifted: all}}
	if err := d.knowSecrets(); err != nil {
		return nil, err
	}
	d.units()
	if err := d.files(); err != nil {
		return nil, err
	}
	d.secrets()
	return d.found, nil
}

type differ struct {
	node  *Node
	p     Prepared
	all   bool
	veil  veil
	found []Difference
}

// knowSecrets has the veil know what the secrets hold, and held.
func (d *differ) knowSecrets() error {
	from, to := d.p.before.generation, d.p.compiled.Generation
	for _, r := range to.Resources {
		if r.Secret == nil {
			continue
		}
		content := r.Secret.Content
		if content == nil {
			var err error
			if content, err = d.node.secret(to.Number, r); err != nil {
				return err
			}
		}
		d.veil.add(content, "‹secret "+r.Name+"›")
	}
	for _, r := range from.Resources {
		if r.Secret == nil {
			continue
		}
		content, err := d.node.secret(from.Number, r)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		d.veil.add(content, "‹secret "+r.Name+" as it was›")
	}
	return nil
}

// units compares the Quadlets and the units.
func (d *differ) units() {
	from, to := d.p.before.generation, d.p.compiled.Generation
	was, is := byAddress(from), byAddress(to)
	made := map[string]string{}
	for _, u := range from.Units {
		made[u.Name] = u.Text
	}
	for _, r := range to.Resources {
		if units.Unit(r) == "" {
			continue
		}
		old, there := was[r.Address]
		x := Difference{Target: units.Of(units.TargetUnit, units.Unit(r)), Resource: r.Address, To: sourceName(r)}
		text := ""
		if there {
			x.From, text = sourceName(old), units.Render(old)
		}
		d.compare(&x, []byte(text), []byte(units.Render(r)), d.veil.unit)
		again := slices.ContainsFunc(to.Units, func(u state.Unit) bool {
			return u.Resource == r.Address && made[u.Name] != "" && u.Text != "" && u.Text != made[u.Name]
		})
		if x.Diff == "" && x.Withheld == "" && x.From == x.To {
			if !again {
				continue
			}
			x.Withheld = "the same, and this machine's Quadlet makes another unit of it"
		}
		d.found = append(d.found, x)
	}
	for _, r := range from.Resources {
		if _, stays := is[r.Address]; !stays && units.Unit(r) != "" {
			x := Difference{Target: units.Of(units.TargetUnit, units.Unit(r)), Resource: r.Address, From: sourceName(r)}
			d.compare(&x, []byte(units.Render(r)), nil, d.veil.unit)
			d.found = append(d.found, x)
		}
	}
}

// sourceName returns the name of the file that its owner would write of a unit.
func sourceName(r units.Resource) string {
	if name := units.QuadletFile(r); name != "" {
		return name
	}
	return r.Name
}

// files compares the config files with what lies at their places.
func (d *differ) files() error {
	for _, r := range d.p.Plan.Write {
		content := r.File.Content
		if content == nil {
			var err error
			if content, err = d.node.content(d.p.compiled.Generation.Number, r.File.Digest, r.File.Path); err != nil {
				return err
			}
		}
		x := Difference{Target: units.Of(units.TargetFile, r.File.Path), Resource: r.Address, To: r.File.Path}
		if err := d.file(&x, content, state.FileMeta(*r.File), r.File.Mode); err != nil {
			return err
		}
		d.found = append(d.found, x)
	}
	for _, t := range d.p.Plan.Retire {
		if t.Kind() != units.TargetFile {
			continue
		}
		x := Difference{Target: t}
		if r, ok := d.node.ledgerRecord(t); ok {
			x.Resource = r.Resource
		}
		if err := d.file(&x, nil, "", 0o004); err != nil {
			return err
		}
		if x.From != "" {
			d.found = append(d.found, x)
		}
	}
	return nil
}

// file compares what lies at a place with what is to, of that mode and owner.
func (d *differ) file(x *Difference, content []byte, meta string, mode uint32) error {
	open := mode&0o004 != 0 // to everybody
	path := d.node.Layout.Path(x.Target.Name())
	info, err := os.Lstat(path)
	var old []byte
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		x.From, x.Withheld = x.Target.Name(), "what lies there is no file: "+info.Mode().Type().String()
		return nil
	default:
		x.From = x.Target.Name()
		open = open && info.Mode()&0o004 != 0
		if was := state.MetaOf(info); x.To != "" && was != meta {
			x.Was, x.Is = was, meta
		}
		if info.Size() > mostDiffBytes {
			x.Withheld = fmt.Sprintf("too large to show: %d bytes, then %s", info.Size(), sized(content))
			return nil
		}
		if old, err = os.ReadFile(path); err != nil { //nolint:gosec // of a managed file, to compare
			return err
		}
	}
	if x.From == "" {
		x.Is = meta
	}
	d.compare(x, old, content, d.veil.text)
	if d.all || (open && d.reachable(path)) {
		return nil
	}
	switch {
	case x.Diff != "":
		comes, goes := counted(x.Diff)
		x.Diff, x.Withheld = "", plusMinus(comes, goes)+"; not everybody may read it: --diff=all shows it"
	case x.Withheld != "": // a plain digest of what is not for everybody tells too much
		x.Withheld = "content changes; not everybody may read it: --diff=all says more"
	}
	return nil
}

// reachable reports whether anybody can come to a file, by the directories that
// are there.
func (d *differ) reachable(path string) bool {
	for dir := filepath.Dir(path); dir != d.node.Layout.Root && dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode()&0o001 == 0 {
			return false
		}
	}
	return true
}

// secrets tells which change, by their digests.
func (d *differ) secrets() {
	for _, r := range d.p.Plan.Make {
		x := Difference{Target: units.Object(r), Resource: r.Address, To: r.Name, Withheld: fmt.Sprintf("comes, with keyed digest %.12s", r.Secret.Digest)}
		if record, ok := d.node.ledgerRecord(x.Target); ok && record.State == state.Live {
			x.From = r.Name
			x.Withheld = fmt.Sprintf("content changes (keyed digest %.12s, then %.12s)", record.Digest, r.Secret.Digest)
			if record.Digest == r.Secret.Digest {
				x.Withheld = fmt.Sprintf("is made anew, as it was (keyed digest %.12s)", r.Secret.Digest)
			}
		}
		d.found = append(d.found, x)
	}
	for _, t := range d.p.Plan.Retire {
		if t.Kind() == units.TargetSecret {
			x := Difference{Target: t, From: t.Name(), Withheld: "goes"}
			if record, ok := d.node.ledgerRecord(t); ok {
				x.Resource = record.Resource
			}
			d.found = append(d.found, x)
		}
	}
}

// compare adds how one content differs from another, seen through a veil.
func (d *differ) compare(x *Difference, old, content []byte, veiled func(text string) string) {
	switch {
	case bytes.Equal(old, content):
		return
	case binary(old) || binary(content) || len(content) > mostDiffBytes:
		x.Withheld = "no text to show: " + sized(old) + ", then " + sized(content)
		return
	}
	text := string(diff.Diff("old", []byte(veiled(string(old))), "new", []byte(veiled(string(content)))))
	if text == "" {
		x.Withheld = "differs in nothing but what is withheld"
		return
	}
	all := slices.Collect(strings.Lines(text))[3:] // without the head
	if len(all) > mostDiffLines && !d.all {
		left := len(all) - mostDiffLines
		all = append(all[:mostDiffLines:mostDiffLines], fmt.Sprintf("… %d further lines; --diff=all shows them\n", left))
	}
	x.Diff = strings.Join(all, "")
}

func binary(content []byte) bool {
	return bytes.IndexByte(content, 0) >= 0 || !utf8.Valid(content)
}

func sized(content []byte) string {
	if content == nil {
		return "nothing"
	}
	return fmt.Sprintf("%d bytes, sha256 %.12s", len(content), state.TextDigest(string(content)))
}

// counted returns how many lines come and go in a difference.
func counted(text string) (comes, goes int) {
	for line := range strings.Lines(text) {
		switch line[0] {
		case '+':
			comes++
		case '-':
			goes++
		}
	}
	return comes, goes
}

func plusMinus(comes, goes int) string {
	lines := func(n int, one, several string) string {
		if n == 1 {
			return "1 line " + one
		}
		return fmt.Sprintf("%d lines %s", n, several)
	}
	switch {
	case goes == 0:
		return lines(comes, "comes", "come")
	case comes == 0:
		return lines(goes, "goes", "go")
	}
	return lines(comes, "comes", "come") + ", " + lines(goes, "goes", "go")
}
