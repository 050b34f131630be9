package state

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"meshgen/units"
)

func newLedger(t *testing.T) (Layout, *Ledger) {
	t.Helper()
	l := NewLayout(t.TempDir(), "")
	ledger, err := CreateLedger(l, machine)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ledger.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, ledger
}

func appendAll(t *testing.T, l *Ledger, appends ...[]Event) {
	t.Helper()
	for _, events := range appends {
		if err := l.Append(events...); err != nil {
			t.Fatal(err)
		}
	}
}

func reopen(t *testing.T, l Layout) *Ledger {
	t.Helper()
	ledger, err := OpenLedger(l, machine)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	return ledger
}

// install puts a ledger with this text on a node.
func install(t *testing.T, text []byte) Layout {
	t.Helper()
	l := NewLayout(t.TempDir(), "")
	if err := os.MkdirAll(l.State, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(l.Ledger(), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestRecordTellsWhatBecameOfATarget(t *testing.T) {
	l, ledger := newLedger(t)
	appendAll(t, ledger, sampleEvents()[0][1:])
	appendAll(t, ledger, sampleEvents()[1:]...)
	at := sampleEvents()[0][0].Time
	for _, ledger := range []*Ledger{ledger, reopen(t, l)} {
		want := []Record{
			{
				Target: "container:server", Resource: gitea, Earlier: []units.Address{server}, State: Live,
				First: Moment{1, at}, Last: Moment{2, at}, Emissions: 2,
			},
			{
				Target: "unit:gitea.service", Resource: gitea, State: Live, Digest: "d2",
				First: Moment{2, at}, Last: Moment{2, at}, Emissions: 1,
			},
		}
		if got := ledger.Live(); !reflect.DeepEqual(got, want) {
			t.Errorf("live: got\n%+v\nwant\n%+v", got, want)
		}
		if got := ledger.Of(gitea); !reflect.DeepEqual(got, want) {
			t.Errorf("of: got\n%+v\nwant\n%+v", got, want)
		}
		old := Record{
			Target: "unit:server.service", Resource: server, State: Retired, Origin: "written",
			Digest: "d1", Definition: "[Unit]\nDescription=\"A & B\"\n",
			First: Moment{1, at}, Last: Moment{1, at}, Emissions: 1, Retired: Moment{2, at}, Why: "renamed",
		}
		if got, ok := ledger.Record(old.Target); !ok || !reflect.DeepEqual(got, old) {
			t.Errorf("record: got\n%+v\nwant\n%+v", got, old)
		}
		if got := ledger.Records(); !reflect.DeepEqual(got, append(want, old)) {
			t.Errorf("records: got\n%+v", got)
		}
		if _, ok := ledger.Record("unit:other.service"); ok {
			t.Error("knows a target that was never emitted")
		}
	}
}

func TestSwitchIsUnfinishedUntilItsEnd(t *testing.T) {
	l, ledger := newLedger(t)
	appendAll(t, ledger, []Event{{Kind: EventBegin, Generation: 1, Manifest: "ab"}})
	s, ok := reopen(t, l).Unfinished()
	if !ok || s.Generation != 1 || s.Manifest != "ab" || s.Begin.IsZero() {
		t.Errorf("unfinished is %+v, %v", s, ok)
	}
	appendAll(t, ledger, []Event{{Kind: EventEnd, Generation: 1, Result: Undone}})
	ledger = reopen(t, l)
	if s, ok := ledger.Unfinished(); ok {
		t.Errorf("unfinished is %+v", s)
	}
	if got := ledger.Switches(); len(got) != 1 || got[0].Result != Undone || got[0].End.Before(got[0].Begin) {
		t.Errorf("switches are %+v", got)
	}
}

func TestStartedUnitIsNoLongerDue(t *testing.T) {
	_, ledger := newLedger(t)
	const target = units.Target("unit:server.service")
	appendAll(t, ledger,
		[]Event{{Kind: EventEmit, Generation: 1, Target: target, Resource: server}, {Kind: EventDue, Target: target}})
	if r, _ := ledger.Record(target); !r.Due || r.Started != "" {
		t.Errorf("due: %+v", r)
	}
	appendAll(t, ledger, []Event{{Kind: EventStarted, Target: target, Digest: "d1", Invocation: "i1"}})
	if r, _ := ledger.Record(target); r.Due || r.Started != "d1" || r.Invocation != "i1" {
		t.Errorf("started: %+v", r)
	}
	appendAll(t, ledger, []Event{{Kind: EventHold, Target: target, Why: "policy"}})
	if r, _ := ledger.Record(target); r.State != Held || r.Why != "policy" || len(ledger.Live()) != 1 {
		t.Errorf("held: %+v", r)
	}
	appendAll(t, ledger, []Event{{Kind: EventRetire, Target: target, Generation: 3}})
	if r, _ := ledger.Record(target); r.State != Retired || r.Started != "" || r.Retired.Generation != 3 || len(ledger.Live()) != 0 {
		t.Errorf("retired: %+v", r)
	}
	appendAll(t, ledger, []Event{{Kind: EventEmit, Generation: 4, Target: target, Resource: server}})
	if r, _ := ledger.Record(target); r.State != Live || r.Retired != (Moment{}) || r.First.Generation != 1 || r.Last.Generation != 4 {
		t.Errorf("back: %+v", r)
	}
}

func TestEventsThatCannotFollowAreRefusedAndNotWritten(t *testing.T) {
	l, ledger := newLedger(t)
	appendAll(t, ledger,
		[]Event{{Kind: EventBegin, Generation: 2}, {Kind: EventEmit, Generation: 2, Target: "unit:a", Resource: server}},
		[]Event{{Kind: EventRetire, Target: "unit:a"}})
	before, err := os.ReadFile(l.Ledger())
	if err != nil {
		t.Fatal(err)
	}
	book := reopen(t, l).book
	for _, c := range []struct {
		events []Event
		want   string
	}{
		{[]Event{{Kind: "lost"}}, `event "lost" is none that this meshgen knows`},
		{[]Event{{Kind: EventBegin}}, "begin: a generation is needed"},
		{[]Event{{Kind: EventBegin, Generation: 3, Rollback: "later"}}, `begin: rollback "later" is none that this meshgen knows`},
		{[]Event{{Kind: EventBegin, Generation: 3}}, "begin of generation 3: the switch to generation 2 is unfinished"},
		{[]Event{{Kind: EventEnd, Generation: 3, Result: Done}}, "end of generation 3: no switch to it is under way"},
		{[]Event{{Kind: EventEnd, Generation: 2, Result: "ok"}}, `end: result "ok" is none that this meshgen knows`},
		{[]Event{{Kind: EventEnd, Generation: 2, Result: Done}, {Kind: EventEnd, Generation: 2, Result: Done}}, "end of generation 2: no switch to it is under way"},
		{[]Event{{Kind: EventEmit, Generation: 2, Target: "unit:b"}}, `emit of "unit:b": a target, a resource and a generation are needed`},
		{[]Event{{Kind: EventDue}}, "due: a target is needed"},
		{[]Event{{Kind: EventDue, Target: "unit:a"}}, "due of unit:a: it is retired"},
		{[]Event{{Kind: EventEmit, Generation: 2, Target: "unit:b", Resource: server}, {Kind: EventStarted, Target: "unit:c"}}, "started of unit:c: it was never emitted"},
		{[]Event{{Kind: EventForget, Target: "unit:a"}}, "forget of unit:a: it is retired"},
		{[]Event{{Kind: EventEmit, Generation: 2, Target: "unit:b", Resource: server}, {Kind: EventFind, Target: "unit:b"}}, "find of unit:b: it is live"},
		{[]Event{{Kind: EventFind, Target: "unit:b"}, {Kind: EventHold, Target: "unit:b"}}, "hold of unit:b: it is found"},
		{[]Event{{Kind: EventFind, Target: "unit:b"}, {Kind: EventDue, Target: "unit:b"}}, "due of unit:b: it is found"},
		{[]Event{{Kind: EventFind, Target: "unit:b"}, {Kind: EventForget, Target: "unit:b"}}, "forget of unit:b: it is found"},
		{[]Event{{Kind: EventStarted, Target: "unit:a", Container: "web"}}, `started of unit:a: container "web" is not an id in hexadecimal`},
		{[]Event{{Kind: EventRecord}}, "record: a record is needed"},
		{[]Event{{Kind: EventRecord, Record: &Record{Target: "unit:b", State: Retired}}}, "record of unit:b: only compaction writes one"},
		{[]Event{{Kind: EventBind, Machine: "other"}}, "bind: is bound to machine " + machine},
	} {
		if err := ledger.Append(c.events...); err == nil || err.Error() != l.Ledger()+": "+c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	appendAll(t, ledger, nil)
	if after, err := os.ReadFile(l.Ledger()); err != nil || !bytes.Equal(before, after) {
		t.Errorf("something was written: %v", err)
	}
	if !reflect.DeepEqual(ledger.book, book) {
		t.Error("the fold has changed")
	}
	appendAll(t, ledger, []Event{{Kind: EventEnd, Generation: 2, Result: Done}})
}

func TestLedgerIsNeverMadeTwice(t *testing.T) {
	l, ledger := newLedger(t)
	appendAll(t, ledger, sampleEvents()[3])
	if _, err := CreateLedger(l, machine); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want ErrExist", err)
	}
	if len(reopen(t, l).Live()) != 2 {
		t.Error("records are lost")
	}
}

func TestNoLedgerIsNotAnEmptyOne(t *testing.T) {
	l := NewLayout(t.TempDir(), "")
	if _, err := OpenLedger(l, machine); !errors.Is(err, ErrNoLedger) {
		t.Errorf("got %v, want ErrNoLedger", err)
	}
	if _, err := os.Lstat(l.State); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening made something: %v", err)
	}
}

func TestAnotherMachinesLedgerIsRefused(t *testing.T) {
	l, _ := newLedger(t)
	_, err := OpenLedger(l, "fedcba")
	if foreign, ok := errors.AsType[*ForeignError](err); !ok || *foreign != (ForeignError{l.Ledger(), machine, "fedcba"}) {
		t.Errorf("got %v", err)
	}
	if _, err := OpenLedger(l, ""); err != nil {
		t.Errorf("away from its machine: %v", err)
	}
}

func TestFirstAppendOnItsMachineBindsALedgerMadeAway(t *testing.T) {
	l := NewLayout(t.TempDir(), "")
	ledger, err := CreateLedger(l, "")
	if err != nil {
		t.Fatal(err)
	}
	appendAll(t, ledger, sampleEvents()[3])
	if _, err := OpenLedger(l, "fedcba"); err != nil {
		t.Fatalf("not bound, but: %v", err)
	}
	bound := reopen(t, l)
	appendAll(t, bound, []Event{{Kind: EventEnd, Generation: 2, Result: Done}})
	if bound.Machine() != machine || reopen(t, l).Machine() != machine {
		t.Errorf("bound to %q", bound.Machine())
	}
	if _, err := OpenLedger(l, "fedcba"); err == nil {
		t.Error("opens on another machine")
	}
}

func TestReadingLeavesATornTailAndAppendingCutsIt(t *testing.T) {
	lines := sample(t)
	text := bytes.Join(lines[:6], nil)
	more := []Event{{Kind: EventBegin, Generation: 7, Time: sampleEvents()[0][0].Time}}
	line, err := encode(more)
	if err != nil {
		t.Fatal(err)
	}
	for _, torn := range [][]byte{
		text,
		text[:len(text)-1],
		append(bytes.Clone(text), lines[6][:1]...),
		append(bytes.Clone(text), lines[6][:40]...),
		append(bytes.Clone(text), make([]byte, 4096)...),
		append(text[:len(text)-1:len(text)-1], make([]byte, 4096)...),
	} {
		l := install(t, torn)
		ledger := reopen(t, l)
		if got, err := os.ReadFile(l.Ledger()); err != nil || !bytes.Equal(got, torn) {
			t.Fatalf("reading changed the ledger: %v", err)
		}
		appendAll(t, ledger, more)
		if got, err := os.ReadFile(l.Ledger()); err != nil || !bytes.Equal(got, append(bytes.Clone(text), line...)) {
			t.Errorf("after the append: %q, %v", got, err)
		}
		if !reflect.DeepEqual(reopen(t, l).book, ledger.book) {
			t.Error("read back otherwise")
		}
	}
}

func TestTwoWritersDoNotMix(t *testing.T) {
	l, first := newLedger(t)
	second := reopen(t, l)
	appendAll(t, first, []Event{{Kind: EventBegin, Generation: 1}})
	err := second.Append(Event{Kind: EventBegin, Generation: 2})
	if err == nil || err.Error() != l.Ledger()+": append: changed since it was read; what was to be written is not recorded" {
		t.Errorf("got %v", err)
	}
	if s, ok := reopen(t, l).Unfinished(); !ok || s.Generation != 1 {
		t.Errorf("unfinished is %+v", s)
	}
}

// tiny returns the layout of a node whose state lies on a file system of its own.
func tiny(t *testing.T, options string) Layout {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tiny", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return NewLayout("/", filepath.Join(dir, "state"))
}

func TestFullDiskLeavesTheLedgerAsItWas(t *testing.T) {
	l := tiny(t, "size=64k")
	ledger, err := CreateLedger(l, machine)
	if err != nil {
		t.Fatal(err)
	}
	appendAll(t, ledger, sampleEvents()[0][1:])
	before := ledger.Records()
	big := Event{Kind: EventEmit, Generation: 1, Target: "unit:big.service", Resource: server, Definition: strings.Repeat("x", 128<<10)}
	if err := ledger.Append(big); !errors.Is(err, unix.ENOSPC) || !strings.HasPrefix(err.Error(), l.Ledger()+": append: no space left on device; what was to be written is not recorded\nhint: make room") {
		t.Fatalf("got %v, want ENOSPC with the path, once", err)
	}
	small := Event{Kind: EventEnd, Generation: 1, Result: Done}
	if err := ledger.Append(small); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "an earlier append failed") {
		t.Errorf("goes on after a failed append: %v", err)
	}
	if got := ledger.Records(); !reflect.DeepEqual(got, before) {
		t.Errorf("took in what it could not write: %+v", got)
	}
	ledger = reopen(t, l)
	if got := ledger.Records(); !reflect.DeepEqual(got, before) {
		t.Errorf("reopened as\n%+v\nwant\n%+v", got, before)
	}
	appendAll(t, ledger, []Event{small})
	if _, open := reopen(t, l).Unfinished(); open {
		t.Error("the end is lost")
	}
}

func TestLockNamesItsHolder(t *testing.T) {
	l := NewLayout(t.TempDir(), "")
	first, err := Acquire(l)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Acquire(l)
	if locked, ok := errors.AsType[*LockedError](err); !ok || locked.PID != os.Getpid() || locked.Path != l.Lock() {
		t.Errorf("got %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := Acquire(l)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
}

// Who asks for the holder of the lock keeps nobody from taking it.
func TestLockIsTakenPastThoseWhoAsk(t *testing.T) {
	l := NewLayout(t.TempDir(), "")
	stop := make(chan struct{})
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					Holder(l)
				}
			}
		})
	}
	for range 200 {
		k, err := Acquire(l)
		if err != nil {
			t.Error(err)
			break
		}
		if _, held := Holder(l); !held {
			t.Error("nobody is said to hold the lock that is held")
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	asking.Wait()
}

func TestLockThatCannotBeMadeIsNamedOnce(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	for state, want := range map[string]string{
		taken:                      taken + "/lock: open: is a directory; what was to be written is not recorded\nhint: move",
		filepath.Join(file, "sub"): file + "/sub: make directory: not a directory; what was to be written is not recorded\nhint: move",
	} {
		if _, err := Acquire(NewLayout("/", state)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestCallersCannotChangeTheLedger(t *testing.T) {
	_, ledger := newLedger(t)
	appendAll(t, ledger, sampleEvents()[0][1:3], []Event{{Kind: EventEmit, Generation: 2, Target: "unit:server.service", Resource: gitea}})
	r, _ := ledger.Record("unit:server.service")
	r.Earlier[0] = gitea
	ledger.Switches()[0].Result = Failed
	if r, _ := ledger.Record("unit:server.service"); !slices.Equal(r.Earlier, []units.Address{server}) {
		t.Errorf("earlier is %v", r.Earlier)
	}
	if s, ok := ledger.Unfinished(); !ok || s.Result != "" {
		t.Errorf("unfinished is %+v", s)
	}
}

func TestEventGetsTheTimeItLacks(t *testing.T) {
	l, ledger := newLedger(t)
	before := time.Now()
	appendAll(t, ledger, []Event{{Kind: EventBegin, Generation: 1}})
	s, _ := ledger.Unfinished()
	if s.Begin.Before(before.Round(0)) || time.Since(s.Begin) > time.Minute {
		t.Errorf("began at %v", s.Begin)
	}
	if read, _ := reopen(t, l).Unfinished(); read.Begin != s.Begin {
		t.Errorf("read back as %v, want %v", read.Begin, s.Begin)
	}
}
