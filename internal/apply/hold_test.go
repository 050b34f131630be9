package apply

import (
	"strings"
	"testing"

	"meshgen/state"
	"meshgen/units"
)

func takeover(r units.Resource, t units.Target) state.Holding {
	return state.Holding{Resource: r.Address, Position: r.Position, Taken: []state.Transition{{
		Kind: state.Takeover, Resource: r.Address, To: t, Decision: state.Hold, Reason: "found",
	}}}
}

// addresses lists resources with their units, which tell what form they are in.
func addresses(resources []units.Resource) string {
	var words []string
	for _, r := range resources {
		words = append(words, r.Address.ID+"="+strings.TrimSuffix(units.Unit(r), ".service"))
	}
	return strings.Join(words, " ")
}

func placed(r units.Resource, line int) units.Resource {
	r.Position = units.Position{File: "m.cue", Line: line, Column: 1}
	return r
}

func TestHold(t *testing.T) {
	a, b, c := container("a", "new"), container("b", "b", "uses=container/a"), container("c", "c", "uses=container/b")
	transfer := state.Transition{Kind: state.Transfer, Resource: a.Address, From: "unit:old.service", To: "unit:old.service", Decision: state.Transferred}
	refused := transfer
	refused.Decision, refused.Reason = state.Refuse, "was m/container/x or m/container/y"
	for name, test := range map[string]struct {
		declared []units.Resource
		was      former
		want     string // resources left
		held     string // with what each waits for
		refuses  string
	}{
		"what is new is left out, with what needs it over several steps": {
			declared: set(a, b, c, container("d", "d")), want: "d=d", held: "a b:a c:b",
		},
		"what the node has stays as it was": {
			declared: set(a, container("d", "d")), was: former{generation: generation(1, container("a", "old"))}, want: "a=old d=d", held: "a",
		},
		"also what needs that": {
			declared: set(a, container("b", "other", "uses=container/a")),
			was:      former{generation: generation(1, container("a", "old"), b)}, want: "a=old b=b", held: "a b:a",
		},
		"what would pass from another address stays there": {
			declared: set(a), was: former{generation: generation(1, container("x", "old")), transitions: []state.Transition{transfer}},
			want: "x=old", held: "a",
		},
		"not where that is not clear": {
			declared: set(a), was: former{generation: generation(1, container("x", "old")), transitions: []state.Transition{refused}},
			held: "a", refuses: "which it was is not clear: it was m/container/x or m/container/y",
		},
		"a name of it is wanted for another": {
			declared: set(placed(a, 3), placed(container("d", "old"), 7)), was: former{generation: generation(1, container("a", "old"))},
			want: "a=old d=old", held: "a", refuses: "m.cue:3:1: m/container/a: is to be held as it is, and m/container/d at m.cue:7:1 is to have unit:old.service",
		},
		"what it needs goes": {
			declared: set(a), was: former{generation: generation(1, network("n", "n"), container("a", "old", "uses=network/n"))},
			want: "a=old", held: "a", refuses: "needs m/network/n as that was",
		},
		"its volume is another's": {
			declared: set(a, volume("v", "v"), placed(container("d", "d", "uses=volume/v"), 9)),
			was:      former{generation: generation(1, volume("v", "v"), container("a", "old", "uses=volume/v"))},
			want:     "a=old v=v-volume d=d", held: "a", refuses: "is to be held as it is, on m/volume/v, which m/container/d at m.cue:9:1 is to use",
		},
		"the set that it was of is lost": {
			declared: set(a), was: former{lost: true, records: []state.Record{{Target: "unit:old.service", Resource: a.Address, State: state.Live}}},
			held: "a", refuses: "the set that it was of is lost",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Resources: test.declared}
			taken := []state.Holding{takeover(test.declared[0], "container:new")}
			reduced, _, faults := in.hold(taken, test.was)
			if got := addresses(reduced.Resources); got != test.want {
				t.Errorf("left %q, want %q", got, test.want)
			}
			var held []string
			for _, h := range reduced.Held {
				word := h.Resource.ID
				if len(h.Taken) == 0 {
					word += ":" + h.Needs.ID
				}
				held = append(held, word)
			}
			if got := strings.Join(held, " "); got != test.held {
				t.Errorf("held %q, want %q", got, test.held)
			}
			if (test.refuses == "") != (len(faults) == 0) || (test.refuses != "" && !strings.Contains(faults.Error(), test.refuses)) {
				t.Errorf("refused: %v, want %q", faults, test.refuses)
			}
		})
	}
}
