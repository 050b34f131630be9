package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"meshgen/internal/durable"
	"meshgen/internal/hint"
	"meshgen/units"
)

// ledgerVersion is the version of the ledger's format.
const ledgerVersion = 1

// header is the first line of a ledger. Machine is "" in a ledger that was made
// away from its machine.
type header struct {
	Meshgen string `json:"meshgen"`
	Version int    `json:"version"`
	Machine string `json:"machine"`
	// After is nil in a log that goes on from none.
	After *before `json:"after,omitempty"`
}

func (h header) line() ([]byte, error) {
	payload, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	return seal(payload), nil
}

// Ledger is the record of everything that was ever emitted on a node: a file
// of checksummed lines that is only ever appended to, and what they come to. It
// is for one goroutine; a process that appends holds the [Lock].
type Ledger struct {
	path    string
	machine string // to bind to; "" where there is none
	book    book
	after   before // the log that this one goes on from

	file *os.File // open for appending, from the first append on
	size int64    // of the file as it counts
	open bool     // the last line lacks its line feed
	read int64    // size of the file as it was read
	err  error    // of the append that failed
}

// CreateLedger makes an empty ledger bound to a machine, and opens it. machine
// is the content of machine-id(5), or "" where the ledger is made away from its
// machine: the first append there binds it. One that exists is never replaced.
func CreateLedger(l Layout, machine string) (*Ledger, error) {
	if _, err := os.Lstat(l.Ledger()); err == nil {
		return nil, fmt.Errorf("%s: %w", l.Ledger(), fs.ErrExist)
	}
	if err := os.MkdirAll(l.State, 0o700); err != nil {
		return nil, unwritable(l.State, fmt.Errorf("%s: make directory: %w", l.State, cause(err)))
	}
	// The way to the ledger has to last as long as the ledger.
	if err := durable.Sync(l.State); err != nil {
		return nil, unwritable(l.State, err)
	}
	line, err := header{Meshgen: "ledger", Version: ledgerVersion, Machine: machine}.line()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Ledger(), err)
	}
	if err := durable.WriteFile(l.Ledger(), line, 0o600); err != nil {
		return nil, unwritable(l.State, err)
	}
	return OpenLedger(l, machine)
}

// OpenLedger reads a node's ledger, and writes nothing. It returns
// [ErrNoLedger] where there is none, [ErrLedgerLost] where only logs are there
// that were set aside, a [DamageError] where the ledger is damaged or newer than
// this program, and a [ForeignError] where it is bound to another machine; ""
// for machine is bound to any. A torn last line is left out, and cut off by the
// first append.
func OpenLedger(l Layout, machine string) (*Ledger, error) {
	data, err := os.ReadFile(l.Ledger())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noLedger(l)
	}
	if err != nil {
		return nil, unreadable(l.Ledger(), err)
	}
	return readLedger(l.Ledger(), machine, data)
}

// noLedger says what it means that there is no ledger.
func noLedger(l Layout) error {
	remains, err := remains(l)
	if err != nil {
		return err
	}
	if len(remains) > 0 {
		return hint.Add(fmt.Errorf("%s: %w, and %s is there%s", l.Ledger(), ErrLedgerLost, remains[len(remains)-1], nothingDone), lostHint)
	}
	return hint.Add(fmt.Errorf("%s: %w", l.Ledger(), ErrNoLedger), noneHint)
}

func readLedger(path, machine string, data []byte) (*Ledger, error) {
	text := split(data)
	l := &Ledger{path: path, machine: machine, size: int64(text.size), open: text.open, read: int64(len(data))}
	if err := l.replay(text); err != nil {
		return nil, err
	}
	if bound := l.book.machine; bound != "" && machine != "" && bound != machine {
		return nil, &ForeignError{Path: path, Bound: bound, Machine: machine}
	}
	return l, nil
}

// replay folds all lines into the book, once all of them are known to be whole.
func (l *Ledger) replay(text lines) error {
	if len(text.payloads) == 0 {
		return l.damaged(1, "not the first line of a ledger", damagedHint)
	}
	if err := l.readHeader(text.payloads[0]); err != nil {
		return err
	}
	end := len(text.payloads) + 1
	switch missing := l.after.Lines + 2 - end; {
	case text.damage != "":
		return l.damaged(end, text.damage, damagedHint)
	case missing > 0: // what compaction wrote was there as a whole from the first
		return l.damaged(end, fmt.Sprintf("%d lines of the compacted ledger are missing", missing), damagedHint)
	}
	var d decoder
	for i, payload := range text.payloads[1:] {
		take := l.book.take
		if i < l.after.Lines {
			take = l.book.restore
		}
		for e, err := range d.decode(payload) {
			if err != nil {
				return l.damaged(i+2, err.Error(), damagedHint)
			}
			if err := take(e); err != nil {
				return l.damaged(i+2, err.Error(), hintFor(err))
			}
		}
	}
	return nil
}

func hintFor(err error) string {
	if errors.Is(err, errUnknown) {
		return newerHint
	}
	return damagedHint // a line that this one follows on is not there any more
}

func (l *Ledger) readHeader(payload []byte) error {
	var h header
	if err := json.Unmarshal(payload, &h); err != nil || h.Meshgen != "ledger" {
		return l.damaged(1, "not the first line of a ledger", damagedHint)
	}
	if h.Version != ledgerVersion {
		return l.damaged(1, fmt.Sprintf("version %d, and this meshgen reads %d", h.Version, ledgerVersion), newerHint)
	}
	if h.After != nil {
		if h.After.Log < 1 || h.After.Lines < 0 {
			return l.damaged(1, "not the first line of a ledger", damagedHint)
		}
		l.after = *h.After
	}
	l.book = book{machine: h.Machine, records: map[units.Target]*Record{}}
	return nil
}

