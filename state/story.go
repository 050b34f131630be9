package state

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
)

// Events tells all that was ever recorded on a node, oldest first and each
// event once, from the logs that compaction set aside too. An event that names
// no generation of its own has that of the switch it belongs to.
//
// Where an older log is missing, what a later one kept of it is told in its
// place: each switch in brief, and an event of kind [EventRecord] for each
// target, with its resource and the time of the compaction. Where one is damaged the same is told after its error; a caller that
// does not want to go on stops there. Any other error ends it: those of
// [OpenLedger].
func Events(l Layout, machine string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		logs, fault := chain(l, machine)
		if fault != nil && !yield(Event{}, fault) {
			return
		}
		open := 0 // the switch under way
		for i, log := range logs {
			payloads := log.payloads
			if i > 0 { // the log before tells what these lines stand for
				payloads = payloads[log.after.Lines:]
			}
			for e := range events(payloads) {
				switch {
				case e.Kind == EventBegin:
					open = e.Generation
				case e.Kind == EventRecord:
					e.Time, e.Target, e.Resource = log.after.Time, e.Record.Target, e.Record.Resource
				case e.Generation == 0:
					e.Generation = open
				}
				if e.Kind == EventEnd {
					open = 0
				}
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// log is one log that was read and found to be whole.
type log struct {
	payloads [][]byte // without the header
	after    before
	size     int64
}

// events are those of a log's lines, which were read before without a fault.
func events(payloads [][]byte) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		var d decoder
		for _, payload := range payloads {
			for e, err := range d.decode(payload) {
				if err != nil || !yield(e) {
					return
				}
			}
		}
	}
}

// chain reads the ledger and the logs that it goes on from, the oldest first.
// Where one is missing or cannot be read there are those after it.
func chain(l Layout, machine string) ([]log, error) {
	newest, err := readLog(l.Ledger(), machine)
	if errors.Is(err, fs.ErrNotExist) {
		err = noLedger(l)
	}
	if err != nil {
		return nil, err
	}
	logs := []log{newest}
	for at := newest.after; at.Log > 0; at = logs[0].after {
		path := logName(l.Ledger(), at.Log)
		older, err := readLog(path, machine)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return logs, nil
		case err != nil:
			return logs, err
		case older.size != at.Size || older.after.Log >= at.Log:
			what := fmt.Sprintf("not the log that was set aside: that had %d bytes, and this has %d", at.Size, older.size)
			return logs, &DamageError{Path: path, Line: len(older.payloads) + 1, What: what, Hint: damagedHint}
		}
		logs = slices.Insert(logs, 0, older)
	}
	return logs, nil
}

func readLog(path, machine string) (log, error) {
	data, err := os.ReadFile(path) //nolint:gosec // a path of the layout's
	if err != nil {
		return log{}, unreadable(path, err)
	}
	ledger, err := readLedger(path, machine, data)
	if err != nil {
		return log{}, err
	}
	return log{payloads: split(data).payloads[1:], after: ledger.after, size: ledger.size}, nil
}
