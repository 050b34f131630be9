package modules

import (
	"errors"
	"fmt"
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
