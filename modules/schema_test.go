package modules

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"

	"meshgen/units"
)

// keyed is a key of a section and a resource that says it.
type keyed struct {
	kind         units.Kind
	section, key string
}

func everyKey(s *schema) []keyed {
	var all []keyed
	for _, kind := range []units.Kind{units.KindContainer, units.KindVolume, units.KindNetwork} {
		own := ownSection(kind)
		sections := s.shapeOf(s.definition("#" + own)).fields
		for _, section := range []string{"Unit", own, "Quadlet", "Service", "Install"} {
			for _, key := range slices.Sorted(maps.Keys(s.shapeOf(sections[section]).fields)) {
				if section == "Install" && key == "Alias" {
					continue // refused, with a reason of its own
				}
				all = append(all, keyed{kind, section, key})
			}
		}
	}
	return all
}

// example returns a value, in CUE, that the key takes.
func (k keyed) example(r *rule) string {
	switch k.section + "." + k.key {
	case "Container.Pod":
		return `""`
	case "Container.Network":
		return `"host"`
	case "Container.Volume":
		return `"/srv:/srv"`
	case "Container.PublishPort":
		return `"80"`
	case "Container.ContainerName", "Container.ServiceName", "Volume.VolumeName", "Volume.ServiceName",
		"Network.NetworkName", "Network.ServiceName":
		return `"name-of-its-own"`
	}
	return map[string]string{
		"#Switch":       "true",
		"#NotifySwitch": `"healthy"`,
		"#Boolean":      `"off"`,
		"#Mode":         `"0750"`,
		"#Text":         `"text"`,
		"#Scalar":       "1",
		"#List":         `["one", 2, true]`,
		"#Pairs":        `{name: "value"}`,
	}[r.name]
}

// declaration returns a resource, in CUE, that has the key.
func (k keyed) declaration(id, example string) string {
	image := ""
	if k.kind == units.KindContainer && k.key != "Image" && k.key != "Rootfs" {
		image = `Container: Image: "web"` + "\n"
	}
	return fmt.Sprintf("modules: m: %ss: %q: {\n%s%s: %q: %s\n}\n", k.kind, id, image, k.section, k.key, example)
}

func TestEveryKeyIsAccepted(t *testing.T) {
	s := newSchema(cuecontext.New())
	var b strings.Builder
	all := everyKey(s)
	for i, k := range all {
		r := s.shapeOf(s.shapeOf(s.definition("#" + ownSection(k.kind))).fields[k.section]).fields[k.key]
		example := k.example(r)
		if example == "" {
			t.Fatalf("[%s] %s: no example for %s", k.section, k.key, r.name)
		}
		example = strings.ReplaceAll(example, "name-of-its-own", fmt.Sprintf("name-of-its-own-%d", i))
		b.WriteString(k.declaration(fmt.Sprintf("r%d", i), example))
	}
	m, err := Load(manifestOf(t, b.String()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Resources) != len(all) {
		t.Fatalf("got %d resources, want %d", len(m.Resources), len(all))
	}
	for i, k := range all {
		a := units.Address{Module: "m", Kind: k.kind, ID: fmt.Sprintf("r%d", i)}
		n := slices.IndexFunc(m.Resources, func(r units.Resource) bool { return r.Address == a })
		if n < 0 || len(m.Resources[n].Values(k.section, k.key)) == 0 {
			t.Errorf("%s: [%s] %s did not come through", a, k.section, k.key)
		}
	}
}

func manifestOf(t testing.TB, text string) string {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "manifest.cue"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Load unifies field by field. What the schema says of a manifest as a whole,
// in CUE's own way, must be the same. The goldens in beyond have nothing but
// faults that no schema finds.
func TestUnifiedAsAWhole(t *testing.T) {
	beyond := []string{
		"alias", "dangling", "empty-directory", "empty-manifest", "image-missing", "name-hexadecimal",
		"name-too-long", "node-conflict", "node-host-unknown", "node-unknown", "owner-twice", "podman-args", "port-twice", "value-text",
	}
	for _, g := range goldens(t) {
		name := strings.TrimSuffix(filepath.Base(g.file), ".txtar")
		t.Run(name, func(t *testing.T) {
			l := &loader{dir: g.dir, context: cuecontext.New()}
			l.schema = newSchema(l.context)
			root, err := l.read()
			if err != nil || len(l.faults) > 0 {
				t.Skip("no value to unify")
			}
			definition := l.schema.root.LookupPath(cue.ParsePath("#Manifest"))
			whole := root.Unify(definition).Validate(cue.Concrete(true), cue.Final())
			_, err = Load(g.dir, g.options)
			want := err != nil && !slices.Contains(beyond, name)
			if got := whole != nil; got != want {
				t.Errorf("as a whole: %v\nfield by field: %v", whole, err)
			}
		})
	}
}
