package state

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"meshgen/units"
)

// TargetState says whose a target is now.
type TargetState string

// The states of a target that the ledger names.
const (
	Live    TargetState = "live"    // ours, and may exist
	Held    TargetState = "held"    // once ours, left alone
	Retired TargetState = "retired" // its absence was seen
	Found   TargetState = "found"   // there, and not ours
)

// Again is why a unit is due that runs by the definition it is to have, and has to
// be restarted all the same: a file that it reads changed.
const Again = "restart"

// Idle is why a unit is due that was down before: its declaration changed. Where
// the change is undone it is not due any more.
const Idle = "idle"

// Last is why a unit is due that is given its job once the switch, which runs in
// it, has ended.
const Last = "last"

// Withdrawn is why a unit is not due after all.
const Withdrawn = "withdrawn"

// Boot is why a unit is due that was down when the machine booted: whatever runs
// of it since was started by the definition that the ledger has.
const Boot = "boot"

// Moment is when something was recorded. Generation is that of the switch it
// belongs to; 0 where it belongs to none.
type Moment struct {
	Generation int       `json:"generation,omitempty"`
	Time       time.Time `json:"time"`
}

// Record is what the ledger knows of one target, from all events so far.
type Record struct {
	Target   units.Target    `json:"target"`
	Resource units.Address   `json:"resource,omitzero"` // zero where it was never emitted
	Earlier  []units.Address `json:"earlier,omitempty"` // resources that held the target before, oldest first
	// Recorded is its resource in the ledger, where [Rehome] led on from it.
	Recorded units.Address `json:"-"`
	State    TargetState   `json:"state"`
	Origin   string        `json:"origin,omitempty"` // how it came to be ours: written, pulled, rebuilt, a copy; or found. Once forgotten, what it was

	// Digest and Definition are as last emitted, or Digest as last found. Of a directory
	// that is declared, Definition is its mode and owner, and Digest those that it had
	// while it was on the way to something: see [MetaOf].
	Digest     string `json:"digest,omitempty"`
	Definition string `json:"definition,omitempty"`
	First      Moment `json:"first,omitzero"` // of emission
	Last       Moment `json:"last,omitzero"`
	Emissions  int    `json:"emissions,omitempty"` // how many there were

	// Started is the digest that the unit was last started with, in the run
	// that systemd calls Invocation, with the container that podman calls
	// Container. Due says that it has to be started.
	Started    string `json:"started,omitempty"`
	Invocation string `json:"invocation,omitempty"`
	Container  string `json:"container,omitempty"`
	Due        bool   `json:"due,omitempty"`
	DueWhy     string `json:"dueWhy,omitempty"` // [Again], [Boot], [Idle], [Last] or ""

	// HeldUntil is the generation that took the target up again from being held; 0
	// where none did.
	HeldUntil int `json:"heldUntil,omitempty"`

	// Adoption is what had the name before; nil where it was ours from the start,
	// or was given back.
	Adoption *Adoption `json:"adoption,omitempty"`
	// Left are copies of what had the name before, oldest first, which nothing gives
	// back: its owner had put something else there. They may be gone by now.
	Left []string `json:"left,omitempty"`

	Found   Moment `json:"found,omitzero"`   // or forgotten; zero where its state is another
	Retired Moment `json:"retired,omitzero"` // zero where its state is another
	Why     string `json:"why,omitempty"`    // it is held, forgotten or retired; of what was found, what it is
}

// OnTheWay reports whether the target is a directory that was made on the way to
// something, and is none that is declared.
func (r Record) OnTheWay() bool {
	return r.Target.Kind() == units.TargetDir && r.Definition == ""
}

// check reports why this is not a record that a ledger can have.
func (r Record) check() error {
	if r.Target == "" {
		return errors.New("record: a target is needed")
	}
	switch r.State {
	case Live, Held:
		if r.Emissions < 1 || r.Resource == (units.Address{}) {
			return fmt.Errorf("record of %s: it is %s and was never emitted", r.Target, r.State)
		}
	case Found, Retired:
	default:
		return fmt.Errorf("record of %s: state %q %w", r.Target, r.State, errUnknown)
	}
	return nil
}

// Switch is one move from a generation to another. It is unfinished while End
// is zero.
type Switch struct {
	Generation  int
	From        int // 0 where there was none
	Begin       time.Time
	End         time.Time
	Manifest    string
	Transitions []Transition // nil where compaction left them out
	Changes     int          // how many transitions it had
	Rollback    Rollback     // what was asked of it
	Result      Result
}

