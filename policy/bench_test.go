package policy

import "testing"

var benchFacts = Facts{"transition": "rename", "kind": "volume", "data": "true", "policy.rename": "migrate"}

// BenchmarkBuiltinFirst is the first decision, with the start of the runtime.
func BenchmarkBuiltinFirst(b *testing.B) {
	for b.Loop() {
		r := NewRuntime("", DefaultLimits())
		if a := r.Decide(b.Context(), Builtin(), benchFacts); a.Decision != Migrate {
			b.Fatal(a)
		}
		_ = r.Close()
	}
}

// BenchmarkBuiltinLater is each decision after that, in an instance of its own.
func BenchmarkBuiltinLater(b *testing.B) {
	r := NewRuntime("", DefaultLimits())
	defer func() { _ = r.Close() }()
	for b.Loop() {
		if a := r.Decide(b.Context(), Builtin(), benchFacts); a.Decision != Migrate {
			b.Fatal(a)
		}
	}
}
