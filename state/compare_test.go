package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"meshgen/units"
)

// item is a resource in brief: its unit's name, its object's, and what else is
// in it; of a file the path and the content.
type item struct{ name, object, body string }

func (i item) resource(a units.Address) units.Resource {
	if a.Kind == units.KindFile {
		return units.Resource{Address: a, File: &units.File{Path: i.name, Mode: 0o644, Owner: "0", Group: "0", Digest: TextDigest(i.body)}}
	}
	section := strings.ToUpper(string(a.Kind[:1])) + string(a.Kind[1:])
	return units.Resource{Address: a, Name: i.name, Sections: []units.Section{{
		Name: section, Entries: []units.Entry{{Key: section + "Name", Values: []string{i.object}}, {Key: "Body", Values: []string{i.body}}},
	}}}
}

type items map[string]item

// generation returns the generation that declares the items, by address.
func (l items) generation() Generation {
	g := Generation{Number: 1}
	for text, i := range l {
		a, err := units.ParseAddress(text)
		if err != nil {
			panic(err)
		}
		r := i.resource(a)
		g.Resources = append(g.Resources, r)
		if name := units.Unit(r); name != "" {
			g.Units = append(g.Units, Unit{Name: name, Resource: a, Digest: TextDigest(i.object + i.body), Text: TextDigest(i.definition(a))})
		}
	}
	slices.SortFunc(g.Resources, func(x, y units.Resource) int { return x.Address.Compare(y.Address) })
	return g
}

func (i item) definition(a units.Address) string { return a.String() + " " + i.object + " " + i.body }

// records returns what the ledger has where the items are in force, and the
// files as they then lie.
func (l items) records() ([]Record, Observed) {
	seen := Observed{Files: map[units.Target]FileState{}, Taken: map[units.Target]Occupant{}}
	var records []Record
	for text, i := range l {
		a, _ := units.ParseAddress(text)
		r := i.resource(a)
		for _, t := range units.Targets(r) {
			record := Record{Target: t, Resource: a, State: Live}
			switch t.Kind() {
			case units.TargetUnit:
				record.Digest, record.Definition = TextDigest(i.object+i.body), i.definition(a)
			case units.TargetFile:
				record.Digest, record.Definition = r.File.Digest, FileMeta(*r.File)
				seen.Files[t] = FileState{Digest: record.Digest, Meta: record.Definition}
			}
			records = append(records, record)
		}
	}
	slices.SortFunc(records, func(x, y Record) int { return strings.Compare(string(x.Target), string(y.Target)) })
	return records, seen
}

// shown is a line for each transition.
func shown(transitions []Transition) []string {
	var lines []string
	for _, t := range transitions {
		lines = append(lines, line(t.Kind, t.Resource.String(), string(t.From), string(t.To), t.Reason))
	}
	return lines
}

func line(kind TransitionKind, resource, from, to, reason string) string {
	s := fmt.Sprintf("%s %s: %s -> %s", kind, resource, from, to)
	if reason != "" {
		s += " (" + reason + ")"
	}
	return s
}

