package apply

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

func address(kind units.Kind, id string) units.Address {
	return units.Address{Module: "m", Kind: kind, ID: id}
}

// resource returns a resource of unit name; each entry is Key=value of its own
// section, Install=no, or uses=kind/id.
func resource(kind units.Kind, section, id, name string, entries ...string) units.Resource {
	r := units.Resource{Address: address(kind, id), Name: name}
	own := units.Section{Name: section, Entries: []units.Entry{{Key: section + "Name", Values: []string{name}}}}
	install := units.Section{Name: "Install", Entries: []units.Entry{{Key: "WantedBy", Values: []string{"multi-user.target"}}}}
	for _, e := range entries {
		key, value, _ := strings.Cut(e, "=")
		switch key {
		case "Install":
			install.Entries = nil
		case "uses":
			kind, id, _ := strings.Cut(value, "/")
			r.Uses = append(r.Uses, address(units.Kind(kind), id))
			own.Entries = append(own.Entries, units.Entry{Key: "Uses", Values: []string{value}})
		default:
			own.Entries = append(own.Entries, units.Entry{Key: key, Values: []string{value}})
		}
	}
	r.Sections = []units.Section{own, install}
	return r
}

func container(id, name string, entries ...string) units.Resource {
	return resource(units.KindContainer, "Container", id, name, entries...)
}

func network(id, name string, entries ...string) units.Resource {
	return resource(units.KindNetwork, "Network", id, name, entries...)
}

func volume(id, name string, entries ...string) units.Resource {
	return resource(units.KindVolume, "Volume", id, name, entries...)
}

// file returns a file; each notice is id=action.
func file(id, path, content string, notices ...string) units.Resource {
	f := &units.File{Path: path, Mode: 0o644, Owner: "0", Group: "0", Digest: state.TextDigest(content)}
	for _, n := range notices {
		id, action, _ := strings.Cut(n, "=")
		f.Notify = append(f.Notify, units.Notification{Resource: address(units.KindContainer, id), Action: action})
	}
	return units.Resource{Address: address(units.KindFile, id), File: f}
}

// text stands for what the converter makes of a resource.
func text(r units.Resource) string {
	var b strings.Builder
	b.WriteString("[X-Meshgen]\nResource=" + r.Address.String() + "\n")
	for _, s := range r.Sections {
		b.WriteString("[" + s.Name + "]\n")
		for _, e := range s.Entries {
			b.WriteString(e.Key + "=" + strings.Join(e.Values, " ") + "\n")
		}
	}
	return b.String()
}

func generation(number int, resources ...units.Resource) state.Generation {
	g := state.Generation{Number: number, Resources: resources}
	for _, r := range resources {
		if name := units.Unit(r); name != "" {
			g.Units = append(g.Units, state.Unit{
				Name: name, Resource: r.Address, Digest: units.RunDigest(text(r)),
				Text: state.TextDigest(text(r)), Wanted: r.Value("Install", "WantedBy") != "",
			})
		}
	}
	slices.SortFunc(g.Units, func(a, b state.Unit) int { return cmp.Compare(a.Name, b.Name) })
	return g
}

// running returns the node on which a generation runs, with everything recorded
// and nothing stopped.
func running(g state.Generation) before {
	b := before{generation: g, seen: sight{
		units: map[string]host.Unit{}, observed: state.Observed{Files: map[units.Target]state.FileState{}},
	}}
	for _, r := range g.Resources {
		for _, t := range units.Targets(r) {
			record := state.Record{Target: t, Resource: r.Address, State: state.Live}
			switch t.Kind() {
			case units.TargetUnit:
				record.Definition = text(r)
				record.Digest = units.RunDigest(text(r))
				record.Started = record.Digest
				b.up(t.Name())
			case units.TargetFile:
				record.Digest, record.Definition = r.File.Digest, state.FileMeta(*r.File)
				b.seen.observed.Files[t] = state.FileState{Digest: record.Digest, Meta: record.Definition}
			case units.TargetDir:
				record.Definition = state.DirMeta(*r.Dir)
			}
			b.records = append(b.records, record)
		}
	}
	slices.SortFunc(b.records, func(x, y state.Record) int { return cmp.Compare(x.Target, y.Target) })
	return b
}

func (b *before) up(unit string) {
	b.seen.units[unit] = host.Unit{Name: unit, Load: "loaded", Active: "active", Sub: "running"}
}

func (b *before) down(unit string) {
	b.seen.units[unit] = host.Unit{Name: unit, Load: "loaded", Active: "inactive", Sub: "dead"}
}

func (b *before) record(t units.Target) *state.Record {
	i := slices.IndexFunc(b.records, func(r state.Record) bool { return r.Target == t })
	return &b.records[i]
}

