package modules

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"meshgen/units"
)

var update = flag.Bool("update", false, "write what Load says into the goldens")

// A golden is a manifest and what Load says of it, as a txtar archive. Its
// comment tells what it is about; lines of it that begin with "node", "host"
// or "empty" are options.
type golden struct {
	file    string
	archive *txtar.Archive
	dir     string
	options Options
}

func goldens(t testing.TB) []golden {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no goldens:", err)
	}
	list := make([]golden, len(files))
	for i, file := range files {
		list[i] = readGolden(t, file)
	}
	return list
}

func readGolden(t testing.TB, file string) golden {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	g := golden{file: file, archive: archive, dir: t.TempDir(), options: Options{Hostname: "here"}}
	inputs := &txtar.Archive{}
	for _, f := range archive.Files {
		if f.Name != "want" {
			inputs.Files = append(inputs.Files, f)
		}
	}
	if err := txtar.Write(inputs, g.dir); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(archive.Comment)) {
		switch word, rest, _ := strings.Cut(strings.TrimSpace(line), " "); word {
		case "node":
			g.options.Node = rest
		case "host":
			g.options.Hostname = rest
		case "empty":
			g.options.AllowEmpty = true
		}
	}
	return g
}

func (g golden) want() string {
	for _, f := range g.archive.Files {
		if f.Name == "want" {
			return string(f.Data)
		}
	}
	return ""
}

func TestLoad(t *testing.T) {
	for _, g := range goldens(t) {
		t.Run(strings.TrimSuffix(filepath.Base(g.file), ".txtar"), func(t *testing.T) {
			manifest, err := Load(g.dir, g.options)
			got := dump(manifest)
			if err != nil {
				got = strings.ReplaceAll(err.Error(), g.dir, "DIR") + "\n"
			}
			if *update {
				g.write(t, got)
				return
			}
			if diff := cmp.Diff(g.want(), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", strings.TrimSpace(string(g.archive.Comment)), diff)
			}
		})
	}
}

func (g golden) write(t *testing.T, got string) {
	archive := &txtar.Archive{Comment: g.archive.Comment}
	for _, f := range g.archive.Files {
		if f.Name != "want" {
			archive.Files = append(archive.Files, f)
		}
	}
	archive.Files = append(archive.Files, txtar.File{Name: "want", Data: []byte(got)})
	if err := os.WriteFile(g.file, txtar.Format(archive), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEveryFaultHasAPosition(t *testing.T) {
	for _, g := range goldens(t) {
		_, err := Load(g.dir, g.options)
		var faults units.Faults
		if !errors.As(err, &faults) {
			continue
		}
		for _, f := range faults {
			switch name := filepath.Join(g.dir, f.Position.File); {
			case strings.HasSuffix(f.Message, ": no .cue file"):
			case f.Position.Line < 1 || f.Position.Column < 1:
				t.Errorf("%s: no position: %s", g.file, f)
			case !strings.HasPrefix(name, g.dir) || !exists(name):
				t.Errorf("%s: position in another's file: %s", g.file, f)
			}
		}
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// dump shows a manifest for reading: what the resources are, with the place of
// each and none of its entries', which would drown the rest.
func dump(m Manifest) string {
	var b strings.Builder
	fmt.Fprintf(&b, "node %s", m.Node.Name)
	if m.Node.Adopted {
		b.WriteString(", adopted")
	}
	b.WriteString("\n")
	dumpMoves(&b, m.Moved)
	for _, r := range m.Resources {
		fmt.Fprintf(&b, "\n%s at %s\n", r.Address, r.Position)
		if r.Name != "" {
			fmt.Fprintf(&b, "name %s\n", r.Name)
		}
		for _, transition := range slices.Sorted(maps.Keys(r.Policy)) {
			fmt.Fprintf(&b, "%s: %s\n", transition, r.Policy[transition])
		}
		if w := r.Wasm; w != nil {
			fmt.Fprintf(&b, "wasm %s at %s %.8s… %q\n", w.Path, w.Position, w.Digest, w.Content)
		}
		for _, a := range r.Uses {
			fmt.Fprintf(&b, "uses %s\n", a)
		}
		for _, p := range r.Holds {
			fmt.Fprintf(&b, "holds %s\n", p.Target())
		}
		for _, s := range r.Sections {
			fmt.Fprintf(&b, "[%s]\n", s.Name)
			dumpEntries(&b, s.Entries)
		}
		if s := r.Secret; s != nil {
			fmt.Fprintf(&b, "holds %q\n", s.Content)
		}
		if d := r.Dir; d != nil {
			fmt.Fprintf(&b, "%s %04o %s:%s\n", d.Path, d.Mode, d.Owner, d.Group)
		}
		if f := r.File; f != nil {
			fmt.Fprintf(&b, "%s %04o %s:%s %q\n", f.Path, f.Mode, f.Owner, f.Group, f.Content)
			for _, n := range f.Notify {
				fmt.Fprintf(&b, "%s %s\n", n.Action, n.Resource)
			}
		}
	}
	return b.String()
}

func dumpMoves(b *strings.Builder, m units.Moves) {
	for _, from := range slices.SortedFunc(maps.Keys(m.Resources), units.Address.Compare) {
		fmt.Fprintf(b, "moved %s, which is %s\n", from, m.Now(from))
	}
	for _, from := range slices.Sorted(maps.Keys(m.Modules)) {
		fmt.Fprintf(b, "moved module %s to %s\n", from, m.Modules[from])
	}
}

func dumpEntries(b *strings.Builder, entries []units.Entry) {
	for _, e := range entries {
		since := ""
		if e.Since != "" {
			since = " (podman " + e.Since + ")"
		}
		for _, v := range e.Values {
			fmt.Fprintf(b, "%s=%s%s\n", e.Key, v, since)
		}
		for _, p := range e.Pairs {
			fmt.Fprintf(b, "%s %q=%q%s\n", e.Key, p.Name, p.Value, since)
		}
	}
}
