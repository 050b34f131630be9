package apply

import (
	"strings"
	"testing"

	"meshgen/policy"
	"meshgen/state"
	"meshgen/units"
)

// builtinAsker asks the built-in policy, which is all that most resources have.
func builtinAsker(t *testing.T) asker {
	t.Helper()
	r := policy.NewRuntime("", policy.DefaultLimits())
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return asker{runtime: r}
}

func TestStateHasTheNameOfTheBuiltinPolicy(t *testing.T) {
	if state.BuiltinPolicy != policy.BuiltinName {
		t.Errorf("%q is not %q", state.BuiltinPolicy, policy.BuiltinName)
	}
}

// Each decision that a policy may answer is one that apply knows.
func TestStateHasTheWordsOfPolicies(t *testing.T) {
	known := map[string]bool{}
	for _, d := range []state.Decision{
		state.Refuse, state.Hold, state.Adopt, state.Follow, state.Migrate, state.Transferred, state.Removed, state.Keep, state.Restore,
	} {
		known[string(d)] = true
	}
	for d := policy.Refuse; d <= policy.Restore; d++ {
		if !known[d.String()] {
			t.Errorf("decision %s", d)
		}
	}
}

// A program that a generation has lost is asked for again, where it has to be put.
func TestALostProgramIsAskedFor(t *testing.T) {
	n := &Node{Layout: state.NewLayout(t.TempDir(), "")}
	answer := n.asker(3).own(t.Context(), units.Wasm{Path: "own.wasm", Digest: "abc"}, policy.Facts{})
	want := "policy own.wasm: its program is lost: generation 3: content of own.wasm: open " + n.Layout.Generation(3) + "/files/abc: no such file or directory; put it there again"
	if answer.Decision != policy.Refuse || !strings.HasPrefix(answer.Fault, want) {
		t.Errorf("%+v\nwant %s", answer, want)
	}
}
