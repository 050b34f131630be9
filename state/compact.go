package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"meshgen/internal/durable"
	"meshgen/internal/hint"
)

// Compaction writes a log anew that says what all before it came to: a line for
// each switch, then a line for each target. The log before stays beside it as
// it is, as ledger.1, ledger.2 and so on; together they still hold every event
// that ever was, each once, and [Events] tells them.
//
// The old log has its second name, on the disk, before the new one takes its
// place in one step. A power cut in between leaves the two names on one file,
// which goes on growing under both; the next compaction finds that name and
// gives no other.

const (
	// fullSwitches is how many of the last switches keep their transitions.
	fullSwitches = 20
	// bulky is the size in bytes below which no log is worth compacting, and
	// bulkyBy how many times larger it is than what it would come to.
	bulky   = 1 << 20
	bulkyBy = 4
)

// before says of a compacted log what it goes on from.
type before struct {
	Log   int       `json:"log"`   // ledger.Log
	Size  int64     `json:"size"`  // of that, as far as it counts
	Lines int       `json:"lines"` // that stand for it here, after the header
	Time  time.Time `json:"time"`  // of the compaction
}

// Bulky reports whether the log can be compacted now and it would pay: it is
// over a megabyte, and over four times what would be left of it.
func (l *Ledger) Bulky() bool {
	_, open := l.Unfinished()
	if _, ejecting := l.Ejecting(); open || ejecting || l.size <= bulky {
		return false
	}
	return l.size > bulkyBy*l.book.bulk()
}

// bulk estimates how many bytes a compacted log takes.
func (b *book) bulk() int64 {
	const record, change, begin, escapes = 500, 200, 300, 16 // of which one byte in so many is escaped
	size := begin * len(b.switches)
	for _, s := range b.switches[max(0, len(b.switches)-fullSwitches):] {
		size += change * len(s.Transitions)
	}
	for _, r := range b.records {
		size += record + len(r.Definition) + len(r.Definition)/escapes
	}
	return int64(size)
}

// Compact replaces the log by one that holds each target once, and keeps the
// old one beside it, byte for byte. At every instant the ledger is there and
// whole, and what it says is the same but for the transitions of all switches
// before the last twenty. It refuses while a switch is unfinished: the next one
// is to find all that was recorded of it.
//
// After an error the ledger may be the old one or the new; once the old one has
// been given its second name it takes no more appends until it is opened again.
func (l *Ledger) Compact() error {
	if l.err != nil {
		return fmt.Errorf("%s: an earlier append failed: %w", l.path, l.err)
	}
	if s, open := l.Unfinished(); open {
		return fmt.Errorf("%s: not compacted: the switch to generation %d is unfinished", l.path, s.Generation)
	}
	if generation, open := l.Ejecting(); open {
		return fmt.Errorf("%s: not compacted: the ejection of generation %d is unfinished", l.path, generation)
	}
	return l.compact()
}

func (l *Ledger) compact() error {
	// Opening cuts a torn tail off. What was read may not be on the disk yet,
	// where the process that wrote it was killed.
	if l.file == nil {
		if err := l.openFile(); err != nil {
			return l.unwritable("compact", err)
		}
	}
	if err := l.file.Sync(); err != nil {
		l.err = err
		return l.unwritable("compact", err)
	}
	number, err := l.nextLog()
	if err != nil {
		return l.unwritable("compact", err)
	}
	text, err := l.brief(number)
	if err != nil {
		return fmt.Errorf("%s: compact: %w", l.path, err)
	}
	after, err := readLedger(l.path, l.machine, text)
	if err != nil || !after.book.same(&l.book) {
		return hint.Add(errors.Join(fmt.Errorf("%s: not compacted: it would not read as what it is; it stays as it was", l.path), err), "this is a fault of meshgen's: please report it")
	}
	if err := durable.Link(l.path, logName(l.path, number)); err != nil {
		return l.unwritable("compact", err)
	}
	if err := durable.WriteFile(l.path, text, 0o600); err != nil {
		l.err = err // the open file may be the set-aside one by now
		return l.unwritable("compact", err)
	}
	_ = l.file.Close() // synced above
	*l = *after
	return nil
}

