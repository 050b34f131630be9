package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"meshgen/internal/durable"
	"meshgen/units"
)

// history is a ledger of so many switches, each of which emits a unit anew, the
// last of them ended.
func history(t *testing.T, switches int) (Layout, *Ledger) {
	t.Helper()
	l, ledger := newLedger(t)
	for n := range switches {
		g := n + 1
		appendAll(t, ledger, []Event{
			{Kind: EventBegin, Generation: g, From: g - 1, Transitions: []Transition{{Kind: Update, Resource: server}}},
			{Kind: EventEmit, Generation: g, Target: "unit:server.service", Resource: server, Definition: strings.Repeat("Environment=A=b\n", 100)},
			{Kind: EventStarted, Target: "unit:server.service", Digest: "d", Invocation: "i", Container: "c0ffee"},
			{Kind: EventEnd, Generation: g, Result: Done},
		})
	}
	return l, ledger
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// files returns the names of what lies in the state directory.
func files(t *testing.T, l Layout) []string {
	t.Helper()
	entries, err := os.ReadDir(l.State)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestCompactionKeepsTheOldLogsByteForByte(t *testing.T) {
	l, ledger := history(t, 3)
	first := read(t, l.Ledger())
	for range 2 { // the second finds the new log, and sets that aside too
		records, switches := ledger.Records(), ledger.Switches()
		if err := ledger.Compact(); err != nil {
			t.Fatal(err)
		}
		for _, now := range []*Ledger{ledger, reopen(t, l)} {
			if !reflect.DeepEqual(now.Records(), records) || !reflect.DeepEqual(now.Switches(), switches) {
				t.Errorf("not what it was:\n%+v\n%+v", now.Records(), now.Switches())
			}
		}
	}
	if got := files(t, l); !slices.Equal(got, []string{"ledger", "ledger.1", "ledger.2"}) {
		t.Errorf("there are %v", got)
	}
	if !bytes.Equal(read(t, l.Ledger()+".1"), first) {
		t.Error("the first log has changed")
	}
	appendAll(t, ledger, []Event{{Kind: EventBegin, Generation: 4, From: 3}})
	if s, open := reopen(t, l).Unfinished(); !open || s.Generation != 4 {
		t.Errorf("appended, and read back as %+v", s)
	}
	if !bytes.Equal(read(t, l.Ledger()+".1"), first) {
		t.Error("an append went to a log that was set aside")
	}
}

func TestCompactionLeavesOutOldTransitionsAndTheirNumberStays(t *testing.T) {
	l, ledger := history(t, fullSwitches+2)
	for range 2 {
		if err := ledger.Compact(); err != nil {
			t.Fatal(err)
		}
		for i, s := range reopen(t, l).Switches() {
			if kept := len(s.Transitions) == 1; kept != (i >= 2) || s.Changes != 1 || s.Result != Done || s.End.IsZero() {
				t.Errorf("switch %d is %+v", i+1, s)
			}
		}
	}
}

// A switch is over when a ledger is compacted, and what was asked of it is still
// told; one that was asked nothing is written as it always was.
func TestCompactionKeepsWhatWasAskedOfASwitch(t *testing.T) {
	l, ledger := history(t, 1)
	appendAll(t, ledger, []Event{
		{Kind: EventBegin, Generation: 2, From: 1, Rollback: Never}, {Kind: EventEnd, Generation: 2, Result: Failed},
	})
	if err := ledger.Compact(); err != nil {
		t.Fatal(err)
	}
	s := reopen(t, l).Switches()
	if len(s) != 2 || s[0].Rollback != "" || s[1].Rollback != Never {
		t.Errorf("got %+v", s)
	}
	if n := strings.Count(string(read(t, l.Ledger())), `"rollback"`); n != 1 {
		t.Errorf("%d switches are written with what was asked of them", n)
	}
}

func TestUnfinishedSwitchKeepsALedgerFromBeingCompacted(t *testing.T) {
	l, ledger := history(t, 2)
	again := Event{Kind: EventEmit, Generation: 2, Target: "unit:server.service", Resource: server, Definition: strings.Repeat("Environment=A=b\n", 1000)}
	appendAll(t, ledger, slices.Repeat([]Event{again}, 70))
	if !ledger.Bulky() {
		t.Fatalf("%d bytes for one unit are not bulky", ledger.size)
	}
	appendAll(t, ledger, []Event{{Kind: EventBegin, Generation: 3, From: 2}})
	before := read(t, l.Ledger())
	if ledger.Bulky() {
		t.Error("asks to be compacted in the middle of a switch")
	}
	want := l.Ledger() + ": not compacted: the switch to generation 3 is unfinished"
	if err := ledger.Compact(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if !bytes.Equal(read(t, l.Ledger()), before) || len(files(t, l)) != 1 {
		t.Errorf("something was written: %v", files(t, l))
	}
	appendAll(t, ledger, []Event{{Kind: EventEnd, Generation: 3, Result: Undone}})
	if err := ledger.Compact(); err != nil {
		t.Fatal(err)
	}
	if ledger.Bulky() || reopen(t, l).Bulky() {
		t.Errorf("bulky at %d bytes after its compaction", ledger.size)
	}
}

func TestLargeLedgerOfManyTargetsIsNotBulky(t *testing.T) {
	_, ledger := newLedger(t)
	_, _, events := node(1000)
	appendAll(t, ledger, events)
	estimate := ledger.book.bulk()
	if ledger.size < bulky || ledger.Bulky() {
		t.Errorf("%d bytes: bulky is %v", ledger.size, ledger.Bulky())
	}
	if err := ledger.Compact(); err != nil {
		t.Fatal(err)
	}
	if estimate < ledger.size*2/3 || estimate > ledger.size*3/2 {
		t.Errorf("estimated %d bytes, and it is %d", estimate, ledger.size)
	}
}

// Each of these is what a power cut leaves at one point of a compaction.
func TestCompactionThatWasCutShortIsDoneByTheNext(t *testing.T) {
	for name, cut := range map[string]func(t *testing.T, l Layout){
		"before anything":    func(*testing.T, Layout) {},
		"the old log linked": link,
		"and the new one a temporary": func(t *testing.T, l Layout) {
			link(t, l)
			if err := os.WriteFile(filepath.Join(l.State, ".meshgen-123"), []byte("half"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, ledger := history(t, 2)
			told, records := story(t, l), ledger.Records()
			cut(t, l)
			after := reopen(t, l)
			if !reflect.DeepEqual(after.Records(), records) || !reflect.DeepEqual(story(t, l), told) {
				t.Error("after the cut it is another")
			}
			appendAll(t, after, []Event{{Kind: EventForget, Target: "unit:server.service", Why: "by hand"}})
			told, records = story(t, l), after.Records()
			old := read(t, l.Ledger())
			if err := after.Compact(); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(read(t, l.Ledger()+".1"), old) {
				t.Error("ledger.1 is not the old log")
			}
			if _, err := os.Lstat(l.Ledger() + ".2"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the log has a second copy: %v", err)
			}
			if !reflect.DeepEqual(reopen(t, l).Records(), records) || !reflect.DeepEqual(story(t, l), told) {
				t.Error("after the next compaction it is another")
			}
		})
	}
}

func link(t *testing.T, l Layout) {
	t.Helper()
	if err := durable.Link(l.Ledger(), l.Ledger()+".1"); err != nil {
		t.Fatal(err)
	}
}

func TestCompactionThatFindsNoRoomLeavesTheLedger(t *testing.T) {
	l := tiny(t, "size=64k")
	ledger, err := CreateLedger(l, machine)
	if err != nil {
		t.Fatal(err)
	}
	big := Event{Kind: EventEmit, Generation: 1, Target: "unit:big.service", Resource: server, Definition: strings.Repeat("x", 40<<10)}
	appendAll(t, ledger, []Event{big})
	old := read(t, l.Ledger())
	if err := ledger.Compact(); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "\nhint: make room below "+l.State) {
		t.Fatalf("got %v, want ENOSPC with a hint", err)
	}
	if err := ledger.Append(Event{Kind: EventBegin, Generation: 2}); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("goes on, with a file open that may be the old one: %v", err)
	}
	if !bytes.Equal(read(t, l.Ledger()), old) {
		t.Error("the ledger has changed")
	}
	if got := files(t, l); !slices.Equal(got, []string{"ledger", "ledger.1"}) {
		t.Errorf("left behind: %v", got)
	}
	appendAll(t, reopen(t, l), []Event{{Kind: EventBegin, Generation: 2}})
}

func TestCompactionCutsATornTailAndTakesWhatLacksItsLineFeed(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"torn":         func(b []byte) []byte { return append(b, "12345678 [{"...) },
		"no line feed": func(b []byte) []byte { return b[:len(b)-1] },
	} {
		_, ledger := history(t, 2)
		l := install(t, change(read(t, ledger.path)))
		if err := reopen(t, l).Compact(); err != nil {
			t.Fatal(err)
		}
		if got := reopen(t, l).Records(); !reflect.DeepEqual(got, ledger.Records()) {
			t.Errorf("%s: got\n%+v", name, got)
		}
		if got := len(story(t, l)); got != 8 {
			t.Errorf("%s: the story has %d events", name, got)
		}
	}
}

func TestLogsAreNumberedOnWhateverIsTakenAway(t *testing.T) {
	l, ledger := history(t, 1)
	for range 3 {
		if err := ledger.Compact(); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []string{".1", ".2", ".3"} {
		if err := os.Remove(l.Ledger() + n); err != nil {
			t.Fatal(err)
		}
	}
	if err := ledger.Compact(); err != nil {
		t.Fatal(err)
	}
	if got := files(t, l); !slices.Equal(got, []string{"ledger", "ledger.4"}) {
		t.Errorf("there are %v", got)
	}
}

func TestLinesOfACompactedLedgerAreHeldToTheirForm(t *testing.T) {
	record := func(r Record) []byte {
		line, err := encode([]Event{{Kind: EventRecord, Record: &r}})
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	live := Record{Target: "unit:a", Resource: server, State: Live, Emissions: 1}
	for want, lines := range map[string][][]byte{
		":2: 1 lines of the compacted ledger are missing":                                         {},
		":2: record of unit:a: state \"lost\" is none that this meshgen knows":                    {record(Record{Target: "unit:a", State: "lost"})},
		":2: record of unit:a: it is live and was never emitted":                                  {record(Record{Target: "unit:a", State: Live})},
		":2: emit: among the lines that stand for an earlier log":                                 {sealed(`[{"event":"emit","target":"unit:a"}]`)},
		":3: record of unit:a: only compaction writes one":                                        {record(live), record(live)},
		":2: event \"note\" is none that this meshgen knows":                                      {sealed(`[{"event":"note"}]`)},
		":2: record: a record is needed":                                                          {sealed(`[{"event":"record"}]`)},
		":2: record of unit:a: there is one already":                                              {sealed(`[{"event":"record","record":{"target":"unit:a","state":"found"}},{"event":"record","record":{"target":"unit:a","state":"found"}}]`)},
		":2: parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"": {sealed(`[{"event":"record","record":{"first":{"time":"x"}}}]`)},
	} {
		payload, err := json.Marshal(header{Meshgen: "ledger", Version: ledgerVersion, After: &before{Log: 1, Lines: 1}})
		if err != nil {
			t.Fatal(err)
		}
		text := bytes.Join(append([][]byte{seal(payload)}, lines...), nil)
		if _, err := readLedger("ledger", "", text); err == nil || !strings.HasPrefix(err.Error(), "ledger"+want+nothingDone) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func sealed(payload string) []byte { return seal([]byte(payload)) }

func TestFoundIsNotOursAndForgottenIsTheOwners(t *testing.T) {
	l, ledger := newLedger(t)
	const web, db = units.Target("container:web"), units.Target("container:db")
	appendAll(t, ledger, []Event{
		{Kind: EventBegin, Generation: 1},
		{Kind: EventFind, Target: web, Why: "container 3f2a of image web:1, running", Digest: "3f2a"},
		{Kind: EventEmit, Generation: 1, Target: db, Resource: server, Origin: "adopted", Digest: "d", Definition: "text"},
		{Kind: EventDue, Target: db},
		{Kind: EventEnd, Generation: 1, Result: Done},
	})
	found := ledger.Found()
	if len(found) != 1 || found[0].Target != web || found[0].State != Found || found[0].Origin != "found" ||
		found[0].Found.Generation != 1 || found[0].Digest != "3f2a" || found[0].First != (Moment{}) {
		t.Errorf("found: %+v", found)
	}
	if live := ledger.Live(); len(live) != 1 || live[0].Target != db {
		t.Errorf("live: %+v", live)
	}
	appendAll(t, ledger, []Event{{Kind: EventForget, Target: db, Why: "meshgen forget"}})
	r, _ := ledger.Record(db)
	if r.State != Found || r.Origin != "adopted" || r.Due || r.Definition != "text" || r.Found.Generation != 0 || r.Found.Time.IsZero() {
		t.Errorf("forgotten: %+v", r)
	}
	if len(ledger.Live()) != 0 || len(ledger.Found()) != 2 {
		t.Errorf("live are %+v, found %+v", ledger.Live(), ledger.Found())
	}
	// What was found may be adopted, and be seen gone.
	appendAll(t, ledger, []Event{
		{Kind: EventEmit, Generation: 2, Target: web, Resource: gitea, Origin: "adopted"},
		{Kind: EventRetire, Target: db, Why: "its absence was seen"},
	})
	for _, ledger := range []*Ledger{ledger, reopen(t, l)} {
		if r, _ := ledger.Record(web); r.State != Live || r.Resource != gitea || len(r.Earlier) != 0 || r.Why != "" || r.Found != (Moment{}) || r.Emissions != 1 {
			t.Errorf("adopted: %+v", r)
		}
		if got := ledger.Of(gitea); len(got) != 1 {
			t.Errorf("of the resource are %+v", got)
		}
		if len(ledger.Found()) != 0 {
			t.Errorf("found: %+v", ledger.Found())
		}
	}
}
