package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"meshgen/units"
)

var (
	server = units.Address{Module: "forge", Kind: units.KindContainer, ID: "server"}
	gitea  = units.Address{Module: "forge", Kind: units.KindContainer, ID: "gitea"}
)

const machine = "0123456789abcdef0123456789abcdef"

// sample returns the lines of a small ledger: a first switch, one that renames,
// and the begin of a third.
func sample(t testing.TB) [][]byte {
	t.Helper()
	payload, err := json.Marshal(header{Meshgen: "ledger", Version: ledgerVersion})
	if err != nil {
		t.Fatal(err)
	}
	lines := [][]byte{seal(payload)}
	for _, events := range sampleEvents() {
		line, err := encode(events)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}

func sampleEvents() [][]Event {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	return [][]Event{
		{
			{Kind: EventBind, Time: at, Machine: machine},
			{Kind: EventBegin, Time: at, Generation: 1, Manifest: "ab", Transitions: []Transition{
				{Kind: Create, Resource: server, To: "unit:server.service", Position: units.Position{File: "f.cue", Line: 3, Column: 1}},
			}},
			{Kind: EventEmit, Time: at, Generation: 1, Target: "unit:server.service", Resource: server, Digest: "d1", Definition: "[Unit]\nDescription=\"A & B\"\n", Origin: "written"},
			{Kind: EventEmit, Time: at, Generation: 1, Target: "container:server", Resource: server},
			{Kind: EventDue, Time: at, Generation: 1, Target: "unit:server.service"},
		},
		{{Kind: EventStarted, Time: at, Generation: 1, Target: "unit:server.service", Digest: "d1", Invocation: "i1"}},
		{{Kind: EventEnd, Time: at, Generation: 1, Result: Done}},
		{
			{Kind: EventBegin, Time: at, Generation: 2, From: 1, Manifest: "cd"},
			{Kind: EventEmit, Time: at, Generation: 2, Target: "unit:gitea.service", Resource: gitea, Digest: "d2"},
			{Kind: EventEmit, Time: at, Generation: 2, Target: "container:server", Resource: gitea},
		},
		{
			{Kind: EventRetire, Time: at, Generation: 2, Target: "unit:server.service", Why: "renamed"},
			{Kind: EventEnd, Time: at, Generation: 2, Result: Failed},
		},
		{{Kind: EventBegin, Time: at, Generation: 3, From: 2, Rollback: Never}},
	}
}

// books returns what the first n lines of a ledger come to, for each n from the
// first that makes a ledger.
func books(t testing.TB, lines [][]byte) map[int]*book {
	t.Helper()
	var head header
	if err := json.Unmarshal(lines[0][checksumLength:], &head); err != nil {
		t.Fatal(err)
	}
	first := 1
	if head.After != nil {
		first += head.After.Lines
	}
	out := map[int]*book{}
	for n := first; n <= len(lines); n++ {
		l, err := readLedger("ledger", "", bytes.Join(lines[:n], nil))
		if err != nil {
			t.Fatal(err)
		}
		out[n] = &l.book
	}
	return out
}

// wantDamage fails unless err names a line.
func wantDamage(t *testing.T, err error, where string) {
	t.Helper()
	damage, ok := errors.AsType[*DamageError](err)
	if !ok || damage.Line < 1 {
		t.Fatalf("%s: got %v, want a DamageError", where, err)
	}
}

// whole returns how many lines lie in a prefix of n bytes; a line that lacks
// just its line feed does.
func whole(lines [][]byte, n int) int {
	count := 0
	for _, line := range lines {
		n -= len(line)
		if n < -1 {
			break
		}
		count++
	}
	return count
}

// logs are a small ledger; what a real machine recorded through four switches: a
// first one, one that renames and adds, one that is rolled back, one that
// removes; and the same compacted, with the lines of a fifth behind it.
func logs(t testing.TB) map[string][][]byte {
	t.Helper()
	machines := machineLines(t)
	ledger, err := readLedger("ledger", "", bytes.Join(machines, nil))
	if err != nil {
		t.Fatal(err)
	}
	brief, err := ledger.brief(1)
	if err != nil {
		t.Fatal(err)
	}
	compacted := splitLines(brief)
	for _, events := range [][]Event{
		{{Kind: EventBegin, Generation: 5, From: 4}, {Kind: EventDue, Target: "unit:gitea.service"}},
		{{Kind: EventEnd, Generation: 5, Result: Failed}},
	} {
		line, err := encode(stamp(events))
		if err != nil {
			t.Fatal(err)
		}
		compacted = append(compacted, line)
	}
	return map[string][][]byte{"sample": sample(t), "machine's": machines, "compacted": compacted}
}

// machineLines are the lines of testdata/switches.ledger.
func machineLines(t testing.TB) [][]byte {
	t.Helper()
	data, err := os.ReadFile("testdata/switches.ledger")
	if err != nil {
		t.Fatal(err)
	}
	return splitLines(data)
}

func splitLines(data []byte) [][]byte {
	lines := bytes.SplitAfter(data, []byte{'\n'})
	return lines[:len(lines)-1]
}

func TestEveryPrefixKeepsAllWholeLinesOrIsRefused(t *testing.T) {
	for name, lines := range logs(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := bytes.Join(lines, nil)
			want := books(t, lines)
			for n := range len(data) + 1 {
				zeros := []int{0, 1, 7, sector, 5000}
				if name != "sample" && n%50 != 0 {
					zeros = zeros[:1] // as a matter of time
				}
				for _, zeros := range zeros {
					l, err := readLedger("ledger", "", append(data[:n:n], make([]byte, zeros)...))
					where := fmt.Sprintf("%d bytes and %d NULs", n, zeros)
					count := whole(lines, n)
					if want[count] == nil { // also within what compaction wrote: that was whole at once
						wantDamage(t, err, where)
						continue
					}
					if err != nil {
						t.Fatalf("%s: %v", where, err)
					}
					if !reflect.DeepEqual(&l.book, want[count]) {
						t.Fatalf("%s: not the fold of %d lines", where, count)
					}
				}
			}
		})
	}
}