// logName returns the path of the log of that number beside the ledger.
func logName(path string, number int) string { return path + "." + strconv.Itoa(number) }

// nextLog returns the number under which the open log is to be set aside: the
// one it has already, where an earlier compaction got no further, or the first
// above all that are there.
func (l *Ledger) nextLog() (int, error) {
	self, err := l.file.Stat()
	if err != nil {
		return 0, err
	}
	numbers, err := setAsideLogs(l.path)
	if err != nil {
		return 0, err
	}
	next := l.after.Log + 1 // also where that log was taken away
	for _, n := range numbers {
		info, err := os.Lstat(logName(l.path, n))
		if err != nil {
			return 0, err
		}
		if os.SameFile(self, info) {
			return n, nil
		}
		next = max(next, n+1)
	}
	return next, nil
}

// setAsideLogs returns the numbers of the logs beside the ledger, ascending.
func setAsideLogs(path string) ([]int, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, e := range entries {
		suffix, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+".")
		if n, number := parseNumber(suffix); ok && number {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// brief returns the text of a log that goes on from the one with that number.
func (l *Ledger) brief(number int) ([]byte, error) {
	b := &l.book
	head := header{
		Meshgen: "ledger", Version: ledgerVersion, Machine: b.machine,
		After: &before{Log: number, Size: l.size, Lines: len(b.switches) + len(b.records), Time: time.Now().UTC()},
	}
	text, err := head.line()
	if err != nil {
		return nil, err
	}
	for i, s := range b.switches {
		begin := Event{
			Kind: EventBegin, Time: s.Begin, Generation: s.Generation, From: s.From, Manifest: s.Manifest,
			Transitions: s.Transitions, Changes: s.Changes, Rollback: s.Rollback,
		}
		if i < len(b.switches)-fullSwitches {
			begin.Transitions = nil
		}
		line, err := encode([]Event{begin, {Kind: EventEnd, Time: s.End, Generation: s.Generation, Result: s.Result}})
		if err != nil {
			return nil, err
		}
		text = append(text, line...)
	}
	// What is of one resource stands together, as the decoder likes it.
	records := l.Records()
	slices.SortStableFunc(records, func(a, b Record) int { return a.Resource.Compare(b.Resource) })
	for _, r := range records {
		line, err := encode([]Event{{Kind: EventRecord, Record: &r}})
		if err != nil {
			return nil, err
		}
		text = append(text, line...)
	}
	return text, nil
}

// restore takes in an event of the lines that stand for another log.
func (b *book) restore(e Event) error {
	switch e.Kind {
	case EventRecord:
		if err := e.check(); err != nil {
			return err
		}
		if b.records[e.Record.Target] != nil {
			return fmt.Errorf("record of %s: there is one already", e.Record.Target)
		}
		b.fold(e)
		return nil
	case EventBegin, EventEnd:
		return b.take(e)
	case EventEmit, EventDue, EventStarted, EventHold, EventFind, EventForget, EventAdopt, EventRelease, EventDiscard, EventRetire, EventEject, EventBind:
		return fmt.Errorf("%s: among the lines that stand for an earlier log", e.Kind)
	}
	return e.check()
}

// same reports whether two books say the same, but for transitions that one of
// them left out.
func (b *book) same(c *book) bool {
	if b.machine != c.machine || !reflect.DeepEqual(b.records, c.records) || len(b.switches) != len(c.switches) {
		return false
	}
	return slices.EqualFunc(b.switches, c.switches, func(s, t Switch) bool {
		s.Transitions, t.Transitions = nil, nil
		return reflect.DeepEqual(s, t)
	})
}