// shown is what a plan does to units, networks and files, a line each step.
func shown(p Plan) string {
	var lines []string
	add := func(step string, names ...string) {
		if len(names) > 0 {
			lines = append(lines, step+" "+strings.Join(names, " "))
		}
	}
	targets := func(list []units.Target) (names []string) {
		for _, t := range list {
			names = append(names, string(t))
		}
		return names
	}
	add("rescue", p.Rescue...)
	add("stop", p.Stop...)
	add("free", targets(p.Free)...)
	for _, r := range p.Write {
		add("write", r.File.Path)
	}
	for _, h := range p.Handover {
		add("hand over", h.Old, "to", h.New)
	}
	add("reload", p.ReloadUnits...)
	add("restart", p.Restart...)
	add("start", p.Start...)
	add("retire", targets(p.Retire)...)
	add("hold", targets(p.Hold)...)
	return strings.Join(lines, "\n")
}

func set(resources ...units.Resource) []units.Resource { return resources }

func TestPlan(t *testing.T) {
	tests := []struct {
		name     string
		old, new []units.Resource
		but      func(*before) // what is otherwise than as it should run
		want     string
	}{
		{name: "nothing changes", old: set(container("a", "a")), new: set(container("a", "a"))},
		{
			name: "a new container is started where it is wanted",
			old:  nil, new: set(container("a", "a"), container("b", "b", "Install=no")),
			want: "start a",
		},
		{
			name: "a changed container is restarted",
			old:  set(container("a", "a", "Image=1")), new: set(container("a", "a", "Image=2")),
			want: "restart a",
		},
		{
			name: "a container that is no longer wanted runs on",
			old:  set(container("a", "a")), new: set(container("a", "a", "Install=no")),
		},
		{
			name: "one stopped by hand stays so",
			old:  set(container("a", "a")), new: set(container("a", "a")),
			but: func(b *before) { b.down("a.service") },
		},
		{
			name: "one stopped by hand starts when its declaration changes",
			old:  set(container("a", "a", "Image=1")), new: set(container("a", "a", "Image=2")),
			but:  func(b *before) { b.down("a.service") },
			want: "start a",
		},
		{
			name: "one that a cut switch took down is started",
			old:  set(container("a", "a")), new: set(container("a", "a")),
			but:  func(b *before) { b.down("a.service"); b.record("unit:a.service").Due = true },
			want: "start a",
		},
		{
			name: "one that a cut switch did not come to restart is restarted",
			old:  set(container("a", "a", "Image=2")), new: set(container("a", "a", "Image=2")),
			but: func(b *before) {
				b.record("unit:a.service").Started, b.record("unit:a.service").Due = "earlier", true
			},
			want: "restart a",
		},
		{
			name: "one that was never seen to start runs what it was emitted with",
			old:  set(container("a", "a")), new: set(container("a", "a")),
			but: func(b *before) { b.record("unit:a.service").Started = "" },
		},
		{
			name: "one that was never seen to start and is due is restarted",
			old:  set(container("a", "a", "Image=2")), new: set(container("a", "a", "Image=2")),
			but: func(b *before) {
				b.record("unit:a.service").Started, b.record("unit:a.service").Due = "", true
			},
			want: "restart a",
		},
		{
			name: "a removed container is stopped and its names retired",
			old:  set(container("a", "a", "PublishPort=80:80")), new: set(container("b", "b")),
			want: "stop a\nstart b\nretire unit:a container:a port:tcp/80",
		},
		{
			name: "a removed container that is down needs no stop",
			old:  set(container("a", "a")), new: set(container("b", "b")),
			but:  func(b *before) { b.down("a.service") },
			want: "start b\nretire unit:a container:a",
		},
		{
			name: "a rename is handed over",
			old:  set(container("a", "a")), new: set(container("a", "x")),
			want: "hand over a to x\nretire unit:a container:a",
		},
		{
			name: "a rename with a new image is handed over",
			old:  set(container("a", "a", "Image=1", "PublishPort=80:80")), new: set(container("a", "x", "Image=2", "PublishPort=80:80")),
			want: "hand over a to x\nretire unit:a container:a",
		},
		{
			name: "a rename of what does not run starts it where it is wanted",
			old:  set(container("a", "a")), new: set(container("a", "x")),
			but:  func(b *before) { b.down("a.service") },
			want: "start x\nretire unit:a container:a",
		},
		{
			name: "a rename of what runs and is not wanted is handed over",
			old:  set(container("a", "a", "Install=no")), new: set(container("a", "x", "Install=no")),
			want: "hand over a to x\nretire unit:a container:a",
		},
		{
			name: "a rename beside an unchanged volume is handed over",
			old:  set(container("a", "a", "uses=volume/v"), volume("v", "v")), new: set(container("a", "x", "uses=volume/v"), volume("v", "v")),
			want: "hand over a to x\nretire unit:a container:a",
		},
		{
			name: "a rename beside a network that changes is not handed over",
			old:  set(container("a", "a", "uses=network/n"), network("n", "n")), new: set(container("a", "x", "uses=network/n"), network("n", "n", "Internal=true")),
			want: "stop a n-network\nfree network:n\nstart n-network x\nretire unit:a container:a",
		},
		{
			name: "a rename beside a network that is renamed too is handed over with it",
			old:  set(container("a", "a", "uses=network/n"), network("n", "n")), new: set(container("a", "x", "uses=network/n"), network("n", "m")),
			want: "hand over n-network to m-network\nhand over a to x\nretire unit:a unit:n-network container:a network:n",
		},
		{
			name: "a renamed network that keeps its subnet makes room first",
			old:  set(container("a", "a", "uses=network/n"), network("n", "n", "Subnet=10.0.0.0/24")),
			new:  set(container("a", "a", "uses=network/n"), network("n", "m", "Subnet=10.0.0.0/24")),
			want: "stop a n-network\nfree network:n\nstart m-network a\nretire unit:n-network network:n",
		},
		{
			name: "a subnet goes to another network",
			old:  set(container("a", "a", "uses=network/n"), network("n", "n", "Subnet=10.0.0.0/24")),
			new:  set(container("a", "a", "uses=network/m"), network("m", "m", "Subnet=10.0.0.0/24")),
			want: "stop a n-network\nfree network:n\nstart m-network a\nretire unit:n-network network:n",
		},
		{
			name: "a chain: each takes the next one's name",
			old:  set(container("a", "a", "Image=a"), container("b", "b", "Image=b")), new: set(container("a", "b", "Image=a"), container("b", "c", "Image=b")),
			want: "stop a b\nstart b c\nretire unit:a container:a",
		},
		{
			name: "a chain of what runs and is not wanted runs on",
			old:  set(container("a", "a", "Image=a", "Install=no"), container("b", "b", "Image=b", "Install=no")),
			new:  set(container("a", "b", "Image=a", "Install=no"), container("b", "c", "Image=b", "Install=no")),
			want: "stop a b\nstart b c\nretire unit:a container:a",
		},
		{
			name: "a swap",
			old:  set(container("a", "a", "Image=a"), container("b", "b", "Image=b")), new: set(container("a", "b", "Image=a"), container("b", "a", "Image=b")),
			want: "stop a b\nstart a b",
		},
		{
			name: "a swap of unit names alone",
			old:  set(container("a", "a", "ContainerName=x"), container("b", "b", "ContainerName=y")), new: set(container("a", "b", "ContainerName=x"), container("b", "a", "ContainerName=y")),
			want: "stop a b\nstart a b",
		},
		{
			name: "a swap of container names alone",
			old:  set(container("a", "a", "ContainerName=x"), container("b", "b", "ContainerName=y")), new: set(container("a", "a", "ContainerName=y"), container("b", "b", "ContainerName=x")),
			want: "stop a b\nstart a b",
		},
		{
			name: "a new container name under a kept unit name",
			old:  set(container("a", "a")), new: set(container("a", "a", "ContainerName=x")),
			want: "stop a\nstart a\nretire container:a",
		},
		{
			name: "one that is renamed takes the container name of another that is renamed",
			old:  set(container("a", "a", "ContainerName=x"), container("b", "b", "ContainerName=y")), new: set(container("a", "c", "ContainerName=z"), container("b", "d", "ContainerName=x")),
			want: "stop a\nhand over b to d\nstart c\nretire unit:a unit:b container:y",
		},
		{
			name: "a port goes to another",
			old:  set(container("a", "a", "PublishPort=80:80"), container("b", "b")), new: set(container("a", "a"), container("b", "b", "PublishPort=80:80")),
			want: "stop a\nrestart b\nstart a",
		},
		{
			name: "a port on one address goes to another on all of them",
			old:  set(container("a", "a", "PublishPort=127.0.0.1:80:80"), container("b", "b")), new: set(container("a", "a"), container("b", "b", "PublishPort=80:80")),
			want: "stop a\nrestart b\nstart a\nretire port:tcp/127.0.0.1:80",
		},
		{
			name: "a port on one address is no matter to another address",
			old:  set(container("a", "a", "PublishPort=127.0.0.1:80:80"), container("b", "b")), new: set(container("a", "a"), container("b", "b", "PublishPort=127.0.0.2:80:80")),
			want: "restart a b\nretire port:tcp/127.0.0.1:80",
		},
		{
			name: "two trade their ports",
			old:  set(container("a", "a", "PublishPort=80:80"), container("b", "b", "PublishPort=81:80")), new: set(container("a", "a", "PublishPort=81:80"), container("b", "b", "PublishPort=80:80")),
			want: "stop a b\nstart a b",
		},
		{
			name: "a removed one's port goes to one that is renamed",
			old:  set(container("a", "a", "PublishPort=80:80"), container("b", "b")), new: set(container("b", "x", "PublishPort=80:80")),
			want: "stop a\nhand over b to x\nretire unit:a unit:b container:a container:b",
		},
		{
			name: "a renamed one's port goes to another that is renamed",
			old:  set(container("a", "a", "PublishPort=80:80"), container("b", "b")), new: set(container("a", "y"), container("b", "x", "PublishPort=80:80")),
			want: "stop a\nhand over b to x\nstart y\nretire unit:a unit:b container:a container:b",
		},
		{
			name: "one at another address keeps its names",
			old:  set(container("a", "a", "Image=1")), new: set(container("z", "a", "Image=1")),
		},
		{
			name: "one at another address gives up a port that one that is renamed takes",
			old:  set(container("a", "a", "PublishPort=80:80"), container("b", "b")), new: set(container("z", "a"), container("b", "x", "PublishPort=80:80")),
			want: "stop a\nhand over b to x\nstart a\nretire unit:b container:b",
		},
		{
			name: "systemd has lost one that is no longer declared",
			old:  set(container("a", "a")), new: set(container("b", "b")),
			but: func(b *before) {
				b.seen.units["a.service"] = host.Unit{Load: "not-found", Active: "active"}
			},
			want: "rescue a\nstop a\nstart b\nretire unit:a container:a",
		},
		{
			name: "systemd has lost one that is renamed",
			old:  set(container("a", "a")), new: set(container("a", "x")),
			but: func(b *before) {
				b.seen.units["a.service"] = host.Unit{Load: "not-found", Active: "active"}
			},
			want: "rescue a\nstop a\nstart x\nretire unit:a container:a",
		},
		{
			name: "systemd has lost one whose container gets another name",
			old:  set(container("a", "a")), new: set(container("a", "a", "ContainerName=x")),
			but: func(b *before) {
				b.seen.units["a.service"] = host.Unit{Load: "not-found", Active: "active"}
			},
			want: "rescue a\nstop a\nstart a\nretire container:a",
		},
		{
			name: "a cut rename left both names up",
			old:  set(container("a", "b")), new: set(container("a", "b")),
			but: func(b *before) {
				b.records = append(b.records, state.Record{Target: "unit:a.service", Resource: address(units.KindContainer, "a"), State: state.Live})
				b.up("a.service")
			},
			want: "stop a\nretire unit:a",
		},
		{
			name: "a rename after one that left both names up",
			old:  set(container("a", "b")), new: set(container("a", "c")),
			but: func(b *before) {
				b.records = append(b.records, state.Record{Target: "unit:a.service", Resource: address(units.KindContainer, "a"), State: state.Live})
				b.up("a.service")
			},
			want: "stop a\nhand over b to c\nretire unit:b unit:a container:b",
		},
		{
			name: "a file changes and tells a container to restart",
			old:  set(container("a", "a"), file("f", "/f", "1", "a=restart")), new: set(container("a", "a"), file("f", "/f", "2", "a=restart")),
			want: "write /f\nrestart a",
		},
		{
			name: "a file changes and tells a container to reload",
			old:  set(container("a", "a"), file("f", "/f", "1", "a=reload")), new: set(container("a", "a"), file("f", "/f", "2", "a=reload")),
			want: "write /f\nreload a",
		},
		{
			name: "a restart is reload enough",
			old:  set(container("a", "a", "Image=1"), file("f", "/f", "1", "a=reload")), new: set(container("a", "a", "Image=2"), file("f", "/f", "2", "a=reload")),
			want: "write /f\nrestart a",
		},
		{
			name: "a file tells one that is stopped nothing",
			old:  set(container("a", "a"), file("f", "/f", "1", "a=restart")), new: set(container("a", "a"), file("f", "/f", "2", "a=restart")),
			but:  func(b *before) { b.down("a.service") },
			want: "write /f",
		},
		{
			name: "a file tells one that is renamed nothing more",
			old:  set(container("a", "a"), file("f", "/f", "1", "a=restart")), new: set(container("a", "x"), file("f", "/f", "2", "a=restart")),
			want: "write /f\nhand over a to x\nretire unit:a container:a",
		},
		{
			name: "a file tells two that swap nothing more",
			old:  set(container("a", "a"), container("b", "b"), file("f", "/f", "1", "a=restart", "b=reload")),
			new:  set(container("a", "b"), container("b", "a"), file("f", "/f", "2", "a=restart", "b=reload")),
			want: "stop a b\nwrite /f\nstart a b",
		},
		{
			name: "a file moves",
			old:  set(container("a", "a"), file("f", "/f", "1", "a=restart")), new: set(container("a", "a"), file("f", "/g", "1", "a=restart")),
			want: "write /g\nrestart a\nretire file:/f",
		},
		{
			name: "a file's mode is put right without a word to anyone",
			old:  set(container("a", "a"), file("f", "/f", "1", "a=restart")), new: set(container("a", "a"), file("f", "/f", "1", "a=restart")),
			but: func(b *before) {
				lies := b.seen.observed.Files["file:/f"]
				lies.Meta = "0666 0:0"
				b.seen.observed.Files["file:/f"] = lies
			},
			want: "write /f",
		},
		{
			name: "a directory stays for as long as a declared file is in it",
			old:  set(file("f", "/d/e/f", "1"), file("g", "/d/g", "1")), new: set(file("g", "/d/g", "1")),
			but: func(b *before) {
				for _, dir := range []units.Target{"dir:/d", "dir:/d/e", "dir:/d/ee"} {
					b.records = append(b.records, state.Record{Target: dir, Resource: address(units.KindFile, "f"), State: state.Live})
				}
			},
			want: "retire file:/d/e/f dir:/d/ee dir:/d/e",
		},
		{
			name: "a removed volume is held and its unit goes",
			old:  set(volume("v", "v")), new: set(container("b", "b")),
			want: "stop v-volume\nstart b\nretire unit:v-volume\nhold volume:v",
		},
		{
			name: "what is held is let be",
			old:  set(container("a", "a")), new: set(container("a", "a")),
			but: func(b *before) {
				b.records = append(b.records, state.Record{Target: "volume:v", Resource: address(units.KindVolume, "v"), State: state.Held})
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := running(generation(1, test.old...))
			if test.but != nil {
				test.but(&b)
			}
			got := makePlan(b, generation(2, test.new...))
			if diff := gocmp.Diff(test.want, strings.ReplaceAll(shown(got), ".service", "")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A plan that is done leaves nothing to be planned, but for what was stopped by
// hand.
// One that takes over what another has mounted starts after the other is down:
// two at once on one directory of a database would be the end of it.
func TestVolumeGoesToAnotherContainer(t *testing.T) {
	had := func(x, y string) state.Generation {
		return generation(1, container("x", "x", x), container("y", "y", y), volume("v", "v"))
	}
	for _, source := range []string{"v.volume", "/srv/data", "/srv/data/", "outside"} {
		for _, test := range []struct{ before, after [2]string }{
			{[2]string{source + ":/data", ":"}, [2]string{":", source + ":/data"}},
			{[2]string{source + ":/data", "other:/data"}, [2]string{"other:/data", source + ":/data"}},
		} {
			b := running(had("Volume="+test.before[0], "Volume="+test.before[1]))
			plan := makePlan(b, had("Volume="+test.after[0], "Volume="+test.after[1]))
			if !slices.Contains(plan.Stop, "x.service") {
				t.Errorf("%s: %v", source, shown(plan))
			}
		}
		// Where both have it, before or after, that is what the owner wants.
		b := running(had("Volume="+source+":/data", "Volume="+source+":/data"))
		if plan := makePlan(b, had("Volume="+source+":/data", "Volume=:")); len(plan.Stop) > 0 {
			t.Errorf("%s: %v", source, shown(plan))
		}
	}
}

func TestPlanIsEmptyWhereNothingIsToBeDone(t *testing.T) {
	g := generation(1, container("a", "a", "PublishPort=80:80", "uses=network/n"), network("n", "n", "Subnet=10.0.0.0/24"),
		volume("v", "v"), file("f", "/d/f", "1", "a=restart"))
	if p := makePlan(running(g), g); !p.Empty() {
		t.Errorf("%+v", p)
	}
}

// What a renamed unit needs and systemd does not have is bridged, by whatever word it
// is referred to, and what that needs in turn.
func TestRenamedUnitBringsWhatItNeeds(t *testing.T) {
	needs := func(r units.Resource, key, value string) units.Resource {
		r.Sections = append(r.Sections, units.Section{Name: "Unit", Entries: []units.Entry{{Key: key, Values: []string{value}}}})
		return r
	}
	b := running(generation(1, container("a", "a"), container("there", "there")))
	plan := makePlan(b, generation(2, needs(container("a", "b", "uses=network/n", "Slice=s.slice"), "Requires", "maker.service there.service not-ours.service"),
		network("n", "n"), needs(plain("maker.service"), "After", "late.target"), plain("late.target"), plain("s.slice"), plain("other.service"),
		container("there", "there")))
	if diff := gocmp.Diff([]string{"late.target", "maker.service", "n-network.service", "s.slice"}, plan.Bridge); diff != "" {
		t.Error(diff)
	}
	if diff := gocmp.Diff([]Handover{{Old: "a.service", New: "b.service"}}, plan.Handover); diff != "" {
		t.Error(diff)
	}
}

func TestStepsAreInTheOrderOfThePlan(t *testing.T) {
	p := Plan{
		Rescue: []string{"a.service"}, Stop: []string{"a.service"}, Free: []units.Target{"network:n"},
		Write: set(file("f", "/f", "1")), Handover: []Handover{{"b.service", "c.service"}}, Reread: true,
		ReloadUnits: []string{"d.service"}, Restart: []string{"e.service"}, Start: []string{"f.service"},
		Retire: []units.Target{"unit:a.service", "port:tcp/80"}, Hold: []units.Target{"volume:v"},
	}
	var got []string
	for _, s := range p.Steps() {
		got = append(got, strings.TrimSpace(string(s.Op)+" "+string(s.Target)))
	}
	want := []string{
		"rescue unit:a.service", "stop unit:a.service", "remove network:n", "write file:/f", "hand over unit:c.service", "reload",
		"reload unit:d.service", "restart unit:e.service", "start unit:f.service", "retire unit:a.service", "hold volume:v",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// drawSet draws up to four containers, each target of which is held once.
func drawSet(t *rapid.T, label string) []units.Resource {
	ids := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 4, rapid.ID).Draw(t, label)
	slices.Sort(ids)
	names := rapid.Permutation([]string{"a", "b", "c", "d", "e"}).Draw(t, label+" names")
	containers := rapid.Permutation([]string{"p", "q", "r", "s", "t"}).Draw(t, label+" containers")
	ports := rapid.Permutation([]string{"", "", "", "127.0.0.1:80", "127.0.0.2:80", "81"}).Draw(t, label+" ports")
	var set []units.Resource
	for i, id := range ids {
		entries := []string{"ContainerName=" + containers[i], "Image=" + rapid.SampledFrom([]string{"1", "2"}).Draw(t, label+" image")}
		if ports[i] != "" {
			entries = append(entries, "PublishPort="+ports[i]+":80")
		}
		if rapid.IntRange(0, 3).Draw(t, label+" wanted") == 0 {
			entries = append(entries, "Install=no")
		}
		set = append(set, container(id, names[i], entries...))
	}
	return set
}

// instance is a container that runs.
type instance struct {
	resource units.Resource
	digest   string
}

// machine is a small model of what runs under which name.
type machine map[string]instance

// begin starts a unit of a generation, and says what is in its way.
func (m machine) begin(g state.Generation, name string) string {
	i := slices.IndexFunc(g.Units, func(u state.Unit) bool { return u.Name == name })
	if i < 0 {
		return name + " is not declared"
	}
	r := byAddress(g)[g.Units[i].Resource]
	for other, runs := range m {
		if other == name {
			continue
		}
		if units.Object(runs.resource) == units.Object(r) {
			return fmt.Sprintf("%s would replace %s, which %s runs", name, units.Object(r), other)
		}
		for _, p := range units.Ports(r) {
			if slices.ContainsFunc(units.Ports(runs.resource), p.Overlaps) {
				return fmt.Sprintf("%s wants %s, which %s has", name, p.Target(), other)
			}
		}
	}
	m[name] = instance{r, g.Units[i].Digest}
	return ""
}

// perform does what a plan says, and reports the first thing that goes wrong.
func (m machine) perform(p Plan, old, desired state.Generation) string {
	for _, name := range p.Stop {
		delete(m, name)
	}
	for _, h := range p.Handover {
		if _, ok := m[h.Old]; !ok {
			return h.Old + " is handed over and does not run"
		}
		if i := slices.IndexFunc(old.Units, func(u state.Unit) bool { return u.Name == h.New }); i >= 0 {
			return h.New + " is handed to and systemd has it otherwise"
		}
		delete(m, h.Old)
		if wrong := m.begin(desired, h.New); wrong != "" {
			return "hand over: " + wrong
		}
	}
	for _, name := range p.Restart {
		runs := m[name]
		if now := byAddress(desired)[resourceOf(desired, name)]; units.Object(runs.resource) != units.Object(now) {
			return name + " is restarted and runs another container than it will"
		}
		if wrong := m.begin(desired, name); wrong != "" {
			return "restart: " + wrong
		}
	}
	for _, name := range p.Start {
		if wrong := m.begin(desired, name); wrong != "" {
			return "start: " + wrong
		}
	}
	return ""
}

func resourceOf(g state.Generation, name string) units.Address {
	for _, u := range g.Units {
		if u.Name == name {
			return u.Resource
		}
	}
	return units.Address{}
}

// A plan, whatever the sets, leaves running what ran and is still declared, just
// as it is declared, and nothing else of ours; no two ever want the same name or
// port.
func TestPlanLeadsWhereItShould(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, desired := generation(1, drawSet(t, "old")...), generation(2, drawSet(t, "new")...)
		b := running(old)
		runs := machine{}
		ran := map[units.Address]bool{}
		for _, u := range old.Units {
			if rapid.IntRange(0, 3).Draw(t, u.Name+" down") == 0 {
				b.down(u.Name)
				continue
			}
			runs[u.Name] = instance{byAddress(old)[u.Resource], u.Digest}
			ran[u.Resource] = true
		}
		for _, u := range desired.Units {
			if _, ok := b.seen.units[u.Name]; !ok {
				b.seen.units[u.Name] = host.Unit{Name: u.Name, Load: "not-found", Active: "inactive"}
			}
		}
		p := makePlan(b, desired)
		fail := func(what string) {
			t.Fatalf("%s\n%s\nold %s\nnew %s", what, shown(p), describe(old, runs), describe(desired, runs))
		}
		if wrong := contradiction(p); wrong != "" {
			fail(wrong)
		}
		if wrong := runs.perform(p, old, desired); wrong != "" {
			fail(wrong)
		}
		for name := range runs {
			if resourceOf(desired, name) == (units.Address{}) {
				fail(name + " runs on")
			}
		}
		for _, u := range desired.Units {
			now, up := runs[u.Name]
			same := resourceOf(old, u.Name) == u.Resource && slices.ContainsFunc(old.Units, func(o state.Unit) bool {
				return o.Name == u.Name && o.Digest == u.Digest
			})
			switch {
			case ran[u.Resource] && !up:
				fail(u.Resource.String() + " ran and does not run")
			case up && now.digest != u.Digest:
				fail(u.Name + " runs otherwise than declared")
			case same && !ran[u.Resource] && up:
				fail(u.Name + " was stopped by hand and runs")
			case same && ran[u.Resource] && slices.Contains(p.Touched(), u.Name) && !slices.Contains(p.Stop, u.Name):
				fail(u.Name + " did not change and is touched")
			}
		}
		if wrong := misrecorded(p, b, desired); wrong != "" {
			fail(wrong)
		}
	})
}

func describe(g state.Generation, runs machine) string {
	var lines []string
	for _, r := range g.Resources {
		lines = append(lines, fmt.Sprintf("%s %s %s %v wanted %v", r.Address, units.Unit(r), units.Object(r), units.Ports(r), r.Value("Install", "WantedBy") != ""))
	}
	return strings.Join(lines, "\n    ") + fmt.Sprintf("\n(%d run)", len(runs))
}

// contradiction says in what the lists of a plan contradict one another.
func contradiction(p Plan) string {
	var olds, news []string
	for _, h := range p.Handover {
		olds, news = append(olds, h.Old), append(news, h.New)
	}
	for _, pair := range []struct {
		what string
		a, b []string
	}{
		{"stopped and handed over", p.Stop, olds},
		{"started and restarted", p.Start, p.Restart},
		{"started and handed to", p.Start, news},
		{"restarted and handed to", p.Restart, news},
		{"restarted and handed over", p.Restart, olds},
		{"stopped and restarted", p.Stop, p.Restart},
		{"restarted and reloaded", p.Restart, p.ReloadUnits},
		{"started and reloaded", p.Start, p.ReloadUnits},
	} {
		for _, name := range pair.a {
			if slices.Contains(pair.b, name) {
				return name + " is " + pair.what
			}
		}
	}
	for _, name := range p.Rescue {
		if !slices.Contains(p.Stop, name) {
			return name + " is rescued and not stopped"
		}
	}
	return ""
}

// misrecorded says in what the ledger would not have just the declared targets
// after the plan.
func misrecorded(p Plan, b before, desired state.Generation) string {
	owner := map[units.Target]units.Address{}
	for _, r := range desired.Resources {
		for _, t := range units.Targets(r) {
			owner[t] = r.Address
		}
	}
	live := map[units.Target]units.Address{}
	for _, r := range b.records {
		live[r.Target] = r.Resource
	}
	for _, t := range p.Emit {
		live[t] = owner[t]
	}
	for _, t := range p.Retire {
		if _, declared := owner[t]; declared {
			return string(t) + " is declared and retired"
		}
		delete(live, t)
	}
	return gocmp.Diff(owner, live)
}

func TestJudge(t *testing.T) {
	old := generation(1, container("a", "a"), volume("v", "v", "Device=/dev/a"), network("n", "n"), file("f", "/f", "1"))
	tests := []struct {
		name       string
		transition state.Transition
		new        []units.Resource
		want       state.Decision
		says       string
	}{
		{
			name:       "a found container is refused",
			transition: state.Transition{Kind: state.Takeover, Resource: address(units.KindContainer, "a"), To: "container:a", Reason: "container 123 of image x runs, and it is not of meshgen"},
			new:        set(container("a", "a")),
			want:       state.Refuse, says: "m/container/a: container:a is taken: container 123 of image x runs, and it is not of meshgen",
		},
		{
			name:       "a container's rename is followed",
			transition: state.Transition{Kind: state.Rename, Resource: address(units.KindContainer, "a"), From: "container:a", To: "container:b"},
			new:        set(container("a", "b")),
			want:       state.Follow,
		},
		{
			name:       "a volume's rename is refused",
			transition: state.Transition{Kind: state.Rename, Resource: address(units.KindVolume, "v"), From: "volume:v", To: "volume:w"},
			new:        set(volume("v", "w")),
			want:       state.Refuse, says: "m/volume/v: rename of volume:v to volume:w: its data would stay behind and an empty volume take its place",
		},
		{
			name:       "the rename of a volume's unit is followed",
			transition: state.Transition{Kind: state.Rename, Resource: address(units.KindVolume, "v"), From: "unit:v-volume.service", To: "unit:w-volume.service"},
			new:        set(volume("v", "w", "VolumeName=v")),
			want:       state.Follow,
		},
		{
			name:       "a volume's options are not changed",
			transition: state.Transition{Kind: state.Update, Resource: address(units.KindVolume, "v"), From: "unit:v-volume.service", To: "unit:v-volume.service"},
			new:        set(volume("v", "v", "Device=/dev/b")),
			want:       state.Refuse, says: "m/volume/v: update of volume:v: podman cannot change a volume that exists",
		},
		{
			name:       "what else is in a volume's unit is",
			transition: state.Transition{Kind: state.Update, Resource: address(units.KindVolume, "v"), From: "unit:v-volume.service", To: "unit:v-volume.service"},
			new:        set(volume("v", "v", "Device=/dev/a", "Install=no")),
		},
		{
			name:       "a volume at another address keeps its options",
			transition: state.Transition{Kind: state.Update, Resource: address(units.KindVolume, "z"), From: "unit:v-volume.service", To: "unit:v-volume.service"},
			new:        set(volume("z", "v", "Device=/dev/a")),
		},
		{
			name:       "a volume at another address gets no others",
			transition: state.Transition{Kind: state.Update, Resource: address(units.KindVolume, "z"), From: "unit:v-volume.service", To: "unit:v-volume.service"},
			new:        set(volume("z", "v", "Device=/dev/b")),
			want:       state.Refuse, says: "m/volume/z: update of volume:v: podman cannot change a volume that exists",
		},
		{
			name:       "a container's change needs no decision",
			transition: state.Transition{Kind: state.Update, Resource: address(units.KindContainer, "a"), From: "unit:a.service", To: "unit:a.service"},
			new:        set(container("a", "a", "Image=2")),
		},
		{
			name:       "a container is removed",
			transition: state.Transition{Kind: state.Remove, Resource: address(units.KindContainer, "a"), From: "unit:a.service"},
			want:       state.Removed,
		},
		{
			name:       "a volume is kept",
			transition: state.Transition{Kind: state.Remove, Resource: address(units.KindVolume, "v"), From: "volume:v"},
			want:       state.Keep,
		},
		{
			name:       "a match at another address is a transfer",
			transition: state.Transition{Kind: state.Transfer, Resource: address(units.KindContainer, "z"), From: "unit:a.service", To: "unit:a.service"},
			new:        set(container("z", "a")),
			want:       state.Transferred,
		},
		{
			name:       "drift is restored",
			transition: state.Transition{Kind: state.Drift, Resource: address(units.KindFile, "f"), From: "file:/f", To: "file:/f"},
			new:        set(file("f", "/f", "1")),
			want:       state.Restore,
		},
		{
			name:       "an empty volume does not take the place of one that is gone",
			transition: state.Transition{Kind: state.Drift, Resource: address(units.KindVolume, "v"), From: "volume:v", To: "volume:v", Change: state.Gone, Reason: "is gone"},
			new:        set(volume("v", "v")),
			want:       state.Refuse,
			says:       "m/volume/v: v is gone: it held data, and an empty one would take its place",
		},
		{
			name:       "something new needs no decision",
			transition: state.Transition{Kind: state.Create, Resource: address(units.KindNetwork, "z"), To: "unit:z-network.service"},
			new:        set(network("z", "z")),
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			judged, refused := judge(t.Context(), before{generation: old, transitions: []state.Transition{test.transition}}, generation(2, test.new...), builtinAsker(t))
			if len(judged) != 1 || judged[0].Decision != test.want {
				t.Errorf("judged %+v, want %q", judged, test.want)
			}
			if (judged[0].Policy == state.BuiltinPolicy) != (test.want != "") {
				t.Errorf("policy %q", judged[0].Policy)
			}
			says := ""
			if len(refused) > 0 {
				says = refused[0].Message
			}
			if says != test.says {
				t.Errorf("says %q, want %q", says, test.says)
			}
			if (len(refused) > 0) != (test.want == state.Refuse) {
				t.Errorf("refused: %v", refused)
			}
		})
	}
}

// All refusals are told, in the order of the manifest.
func TestRefusalsAreSorted(t *testing.T) {
	at := func(line int, id string) state.Transition {
		return state.Transition{
			Kind: state.Takeover, Resource: address(units.KindContainer, id), To: units.Of(units.TargetContainer, id),
			Reason: "it exists", Position: units.Position{File: "m.cue", Line: line, Column: 1},
		}
	}
	_, refused := judge(t.Context(), before{transitions: []state.Transition{at(3, "a"), at(1, "b"), at(2, "c")}}, generation(1), builtinAsker(t))
	var lines []int
	for _, f := range refused {
		lines = append(lines, f.Position.Line)
	}
	if !slices.Equal(lines, []int{1, 2, 3}) {
		t.Errorf("in lines %v", lines)
	}
}

// A path is the same however it is written: the container would find an empty
// volume where it has its data.
func TestEmptyVolumeUnderAnotherSpellingIsRefused(t *testing.T) {
	b := running(generation(1, container("x", "x", "Volume=v.volume:/data"), volume("v", "v")))
	_, refused := judge(t.Context(), b, generation(2, container("x", "x", "Volume=w.volume:/data/"), volume("w", "w")), builtinAsker(t))
	if len(refused) != 1 {
		t.Errorf("refused: %v", refused)
	}
}
