package state

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

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
	// EventFind says that something is on the machine which is not ours: what
	// it is in Why and, where it has one, its id or content in Digest. A target
	// that is live or held cannot be found.
	EventFind EventKind = "find"
	// EventForget lets a live or held target go at its owner's word, without
	// proof of its absence: what is there is the owner's from now on.
	EventForget EventKind = "forget"
	// EventAdopt says of a live target that what had the name was not ours, and
	// how it is given back: see [Adoption].
	EventAdopt EventKind = "adopt"
	// EventRelease says that what was adopted is given back. It is the owner's from
	// now on.
	EventRelease EventKind = "release"
	// EventDiscard says that what had the name before it was adopted is not there to
	// be given back any more. The target is what it was.
	EventDiscard EventKind = "discard"
	// EventRetire says that the target's absence was seen.
	EventRetire EventKind = "retire"
	// EventEnd closes the switch to Generation with a Result.
	EventEnd EventKind = "end"
	// EventBind ties a ledger that was made away from its machine to it.
	EventBind EventKind = "bind"
	// EventEject opens an ejection of Generation, where it has no Result: its
	// definitions are about to lie on the machine as plain files. With [Done] it
	// closes it. No switch comes in between.
	EventEject EventKind = "eject"
	// EventRecord is all that was known of a target when the log was
	// compacted. [Ledger.Compact] alone writes it.
	EventRecord EventKind = "record"
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

// Rollback says when a switch brings the old set back: "" where a unit of the new
// one fails.
type Rollback string

// Never has a set stay in force whatever fails of it.
const Never Rollback = "never"

// Event is one thing that the ledger records. Its kind says which fields count.
type Event struct {
	Kind       EventKind    `json:"event"`
	Time       time.Time    `json:"time,omitzero"`
	Generation int          `json:"generation,omitempty"`
	Target     units.Target `json:"target,omitempty"`

	// Of emit. Definition is all of what a unit is made of, since that is what
	// stops it later.
	Resource   units.Address `json:"resource,omitzero"`
	Digest     string        `json:"digest,omitempty"` // of started and find too
	Definition string        `json:"definition,omitempty"`
	Origin     string        `json:"origin,omitempty"`

	// Of started, and of due with [Last]: the invocation id that systemd gave the
	// run. Of started: podman's id of its container, in lower-case hexadecimal; ""
	// where it has none.
	Invocation string `json:"invocation,omitempty"`
	Container  string `json:"container,omitempty"`
	// Of adopt.
	Adoption *Adoption `json:"adoption,omitempty"`
	// Of release: the copies of what is not in its place again, since its owner has put
	// something else there. Paths are below the state directory.
	Left []string `json:"left,omitempty"`
	// Of find, hold, forget, release, discard, retire and due.
	Why string `json:"why,omitempty"`

	// Of begin.
	From        int          `json:"from,omitempty"`
	Manifest    string       `json:"manifest,omitempty"`
	Transitions []Transition `json:"transitions,omitempty"`
	Changes     int          `json:"changes,omitempty"`  // how many transitions compaction left out
	Rollback    Rollback     `json:"rollback,omitempty"` // what was asked of the switch
	// Of end, and of eject.
	Result Result `json:"result,omitempty"`
	// Of bind.
	Machine string `json:"machine,omitempty"`
	// Of record.
	Record *Record `json:"record,omitempty"`
}

// check reports what an event of its kind lacks.
func (e Event) check() error {
	switch e.Kind {
	case EventBegin, EventEnd:
		return e.checkSwitch()
	case EventEject:
		if e.Generation < 1 {
			return fmt.Errorf("eject: a generation is needed")
		}
		if e.Result != "" && e.Result != Done {
			return fmt.Errorf("eject: result %q %w", e.Result, errUnknown)
		}
	case EventEmit:
		if e.Target == "" || e.Resource == (units.Address{}) || e.Generation < 1 {
			return fmt.Errorf("emit of %q: a target, a resource and a generation are needed", e.Target)
		}
	case EventAdopt:
		if e.Adoption == nil {
			return fmt.Errorf("adopt of %q: what it was is needed", e.Target)
		}
		return e.checkTarget()
	case EventDue, EventStarted, EventHold, EventFind, EventForget, EventRelease, EventDiscard, EventRetire:
		return e.checkTarget()
	case EventBind:
		if e.Machine == "" {
			return fmt.Errorf("bind: a machine is needed")
		}
	case EventRecord:
		if e.Record == nil {
			return fmt.Errorf("record: a record is needed")
		}
		return e.Record.check()
	default:
		return fmt.Errorf("event %q %w", e.Kind, errUnknown)
	}
	return nil
}

// legible reports which text of the event JSON cannot hold. It would be read back
// as another.
func (e Event) legible() error {
	texts := []string{
		string(e.Target), e.Resource.String(), e.Digest, e.Definition, e.Origin, e.Invocation, e.Why, e.Manifest, e.Machine,
	}
	for _, t := range e.Transitions {
		texts = append(texts, t.Resource.String(), string(t.From), string(t.To), t.Policy, t.PolicySum, t.Reason, t.Said, t.Position.String())
		for key, value := range t.Facts {
			texts = append(texts, key, value)
		}
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%s of %q: %q is not UTF-8", e.Kind, e.Target, text)
		}
	}
	return nil
}

// checkTarget holds ids to their form as well: podman would take one that is no
// id for a name, which may be another container's.
func (e Event) checkTarget() error {
	if e.Target == "" {
		return fmt.Errorf("%s: a target is needed", e.Kind)
	}
	if strings.Trim(e.Container, "0123456789abcdef") != "" {
		return fmt.Errorf("%s of %s: container %q is not an id in hexadecimal", e.Kind, e.Target, e.Container)
	}
	return nil
}

func (e Event) checkSwitch() error {
	if e.Generation < 1 {
		return fmt.Errorf("%s: a generation is needed", e.Kind)
	}
	if e.Kind == EventBegin {
		if e.Rollback != "" && e.Rollback != Never {
			return fmt.Errorf("begin: rollback %q %w", e.Rollback, errUnknown)
		}
		return nil
	}
	switch e.Result {
	case Done, Undone, RolledBack, Failed:
		return nil
	}
	return fmt.Errorf("end: result %q %w", e.Result, errUnknown)
}
