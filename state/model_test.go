package state

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"meshgen/units"
)

// model is all that was recorded, in order. What it says of a target it finds
// by going through that again.
type model []Event

func (m model) about(t units.Target) []Event {
	return slices.DeleteFunc(slices.Clone(m), func(e Event) bool { return e.Target != t })
}

func last(events []Event, kinds ...EventKind) (e Event, at int) {
	for i, e := range slices.Backward(events) {
		if slices.Contains(kinds, e.Kind) {
			return e, i
		}
	}
	return Event{}, -1
}

// record tells of a target backwards, from what was last said of it.
func (m model) record(t units.Target) (Record, bool) {
	about := m.about(t)
	if len(about) == 0 {
		return Record{}, false
	}
	r := Record{Target: t, State: Live}
	emits := slices.DeleteFunc(slices.Clone(about), func(e Event) bool { return e.Kind != EventEmit })
	for i, e := range emits {
		last := emits[len(emits)-1]
		later := slices.ContainsFunc(emits[i:], func(l Event) bool { return l.Resource == e.Resource && l.Time != e.Time })
		changes := i+1 < len(emits) && emits[i+1].Resource != e.Resource
		if changes && e.Resource != last.Resource && !later {
			r.Earlier = append(r.Earlier, e.Resource)
		}
		r.Resource, r.First, r.Last = last.Resource, Moment{emits[0].Generation, emits[0].Time}, Moment{last.Generation, last.Time}
	}
	r.Emissions = len(emits)
	for i, e := range about {
		before, _ := last(about[:i], EventEmit, EventHold, EventFind, EventForget, EventRelease, EventRetire)
		if e.Kind == EventEmit && before.Kind == EventHold {
			r.HeldUntil = e.Generation
		}
	}
	shape, _ := last(about, EventEmit, EventFind)
	r.Digest, r.Definition = shape.Digest, shape.Definition
	switch fate, at := last(about, EventEmit, EventHold, EventFind, EventForget, EventRelease, EventRetire); fate.Kind {
	case EventHold:
		r.State, r.Why = Held, fate.Why
	case EventFind, EventForget, EventRelease:
		r.State, r.Why, r.Found = Found, fate.Why, m.moment(about[at])
	case EventRetire:
		r.State, r.Why, r.Retired = Retired, fate.Why, m.moment(about[at])
	case EventBegin, EventEmit, EventDue, EventStarted, EventAdopt, EventDiscard, EventEnd, EventEject, EventBind, EventRecord:
	}
	if adopted, _ := last(about, EventAdopt, EventRelease, EventDiscard); adopted.Kind == EventAdopt {
		r.Adoption = adopted.Adoption
	}
	for _, e := range about {
		if e.Kind == EventRelease {
			r.Left = append(r.Left, e.Left...)
		}
	}
	r.Origin = origin(about)
	if started, _ := last(about, EventStarted, EventForget, EventRelease, EventRetire); started.Kind == EventStarted {
		r.Started, r.Invocation, r.Container = started.Digest, started.Invocation, started.Container
	}
	due, _ := last(about, EventDue, EventStarted, EventHold, EventForget, EventRelease, EventRetire)
	if r.Due = due.Kind == EventDue; r.Due {
		r.DueWhy = due.Why
	}
	return r, true
}

// origin is found where the name was found when it was not known, or retired:
// not where it was forgotten just before, or found.
func origin(about []Event) string {
	e, at := last(about, EventEmit, EventFind, EventRelease)
	switch {
	case at < 0 || e.Kind == EventEmit:
		return e.Origin
	case e.Kind == EventRelease:
		return OriginReleased
	}
	if before, _ := last(about[:at], EventEmit, EventFind, EventForget, EventRelease, EventRetire); before.Kind == EventForget || before.Kind == EventFind || before.Kind == EventRelease {
		return origin(about[:at])
	}
	return "found"
}

