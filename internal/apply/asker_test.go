package apply

import (
	"testing"

	"meshgen/policy"
	"meshgen/state"
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
