package state

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

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
	emits := slices.DeleteFunc(slices.Clone(about), func(e Event) bool { return e.Kind != EventEmit })
	if len(emits) == 0 {
		return Record{}, false
	}
	first, emit := emits[0], emits[len(emits)-1]
	r := Record{
		Target: t, Resource: emit.Resource, State: Live, Digest: emit.Digest, Definition: emit.Definition, Origin: emit.Origin,
		First: Moment{first.Generation, first.Time}, Last: Moment{emit.Generation, emit.Time},
	}
	for i, e := range emits {
		later := slices.ContainsFunc(emits[i:], func(l Event) bool { return l.Resource == e.Resource && l.Time != e.Time })
		changes := i+1 < len(emits) && emits[i+1].Resource != e.Resource
		if changes && e.Resource != emit.Resource && !later {
			r.Earlier = append(r.Earlier, e.Resource)
		}
	}
	switch fate, _ := last(about, EventEmit, EventHold, EventRetire); fate.Kind {
	case EventHold:
		r.State, r.Why = Held, fate.Why
	case EventRetire:
		r.State, r.Why, r.Retired = Retired, fate.Why, Moment{fate.Generation, fate.Time}
	case EventBegin, EventEmit, EventDue, EventStarted, EventEnd, EventBind:
	}
	if started, _ := last(about, EventStarted, EventRetire); started.Kind == EventStarted {
		r.Started, r.Invocation = started.Digest, started.Invocation
	}
	due, _ := last(about, EventDue, EventStarted, EventHold, EventRetire)
	r.Due = due.Kind == EventDue
	return r, true
}

func (m model) unfinished() int {
	e, _ := last(m, EventBegin, EventEnd)
	if e.Kind == EventBegin {
		return e.Generation
	}
	return 0
}

// admits says whether an event can be next.
func (m model) admits(e Event) bool {
	r, known := m.record(e.Target)
	switch e.Kind {
	case EventBegin:
		return m.unfinished() == 0
	case EventEnd:
		return m.unfinished() == e.Generation
	case EventDue, EventStarted, EventHold:
		return known && r.State != Retired
	case EventRetire:
		return known
	case EventEmit, EventBind:
	}
	return true
}

func drawEvent(t *rapid.T, at time.Time) Event {
	word := func(label string) string { return rapid.StringN(0, 12, -1).Draw(t, label) }
	e := Event{
		Kind: rapid.SampledFrom([]EventKind{
			EventBegin, EventEmit, EventEmit, EventEmit, EventDue, EventStarted, EventHold, EventRetire, EventEnd,
		}).Draw(t, "kind"),
		Time: at, Generation: rapid.IntRange(1, 3).Draw(t, "generation"),
	}
	switch e.Kind {
	case EventBegin:
		e.From, e.Manifest = e.Generation-1, word("manifest")
		e.Transitions = rapid.SliceOfN(rapid.Just(Transition{Kind: Rename, Resource: server, From: "unit:a", To: "unit:b", Reason: "\x1b\u2028"}), 0, 2).Draw(t, "transitions")
		if len(e.Transitions) == 0 {
			e.Transitions = nil
		}
		return e
	case EventEnd:
		e.Result = rapid.SampledFrom([]Result{Done, Undone, RolledBack, Failed}).Draw(t, "result")
		return e
	case EventEmit:
		e.Resource = units.Address{Module: "forge", Kind: units.KindContainer, ID: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "resource")}
		e.Digest, e.Definition, e.Origin = word("digest"), word("definition"), word("origin")
	case EventStarted:
		e.Digest, e.Invocation = word("digest"), word("invocation")
	case EventHold, EventRetire:
		e.Why = word("why")
	case EventDue, EventBind:
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
	})
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
	if s, _ := l.Unfinished(); s.Generation != m.unfinished() && m.unfinished() != 0 {
		return fmt.Sprintf("unfinished is %+v, want %d", s, m.unfinished())
	}
	begins := slices.DeleteFunc(slices.Clone(m), func(e Event) bool { return e.Kind != EventBegin })
	for i, s := range l.Switches() {
		e := begins[i]
		if s.Generation != e.Generation || s.From != e.From || s.Begin != e.Time || s.Manifest != e.Manifest || !reflect.DeepEqual(s.Transitions, e.Transitions) {
			return fmt.Sprintf("switch: got\n%+v\nwant\n%+v", s, e)
		}
	}
	return ""
}