// book is what the events of a ledger come to.
type book struct {
	machine    string
	records    map[units.Target]*Record
	byResource map[units.Address][]*Record // nil where it has to be made anew
	switches   []Switch
	ejecting   int // the generation of which the ejection is open; 0 where none is
}

// admit reports why the events, in their order, cannot follow on what the book
// holds. It changes nothing, so that a refused append leaves nothing to undo.
func (b *book) admit(events []Event) error {
	states := map[units.Target]standing{}
	open, machine, ejecting := 0, b.machine, b.ejecting
	if s, ok := b.unfinished(); ok {
		open = s.Generation
	}
	for _, e := range events {
		if err := e.check(); err != nil {
			return err
		}
		switch e.Kind {
		case EventEject:
			if err := mayEject(e, open, ejecting); err != nil {
				return err
			}
			ejecting = 0
			if e.Result == "" {
				ejecting = e.Generation
			}
		case EventBegin, EventEnd:
			if err := follows(e, open); err != nil {
				return err
			}
			if ejecting != 0 {
				return fmt.Errorf("%s of generation %d: the ejection of generation %d is unfinished", e.Kind, e.Generation, ejecting)
			}
			open = 0
			if e.Kind == EventBegin {
				open = e.Generation
			}
		case EventEmit:
			states[e.Target] = standing{Live, b.standing(e.Target, states).adopted}
		case EventDue, EventStarted, EventHold, EventFind, EventForget, EventAdopt, EventRelease, EventDiscard, EventRetire:
			if err := b.touches(e, states); err != nil {
				return err
			}
		case EventBind:
			if machine != "" {
				return fmt.Errorf("bind: is bound to machine %s", machine)
			}
			machine = e.Machine
		case EventRecord:
			return fmt.Errorf("record of %s: only compaction writes one", e.Record.Target)
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

// mayEject reports why an event of an ejection cannot come while the switch to
// generation open, or the ejection of generation ejecting, is under way; 0 is none.
func mayEject(e Event, open, ejecting int) error {
	switch {
	case open != 0:
		return fmt.Errorf("eject of generation %d: the switch to generation %d is unfinished", e.Generation, open)
	case e.Result == "" && ejecting != 0:
		return fmt.Errorf("eject of generation %d: that of generation %d is unfinished", e.Generation, ejecting)
	case e.Result != "" && ejecting != e.Generation:
		return fmt.Errorf("end of the ejection of generation %d: none is under way", e.Generation)
	}
	return nil
}

// standing is what an event may follow on.
type standing struct {
	state   TargetState // "" of what the ledger does not have
	adopted bool
}

// standing returns that of a target; states has what earlier events of the same
// append made of some.
func (b *book) standing(t units.Target, states map[units.Target]standing) standing {
	s, ok := states[t]
	if r := b.records[t]; !ok && r != nil {
		s = standing{r.State, r.Adoption != nil}
	}
	return s
}

// touches reports why an event cannot follow on what its target is, and brings
// states up to date.
func (b *book) touches(e Event, states map[units.Target]standing) error {
	now := b.standing(e.Target, states)
	ours := now.state == Live || now.state == Held
	switch {
	case e.Kind == EventFind && ours:
		return fmt.Errorf("find of %s: it is %s", e.Target, now.state)
	case e.Kind == EventFind || now.state == "": // what nobody knew may be found
	case (e.Kind == EventRelease || e.Kind == EventDiscard) && !now.adopted:
		return fmt.Errorf("%s of %s: it was not adopted", e.Kind, e.Target)
	case e.Kind == EventRetire || e.Kind == EventRelease || e.Kind == EventDiscard:
	case !ours || (e.Kind == EventAdopt && now.state != Live):
		return fmt.Errorf("%s of %s: it is %s", e.Kind, e.Target, now.state)
	}
	if now.state == "" && e.Kind != EventFind {
		return fmt.Errorf("%s of %s: it was never emitted", e.Kind, e.Target)
	}
	switch e.Kind {
	case EventHold:
		now.state = Held
	case EventFind, EventForget:
		now.state = Found
	case EventRelease:
		now = standing{state: Found}
	case EventRetire:
		now.state = Retired
	case EventAdopt:
		now.adopted = true
	case EventDiscard:
		now.adopted = false
	case EventBegin, EventEmit, EventDue, EventStarted, EventEnd, EventEject, EventBind, EventRecord:
	}
	states[e.Target] = now
	return nil
}

// take takes in an event, or says why it cannot follow.
func (b *book) take(e Event) error {
	if err := b.admit([]Event{e}); err != nil {
		return err
	}
	b.fold(e)
	return nil
}

// fold takes in an event that was admitted.
func (b *book) fold(e Event) {
	r := b.records[e.Target]
	switch e.Kind {
	case EventBegin:
		b.switches = append(b.switches, Switch{
			Generation: e.Generation, From: e.From, Begin: e.Time, Manifest: e.Manifest,
			Transitions: e.Transitions, Changes: max(e.Changes, len(e.Transitions)), Rollback: e.Rollback,
		})
	case EventEnd:
		s := &b.switches[len(b.switches)-1]
		s.End, s.Result = e.Time, e.Result
	case EventEject:
		b.ejecting = 0
		if e.Result == "" {
			b.ejecting = e.Generation
		}
	case EventBind:
		b.machine = e.Machine
	case EventEmit:
		b.emit(e)
	case EventDue:
		r.Due, r.DueWhy = e.Why != Withdrawn, e.Why
		if !r.Due {
			r.DueWhy = ""
		}
		if e.Invocation != "" {
			r.Invocation = e.Invocation
		}
	case EventStarted:
		r.Started, r.Invocation, r.Container, r.Due, r.DueWhy = e.Digest, e.Invocation, e.Container, false, ""
	case EventHold:
		r.State, r.Why, r.Due, r.DueWhy = Held, e.Why, false, ""
	case EventFind:
		b.find(e)
	case EventForget:
		r.stopped()
		r.State, r.Why, r.Found = Found, e.Why, b.moment(e)
	case EventAdopt:
		r.Adoption = e.Adoption
	case EventRelease:
		r.stopped()
		r.State, r.Origin, r.Why, r.Found, r.Retired, r.Adoption = Found, OriginReleased, e.Why, b.moment(e), Moment{}, nil
		r.Left = append(r.Left, e.Left...)
	case EventDiscard:
		r.Adoption = nil
	case EventRetire:
		r.stopped()
		r.State, r.Why, r.Found, r.Retired = Retired, e.Why, Moment{}, b.moment(e)
	case EventRecord:
		b.records[e.Record.Target] = e.Record
	}
}

// moment returns when an event was, by the switch under way where it names no
// generation of its own.
func (b *book) moment(e Event) Moment {
	m := Moment{e.Generation, e.Time}
	if s, open := b.unfinished(); open && m.Generation == 0 {
		m.Generation = s.Generation
	}
	return m
}

// stopped drops what was known of the run of a unit.
func (r *Record) stopped() {
	r.Started, r.Invocation, r.Container, r.Due, r.DueWhy = "", "", "", false, ""
}

func (b *book) emit(e Event) {
	now := b.moment(e)
	r := b.records[e.Target]
	if r == nil {
		r = &Record{Target: e.Target}
		b.records[e.Target] = r
	}
	if r.Emissions == 0 {
		r.Resource, r.First = e.Resource, now
		b.byResource = nil
	}
	if r.Resource != e.Resource {
		r.Earlier = append(slices.DeleteFunc(r.Earlier, func(a units.Address) bool {
			return a == r.Resource || a == e.Resource
		}), r.Resource)
		r.Resource = e.Resource
		b.byResource = nil
	}
	if r.State == Held {
		r.HeldUntil = e.Generation
	}
	r.State, r.Last, r.Origin = Live, now, e.Origin
	r.Digest, r.Definition = e.Digest, e.Definition
	r.Found, r.Retired, r.Why = Moment{}, Moment{}, ""
	r.Emissions++
}

// find notes what is there. A name that was ours and retired is found anew, and
// its definition is of no more use.
func (b *book) find(e Event) {
	r := b.records[e.Target]
	if r == nil {
		r = &Record{Target: e.Target}
		b.records[e.Target] = r
		b.byResource = nil
	}
	if r.State != Found {
		r.Origin = string(Found)
	}
	r.State, r.Digest, r.Definition = Found, e.Digest, ""
	r.Found, r.Retired, r.Why = b.moment(e), Moment{}, e.Why
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
