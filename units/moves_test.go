package units

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func address(t testing.TB, s string) Address {
	t.Helper()
	a, err := ParseAddress(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestMovesAreFollowedToTheirEnd(t *testing.T) {
	at := func(s string) Address { return address(t, s) }
	moves := Moves{
		Resources: map[Address]Address{
			at("forge/container/a"):  at("forge/container/b"),
			at("forge/container/b"):  at("forge/container/c"),
			at("forge/container/x"):  at("tools/container/x"),
			at("smithy/container/c"): at("smithy/container/d"),
			at("loop/container/a"):   at("loop/container/b"),
			at("loop/container/b"):   at("loop/container/a"),
			at("fro/container/a"):    at("to/container/b"),
			at("fro/container/b"):    at("to/container/c"),
		},
		Modules: map[string]string{"mill": "forge", "forge": "smithy", "to": "fro"},
	}
	for from, want := range map[string]string{
		"forge/container/a":  "smithy/container/d",
		"mill/container/b":   "smithy/container/d",
		"mill/container/x":   "tools/container/x",
		"mill/volume/a":      "smithy/volume/a",
		"smithy/container/d": "smithy/container/d",
		"loop/container/a":   "loop/container/a",
		"to/container/a":     "fro/container/c",
		"other/container/a":  "other/container/a",
	} {
		if got := moves.Now(at(from)); got != at(want) {
			t.Errorf("%s is now %s, want %s", from, got, want)
		}
	}
}

func TestMovesComeBackFromJSON(t *testing.T) {
	moves := Moves{
		Resources: map[Address]Address{address(t, "forge/container/a"): address(t, "forge/container/b")},
		Modules:   map[string]string{"forge": "smithy"},
	}
	text, err := json.Marshal(moves)
	if err != nil {
		t.Fatal(err)
	}
	var again Moves
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(moves, again); diff != "" {
		t.Error(diff)
	}
}

// Whatever the entries, also those that a loader would refuse: Now ends, and
// what it answers moves no further.
func TestNowIsIdempotent(t *testing.T) {
	module := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	someAddress := rapid.Custom(func(t *rapid.T) Address {
		return Address{Module: module.Draw(t, "module"), Kind: KindContainer, ID: module.Draw(t, "id")}
	})
	rapid.Check(t, func(t *rapid.T) {
		moves := Moves{
			Resources: rapid.MapOfN(someAddress, someAddress, 0, 8).Draw(t, "resources"),
			Modules:   rapid.MapOfN(module, module, 0, 4).Draw(t, "modules"),
		}
		now := moves.Now(someAddress.Draw(t, "address"))
		if again := moves.Now(now); again != now {
			t.Fatalf("%s, then %s", now, again)
		}
	})
}
