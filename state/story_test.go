package state

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func kinds(events []Event) []EventKind {
	var kinds []EventKind
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func TestStoryIsToldAcrossCompactionsWithItsGenerations(t *testing.T) {
	l, ledger := history(t, 1)
	if err := ledger.Compact(); err != nil {
		t.Fatal(err)
	}
	appendAll(t, ledger,
		[]Event{{Kind: EventBegin, Generation: 2, From: 1}, {Kind: EventDue, Target: "unit:server.service"}},
		[]Event{{Kind: EventEnd, Generation: 2, Result: Undone}},
		[]Event{{Kind: EventForget, Target: "unit:server.service"}})
	if err := ledger.Compact(); err != nil {
		t.Fatal(err)
	}
	told := story(t, l)
	if got, want := kinds(told), []EventKind{EventBegin, EventEmit, EventStarted, EventEnd, EventBegin, EventDue, EventEnd, EventForget}; !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
	var generations []int
	for _, e := range told {
		generations = append(generations, e.Generation)
	}
	if want := []int{1, 1, 1, 1, 2, 2, 2, 0}; !slices.Equal(generations, want) {
		t.Errorf("of generations %v, want %v", generations, want)
	}
	for e, err := range Events(l, machine) {
		if err != nil || e.Kind != EventBegin {
			t.Errorf("begins with %+v, %v", e, err)
		}
		break // a caller may stop where it likes
	}
}

func TestStoryWithoutAnOlderLogHasWhatWasKeptOfIt(t *testing.T) {
	brief := []EventKind{EventBegin, EventEnd, EventRecord, EventForget}
	for name, c := range map[string]struct {
		spoil func(path string) error
		want  string // the start of the error; "" for none
	}{
		"missing": {os.Remove, ""},
		"damaged": {func(path string) error {
			data, err := os.ReadFile(path)
			data[len(data)/2] ^= 1
			return errors.Join(err, os.WriteFile(path, data, 0o600))
		}, ":2: the checksum does not match; "},
		"cut": {func(path string) error {
			data, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, data[:bytes.IndexByte(data, '\n')+1], 0o600))
		}, ":1: not the log that was set aside: "},
		"another": {func(path string) error {
			data, err := os.ReadFile(strings.TrimSuffix(path, ".1"))
			return errors.Join(err, os.WriteFile(path, data, 0o600))
		}, ":4: not the log that was set aside: "},
	} {
		l, ledger := history(t, 1)
		if err := ledger.Compact(); err != nil {
			t.Fatal(err)
		}
		appendAll(t, ledger, []Event{{Kind: EventForget, Target: "unit:server.service"}})
		if err := c.spoil(l.Ledger() + ".1"); err != nil {
			t.Fatal(err)
		}
		var told []Event
		var faults []error
		for e, err := range Events(l, machine) {
			if err != nil {
				faults = append(faults, err)
				continue
			}
			if e.Time.IsZero() {
				t.Errorf("%s: %s has no time", name, e.Kind)
			}
			if e.Kind == EventRecord && (e.Target != "unit:server.service" || e.Resource != server || e.Record.State != Live) {
				t.Errorf("%s: kept %+v", name, e)
			}
			told = append(told, e)
		}
		if got := kinds(told); !slices.Equal(got, brief) {
			t.Errorf("%s: told %v", name, got)
		}
		if err := errors.Join(faults...); (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), l.Ledger()+".1"+c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

func TestStoryOfALedgerThatCannotBeReadIsItsError(t *testing.T) {
	for _, err := range Events(NewLayout(t.TempDir(), ""), machine) {
		if !errors.Is(err, ErrNoLedger) {
			t.Errorf("got %v, want ErrNoLedger", err)
		}
	}
	l, _ := history(t, 1)
	for e, err := range Events(l, "fedcba") {
		if _, foreign := errors.AsType[*ForeignError](err); !foreign || !reflect.DeepEqual(e, Event{}) {
			t.Errorf("got %v", err)
		}
	}
}

func TestLedgerThatIsSetAsideIsKeptAndMadeAnew(t *testing.T) {
	l, ledger := history(t, 1)
	if err := ledger.Compact(); err != nil {
		t.Fatal(err)
	}
	text := read(t, l.Ledger())
	var aside []string
	for range 3 { // within one second
		path, err := SetAside(l)
		if err != nil {
			t.Fatal(err)
		}
		aside = append(aside, path)
		_, err = OpenLedger(l, machine)
		if !errors.Is(err, ErrLedgerLost) || errors.Is(err, ErrNoLedger) || !strings.Contains(err.Error(), "`meshgen rebuild`") {
			t.Errorf("set aside, and opens as: %v", err)
		}
		if _, err := CreateLedger(l, machine); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(read(t, aside[0]), text) || len(files(t, l)) != 5 {
		t.Errorf("set aside as %v, there are %v", aside, files(t, l))
	}
	for _, path := range aside {
		if !strings.HasPrefix(path, l.Ledger()+".damaged-2") {
			t.Errorf("set aside as %s", path)
		}
	}
	// The new ledger goes on from none of those before.
	anew := reopen(t, l)
	appendAll(t, anew, []Event{{Kind: EventFind, Target: "container:web", Why: "running"}})
	if err := anew.Compact(); err != nil {
		t.Fatal(err)
	}
	if got := kinds(story(t, l)); !slices.Equal(got, []EventKind{EventFind}) {
		t.Errorf("told %v", got)
	}
	if !slices.Contains(files(t, l), "ledger.2") {
		t.Errorf("there are %v", files(t, l))
	}
	if _, err := SetAside(NewLayout(t.TempDir(), "")); !errors.Is(err, ErrNoLedger) {
		t.Errorf("nothing to set aside: %v", err)
	}
}
