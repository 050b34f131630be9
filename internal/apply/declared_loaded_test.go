package apply_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meshgen/modules"
	"meshgen/units"
)

// The resources of a history are those that the loader makes of the same
// manifest, but for positions.
func TestHistoriesDeclareWhatTheLoaderLoads(t *testing.T) {
	dir := t.TempDir()
	for seed := range uint64(20) {
		p := play{manifest: manifest{}}
		for _, line := range draw(seed) {
			switch strings.Fields(line)[0] {
			case "container", "network", "volume", "file", "remove", "swap", "move", "module":
				p.step(line)
			}
		}
		m := p.manifest.sound()
		if err := os.WriteFile(filepath.Join(dir, "mesh.cue"), []byte(m.cue()), 0o600); err != nil {
			t.Fatal(err)
		}
		loaded, err := modules.Load(dir, modules.Options{Node: "n", AllowEmpty: true})
		if err != nil {
			t.Fatalf("%v\n%s", err, m.cue())
		}
		if diff := cmp.Diff(unplaced(loaded.Resources), m.resources()); diff != "" {
			t.Errorf("%s\n%s", m.cue(), diff)
		}
	}
}

func unplaced(resources []units.Resource) []units.Resource {
	out := slices.Clone(resources)
	for i := range out {
		out[i].Position = units.Position{}
		for _, s := range out[i].Sections {
			for j := range s.Entries {
				s.Entries[j].Position = units.Position{}
			}
		}
	}
	return out
}

// cue writes the manifest as an owner would.
func (m manifest) cue() string {
	var b strings.Builder
	b.WriteString("package mesh\n")
	for _, d := range m.sorted() {
		fmt.Fprintf(&b, "modules: %s: %ss: %q: {\n", d.address.Module, d.address.Kind, d.address.ID)
		if unit := d.get("unit"); unit != "" {
			fmt.Fprintf(&b, "\tname: %q\n", unit)
		}
		own := strings.ToUpper(string(d.address.Kind[:1])) + string(d.address.Kind[1:])
		switch d.address.Kind {
		case units.KindContainer:
			b.WriteString("\tContainer: Image: \"localhost/probe:1\"\n")
			if env := d.get("env"); env != "" {
				name, value, _ := strings.Cut(env, ":")
				fmt.Fprintf(&b, "\tContainer: Environment: %s: %q\n", name, value)
			}
			if d.get("deaf") != "" {
				b.WriteString("\tContainer: Exec: \"busybox sleep 1000\"\n")
			}
			if network := d.get("network"); network != "" {
				fmt.Fprintf(&b, "\tContainer: Network: [%q]\n", network)
			}
			if volume := d.get("volume"); volume != "" {
				fmt.Fprintf(&b, "\tContainer: Volume: [%q]\n", volume+":/data")
			}
			if port := d.get("port"); port != "" {
				fmt.Fprintf(&b, "\tContainer: PublishPort: [%q]\n", port+":80")
			}
		case units.KindNetwork:
			if subnet := d.get("subnet"); subnet != "" {
				fmt.Fprintf(&b, "\tNetwork: Subnet: \"10.99.%s.0/24\"\n", subnet)
			}
		case units.KindFile:
			fmt.Fprintf(&b, "\tpath: %q\n\tcontent: \"content %s\\n\"\n", d.get("path"), d.get("content"))
			if id := d.get("notify"); id != "" {
				fmt.Fprintf(&b, "\tnotify: %s: \"restart\"\n", id)
			}
		case units.KindPod, units.KindVolume, units.KindUnit, units.KindDir, units.KindSecret:
		}
		if to := d.get("takeover"); to != "" {
			fmt.Fprintf(&b, "\tpolicy: takeover: %q\n", to)
		}
		if name := d.get("name"); name != "" {
			fmt.Fprintf(&b, "\t%s: %sName: %q\n", own, own, name)
		}
		b.WriteString("}\n")
	}
	return b.String()
}
