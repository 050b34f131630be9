package policy

import (
	"testing"

	"meshgen/policy/sdk"
)

// The SDK's default is the built-in policy without settings, reasons and all.
func TestDefaultOfTheSDKIsTheBuiltinPolicy(t *testing.T) {
	r := NewRuntime("", Limits{})
	defer func() { _ = r.Close() }()
	for _, transition := range Transitions() {
		each(Facts{"transition": transition}, matter[transition], func(f Facts) {
			d, why := sdk.Default(sdk.Facts(f))
			if a := r.Decide(t.Context(), Builtin(), f); a.Fault != "" || uint32(a.Decision) != uint32(d) || a.Reason != why {
				t.Fatalf("%v: %s, %q; the SDK has %d, %q", f, a.Decision, a.Reason, d, why)
			}
		})
	}
}

// The SDK's decisions have the numbers of the ABI.
func TestDecisionsOfTheSDK(t *testing.T) {
	for word, d := range map[string]sdk.Decision{
		"refuse": sdk.Refuse, "hold": sdk.Hold, "adopt": sdk.Adopt, "follow": sdk.Follow, "migrate": sdk.Migrate,
		"transfer": sdk.Transfer, "remove": sdk.Remove, "keep": sdk.Keep, "restore": sdk.Restore,
	} {
		if ours, ok := ParseDecision(word); !ok || uint32(ours) != uint32(d) {
			t.Errorf("%s: %d, and %d in the SDK", word, ours, d)
		}
	}
}