// moment is when an event was; without a generation it has that of the switch
// that was under way.
func (m model) moment(e Event) Moment {
	at := slices.IndexFunc(m, func(o Event) bool { return o.Time.Equal(e.Time) })
	if e.Generation == 0 {
		e.Generation = m[:at].unfinished()
	}
	return Moment{e.Generation, e.Time}
}

func (m model) unfinished() int {
	e, _ := last(m, EventBegin, EventEnd)
	if e.Kind == EventBegin {
		return e.Generation
	}
	return 0
}

func (m model) ejecting() int {
	e, _ := last(m, EventEject)
	if e.Kind == EventEject && e.Result == "" {
		return e.Generation
	}
	return 0
}

// admits says whether an event can be next.
func (m model) admits(e Event) bool {
	r, known := m.record(e.Target)
	ours := known && (r.State == Live || r.State == Held)
	switch e.Kind {
	case EventBegin:
		return m.unfinished() == 0 && m.ejecting() == 0
	case EventEnd:
		return m.unfinished() == e.Generation
	case EventEject:
		if e.Result == "" {
			return m.unfinished() == 0 && m.ejecting() == 0
		}
		return m.ejecting() == e.Generation
	case EventDue, EventStarted, EventHold, EventForget:
		return ours
	case EventFind:
		return !ours
	case EventRetire:
		return known
	case EventAdopt:
		return known && r.State == Live
	case EventRelease, EventDiscard:
		return r.Adoption != nil
	case EventEmit, EventBind, EventRecord:
	}
	return true
}

func drawEvent(t *rapid.T, at time.Time) Event {
	word := func(label string) string { return rapid.StringN(0, 12, -1).Draw(t, label) }
	e := Event{
		Kind: rapid.SampledFrom([]EventKind{
			EventBegin, EventEmit, EventEmit, EventEmit, EventDue, EventStarted, EventHold, EventRetire, EventEnd,
			EventFind, EventForget, EventAdopt, EventRelease, EventDiscard, EventEject,
		}).Draw(t, "kind"),
		Time: at, Generation: rapid.IntRange(1, 3).Draw(t, "generation"),
	}
	switch e.Kind {
	case EventBegin:
		e.From, e.Manifest = e.Generation-1, word("manifest")
		e.Rollback = rapid.SampledFrom([]Rollback{"", Never}).Draw(t, "rollback")
		e.Transitions = rapid.SliceOfN(rapid.Just(Transition{Kind: Rename, Resource: server, From: "unit:a", To: "unit:b", Change: Gone, Reason: "\x1b\u2028", Facts: map[string]string{"kind": "\x1b"}, PolicySum: "0"}), 0, 2).Draw(t, "transitions")
		if len(e.Transitions) == 0 {
			e.Transitions = nil
		}
		return e
	case EventEnd:
		e.Result = rapid.SampledFrom([]Result{Done, Undone, RolledBack, Failed}).Draw(t, "result")
		return e
	case EventEject:
		e.Result = rapid.SampledFrom([]Result{"", Done}).Draw(t, "ejected")
		return e
	case EventEmit:
		e.Resource = units.Address{Module: "forge", Kind: units.KindContainer, ID: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "resource")}
		e.Digest, e.Definition, e.Origin = word("digest"), word("definition"), word("origin")
	case EventStarted:
		e.Digest, e.Invocation = word("digest"), word("invocation")
		e.Container = rapid.StringMatching("[0-9a-f]{0,5}").Draw(t, "container")
	case EventHold, EventForget, EventRelease, EventDiscard, EventRetire:
		e.Why = word("why")
		if e.Kind == EventRelease && rapid.Bool().Draw(t, "left") {
			e.Left = []string{word("copy")}
		}
	case EventAdopt:
		e.Adoption = &Adoption{What: "file", ID: word("id"), Running: rapid.Bool().Draw(t, "running"), Files: []AdoptedFile{{Path: "/" + word("path"), Copy: "1"}}}
	case EventFind:
		e.Why, e.Digest = word("why"), word("digest")
	case EventDue:
		e.Why = rapid.SampledFrom([]string{"", Again}).Draw(t, "due")
	case EventBind, EventRecord:
	}
	if e.Kind != EventEmit && rapid.Bool().Draw(t, "of the switch") {
		e.Generation = 0
	}
	e.Target = units.Target("unit:" + rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "target"))
	return e
}