// A single damaged byte never loses a record: all bits, and in the sample the
// bytes that mean something to the reader.
func TestEveryDamagedByteIsRefused(t *testing.T) {
	for name, lines := range logs(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := bytes.Join(lines, nil)
			want := books(t, lines)[len(lines)]
			for i, good := range data {
				var candidates []byte
				for bit := range 8 {
					candidates = append(candidates, good^1<<bit)
				}
				if name == "sample" {
					candidates = append(candidates, 0, '\n', ' ', ']', '"', '0', 'f')
				}
				for _, bad := range candidates {
					if bad == good {
						continue
					}
					data[i] = bad
					l, err := readLedger("ledger", "", data)
					if i == len(data)-1 && bad == 0 {
						if err != nil || !reflect.DeepEqual(&l.book, want) {
							t.Fatalf("the last line lacks its line feed: %v", err)
						}
					} else {
						wantDamage(t, err, fmt.Sprintf("byte %d %q for %q", i, bad, good))
					}
				}
				data[i] = good
			}
		})
	}
}

func TestDamagedLineFeedBeforeATornLineIsRefused(t *testing.T) {
	lines := sample(t)
	data := bytes.Join(lines, nil)
	last := len(data) - len(lines[len(lines)-1])
	for n := last + 1; n < len(data); n++ {
		for bit := range 8 {
			torn := bytes.Clone(data[:n])
			torn[last-1] ^= 1 << bit
			_, err := readLedger("ledger", "", torn)
			wantDamage(t, err, fmt.Sprintf("bit %d and %d bytes", bit, n))
		}
	}
}

