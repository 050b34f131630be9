package state

import (
	"encoding/json"
	"iter"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"

	"meshgen/units"
)

// decode reads the events of a line, one at a time, and an error at the end
// where the line is none. The events hold on to payload, which may not change
// any more.
//
// What encode writes is read by a decoder of its own in less than half the
// time, since every command reads the whole ledger. It reads nothing that
// encoding/json would read otherwise, and leaves to that what it does not know,
// faults included.
func (d *decoder) decode(payload []byte) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		// A ledger is megabytes: one more copy costs more than the reading.
		d.rest = unsafe.String(unsafe.SliceData(payload), len(payload)) //nolint:gosec // not written to
		known, stopped := 0, false
		ok := d.events(func(e Event) bool {
			known++
			stopped = !yield(e, nil)
			return !stopped
		})
		if ok || stopped {
			return
		}
		var events []Event
		if err := json.Unmarshal(payload, &events); err != nil {
			yield(Event{}, err)
			return
		}
		for _, e := range events[min(known, len(events)):] {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// decoder reads compact JSON of known shape. Each method takes one thing off
// rest, and reports whether it was there. One that reads line after line is
// quicker than one for each.
type decoder struct {
	rest    string
	scratch []byte

	// What was recorded together has one time, and what is of one resource
	// stands together.
	timeText    string
	time        time.Time
	addressText string
	address     units.Address
}

// events hands each event on as it is read, and reports whether there was
// nothing else.
func (d *decoder) events(next func(Event) bool) bool {
	if !utf8.ValidString(d.rest) || hasControl(d.rest) {
		return false
	}
	var e Event
	member := func(key string) bool { return d.event(&e, key) }
	ok := d.array(func() bool {
		e = Event{}
		return d.object(member) && next(e)
	})
	return ok && d.rest == ""
}

func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' {
			return true
		}
	}
	return false
}

func (d *decoder) event(e *Event, key string) (ok bool) {
	switch key {
	case "generation":
		return d.number(&e.Generation)
	case "from":
		return d.number(&e.From)
	case "changes":
		return d.number(&e.Changes)
	case "record":
		if e.Record != nil {
			return false // as below
		}
		e.Record = new(Record)
		return d.object(func(key string) bool { return d.record(e.Record, key) })
	case "transitions":
		// encoding/json would merge a second array into the first.
		return e.Transitions == nil && d.array(func() bool {
			e.Transitions = append(e.Transitions, Transition{})
			t := &e.Transitions[len(e.Transitions)-1]
			return d.object(func(key string) bool { return d.transition(t, key) })
		})
	}
	s, ok := d.text()
	if !ok {
		return false
	}
	switch key {
	case "event":
		e.Kind = EventKind(s)
	case "time":
		e.Time, ok = d.instant(s)
	case "target":
		e.Target = units.Target(s)
	case "resource":
		e.Resource, ok = d.resource(s)
	case "digest":
		e.Digest = s
	case "definition":
		e.Definition = s
	case "origin":
		e.Origin = s
	case "invocation":
		e.Invocation = s
	case "container":
		e.Container = s
	case "why":
		e.Why = s
	case "manifest":
		e.Manifest = s
	case "rollback":
		e.Rollback = Rollback(s)
	case "result":
		e.Result = Result(s)
	case "machine":
		e.Machine = s
	default:
		ok = false
	}
	return ok
}

func (d *decoder) transition(t *Transition, key string) bool {
	if key == "facts" {
		return d.facts(t)
	}
	s, ok := d.text()
	if !ok {
		return false
	}
	switch key {
	case "kind":
		t.Kind = TransitionKind(s)
	case "resource":
		t.Resource, ok = d.resource(s)
	case "from":
		t.From = units.Target(s)
	case "to":
		t.To = units.Target(s)
	case "change":
		t.Change = Change(s)
	case "decision":
		t.Decision = Decision(s)
	case "policy":
		t.Policy = s
	case "said":
		t.Said = s
	case "policySum":
		t.PolicySum = s
	case "reason":
		t.Reason = s
	case "position":
		ok = t.Position.UnmarshalText([]byte(s)) == nil
	default:
		ok = false
	}
	return ok
}

func (d *decoder) facts(t *Transition) bool {
	if t.Facts != nil {
		return false // as below: encoding/json would merge the two
	}
	t.Facts = map[string]string{}
	return d.object(func(key string) (ok bool) {
		t.Facts[key], ok = d.text()
		return ok
	})
}

