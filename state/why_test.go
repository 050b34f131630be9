package state

import "testing"

func TestAPolicyIsNamedOnce(t *testing.T) {
	for _, c := range []struct{ said, want string }{
		{"not today", "it is taken: policy p.wasm: not today"},
		{"policy p.wasm: did not answer within 2s", "it is taken: policy p.wasm: did not answer within 2s"},
		{"policies differ", "it is taken: policy p.wasm: policies differ"},
	} {
		if got := (Transition{Kind: Takeover, Decision: Refuse, Policy: "p.wasm", Reason: "it is taken", Said: c.said}).Why(); got != c.want {
			t.Errorf("%q is told as %q, want %q", c.said, got, c.want)
		}
	}
}