func TestCompare(t *testing.T) {
	tests := []struct {
		name     string
		old, new items
		but      func(records *[]Record, seen *Observed)
		want     []string
	}{
		{name: "nothing on either side"},
		{
			name: "nothing changes",
			old:  items{"m/container/a": {"a", "a", "1"}, "m/file/f": {"/f", "", "1"}},
			new:  items{"m/container/a": {"a", "a", "1"}, "m/file/f": {"/f", "", "1"}},
		},
		{
			name: "something new",
			new:  items{"m/container/a": {"a", "a", "1"}, "m/file/f": {"/f", "", "1"}, "m/volume/v": {"v", "v", "1"}},
			want: []string{"create m/container/a:  -> unit:a.service", "create m/file/f:  -> file:/f", "create m/volume/v:  -> unit:v-volume.service"},
		},
		{
			name: "something else in it",
			old:  items{"m/container/a": {"a", "a", "1"}, "m/file/f": {"/f", "", "1"}},
			new:  items{"m/container/a": {"a", "a", "2"}, "m/file/f": {"/f", "", "2"}},
			want: []string{"update m/container/a: unit:a.service -> unit:a.service", "update m/file/f: file:/f -> file:/f"},
		},
		{
			name: "unit and container are renamed",
			old:  items{"m/container/a": {"a", "a", "1"}}, new: items{"m/container/a": {"b", "b", "2"}},
			want: []string{"rename m/container/a: unit:a.service -> unit:b.service", "rename m/container/a: container:a -> container:b"},
		},
		{
			name: "the container alone is renamed",
			old:  items{"m/container/a": {"a", "a", "1"}}, new: items{"m/container/a": {"a", "b", "1"}},
			want: []string{"rename m/container/a: container:a -> container:b"},
		},
		{
			name: "a file moves and changes",
			old:  items{"m/file/f": {"/f", "", "1"}}, new: items{"m/file/f": {"/g", "", "2"}},
			want: []string{"rename m/file/f: file:/f -> file:/g"},
		},
		{
			name: "two swap",
			old:  items{"m/container/a": {"a", "a", "1"}, "m/container/b": {"b", "b", "2"}},
			new:  items{"m/container/a": {"b", "b", "1"}, "m/container/b": {"a", "a", "2"}},
			want: []string{
				"rename m/container/a: unit:a.service -> unit:b.service", "rename m/container/a: container:a -> container:b",
				"rename m/container/b: unit:b.service -> unit:a.service", "rename m/container/b: container:b -> container:a",
			},
		},
		{
			name: "a resource is removed",
			old:  items{"m/container/a": {"a", "a", "1"}, "m/volume/v": {"v", "v", "1"}, "m/network/n": {"n", "n", "1"}, "m/file/f": {"/f", "", "1"}},
			want: []string{"remove m/container/a: unit:a.service -> ", "remove m/file/f: file:/f -> ", "remove m/network/n: unit:n-network.service -> ", "remove m/volume/v: volume:v -> "},
		},
		{
			name: "the name of one that is removed goes to another that had one",
			old:  items{"m/container/a": {"a", "a", "1"}, "m/container/b": {"b", "b", "2"}}, new: items{"m/container/a": {"b", "b", "1"}},
			want: []string{
				"rename m/container/a: unit:a.service -> unit:b.service", "rename m/container/a: container:a -> container:b",
				"remove m/container/b: unit:b.service -> ",
			},
		},
		{
			name: "a new address for the same name",
			old:  items{"m/container/a": {"a", "a", "1"}, "m/file/f": {"/f", "", "1"}}, new: items{"n/container/z": {"a", "a", "1"}, "n/file/f": {"/f", "", "1"}},
			want: []string{"transfer n/container/z: unit:a.service -> unit:a.service (was m/container/a)", "transfer n/file/f: file:/f -> file:/f (was m/file/f)"},
		},
		{
			name: "a new address for the same name, with something else in it",
			old:  items{"m/container/a": {"a", "a", "1"}}, new: items{"n/container/z": {"a", "a", "2"}},
			want: []string{"transfer n/container/z: unit:a.service -> unit:a.service (was m/container/a)", "update n/container/z: unit:a.service -> unit:a.service"},
		},
		{
			name: "a new address for a volume's unit, and another volume",
			old:  items{"m/volume/v": {"v", "v", "1"}}, new: items{"m/volume/z": {"v", "w", "1"}},
			want: []string{"transfer m/volume/z: unit:v-volume.service -> unit:v-volume.service (was m/volume/v)", "rename m/volume/z: volume:v -> volume:w"},
		},
		{
			name: "a new address and a new name are a removal and a creation",
			old:  items{"m/container/a": {"a", "a", "1"}}, new: items{"n/container/a": {"b", "b", "1"}},
			want: []string{"remove m/container/a: unit:a.service -> ", "create n/container/a:  -> unit:b.service"},
		},
		{
			name: "a declared name is somebody else's",
			new:  items{"m/container/a": {"a", "x", "1"}},
			but:  func(_ *[]Record, seen *Observed) { seen.Taken["container:x"] = Occupant{Words: "it runs"} },
			want: []string{"takeover m/container/a:  -> container:x (it runs)", "create m/container/a:  -> unit:a.service"},
		},
		{
			name: "a rename to a name that is somebody else's",
			old:  items{"m/container/a": {"a", "a", "1"}}, new: items{"m/container/a": {"a", "x", "1"}},
			but:  func(_ *[]Record, seen *Observed) { seen.Taken["container:x"] = Occupant{Words: "it runs"} },
			want: []string{"takeover m/container/a:  -> container:x (it runs)", "rename m/container/a: container:a -> container:x"},
		},
		{
			name: "a file was changed by other hands",
			old:  items{"m/file/f": {"/f", "", "1"}}, new: items{"m/file/f": {"/f", "", "1"}},
			but: func(_ *[]Record, seen *Observed) {
				seen.Files["file:/f"] = FileState{Digest: TextDigest("theirs"), Meta: "0644 0:0"}
			},
			want: []string{"drift m/file/f: file:/f -> file:/f (content changed by other hands)"},
		},
		{
			name: "other hands changed a file to what it is to be",
			old:  items{"m/file/f": {"/f", "", "1"}}, new: items{"m/file/f": {"/f", "", "2"}},
			but: func(_ *[]Record, seen *Observed) {
				seen.Files["file:/f"] = FileState{Digest: TextDigest("2"), Meta: "0644 0:0"}
			},
			want: []string{"update m/file/f: file:/f -> file:/f"},
		},
		{
			name: "a file changes here and there",
			old:  items{"m/file/f": {"/f", "", "1"}}, new: items{"m/file/f": {"/f", "", "2"}},
			but: func(_ *[]Record, seen *Observed) {
				seen.Files["file:/f"] = FileState{Digest: TextDigest("theirs"), Meta: "0644 0:0"}
			},
			want: []string{"update m/file/f: file:/f -> file:/f", "drift m/file/f: file:/f -> file:/f (content changed by other hands)"},
		},
		{
			name: "other hands changed a file's mode",
			old:  items{"m/file/f": {"/f", "", "1"}}, new: items{"m/file/f": {"/f", "", "1"}},
			but: func(_ *[]Record, seen *Observed) {
				seen.Files["file:/f"] = FileState{Digest: TextDigest("1"), Meta: "0666 0:0"}
			},
			want: []string{"drift m/file/f: file:/f -> file:/f (is 0666 0:0, should be 0644 0:0)"},
		},
		{
			name: "a link is where a file was",
			old:  items{"m/file/f": {"/f", "", "1"}}, new: items{"m/file/f": {"/f", "", "1"}},
			but: func(_ *[]Record, seen *Observed) {
				seen.Files["file:/f"] = FileState{Digest: "a symbolic link", Meta: "0777 0:0"}
			},
			want: []string{"drift m/file/f: file:/f -> file:/f (is a symbolic link)"},
		},
		{
			name: "a file is gone",
			old:  items{"m/file/f": {"/f", "", "1"}}, new: items{"m/file/f": {"/f", "", "1"}},
			but:  func(_ *[]Record, seen *Observed) { delete(seen.Files, "file:/f") },
			want: []string{"drift m/file/f: file:/f -> file:/f (is gone)"},
		},
		{
			name: "a volume that was let go is declared again",
			new:  items{"m/volume/v": {"v", "v", "1"}},
			but: func(records *[]Record, _ *Observed) {
				*records = append(*records, Record{Target: "volume:v", Resource: units.Address{Module: "m", Kind: units.KindVolume, ID: "v"}, State: Held})
			},
			want: []string{"create m/volume/v:  -> unit:v-volume.service"},
		},
		{
			name: "what was let go is not removed",
			but: func(records *[]Record, _ *Observed) {
				*records = append(*records, Record{Target: "volume:v", Resource: units.Address{Module: "m", Kind: units.KindVolume, ID: "v"}, State: Held})
			},
		},
		{
			name: "a file comes back, and a directory that was made for it is still in use",
			new:  items{"m/file/f": {"/srv/f", "", "1"}},
			but: func(records *[]Record, _ *Observed) {
				*records = append(*records, Record{Target: "dir:/d", Resource: units.Address{Module: "m", Kind: units.KindFile, ID: "f"}, State: Live})
			},
			want: []string{"create m/file/f:  -> file:/srv/f"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			records, seen := test.old.records()
			if test.but != nil {
				test.but(&records, &seen)
			}
			if diff := cmp.Diff(test.want, shown(Compare(test.new.generation(), records, seen))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What no converter has made yet is known by its Quadlet.
func TestCompareKnowsAnUnconvertedUnitByItsQuadlet(t *testing.T) {
	list := items{"m/container/a": {"a", "a", "1"}}
	g := list.generation()
	g.Units[0].Text = ""
	records, seen := list.records()
	for i := range records {
		records[i].Definition = ""
	}
	if got := Compare(g, records, seen); len(got) > 0 {
		t.Errorf("unchanged: %v", shown(got))
	}
	g.Units[0].Digest = "another"
	if got := shown(Compare(g, records, seen)); !slices.Equal(got, []string{"update m/container/a: unit:a.service -> unit:a.service"}) {
		t.Errorf("changed: %v", got)
	}
}

func TestTransitionsCarryPositions(t *testing.T) {
	g := items{"m/container/a": {"a", "a", "1"}}.generation()
	g.Resources[0].Position = units.Position{File: "m.cue", Line: 7, Column: 3}
	got := Compare(g, nil, Observed{})
	if len(got) != 1 || got[0].Position != g.Resources[0].Position {
		t.Errorf("%+v", got)
	}
}

// drawItems draws resources of all kinds, each name of which is held once.
func drawItems(t *rapid.T, label string) items {
	list := items{}
	for _, kind := range []units.Kind{units.KindContainer, units.KindVolume, units.KindNetwork, units.KindFile} {
		ids := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 3, rapid.ID).Draw(t, label)
		names := rapid.Permutation([]string{"/1", "/2", "/3", "/4"}).Draw(t, label+" names")
		objects := rapid.Permutation([]string{"o", "p", "q", "r"}).Draw(t, label+" objects")
		for i, id := range ids {
			name := names[i]
			if kind != units.KindFile {
				name = name[1:]
			}
			list["m/"+string(kind)+"/"+id] = item{name, objects[i], rapid.SampledFrom([]string{"1", "2"}).Draw(t, label+" body")}
		}
	}
	return list
}

// expected says what Compare has to find: it looks at each kind of name of each
// resource, before and after.
func expected(old, now items) []string {
	var lines []string
	first := func(text string, i item) string {
		a, _ := units.ParseAddress(text)
		return string(units.Targets(i.resource(a))[0])
	}
	left := items{}
	for text, i := range old {
		if _, declared := now[text]; !declared {
			left[text] = i
		}
	}
	for text, i := range now {
		was, had := old[text]
		for holder, o := range left {
			if !had && first(holder, o) == first(text, i) {
				lines = append(lines, line(Transfer, text, first(text, i), first(text, i), "was "+holder+other(left, now, holder, text, i)))
				was, had = o, true
				delete(left, holder)
				break
			}
		}
		file := strings.Contains(text, "/file/")
		switch {
		case !had:
			lines = append(lines, line(Create, text, "", first(text, i), ""))
			continue
		case was.name != i.name:
			lines = append(lines, line(Rename, text, first(text, was), first(text, i), ""))
		}
		kind := strings.Split(text, "/")[1]
		if !file && was.object != i.object {
			lines = append(lines, line(Rename, text, kind+":"+was.object, kind+":"+i.object, ""))
		}
		same := was.name == i.name && (file || was.object == i.object)
		if _, kept := old[text]; same && was.body != i.body && (!file || kept) {
			lines = append(lines, line(Update, text, first(text, i), first(text, i), ""))
		}
	}
	for text, i := range left {
		name := first(text, i)
		if strings.Contains(text, "/volume/") {
			name = "volume:" + i.object
		}
		lines = append(lines, line(Remove, text, name, "", ""))
	}
	slices.Sort(lines)
	return lines
}

// other returns the resource besides holder that the one at text may have been:
// that whose object it has, and whose name nobody has.
func other(left, now items, holder, text string, i item) string {
	kind := strings.Split(text, "/")[1]
	for former, o := range left {
		if former == holder || strings.Split(former, "/")[1] != kind || kind == "file" || o.object != i.object {
			continue
		}
		for taker, n := range now {
			if strings.Split(taker, "/")[1] == kind && n.name == o.name {
				return ""
			}
		}
		return " or " + former
	}
	return ""
}

func TestCompareFindsWhatTheModelFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, now := drawItems(t, "old"), drawItems(t, "new")
		records, seen := old.records()
		found := Compare(now.generation(), records, seen)
		if !slices.IsSortedFunc(found, func(a, b Transition) int { return a.Resource.Compare(b.Resource) }) {
			t.Fatalf("not in the order of addresses: %v", shown(found))
		}
		got := shown(found)
		slices.Sort(got)
		if diff := cmp.Diff(expected(old, now), got); diff != "" {
			t.Fatalf("%s\nold %v\nnew %v", diff, old, now)
		}
	})
}