func (d *decoder) record(r *Record, key string) (ok bool) {
	switch key {
	case "first":
		return d.moment(&r.First)
	case "last":
		return d.moment(&r.Last)
	case "found":
		return d.moment(&r.Found)
	case "retired":
		return d.moment(&r.Retired)
	case "emissions":
		return d.number(&r.Emissions)
	case "due":
		r.Due = strings.HasPrefix(d.rest, "true")
		d.rest = strings.TrimPrefix(d.rest, "true")
		return r.Due
	case "earlier":
		return r.Earlier == nil && d.array(func() bool {
			s, ok := d.text()
			if !ok {
				return false
			}
			a, ok := d.resource(s)
			r.Earlier = append(r.Earlier, a)
			return ok
		})
	}
	s, ok := d.text()
	if !ok {
		return false
	}
	switch key {
	case "target":
		r.Target = units.Target(s)
	case "resource":
		r.Resource, ok = d.resource(s)
	case "state":
		r.State = TargetState(s)
	case "origin":
		r.Origin = s
	case "digest":
		r.Digest = s
	case "definition":
		r.Definition = s
	case "started":
		r.Started = s
	case "invocation":
		r.Invocation = s
	case "container":
		r.Container = s
	case "dueWhy":
		r.DueWhy = s
	case "why":
		r.Why = s
	default:
		ok = false
	}
	return ok
}

func (d *decoder) moment(m *Moment) bool {
	return d.object(func(key string) bool {
		switch key {
		case "generation":
			return d.number(&m.Generation)
		case "time":
			s, ok := d.text()
			if ok {
				m.Time, ok = d.instant(s)
			}
			return ok
		}
		return false
	})
}

func (d *decoder) instant(s string) (time.Time, bool) {
	if s == "" || s != d.timeText {
		if d.time.UnmarshalText([]byte(s)) != nil {
			return time.Time{}, false
		}
		d.timeText = s
	}
	return d.time, true
}

func (d *decoder) resource(s string) (units.Address, bool) {
	if s == "" || s != d.addressText {
		a, err := units.ParseAddress(s)
		if err != nil {
			return units.Address{}, false
		}
		d.address, d.addressText = a, s
	}
	return d.address, true
}

// array takes an array of at least one element.
func (d *decoder) array(element func() bool) bool {
	if !d.take('[') {
		return false
	}
	for element() {
		if !d.take(',') {
			return d.take(']')
		}
	}
	return false
}

// object takes an object of at least one member; value takes the value of a
// key.
func (d *decoder) object(value func(key string) bool) bool {
	if !d.take('{') {
		return false
	}
	for {
		key, ok := d.text()
		if !ok || !d.take(':') || !value(key) {
			return false
		}
		if !d.take(',') {
			return d.take('}')
		}
	}
}

func (d *decoder) take(c byte) bool {
	if d.rest == "" || d.rest[0] != c {
		return false
	}
	d.rest = d.rest[1:]
	return true
}

// number takes a positive number.
func (d *decoder) number(n *int) bool {
	end := 0
	for end < len(d.rest) && '0' <= d.rest[end] && d.rest[end] <= '9' {
		end++
	}
	if end == 0 || d.rest[0] == '0' {
		return false
	}
	v, err := strconv.Atoi(d.rest[:end])
	*n, d.rest = v, d.rest[end:]
	return err == nil
}

func (d *decoder) text() (string, bool) {
	if !d.take('"') {
		return "", false
	}
	end := strings.IndexByte(d.rest, '"')
	if end < 0 {
		return "", false
	}
	s := d.rest[:end]
	if strings.IndexByte(s, '\\') >= 0 {
		return d.escaped()
	}
	d.rest = d.rest[end+1:]
	return s, true
}

// escaped takes the rest of a string that has escapes in it.
func (d *decoder) escaped() (string, bool) {
	d.scratch = d.scratch[:0]
	end := -1 // the next quote, where it is known: a definition has many escapes between two
	for {
		if end < 0 {
			end = strings.IndexByte(d.rest, '"')
		}
		if end < 0 {
			return "", false
		}
		i := strings.IndexByte(d.rest[:end], '\\')
		if i < 0 {
			d.scratch = append(d.scratch, d.rest[:end]...)
			d.rest = d.rest[end+1:]
			return string(d.scratch), true
		}
		d.scratch = append(d.scratch, d.rest[:i]...)
		r, size := unescape(d.rest[i+1:]) // a quote follows at the latest
		if size == 0 {
			return "", false
		}
		d.scratch = utf8.AppendRune(d.scratch, r)
		d.rest = d.rest[i+1+size:]
		end -= i + 1 + size
	}
}

// unescape returns the character that the text after a backslash begins with,
// and the size of its name; 0 where it is none, or half of a pair of surrogates.
func unescape(s string) (r rune, size int) {
	switch s[0] {
	case '"', '\\', '/':
		return rune(s[0]), 1
	case 'b':
		return '\b', 1
	case 'f':
		return '\f', 1
	case 'n':
		return '\n', 1
	case 'r':
		return '\r', 1
	case 't':
		return '\t', 1
	case 'u':
		code, err := strconv.ParseUint(s[1:min(len(s), 5)], 16, 16)
		if r := rune(code); err == nil && len(s) >= 5 && utf8.ValidRune(r) {
			return r, 5
		}
	}
	return 0, 0
}
