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
	suffix       string // of the id of a plain unit: ".timer"
	section, key string
}

// unitTypes are the types of plain units, each with what systemd wants in it.
func unitTypes() map[string]string {
	return map[string]string{
		".service":   `Service: ExecStart: "/bin/true"`,
		".timer":     `Timer: OnBootSec: 1`,
		".socket":    `Socket: ListenFIFO: "/run/fifo"`,
		".path":      `Path: PathExists: "/srv"`,
		".target":    ``,
		".mount":     `Mount: {What: "/dev/vda", Where: "/srv/ID"}`,
		".automount": `Automount: Where: "/srv/ID"`,
		".swap":      `Swap: What: "/srv/ID"`,
		".slice":     ``,
	}
}

func everyKey(s *schema) []keyed {
	var all []keyed
	add := func(k keyed, sections map[string]*rule, names []string) {
		for _, section := range names {
			k.section = section
			for _, k.key = range slices.Sorted(maps.Keys(s.shapeOf(sections[section]).fields)) {
				if k.section != "Install" || k.key != "Alias" && (k.suffix == "" || k.key != "Also" && k.key != "DefaultInstance") {
					all = append(all, k) // the others are refused, with a reason of their own
				}
			}
		}
	}
	for _, kind := range []units.Kind{units.KindContainer, units.KindPod, units.KindVolume, units.KindNetwork} {
		add(keyed{kind: kind}, s.shapeOf(s.definition("#"+ownSection(kind))).fields, quadletSections(kind))
	}
	for _, suffix := range slices.Sorted(maps.Keys(unitTypes())) {
		add(keyed{kind: units.KindUnit, suffix: suffix}, s.shapeOf(s.definition("#PlainUnit")).fields, plainSections(suffix))
	}
	return all
}

func (k keyed) rule(s *schema) *rule {
	definition := "#PlainUnit"
	if k.kind != units.KindUnit {
		definition = "#" + ownSection(k.kind)
	}
	return s.shapeOf(s.shapeOf(s.definition(definition)).fields[k.section]).fields[k.key]
}

// example returns a value, in CUE, that the key takes.
func (k keyed) example(r *rule) string {
	switch k.section + "." + k.key {
	case "Container.Pod":
		return `""`
	case "Container.Network", "Pod.Network":
		return `"host"`
	case "Container.Volume", "Pod.Volume":
		return `"/srv:/srv"`
	case "Container.PublishPort", "Pod.PublishPort":
		return `"80"`
	case "Container.ContainerName", "Container.ServiceName", "Volume.VolumeName", "Volume.ServiceName",
		"Network.NetworkName", "Network.ServiceName", "Pod.PodName", "Pod.ServiceName":
		return `"name-of-its-own"`
	case "Mount.Where", "Automount.Where", "Swap.What":
		return `"/srv/name-of-its-own"`
	case "Install.WantedBy", "Install.RequiredBy", "Install.UpheldBy":
		return `["one.target two.service", "three.target"]`
	case "Socket.ListenStream", "Socket.ListenDatagram":
		return `["/run/socket", "@socket"]`
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
	switch k.kind {
	case units.KindUnit:
		id = "plain-" + id
	case units.KindPod: // which would have a container's name
		id = "pod-" + id
	case units.KindContainer, units.KindVolume, units.KindNetwork, units.KindFile, units.KindDir, units.KindSecret:
	}
	needed := strings.ReplaceAll(unitTypes()[k.suffix], "ID", id)
	if k.kind == units.KindContainer {
		needed = `Container: Image: "web"`
	}
	switch {
	case k.suffix == ".mount" && k.key == "Where":
		needed = `Mount: What: "/dev/vda"`
	case k.suffix == ".mount" && k.key == "What":
		needed = fmt.Sprintf("Mount: Where: %q", "/srv/"+id)
	case k.isNeeded():
		needed = ""
	}
	return fmt.Sprintf("modules: m: %ss: %q: {\n%s\n%s: %q: %s\n}\n", k.kind, id+k.suffix, needed, k.section, k.key, example)
}

// isNeeded reports whether the key is one that declaration gives a resource
// anyway.
func (k keyed) isNeeded() bool {
	switch k.section + "." + k.key {
	case "Container.Image", "Container.Rootfs", "Timer.OnBootSec", "Socket.ListenFIFO", "Path.PathExists",
		"Mount.What", "Mount.Where", "Automount.Where", "Swap.What":
		return true
	case "Service.ExecStart":
		return k.kind == units.KindUnit
	}
	return false
}

func TestEveryKeyIsAccepted(t *testing.T) {
	s := newSchema(cuecontext.New())
	var b strings.Builder
	all := everyKey(s)
	for i, k := range all {
		r := k.rule(s)
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
		id := fmt.Sprintf("r%d", i)
		switch k.kind {
		case units.KindUnit:
			id = "plain-" + id + k.suffix
		case units.KindPod:
			id = "pod-" + id
		case units.KindContainer, units.KindVolume, units.KindNetwork, units.KindFile, units.KindDir, units.KindSecret:
		}
		a := units.Address{Module: "m", Kind: k.kind, ID: id}
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
		"alias", "dangling", "dir-paths", "empty-directory", "empty-manifest", "image-missing", "mode-id",
		"moved-ambiguous", "moved-circle", "moved-dangling", "moved-declared", "moved-kind", "moved-twice", "name-hexadecimal",
		"name-too-long", "node-conflict", "node-host-unknown", "node-unknown", "owner-twice", "podman-args", "port-twice", "subnet-twice", "unit-id-as-name", "unit-ports", "value-text", "wasm-files",
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