func TestLedgerSaysWhatTheModelSays(t *testing.T) {
	dir, nodes := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		nodes++
		l := NewLayout(filepath.Join(dir, strconv.Itoa(nodes)), "")
		ledger, err := CreateLedger(l, machine)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ledger.Close() }()
		var m model
		clock := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
		for range rapid.IntRange(1, 12).Draw(t, "appends") {
			next, admitted := slices.Clone(m), true
			for range rapid.IntRange(1, 4).Draw(t, "events") {
				clock = clock.Add(time.Second)
				e := drawEvent(t, clock)
				admitted = admitted && next.admits(e)
				next = append(next, e)
			}
			err := ledger.Append(next[len(m):]...)
			if admitted != (err == nil) {
				t.Fatalf("admitted %v, but: %v", admitted, err)
			}
			if admitted {
				m = next
			}
			if rapid.IntRange(0, 3).Draw(t, "compact") == 0 {
				if err := ledger.Compact(); (err == nil) != (m.unfinished() == 0 && m.ejecting() == 0) {
					t.Fatalf("compact: %v", err)
				}
			}
			if rapid.Bool().Draw(t, "reopen") {
				if err := ledger.Close(); err != nil {
					t.Fatal(err)
				}
				if ledger, err = OpenLedger(l, machine); err != nil {
					t.Fatal(err)
				}
			}
			if fault := disagreement(ledger, m); fault != "" {
				t.Fatal(fault)
			}
		}
		if got, want := story(t, l), m.story(); !reflect.DeepEqual(got, want) {
			t.Fatalf("story: %s", cmp.Diff(want, got))
		}
	})
}

// story is what the model has heard, each event with its generation.
func (m model) story() []Event {
	told := slices.Clone(m)
	for i := range told {
		told[i].Generation = m.moment(told[i]).Generation
	}
	return told
}

// story returns all that the logs of a node tell, without a fault.
func story(t interface{ Fatal(...any) }, l Layout) []Event {
	var events []Event
	for e, err := range Events(l, machine) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

func disagreement(l *Ledger, m model) string {
	for _, target := range []units.Target{"unit:a", "unit:b", "unit:c"} {
		want, wantOK := m.record(target)
		got, ok := l.Record(target)
		if len(got.Earlier) == 0 {
			got.Earlier = nil
		}
		if ok != wantOK || !reflect.DeepEqual(got, want) {
			return fmt.Sprintf("%s: got\n%+v\nwant\n%+v", target, got, want)
		}
		if ok && !slices.ContainsFunc(l.Of(want.Resource), func(r Record) bool { return r.Target == target }) {
			return fmt.Sprintf("%s is not of %s", target, want.Resource)
		}
	}
	if n, _ := l.Ejecting(); n != m.ejecting() {
		return fmt.Sprintf("the ejection of %d is open, want %d", n, m.ejecting())
	}
	if s, _ := l.Unfinished(); s.Generation != m.unfinished() && m.unfinished() != 0 {
		return fmt.Sprintf("unfinished is %+v, want %d", s, m.unfinished())
	}
	begins := slices.DeleteFunc(slices.Clone(m), func(e Event) bool { return e.Kind != EventBegin })
	for i, s := range l.Switches() {
		e := begins[i]
		if s.Generation != e.Generation || s.From != e.From || s.Begin != e.Time || s.Manifest != e.Manifest || s.Rollback != e.Rollback || !reflect.DeepEqual(s.Transitions, e.Transitions) {
			return fmt.Sprintf("switch: got\n%+v\nwant\n%+v", s, e)
		}
	}
	return ""
}