func TestHoleInTheLastLineIsATornAppend(t *testing.T) {
	payload := []byte(`[{"event":"due","time":"2026-05-04T03:02:01Z","target":"unit:server.service","why":"` + strings.Repeat("x", 3000) + `"}]`)
	lines := append(sample(t)[:3], seal(payload))
	want := books(t, lines[:3])[3]
	start := len(bytes.Join(lines[:3], nil))
	data := bytes.Join(lines, nil)
	next := start + sector - start%sector
	for _, hole := range [][2]int{
		{start, next},
		{start, next + sector},
		{next, next + sector},
		{next + sector, next + 4*sector},
	} {
		torn := bytes.Clone(data)
		clear(torn[hole[0]:hole[1]])
		l, err := readLedger("ledger", "", torn)
		if err != nil {
			t.Fatalf("hole at %v: %v", hole, err)
		}
		if !reflect.DeepEqual(&l.book, want) || l.size != int64(start) {
			t.Errorf("hole at %v: not the fold of the lines before", hole)
		}
	}
	for _, hole := range [][2]int{{start + 20, start + 40}, {next, next + 1}, {next - 8, next}, {start - 8, start + 8}} {
		damaged := bytes.Clone(data)
		clear(damaged[hole[0]:hole[1]])
		_, err := readLedger("ledger", "", damaged)
		wantDamage(t, err, fmt.Sprintf("NULs at %v", hole))
	}
}

func TestDamageSaysWhereWhatAndWhatToDo(t *testing.T) {
	lines := sample(t)
	flip := func(line, at int) []byte {
		damaged := bytes.Join(lines, nil)
		damaged[len(bytes.Join(lines[:line-1], nil))+at] ^= 1
		return damaged
	}
	with := func(payload string) []byte {
		return append(bytes.Join(lines[:4], nil), seal([]byte(payload))...)
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":           {nil, "ledger:1: not the first line of a ledger" + nothingDone + "\nhint: " + damagedHint},
		"another file":    {[]byte("[Unit]\n"), "ledger:1: not the first line of a ledger" + nothingDone + "\nhint: " + damagedHint},
		"another header":  {seal([]byte(`{"meshgen":"plan"}`)), "ledger:1: not the first line of a ledger" + nothingDone + "\nhint: " + damagedHint},
		"newer":           {seal([]byte(`{"meshgen":"ledger","version":2}`)), "ledger:1: version 2, and this meshgen reads 1" + nothingDone + "\nhint: " + newerHint},
		"flipped bit":     {flip(2, 100), "ledger:2: the checksum does not match" + nothingDone + "\nhint: " + damagedHint},
		"last line feed":  {flip(7, len(lines[6])-1), "ledger:7: the line feed at the end of a record is damaged" + nothingDone + "\nhint: " + damagedHint},
		"unknown event":   {with(`[{"event":"compact","time":"2026-05-04T03:02:01Z"}]`), "ledger:5: event \"compact\" is none that this meshgen knows" + nothingDone + "\nhint: " + newerHint},
		"never emitted":   {with(`[{"event":"due","target":"unit:x.service"}]`), "ledger:5: due of unit:x.service: it was never emitted" + nothingDone + "\nhint: " + damagedHint},
		"not an array":    {with(`{}`), "ledger:5: json: cannot unmarshal object into Go value of type []state.Event" + nothingDone + "\nhint: " + damagedHint},
		"no such address": {with(`[{"event":"emit","resource":"x"}]`), "ledger:5: \"x\" is not an address: want module/kind/id" + nothingDone + "\nhint: " + damagedHint},
	} {
		if _, err := readLedger("ledger", "", c.data); err == nil || err.Error() != c.want {
			t.Errorf("%s: got\n%v\nwant\n%s", name, err, c.want)
		}
	}
}

