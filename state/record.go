package state

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"meshgen/units"
)

// TargetState says whose a target is now.
type TargetState string

// The states of a target that was ever emitted.
const (
	Live    TargetState = "live"    // ours, and may exist
	Held    TargetState = "held"    // once ours, left alone
	Retired TargetState = "retired" // its absence was seen
)

// Again is why a unit is due that runs by the definition it is to have, and has to
// be restarted all the same: a file that it reads changed.
const Again = "restart"

// Boot is why a unit is due that was down when the machine booted: whatever runs
// of it since was started by the definition that the ledger has.
const Boot = "boot"

// Moment is when something was recorded.
type Moment struct {
	Generation int
	Time       time.Time
}

// Record is what the ledger knows of one target, from all events so far.
type Record struct {
	Target   units.Target
	Resource units.Address
	Earlier  []units.Address // resources that held the target before, oldest first
	State    TargetState
	Origin   string

	// Digest and Definition are as last emitted.
	Digest     string
	Definition string
	First      Moment // of emission
	Last       Moment

	// Started is the digest that the unit was last started with, in the run
	// that systemd calls Invocation. Due says that it has to be started.
	Started    string
	Invocation string
	Due        bool
	DueWhy     string // [Again], [Boot] or ""

	Retired Moment
	Why     string // it is held or retired
}

// Switch is one move from a generation to another. It is unfinished while End
// is zero.
type Switch struct {
	Generation  int
	From        int // 0 where there was none
	Begin       time.Time
	End         time.Time
	Manifest    string
	Transitions []Transition
	Result      Result
}

// book is what the events of a ledger come to.
type book struct {
	machine    string
	records    map[units.Target]*Record
	byResource map[units.Address][]*Record // nil where it has to be made anew
	switches   []Switch
}

// admit reports why the events, in their order, cannot follow on what the book
// holds. It changes nothing, so that a refused append leaves nothing to undo.
func (b *book) admit(events []Event) error {
	states := map[units.Target]TargetState{}
	open, machine := 0, b.machine
	if s, ok := b.unfinished(); ok {
		open = s.Generation
	}
	for _, e := range events {
		if err := e.check(); err != nil {
			return err
		}
		switch e.Kind {
		case EventBegin, EventEnd:
			if err := follows(e, open); err != nil {
				return err
			}
			open = 0
			if e.Kind == EventBegin {
				open = e.Generation
			}
		case EventEmit:
			states[e.Target] = Live
		case EventDue, EventStarted, EventHold, EventRetire:
			if err := b.touches(e, states); err != nil {
				return err
			}
		case EventBind:
			if machine != "" {
				return fmt.Errorf("bind: is bound to machine %s", machine)
			}
			machine = e.Machine
		}
	}
	return nil
}

// follows reports why an event of a switch cannot come while the switch to
// generation open is under way; 0 is none.
func follows(e Event, open int) error {
	switch {
	case e.Kind == EventBegin && open != 0:
		return fmt.Errorf("begin of generation %d: the switch to generation %d is unfinished", e.Generation, open)
	case e.Kind == EventEnd && open != e.Generation:
		return fmt.Errorf("end of generation %d: no switch to it is under way", e.Generation)
	}
	return nil
}

// touches reports why an event cannot follow on what its target is; states has
// what earlier events of the same append make of targets, and is brought up to
// date.
func (b *book) touches(e Event, states map[units.Target]TargetState) error {
	now, ok := states[e.Target]
	if r := b.records[e.Target]; !ok && r != nil {
		now = r.State
	}
	switch {
	case now == "":
		return fmt.Errorf("%s of %s: it was never emitted", e.Kind, e.Target)
	case now == Retired && e.Kind != EventRetire:
		return fmt.Errorf("%s of %s: it is retired", e.Kind, e.Target)
	}
	switch e.Kind {
	case EventRetire:
		states[e.Target] = Retired
	case EventHold:
		states[e.Target] = Held
	case EventBegin, EventEmit, EventDue, EventStarted, EventEnd, EventBind:
	}
	return nil
}

// fold takes in an event that was admitted.
func (b *book) fold(e Event) {
	switch e.Kind {
	case EventBegin:
		b.switches = append(b.switches, Switch{
			Generation: e.Generation, From: e.From, Begin: e.Time, Manifest: e.Manifest, Transitions: e.Transitions,
		})
	case EventEnd:
		s := &b.switches[len(b.switches)-1]
		s.End, s.Result = e.Time, e.Result
	case EventBind:
		b.machine = e.Machine
	case EventEmit:
		b.emit(e)
	case EventDue:
		r := b.records[e.Target]
		r.Due, r.DueWhy = true, e.Why
	case EventStarted:
		r := b.records[e.Target]
		r.Started, r.Invocation, r.Due, r.DueWhy = e.Digest, e.Invocation, false, ""
	case EventHold:
		r := b.records[e.Target]
		r.State, r.Why, r.Due, r.DueWhy = Held, e.Why, false, ""
	case EventRetire:
		r := b.records[e.Target]
		r.State, r.Why, r.Retired = Retired, e.Why, Moment{e.Generation, e.Time}
		r.Started, r.Invocation, r.Due, r.DueWhy = "", "", false, ""
	}
}

func (b *book) emit(e Event) {
	now := Moment{e.Generation, e.Time}
	r := b.records[e.Target]
	if r == nil {
		r = &Record{Target: e.Target, Resource: e.Resource, First: now}
		b.records[e.Target] = r
		b.byResource = nil
	}
	if r.Resource != e.Resource {
		r.Earlier = append(slices.DeleteFunc(r.Earlier, func(a units.Address) bool {
			return a == r.Resource || a == e.Resource
		}), r.Resource)
		r.Resource = e.Resource
		b.byResource = nil
	}
	r.State, r.Last, r.Origin = Live, now, e.Origin
	r.Digest, r.Definition = e.Digest, e.Definition
	r.Retired, r.Why = Moment{}, ""
}

func (b *book) unfinished() (Switch, bool) {
	if len(b.switches) == 0 {
		return Switch{}, false
	}
	last := b.switches[len(b.switches)-1]
	return last, last.End.IsZero()
}

// of returns the records of a resource, by an index that is made on first use:
// the comparison asks for every resource in turn.
func (b *book) of(a units.Address) []*Record {
	if b.byResource == nil {
		b.byResource = make(map[units.Address][]*Record, len(b.records))
		for _, r := range b.records {
			b.byResource[r.Resource] = append(b.byResource[r.Resource], r)
		}
	}
	return b.byResource[a]
}

// copies returns the records themselves, in the order of their targets. It
// sorts before it copies: a record is large.
func copies(records []*Record) []Record {
	sorted := slices.Clone(records)
	slices.SortFunc(sorted, func(a, b *Record) int { return cmp.Compare(a.Target, b.Target) })
	out := make([]Record, len(sorted))
	for i, r := range sorted {
		out[i] = *r
		out[i].Earlier = slices.Clone(r.Earlier)
	}
	return out
}
