package state

import (
	"fmt"
	"time"

	"meshgen/units"
)

// EventKind says what an [Event] records.
type EventKind string

// The kinds of event. A reader that does not know one refuses the ledger: what
// it cannot fold, it would forget.
const (
	// EventBegin opens a switch From one generation to Generation.
	EventBegin EventKind = "begin"
	// EventEmit makes a target of a resource live: it may exist from now on.
	EventEmit EventKind = "emit"
	// EventDue says that a unit has to be started: we took it down, or are
	// about to.
	EventDue EventKind = "due"
	// EventStarted says that the job which started a unit is done, with the
	// run digest in Digest. The unit is no longer due.
	EventStarted EventKind = "started"
	// EventHold leaves a target where it is, to be neither written nor
	// removed any more.
	EventHold EventKind = "hold"
	// EventRetire says that the target's absence was seen.
	EventRetire EventKind = "retire"
	// EventEnd closes the switch to Generation with a Result.
	EventEnd EventKind = "end"
	// EventBind ties a ledger that was made away from its machine to it.
	EventBind EventKind = "bind"
)

// Result is how a switch ended.
type Result string

// The results.
const (
	Done       Result = "done"
	Undone     Result = "undone"      // before the new generation was in force
	RolledBack Result = "rolled back" // after it had been
	Failed     Result = "failed"      // in force, with faults
)

// Event is one thing that the ledger records. Its kind says which fields count.
type Event struct {
	Kind       EventKind    `json:"event"`
	Time       time.Time    `json:"time"`
	Generation int          `json:"generation,omitempty"`
	Target     units.Target `json:"target,omitempty"`

	// Of emit. Definition is all of what a unit is made of, since that is what
	// stops it later.
	Resource   units.Address `json:"resource,omitzero"`
	Digest     string        `json:"digest,omitempty"` // of started too
	Definition string        `json:"definition,omitempty"`
	Origin     string        `json:"origin,omitempty"`

	// Of started: the invocation id that systemd gave the run.
	Invocation string `json:"invocation,omitempty"`
	// Of hold, retire and due.
	Why string `json:"why,omitempty"`

	// Of begin.
	From        int          `json:"from,omitempty"`
	Manifest    string       `json:"manifest,omitempty"`
	Transitions []Transition `json:"transitions,omitempty"`
	// Of end.
	Result Result `json:"result,omitempty"`
	// Of bind.
	Machine string `json:"machine,omitempty"`
}

// check reports what an event of its kind lacks.
func (e Event) check() error {
	switch e.Kind {
	case EventBegin, EventEnd:
		return e.checkSwitch()
	case EventEmit:
		if e.Target == "" || e.Resource == (units.Address{}) || e.Generation < 1 {
			return fmt.Errorf("emit of %q: a target, a resource and a generation are needed", e.Target)
		}
	case EventDue, EventStarted, EventHold, EventRetire:
		if e.Target == "" {
			return fmt.Errorf("%s: a target is needed", e.Kind)
		}
	case EventBind:
		if e.Machine == "" {
			return fmt.Errorf("bind: a machine is needed")
		}
	default:
		return fmt.Errorf("event %q is none that this meshgen knows", e.Kind)
	}
	return nil
}

func (e Event) checkSwitch() error {
	if e.Generation < 1 {
		return fmt.Errorf("%s: a generation is needed", e.Kind)
	}
	if e.Kind == EventBegin {
		return nil
	}
	switch e.Result {
	case Done, Undone, RolledBack, Failed:
		return nil
	}
	return fmt.Errorf("end: result %q is none that this meshgen knows", e.Result)
}