// FuzzReadLedger holds that no text makes the reader panic, and that what it
// accepts can be appended to and compacted. No fuzzer finds a checksum, so some
// texts get those that they lack.
func FuzzReadLedger(f *testing.F) {
	data := bytes.Join(sample(f), nil)
	f.Add(data, false)
	f.Add(data[:len(data)-1], false)
	f.Add(append(data[:len(data)-20:len(data)-20], make([]byte, 600)...), false)
	for _, lines := range logs(f) {
		f.Add(bytes.Join(lines, nil), false)
		var bare []byte
		for _, line := range lines {
			bare = append(bare, line[checksumLength:]...)
		}
		f.Add(bare, true)
	}
	more, err := encode([]Event{{Kind: EventBegin, Time: time.Unix(0, 0).UTC(), Generation: 9}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte, bare bool) {
		if bare {
			var text []byte
			for line := range bytes.Lines(data) {
				text = append(text, seal(bytes.TrimSuffix(line, []byte{'\n'}))...)
			}
			data = text
		}
		l, err := readLedger("ledger", "", data)
		if err != nil {
			wantDamage(t, err, "fuzz")
			return
		}
		if _, open := l.Unfinished(); open {
			return
		}
		brief, err := l.brief(l.after.Log + 1)
		if err != nil {
			return // a time that JSON cannot hold
		}
		if compacted, err := readLedger("ledger", "", brief); err != nil || !compacted.book.same(&l.book) {
			t.Errorf("compacted: %v", err)
		}
		text := data[:l.size:l.size]
		if l.open {
			text = append(text, '\n')
		}
		next, err := readLedger("ledger", "", append(text, more...))
		if err != nil || len(next.book.switches) != len(l.book.switches)+1 {
			t.Errorf("appended to: %v", err)
		}
	})
}

// FuzzDecode holds that what the decoder reads is what encoding/json reads.
func FuzzDecode(f *testing.F) {
	for _, lines := range logs(f) {
		for _, line := range lines[1:] {
			f.Add(string(line[checksumLength : len(line)-1]))
		}
	}
	f.Add(`[{"event":"record","record":{"due":true,"first":{"time":"2026-05-04T03:02:01Z"},"first":{"generation":2},"earlier":["a/container/b"]}}]`)
	f.Add(`[{"event":"record","record":{"due":false,"last":{"generation":0}},"record":{"why":"x"}},{"event":"record","record":null}]`)
	f.Add(`[{"event":"due","time":"2026-05-04T03:02:01+02:00","target":"a\"\\\/\t\n"}]`)
	f.Add(`[{"event":"due","why":"\u0007\u00E4\u2028\b\f\r\u007"}]`)
	f.Add(`[{"event":"due","why":"\ud83d\ude00 \uD800 \u+012 \u_012"}]`)
	f.Add(`[{"event":"due","time":"2026-05-04T03:02:01Z","from":01}]`)
	f.Add(`[{"event":"due","time":"2026-05-04T03:02:01Z","resource":"","from":0}]`)
	f.Add(`[{"event":"due","time":""}]`)
	f.Add(`[{"event":"begin","transitions":[{"kind":"x"}],"transitions":[{"to":"y"}]}]`)
	f.Add(`[{"event":"due","event":"emit","EVENT":"end","transitions":[{"kind":"x"}],"transitions":[{"to":"y"}]}]`)
	f.Fuzz(func(t *testing.T, payload string) {
		got, ok := decodeAll(payload)
		if !ok {
			return
		}
		var want []Event
		if err := json.Unmarshal([]byte(payload), &want); err != nil {
			t.Fatalf("json refuses it: %v", err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got\n%+v\nwant\n%+v", got, want)
		}
	})
}

// decodeAll returns what the decoder reads by itself.
func decodeAll(payload string) (events []Event, ok bool) {
	d := decoder{rest: payload}
	ok = d.events(func(e Event) bool { events = append(events, e); return true })
	return events, ok
}

func TestDecoderReadsAllThatIsWritten(t *testing.T) {
	for name, lines := range logs(t) {
		for _, line := range lines[1:] {
			payload := line[checksumLength : len(line)-1]
			got, ok := decodeAll(string(payload))
			var want []Event
			if err := json.Unmarshal(payload, &want); err != nil || !ok || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v, got\n%+v\nwant\n%+v", name, ok, got, want)
			}
		}
	}
	for i, line := range sample(t)[1:] {
		got, ok := decodeAll(string(line[checksumLength : len(line)-1]))
		if want := sampleEvents()[i]; !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("got\n%+v\nwant\n%+v", got, want)
		}
	}
}
