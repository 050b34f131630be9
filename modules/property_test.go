package modules

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuelang.org/go/cue/cuecontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"meshgen/units"
)

// A manifest may be written in another order, and nothing would restart.
func TestOrderDoesNotMatter(t *testing.T) {
	s := newSchema(cuecontext.New())
	keys := everyKey(s)
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		var fields []string
		for i, k := range rapid.SliceOfN(rapid.SampledFrom(keys), 1, 12).Draw(t, "keys") {
			// A name belongs to one resource, and every declaration has an image.
			if k.key == "ServiceName" || k.key == k.section+"Name" || k.isNeeded() {
				continue
			}
			fields = append(fields, k.declaration(fmt.Sprintf("r%d", i%3), k.example(k.rule(s))))
		}
		one := answerTo(t, dir, fields)
		other := answerTo(t, dir, rapid.Permutation(fields).Draw(t, "order"))
		if diff := cmp.Diff(one, other); diff != "" {
			t.Fatalf("order matters:\n%s", diff)
		}
	})
}

// Where the entries of moved are taken, each leads to what is declared, by way of
// what is not, and no two by ways that do not meet before their end.
func TestMovedLeadsToWhatIsDeclared(t *testing.T) {
	dir := t.TempDir()
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		module := rapid.SampledFrom([]string{"a", "b", "c"})
		address := rapid.Custom(func(t *rapid.T) string {
			return module.Draw(t, "module") + "/volume/" + rapid.SampledFrom([]string{"x", "y"}).Draw(t, "id")
		})
		var fields []string
		declared := map[string]bool{}
		for _, a := range rapid.SliceOfNDistinct(address, 1, 3, rapid.ID).Draw(t, "declared") {
			declared[a] = true
			fields = append(fields, fmt.Sprintf("modules: %s: volumes: %s: {}\n", a[:1], a[len(a)-1:]))
		}
		// Free draws are nearly always faults; half of the manifests are drawn so that
		// many are taken: from what is not declared to what is.
		from, to := rapid.OneOf(address, module), rapid.OneOf(address, module)
		if rapid.Bool().Draw(t, "apt") {
			from = address.Filter(func(a string) bool { return !declared[a] })
			to = rapid.SampledFrom(slices.Sorted(maps.Keys(declared)))
		}
		var entries []string
		for _, f := range rapid.SliceOfN(from, 1, 3).Draw(t, "from") {
			entries = append(entries, fmt.Sprintf("{from: %q, to: %q}", f, to.Draw(t, "to")))
		}
		fields = append(fields, "moved: ["+strings.Join(entries, ", ")+"]\n")
		if err := os.WriteFile(filepath.Join(dir, "manifest.cue"), []byte(strings.Join(fields, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := Load(dir, Options{})
		if err != nil {
			if faults, ok := errors.AsType[units.Faults](err); !ok || slices.ContainsFunc(faults, func(f units.Fault) bool { return f.Position.Line == 0 }) {
				t.Fatal(err)
			}
			return
		}
		taken++
		before := map[units.Address]units.Address{}
		for from := range m.Moved.Resources {
			if now := m.Moved.Now(from); declared[from.String()] || !declared[now.String()] {
				t.Fatalf("%s is %s now", from, now)
			}
			next, _ := m.Moved.Next(from)
			if other, ok := before[next]; ok {
				t.Fatalf("%s and %s lead to %s", from, other, next)
			}
			before[next] = from
		}
		for from := range m.Moved.Modules {
			if slices.ContainsFunc(m.Resources, func(r units.Resource) bool { return r.Address.Module == from }) {
				t.Fatalf("module %s is declared", from)
			}
		}
	})
	if taken == 0 {
		t.Error("nothing was taken")
	}
}

// answerTo returns the resources without their places, or the faults without.
func answerTo(t *rapid.T, dir string, fields []string) any {
	if err := os.WriteFile(filepath.Join(dir, "manifest.cue"), []byte(strings.Join(fields, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Load(dir, Options{AllowEmpty: true})
	if err != nil {
		var faults units.Faults
		if !errors.As(err, &faults) {
			t.Fatal(err)
		}
		var messages []string
		for _, f := range faults {
			messages = append(messages, f.Message)
		}
		slices.Sort(messages)
		return messages
	}
	return unplaced(m.Resources)
}

func unplaced(resources []units.Resource) []units.Resource {
	for i := range resources {
		resources[i].Position = units.Position{}
		for _, s := range resources[i].Sections {
			for j := range s.Entries {
				s.Entries[j].Position = units.Position{}
			}
		}
	}
	return resources
}

// Whatever the text, Load answers with resources or with faults that have a
// place, never both, and answers the same again.
func FuzzLoad(f *testing.F) {
	for _, g := range goldens(f) {
		for _, file := range g.archive.Files {
			if strings.HasSuffix(file.Name, ".cue") {
				f.Add(file.Data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := manifestOf(t, string(text))
		m, err := Load(dir, Options{Hostname: "alpha"})
		if err != nil {
			checkRefusal(t, m, err)
			return
		}
		digest, err := Digest(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		again, err := Load(dir, Options{Hostname: "alpha"})
		if diff := cmp.Diff(m, again); diff != "" || err != nil {
			t.Errorf("another answer: %v\n%s", err, diff)
		}
		if same, err := Digest(dir, Options{}); same != digest || err != nil {
			t.Errorf("another digest: %s, %v", same, err)
		}
		for _, r := range m.Resources {
			if strings.ContainsRune(units.Render(r), 0) {
				t.Errorf("%s: NUL in its text", r.Address)
			}
		}
	})
}

func checkRefusal(t *testing.T, m Manifest, err error) {
	var faults units.Faults
	if len(m.Resources) > 0 || !errors.As(err, &faults) || len(faults) == 0 {
		t.Fatalf("got %v and %v", m, err)
	}
	for _, fault := range faults {
		if fault.Position.Line < 1 || fault.Position.File != "manifest.cue" {
			t.Errorf("no place: %v", fault)
		}
	}
}
