package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"meshgen/units"
)

// node returns a generation of n containers, and the events that emit it.
func node(n int) (Generation, Tree, []Event) {
	g := Generation{Number: 1, Manifest: strings.Repeat("ab", 32), Node: "control"}
	tree := Tree{Files: map[string][]byte{}, Links: map[string]string{}}
	var events []Event
	for i := range n {
		r := container(i)
		name := units.Unit(r)
		text := "[Unit]\nSourcePath=/etc/meshgen/generations/1/quadlet/" + units.QuadletFile(r) + "\n" +
			strings.Repeat("Environment=PODMAN_SYSTEMD_UNIT=%n \"A&B\"\n", 25) + units.Render(r)
		digest := units.RunDigest(text)
		g.Resources = append(g.Resources, r)
		g.Units = append(g.Units, Unit{Name: name, Resource: r.Address, Digest: digest, Text: digest, Wanted: true})
		tree.Files["quadlet/"+units.QuadletFile(r)] = []byte(units.Render(r))
		tree.Files["out/normal/"+name] = []byte(text)
		tree.Links["out/normal/multi-user.target.wants/"+name] = "../" + name
		for _, t := range units.Targets(r) {
			e := Event{Kind: EventEmit, Generation: 1, Target: t, Resource: r.Address, Origin: "written"}
			if t.Kind() == units.TargetUnit {
				e.Digest, e.Definition = digest, text
			}
			events = append(events, e)
		}
	}
	return g, tree, events
}

func container(i int) units.Resource {
	name := fmt.Sprintf("forge-server-%d", i)
	at := func(line int) units.Position {
		return units.Position{File: "forge/forge.cue", Line: i*20 + line, Column: 13}
	}
	return units.Resource{
		Address:  units.Address{Module: "forge", Kind: units.KindContainer, ID: fmt.Sprintf("server.%d", i)},
		Position: at(1),
		Name:     name,
		Uses:     []units.Address{{Module: "forge", Kind: units.KindVolume, ID: "data"}},
		Sections: []units.Section{
			{Name: "Container", Entries: []units.Entry{
				{Key: "ContainerName", Position: at(2), Values: []string{name}},
				{Key: "Image", Position: at(3), Values: []string{"docker.io/gitea/gitea:1.24"}},
				{Key: "PublishPort", Position: at(4), Values: []string{fmt.Sprintf("%d:3000", 10000+i)}},
				{Key: "Volume", Position: at(5), Values: []string{"forge-data.volume:/data"}},
				{Key: "Environment", Position: at(6), Pairs: []units.Pair{{Name: "DB__HOST", Value: "db:5432"}, {Name: "DB__NAME", Value: "gitea"}}},
			}},
			{Name: "Service", Entries: []units.Entry{{Key: "Restart", Position: at(8), Values: []string{"always"}}}},
			{Name: "Install", Entries: []units.Entry{{Key: "WantedBy", Position: at(9), Values: []string{"multi-user.target"}}}},
		},
	}
}

func BenchmarkReadGeneration(b *testing.B) {
	l := NewLayout(b.TempDir(), "")
	g, _, _ := node(1000)
	if err := WriteGeneration(l, g, Tree{}, 0); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := ReadGeneration(l, 1); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWriteGeneration(b *testing.B) {
	l := NewLayout(b.TempDir(), "")
	g, tree, _ := node(1000)
	for b.Loop() {
		if err := WriteGeneration(l, g, tree, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpenLedger(b *testing.B) {
	l := NewLayout(b.TempDir(), "")
	ledger, err := CreateLedger(l, "0123456789abcdef0123456789abcdef")
	if err != nil {
		b.Fatal(err)
	}
	_, _, events := node(1000)
	if err := ledger.Append(events...); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(ledger.size), "file-bytes")
	b.ReportMetric(float64(len(events)), "events")
	for b.Loop() {
		if _, err := OpenLedger(l, ""); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpenCompacted reads what one switch records of 1,000 containers, as
// it was appended and compacted.
func BenchmarkOpenCompacted(b *testing.B) {
	l := NewLayout(b.TempDir(), "")
	ledger, err := CreateLedger(l, "0123456789abcdef0123456789abcdef")
	if err != nil {
		b.Fatal(err)
	}
	_, _, emitted := node(1000)
	var due, started []Event
	for _, e := range emitted {
		if e.Target.Kind() == units.TargetUnit {
			due = append(due, Event{Kind: EventDue, Target: e.Target})
			started = append(started, Event{
				Kind: EventStarted, Generation: 1, Target: e.Target, Digest: e.Digest,
				Invocation: strings.Repeat("5a", 16), Container: strings.Repeat("3f", 32),
			})
		}
	}
	events := slices.Concat([]Event{{Kind: EventBegin, Generation: 1}}, emitted, due, started, []Event{{Kind: EventEnd, Generation: 1, Result: Done}})
	if err := ledger.Append(events...); err != nil {
		b.Fatal(err)
	}
	open := func(b *testing.B) {
		for b.Loop() {
			if _, err := OpenLedger(l, ""); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(ledger.size), "file-bytes")
	}
	b.Run("appended", open)
	if err := ledger.Compact(); err != nil {
		b.Fatal(err)
	}
	b.Run("compacted", open)
}

func BenchmarkLive(b *testing.B) {
	l := NewLayout(b.TempDir(), "")
	ledger, err := CreateLedger(l, "0123456789abcdef0123456789abcdef")
	if err != nil {
		b.Fatal(err)
	}
	_, _, events := node(1000)
	if err := ledger.Append(events...); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		_ = ledger.Live()
	}
}
