package policy

import (
	"slices"
	"strings"
	"testing"
)

// wasi is a program with imports of WASI, as functions from 0 on, and then reason.
func wasi(imports map[string]byte, order []string, locals int, body ...[]byte) prog {
	p := deciding(locals, body...)
	for _, name := range order {
		p.imports = append(p.imports, importOf(wasiModule, name, imports[name]))
	}
	p.imports = append(p.imports, importOf(hostModule, "reason", typeReason))
	return p
}

func decideOnce(t *testing.T, p prog) Answer {
	t.Helper()
	r := NewRuntime("", swift())
	defer func() { _ = r.Close() }()
	return r.Decide(t.Context(), Module{Name: "m.wasm", Code: p.bytes()}, asked)
}

// WASI is there, and there is nothing in it: no argument, no variable, no
// directory, nothing to read.
func TestSandboxIsEmpty(t *testing.T) {
	order := []string{"args_sizes_get", "environ_sizes_get", "fd_prestat_get", "fd_read"}
	imports := map[string]byte{"args_sizes_get": typeSizes, "environ_sizes_get": typeSizes, "fd_prestat_get": typeSizes, "fd_read": typeFact}
	load := func(at int) []byte { return code(constant(at), ops(0x28, 2, 0)) } // i32.load
	or := ops(0x72)
	const badDescriptor = 8 // of WASI
	p := wasi(imports, order, 0,
		constant(0), constant(4), calls(0), // 0 for success, like all that follow
		constant(8), constant(12), calls(1), or,
		load(0), or, load(4), or, load(8), or, load(12), or, // how many, and how large
		constant(3), constant(16), calls(2), constant(badDescriptor), ops(0x73), or, // xor: the first directory
		constant(0), constant(32), constant(1), constant(48), calls(3), or, load(48), or, // what was read of the input
		ops(0x45), constant(int(Follow)), ops(0x6c)) // == 0, times follow
	p.data = vector(slices.Concat(ops(0), constant(32), ops(opEnd), text("\x40\x00\x00\x00\x10\x00\x00\x00"))) // 16 bytes at 64
	if a := decideOnce(t, p); a.Decision != Follow || a.Fault != "" {
		t.Errorf("%+v", a)
	}
}

// What a program could take for chance or time is the same for each decision.
func TestDecisionsAreTheSameAgain(t *testing.T) {
	order := []string{"random_get", "clock_time_get"}
	imports := map[string]byte{"random_get": typeSizes, "clock_time_get": typeClock}
	clock := func(which, at int) []byte {
		return code(constant(which), ops(0x42, 0), constant(at), calls(1), ops(opDrop))
	}
	p := wasi(imports, order, 0, constant(0), constant(32), calls(0), ops(opDrop), clock(0, 32), clock(1, 40), clock(0, 48),
		constant(0), constant(56), calls(2), constant(int(Follow)))
	r := NewRuntime("", swift())
	defer func() { _ = r.Close() }()
	m := Module{Name: "m.wasm", Code: p.bytes()}
	first := r.Decide(t.Context(), m, asked)
	if first.Decision != Follow || len(first.Reason) < 20 {
		t.Fatalf("%+v", first)
	}
	for range 3 {
		if a := r.Decide(t.Context(), m, asked); a.Reason != first.Reason {
			t.Errorf("%q, and then %q", first.Reason, a.Reason)
		}
	}
	if a := decideOnce(t, p); a.Reason != first.Reason {
		t.Errorf("%q, and in another runtime %q", first.Reason, a.Reason)
	}
}

// A program remembers nothing: what it left in its memory is gone the next time.
func TestInstancesAreFresh(t *testing.T) {
	// It answers follow where the number at 0 is 0, and sets it to 1.
	p := deciding(0, constant(0), ops(0x28, 2, 0, 0x45), constant(int(Follow)), ops(0x6c), constant(0), constant(1), ops(0x36, 2, 0))
	r := NewRuntime("", swift())
	defer func() { _ = r.Close() }()
	for range 3 {
		if a := r.Decide(t.Context(), Module{Name: "m.wasm", Code: p.bytes()}, asked); a.Decision != Follow || a.Fault != "" {
			t.Errorf("%+v", a)
		}
	}
}

// What is printed shows where the program is at fault, in part, and nowhere else.
func TestOutputIsToldWithAFault(t *testing.T) {
	imports, order := map[string]byte{"fd_write": typeFact, "proc_exit": typeExit}, []string{"fd_write", "proc_exit"}
	printing := func(body ...[]byte) prog {
		p := wasi(imports, order, 1, slices.Concat(times(100, constant(2), constant(0), constant(1), constant(32), calls(0), ops(opDrop)), code(body...)))
		p.data = vector(slices.Concat(ops(0), constant(0), ops(opEnd), text("\x08\x00\x00\x00\x0b\x00\x00\x00panic: \x1b[2J")))
		return p
	}
	said := ", having printed: panic: \ufffd[2Jpanic: "
	for _, c := range []struct {
		p     prog
		fault string
	}{
		{printing(ops(opUnreachable)), "policy m.wasm: wasm error: unreachable" + said},
		{printing(constant(7), calls(1), ops(opUnreachable)), "policy m.wasm: ended with exit code 7 before it answered" + said},
		{printing(constant(0), calls(1), ops(opUnreachable)), "policy m.wasm: ended with exit code 0 before it answered" + said},
		{printing(constant(int(Follow))), ""},
	} {
		a := decideOnce(t, c.p)
		if !strings.HasPrefix(a.Fault, c.fault) || c.fault == "" && a.Fault != "" || len(a.Fault) > 2*maxOutput {
			t.Errorf("%q; want %q", a.Fault, c.fault)
		}
	}
}

// All facts at once are JSON, its keys sorted, and count as read.
func TestAllFactsAtOnce(t *testing.T) {
	p := deciding(0, constant(0), constant(0), constant(0), constant(256), calls(0), ops(0x1a), constant(0), constant(77), calls(1), constant(int(Follow)))
	a := decideOnce(t, p)
	if want := `{"kind":"container","policy.rename":"follow","transition":"rename"}`; !strings.HasPrefix(a.Reason, want) || len(a.Read) != len(asked) {
		t.Errorf("%+v", a)
	}
}
