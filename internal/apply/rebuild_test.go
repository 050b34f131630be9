package apply

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"testing"

	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

const (
	thisMachine  = "11111111111111111111111111111111"
	otherMachine = "22222222222222222222222222222222"
)

// A ledger is made anew only where the one that is there is of no use. One that is
// in order would lose what it knows, and one of a newer meshgen too.
func TestOnlyALedgerThatIsOfNoUseIsRebuilt(t *testing.T) {
	header := func(version int) string {
		text := fmt.Sprintf(`{"meshgen":"ledger","version":%d,"machine":%q}`, version, thisMachine)
		return fmt.Sprintf("%08x %s\n", crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)), text)
	}
	for _, c := range []struct {
		name, machine string
		write         func(state.Layout) error
		why, err      string
	}{
		{"there is none", thisMachine, func(state.Layout) error { return nil }, "missing", ""},
		{"an older log is left", thisMachine, put(".1", ""), "missing", ""},
		{"nothing is in it", thisMachine, put("", header(1)), "holds nothing", ""},
		{"a line is damaged", thisMachine, put("", header(1)+"00000000 []\n"), ":2: the checksum does not match", ""},
		{"it is no ledger", thisMachine, put("", "a shopping list\n"), ":1: ", ""},
		{"it is another machine's", otherMachine, fill, "of another machine", ""},
		{"it is in order", thisMachine, fill, "", "in order, and a new one would know less"},
		{"it is of a newer meshgen", thisMachine, put("", header(99)), "", "use that one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := state.NewLayout(t.TempDir(), "")
			if err := errors.Join(os.MkdirAll(l.State, 0o700), c.write(l)); err != nil {
				t.Fatal(err)
			}
			why, err := lost(l, c.machine)
			if !says(why, c.why) || !says(err, c.err) {
				t.Errorf("got %q and %q, want %q and %q", why, err, c.why, c.err)
			}
		})
	}
}

// says reports whether an error says something; "" is none.
func says(err error, text string) bool {
	return (err == nil) == (text == "") && (err == nil || strings.Contains(err.Error(), text))
}

// put writes a text beside the ledger, or in its place.
func put(suffix, text string) func(state.Layout) error {
	return func(l state.Layout) error { return os.WriteFile(l.Ledger()+suffix, []byte(text), 0o600) }
}

// fill makes a ledger that knows something.
func fill(l state.Layout) error {
	ledger, err := state.CreateLedger(l, thisMachine)
	if err != nil {
		return err
	}
	target := units.Of(units.TargetVolume, "stash")
	return errors.Join(ledger.Append(state.Event{Kind: state.EventFind, Target: target, Why: "a volume"}), ledger.Close())
}

// What is made to stop a unit bears its mark, and ends the container by its id.
func TestStoppingDefinitionBearsTheMark(t *testing.T) {
	a := units.Address{Module: "m", Kind: units.KindContainer, ID: "x"}
	text := stopping(a, host.Object{ID: "0123abcd"})
	if got, ok := units.Mark(text); !ok || got != a {
		t.Errorf("the mark is %v, %t", got, ok)
	}
	if !strings.Contains(text, "\nExecStop=podman rm --volumes --force --ignore 0123abcd\n") {
		t.Errorf("no container is ended:\n%s", text)
	}
	if _, ok := units.Mark("[Service]\n" + units.MarkKey + "=m/container/x\n"); ok {
		t.Error("a key of another section counts as a mark")
	}
}