func (l *Ledger) damaged(line int, what, hint string) error {
	return &DamageError{Path: l.path, Line: line, What: what, Hint: hint}
}

// Append records events: as one line, by one write, and on the disk when it
// returns. An event without a time gets the present one; without events there
// is no line. Events that cannot follow on what is recorded, or whose text is
// not UTF-8, are refused, and nothing is written.
//
// After any other error the ledger takes no more appends until it is opened
// again, and the events may or may not be found there.
func (l *Ledger) Append(events ...Event) error {
	if l.err != nil {
		return fmt.Errorf("%s: an earlier append failed: %w", l.path, cause(l.err))
	}
	if len(events) == 0 {
		return nil
	}
	if l.book.machine == "" && l.machine != "" {
		events = slices.Insert(slices.Clone(events), 0, Event{Kind: EventBind, Machine: l.machine})
	}
	events = stamp(events)
	for _, e := range events {
		if err := e.legible(); err != nil {
			return fmt.Errorf("%s: %w", l.path, err)
		}
	}
	if err := l.book.admit(events); err != nil {
		return fmt.Errorf("%s: %w", l.path, err)
	}
	line, err := encode(events)
	if err != nil {
		return fmt.Errorf("%s: %w", l.path, err)
	}
	if err := l.write(line); err != nil {
		l.err = err
		// What did not reach the disk is not to be read back from memory, and go on
		// from there: the kernel may never write it again.
		_ = l.file.Truncate(l.size) // the first error counts
		return l.unwritable("append", err)
	}
	for _, e := range events {
		l.book.fold(e)
	}
	return nil
}

// stamp returns the events as they will be read back.
func stamp(events []Event) []Event {
	now := time.Now()
	events = slices.Clone(events)
	for i := range events {
		if events[i].Time.IsZero() {
			events[i].Time = now
		}
		events[i].Time = events[i].Time.UTC().Round(0)
	}
	return events
}

func encode(events []Event) ([]byte, error) {
	var payload bytes.Buffer
	enc := json.NewEncoder(&payload)
	enc.SetEscapeHTML(false) // command lines are to stay legible
	if err := enc.Encode(events); err != nil {
		return nil, err
	}
	return seal(bytes.TrimSuffix(payload.Bytes(), []byte{'\n'})), nil
}

func (l *Ledger) unwritable(doing string, err error) error {
	return unwritable(filepath.Dir(l.path), fmt.Errorf("%s: %s: %w", l.path, doing, cause(err)))
}

// write puts one line on the disk.
func (l *Ledger) write(line []byte) error {
	if l.file == nil {
		if err := l.openFile(); err != nil {
			return err
		}
	}
	if l.open {
		line = append([]byte{'\n'}, line...)
	}
	if _, err := l.file.Write(line); err != nil {
		return err
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	l.size += int64(len(line))
	l.open = false
	return nil
}

// openFile opens the file for appending and cuts a torn tail off.
func (l *Ledger) openFile() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size() != l.read {
		err = errors.New("changed since it was read")
	}
	if err == nil && l.size < l.read {
		err = f.Truncate(l.size)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return err
	}
	l.file = f
	return nil
}

// Close gives the file up. Every append that returned is on the disk already.
func (l *Ledger) Close() error {
	if l.file == nil {
		return nil
	}
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("%s: %w", l.path, err)
	}
	l.file = nil
	return nil
}

// Machine returns the machine that the ledger is bound to; "" where it is bound
// to none yet.
func (l *Ledger) Machine() string { return l.book.machine }

// Record returns what is known of a target; ok is false where the ledger does
// not name it.
func (l *Ledger) Record(t units.Target) (r Record, ok bool) {
	known := l.book.records[t]
	if known == nil {
		return Record{}, false
	}
	return copies([]*Record{known})[0], true
}

// Records returns the records of all targets, in the order of the targets.
func (l *Ledger) Records() []Record {
	return copies(slices.Collect(maps.Values(l.book.records)))
}

// Live returns the records of the targets that are ours, live or held, in the
// order of the targets.
func (l *Ledger) Live() []Record { return l.in(Live, Held) }

// Found returns the records of the targets that are there and not ours, in the
// order of the targets.
func (l *Ledger) Found() []Record { return l.in(Found) }

// Adopted returns the records of what was adopted and was not given back, of names
// that are gone too, in the order of their targets.
func (l *Ledger) Adopted() []Record {
	var found []*Record
	for _, r := range l.book.records {
		if r.Adoption != nil {
			found = append(found, r)
		}
	}
	return copies(found)
}

func (l *Ledger) in(states ...TargetState) []Record {
	records := make([]*Record, 0, len(l.book.records))
	for _, r := range l.book.records {
		if slices.Contains(states, r.State) {
			records = append(records, r)
		}
	}
	return copies(records)
}

// Of returns the records whose resource is at the address now, retired ones
// too, in the order of the targets.
func (l *Ledger) Of(a units.Address) []Record { return copies(l.book.of(a)) }

// Switches returns all switches, the earliest first.
func (l *Ledger) Switches() []Switch { return slices.Clone(l.book.switches) }

// Unfinished returns the switch that was begun and has not ended.
func (l *Ledger) Unfinished() (s Switch, ok bool) { return l.book.unfinished() }

// Ejecting returns the generation of which the ejection was begun and has not
// ended.
func (l *Ledger) Ejecting() (generation int, ok bool) { return l.book.ejecting, l.book.ejecting != 0 }
