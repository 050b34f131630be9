package policy

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
)

// swift are limits by which a test need not wait long.
func swift() Limits {
	return Limits{Memory: 16 << 20, Size: 1 << 20, Reason: 256, Deadline: 400 * time.Millisecond}
}

// bounded is the time within which each hostile program has to be refused: the
// deadline, and what a busy host adds.
const bounded = 5 * time.Second

var asked = Facts{"transition": "rename", "kind": "container", "policy.rename": "follow"}

func hostile() map[string]struct {
	code  []byte
	cause string
} {
	type c = struct {
		code  []byte
		cause string
	}
	late := "did not answer within 400ms"
	grow := code(constant(1), ops(opMemoryGrow, 0, opDrop))
	answers := func(n int) []byte { return deciding(0, constant(n)).bytes() }
	with := func(p prog, change func(*prog)) []byte { change(&p); return p.bytes() }
	ok := deciding(0, constant(int(Follow)))
	factOf := func(keyAt, keyLen, at, room int) []byte {
		return deciding(0, constant(keyAt), constant(keyLen), constant(at), constant(room), calls(0), ops(opDrop), constant(int(Follow))).bytes()
	}
	reasonOf := func(at, size int) []byte {
		return deciding(0, constant(at), constant(size), calls(1), constant(int(Follow))).bytes()
	}
	// twice is a chain of functions each of which calls the next one twice: no
	// loop, no deep stack, and 2^60 calls.
	twice := deciding(0, calls(3), constant(int(Follow)))
	for i := range 60 {
		twice.funcs = append(twice.funcs, fn{kind: typeNothing, body: code(calls(i+4), calls(i+4))})
	}
	twice.funcs = append(twice.funcs, fn{kind: typeNothing})
	return map[string]c{
		"endless loop in decide":      {deciding(0, forever, constant(3)).bytes(), late},
		"endless loop in _initialize": {with(ok, func(p *prog) { p.funcs = append(p.funcs, fn{name: "_initialize", kind: typeNothing, body: forever}) }), late},
		"endless loop at the start":   {with(ok, func(p *prog) { p.funcs = append(p.funcs, fn{kind: typeNothing, body: forever}); p.start = 3 }), late},
		"endless calls without loops": {twice.bytes(), late},
		"endless growth":              {deciding(0, ops(opLoop, empty), grow, ops(opBr, 0, opEnd), constant(3)).bytes(), late},
		"endless growth of a table": {with(deciding(0, ops(opLoop, empty, 0xd0, 0x70), constant(1<<20), ops(0xfc, 0x0f, 0, opDrop, opBr, 0, opEnd), constant(3)),
			func(p *prog) { p.table = vector(ops(0x70, 0, 1)) }), late},
		"trap":                {deciding(0, ops(opUnreachable)).bytes(), "wasm error: unreachable"},
		"division by zero":    {deciding(0, constant(1), constant(0), ops(0x6d)).bytes(), "wasm error: integer divide by zero"},
		"answer 9":            {answers(9), "answered 9, (9), and a rename offers follow, migrate, refuse"},
		"answer -1":           {answers(-1), "answered -1, (4294967295), and a rename offers follow, migrate, refuse"},
		"answer of another":   {answers(int(Adopt)), "answered 2, adopt, and a rename offers follow, migrate, refuse"},
		"no decide":           {prog{}.bytes(), "exports no function decide"},
		"a command":           {prog{funcs: []fn{{name: "_start", kind: typeNothing}}}.bytes(), "exports no function decide, but _start: it was built as a command, and not as a library"},
		"decide with a long":  {prog{funcs: []fn{{name: "decide", kind: typeLong, body: ops(0x42, 3)}}}.bytes(), "exports decide as () -> i64, which has to be () -> i32"},
		"decide with two":     {prog{funcs: []fn{{name: "decide", kind: typeTwo, body: code(constant(3), constant(3))}}}.bytes(), "exports decide as () -> (i32, i32), which has to be () -> i32"},
		"decide of one":       {prog{funcs: []fn{{name: "decide", kind: typeOne, body: constant(3)}}}.bytes(), "exports decide as (i32) -> i32, which has to be () -> i32"},
		"decide is a memory":  {prog{exports: [][]byte{exportOf("decide", 2, 0)}}.bytes(), "exports no function decide"},
		"_initialize of one":  {with(ok, func(p *prog) { p.funcs = append(p.funcs, fn{name: "_initialize", kind: typeOne, body: constant(3)}) }), "exports _initialize as (i32) -> i32, which has to be ()"},
		"no memory":           {prog{pages: -1, funcs: ok.funcs}.bytes(), "exports no memory by the name memory"},
		"memory is decide":    {prog{pages: -1, funcs: ok.funcs, exports: [][]byte{exportOf("memory", 0, 2)}}.bytes(), "exports no memory by the name memory"},
		"unknown import":      {prog{imports: [][]byte{importOf("meshgen", "now", typeAnswer)}, funcs: ok.funcs}.bytes(), "imports meshgen.now, which there is not"},
		"unknown module":      {prog{imports: [][]byte{importOf("env", "open", typeAnswer)}, funcs: ok.funcs}.bytes(), "imports env.open, which there is not"},
		"unknown of WASI":     {prog{imports: [][]byte{importOf("wasi_snapshot_preview1", "fd_open", typeAnswer)}, funcs: ok.funcs}.bytes(), "imports wasi_snapshot_preview1.fd_open, which there is not"},
		"import of two types": {prog{imports: [][]byte{importOf("meshgen", "fact", typeAnswer)}, funcs: ok.funcs}.bytes(), "imports meshgen.fact as () -> i32, which is (i32, i32, i32, i32) -> i32"},
		"WASI of other types": {prog{imports: [][]byte{importOf("wasi_snapshot_preview1", "sched_yield", typeNothing)}, funcs: ok.funcs}.bytes(), "imports wasi_snapshot_preview1.sched_yield as (), which is () -> i32"},
		"imports a memory":    {prog{imports: [][]byte{slices.Concat(text("meshgen"), text("memory"), ops(2, 0, 1))}, funcs: ok.funcs}.bytes(), "imports something that is no function"},
		"imports a global":    {prog{imports: [][]byte{slices.Concat(text("meshgen"), text("g"), ops(3, i32, 0))}, funcs: ok.funcs}.bytes(), "imports something that is no function"},
		"key beyond memory":   {factOf(pageSize, 1, 0, 0), "fact: the key, 1 bytes at 65536, is not in its memory"},
		"key that wraps":      {factOf(-1, 2, 0, 0), "fact: the key, 2 bytes at 4294967295, is not in its memory"},
		"key of 4 GiB":        {factOf(8, -1, 0, 0), "fact: the key, 4294967295 bytes at 8, is not in its memory"},
		"buffer beyond":       {factOf(0, 0, pageSize, 1), "fact: the buffer, 1 bytes at 65536, is not in its memory"},
		"buffer that wraps":   {factOf(0, 0, -8, 16), "fact: the buffer, 16 bytes at 4294967288, is not in its memory"},
		"reason beyond":       {reasonOf(pageSize-1, 2), "reason: the text, 2 bytes at 65535, is not in its memory"},
		"reason that wraps":   {reasonOf(-2, 4), "reason: the text, 4 bytes at 4294967294, is not in its memory"},
		"long reason":         {deciding(1, times(100<<20/pageSize, constant(0), constant(pageSize), calls(1)), constant(3)).bytes(), "reason: it is longer than 256 bytes"},
		"many short reasons":  {deciding(1, times(1_000_000, constant(0), constant(1), calls(1)), constant(3)).bytes(), "reason: it is longer than 256 bytes"},
		"not WebAssembly":     {[]byte("#!/bin/sh\necho 3\n"), "is no WebAssembly program of version 1"},
		"an ELF":              {append([]byte("\x7fELF"), make([]byte, 100)...), "is no WebAssembly program of version 1"},
		"a later version":     {append([]byte("\x00asm\x02\x00\x00\x00"), ok.bytes()[8:]...), "is no WebAssembly program of version 1"},
		"a component":         {[]byte("\x00asm\x0d\x00\x01\x00"), "is no WebAssembly program of version 1"},
		"empty":               {nil, "is empty"},
		"only a header":       {header, "exports no memory by the name memory"},
		"too large":           {append(ok.bytes(), make([]byte, 1<<20)...), "and may have 1048576"},
		"memory over the cap": {with(ok, func(p *prog) { p.pages = 257 }), "cannot be run: "},
		"huge table":          {with(ok, func(p *prog) { p.table = vector(slices.Concat(ops(0x70, 0), num(1<<27))) }), "has a table of 134217728 entries, and may have 131072"},
		"many tables":         {with(ok, func(p *prog) { p.table = vector(slices.Repeat([][]byte{ops(0x70, 0, 1)}, 17)...) }), "has 17 tables, and may have 16"},
		"data beyond memory":  {with(ok, func(p *prog) { p.data = vector(slices.Concat(ops(0), constant(pageSize-1), ops(opEnd), text("ab"))) }), "data[0]: out of bounds memory access"},
		"data of 4 GiB":       {with(ok, func(p *prog) { p.data = slices.Concat(num(1), ops(1), num(1<<32-1)) }), "is cut off, or a length in it is wrong"},
		"a billion types":     {slices.Concat(header, section(1, num(1<<30))), "is cut off, or a length in it is wrong"},
		"a billion imports":   {slices.Concat(header, section(2, num(1<<32-1))), "is cut off, or a length in it is wrong"},
		"parameters":          {slices.Concat(header, section(1, slices.Concat(ops(1, 0x60), num(1<<32-1), ops(i32)))), "is cut off, or a length in it is wrong"},
		"a billion elements": {with(ok, func(p *prog) {
			p.table = vector(ops(0x70, 0, 1))
			p.element = slices.Concat(ops(1, 0), constant(0), ops(opEnd), num(1<<30))
		}), "is cut off, or a length in it is wrong"},
		"a billion locals":     {deciding(1<<30, constant(3)).bytes(), "has more than 50000 local variables in its function 0"},
		"a body of 4 GiB":      {slices.Concat(header, section(10, slices.Concat(num(1), num(1<<32-1), ops(0, opEnd)))), "is cut off, or a length in it is wrong"},
		"a long name":          {slices.Concat(header, section(7, slices.Concat(num(1), num(1<<32-1), ops('a')))), "is cut off, or a length in it is wrong"},
		"much to fill":         {deciding(0, bytes.Repeat(code(constant(0), constant(0), constant(1<<16), ops(0xfc, 0x0b, 0)), 129), constant(3)).bytes(), "has more than 128 instructions that fill and copy memory in its function 0"},
		"wrong types inside":   {deciding(0, ops(0x42, 3)).bytes(), "cannot be run: "},
		"nothing on its stack": {deciding(0, ops(opDrop)).bytes(), "cannot be run: "},
	}
}

// Whatever a program does, the answer is to refuse, in good time, with the name
// of the policy and the cause; and the next one is asked as if nothing had been.
func TestHostileProgramsCountAsRefuse(t *testing.T) {
	cases := hostile()
	r := NewRuntime(t.TempDir(), swift())
	defer func() { _ = r.Close() }()
	honest := Module{Name: "honest.wasm", Code: deciding(0, constant(int(Follow))).bytes()}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			begin := time.Now()
			a := r.Decide(t.Context(), Module{Name: "hostile.wasm", Code: cases[name].code}, asked)
			if took := time.Since(begin); took > bounded {
				t.Errorf("it took %s", took)
			}
			if a.Decision != Refuse || !strings.HasPrefix(a.Fault, "policy hostile.wasm: ") || !strings.Contains(a.Fault, cases[name].cause) {
				t.Errorf("%s, %q; want a fault with %q", a.Decision, a.Fault, cases[name].cause)
			}
			if len(a.Reason) > 3*swift().Reason {
				t.Errorf("a reason of %d bytes", len(a.Reason))
			}
			for _, m := range []Module{honest, Builtin()} {
				if a := r.Decide(t.Context(), m, asked); a.Decision != Follow || a.Fault != "" {
					t.Errorf("then %s: %s, %q", m.Name, a.Decision, a.Fault)
				}
			}
		})
	}
}

// A program that is cut off anywhere is refused, and so is one with any byte of
// it changed, or it answers within the rules; it never ends the process.
func TestDamagedProgramsAreHarmless(t *testing.T) {
	whole := Builtin().Code
	r := NewRuntime("", swift())
	defer func() { _ = r.Close() }()
	for n := range whole {
		if n%13 == 0 {
			if a := r.Decide(t.Context(), Module{Name: "cut", Code: slices.Clone(whole[:n])}, asked); a.Fault == "" {
				t.Fatalf("cut at %d it answers %s", n, a.Decision)
			}
		}
	}
	for n := 0; n < len(whole); n += 11 {
		changed := slices.Clone(whole)
		changed[n] ^= 0xff
		a := r.Decide(t.Context(), Module{Name: "changed", Code: changed}, asked)
		if a.Fault == "" && !offered("rename", a.Decision) {
			t.Fatalf("changed at %d it answers %s", n, a.Decision)
		}
	}
}

func FuzzProgram(f *testing.F) {
	for _, c := range hostile() {
		f.Add(c.code)
	}
	f.Add(Builtin().Code)
	f.Fuzz(func(t *testing.T, code []byte) {
		limits := swift()
		limits.Deadline = 50 * time.Millisecond
		r := NewRuntime("", limits)
		defer func() { _ = r.Close() }()
		begin := time.Now()
		a := r.Decide(t.Context(), Module{Name: "fuzz", Code: code}, asked)
		if took := time.Since(begin); took > 2*bounded {
			t.Errorf("it took %s: %s", took, a.Fault)
		}
		if a.Fault == "" && !offered("rename", a.Decision) {
			t.Errorf("it answered %s", a.Decision)
		}
	})
}

// A stack that overflows is told as such, where the deadline is not first.
func TestStackOverflowIsTold(t *testing.T) {
	r := NewRuntime("", Limits{Deadline: 30 * time.Second})
	defer func() { _ = r.Close() }()
	a := r.Decide(t.Context(), Module{Name: "deep.wasm", Code: deciding(0, calls(2)).bytes()}, asked)
	if a.Decision != Refuse || !strings.HasSuffix(a.Fault, "stack overflow") {
		t.Errorf("%+v", a)
	}
}

// What an honest program sees of the limits: memory that does not grow further.
func TestGrowthEndsAtTheCap(t *testing.T) {
	// It grows until it cannot, and answers follow where it has what it may have.
	grown := deciding(0, ops(opLoop, empty), constant(1), ops(opMemoryGrow, 0), constant(-1), ops(0x47, opBrIf, 0, opEnd), // i32.ne
		ops(0x3f, 0), constant(256), ops(0x46), constant(3), ops(0x6c)) // memory.size == 256 pages, times 3
	limits := swift()
	limits.Deadline = 30 * time.Second
	r := NewRuntime("", limits)
	defer func() { _ = r.Close() }()
	if a := r.Decide(t.Context(), Module{Name: "m", Code: grown.bytes()}, asked); a.Decision != Follow || a.Fault != "" {
		t.Errorf("%s, %q", a.Decision, a.Fault)
	}
}

// A fact that has no room is not written, in part neither, and its length tells.
func TestTooSmallABufferIsLeftAlone(t *testing.T) {
	// fact("transition", 64, 3) is 6 long and leaves the byte at 64 as it was: a dot.
	p := deciding(0, constant(0), constant(10), constant(64), constant(3), calls(0), constant(6), ops(0x46),
		constant(64), ops(0x2d, 0, 0), constant('.'), ops(0x46, 0x71), constant(3), ops(0x6c))
	p.data = vector(slices.Concat(ops(0), constant(0), ops(opEnd), text("transition")), slices.Concat(ops(0), constant(64), ops(opEnd), text(".")))
	r := NewRuntime("", swift())
	defer func() { _ = r.Close() }()
	if a := r.Decide(t.Context(), Module{Name: "m", Code: p.bytes()}, asked); a.Decision != Follow || a.Fault != "" || a.Read["transition"] != "rename" {
		t.Errorf("%+v", a)
	}
}

// saying is a program that gives a reason.
func saying(reason string) Module {
	p := deciding(0, constant(0), constant(len(reason)), calls(1), constant(int(Follow)))
	p.data = vector(slices.Concat(ops(0), constant(0), ops(opEnd), text(reason)))
	return Module{Name: "saying.wasm", Code: p.bytes()}
}

func TestReasonsAreSafeToShow(t *testing.T) {
	r := NewRuntime("", swift())
	defer func() { _ = r.Close() }()
	for _, c := range []struct{ said, shown string }{
		{"its image is ours", "its image is ours"},
		{" \n two\nlines\t\n", "two lines"},
		{"\x1b[2Jred\x07", "\ufffd[2Jred\ufffd"},
		{"a\xffb\xc0\xafc", "a\ufffdb\ufffd\ufffdc"},
		{"exe\u202egpj", "exe\ufffdgpj"},
		{"a\x00b\u200bc\u0085d", "a\ufffdb\ufffdc\ufffdd"},
		{"größer als vorher", "größer als vorher"},
	} {
		a := r.Decide(t.Context(), saying(c.said), asked)
		if a.Fault != "" || a.Reason != c.shown {
			t.Errorf("%q is shown as %q, want %q; fault %q", c.said, a.Reason, c.shown, a.Fault)
		}
		if i := strings.IndexFunc(a.Reason, func(r rune) bool { return unicode.IsControl(r) }); i >= 0 {
			t.Errorf("%q has a control character", a.Reason)
		}
	}
}

func TestManyCallsForFactsAreAnswered(t *testing.T) {
	p := deciding(1, times(1_000_000, constant(0), constant(4), constant(64), constant(64), calls(0), ops(opDrop)), constant(int(Follow)))
	p.data = vector(slices.Concat(ops(0), constant(0), ops(opEnd), text("kind")))
	r := NewRuntime("", Limits{Deadline: 30 * time.Second})
	defer func() { _ = r.Close() }()
	a := r.Decide(t.Context(), Module{Name: "m", Code: p.bytes()}, asked)
	if a.Decision != Follow || a.Fault != "" || !maps.Equal(a.Read, Facts{"kind": "container"}) {
		t.Errorf("%+v", a)
	}
}

// A context that is done says nothing of the program: it is asked again.
func TestDecideAfterAContextThatWasDone(t *testing.T) {
	r := NewRuntime("", swift())
	defer func() { _ = r.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := Module{Name: "m.wasm", Code: deciding(0, constant(int(Follow))).bytes()}
	if a := r.Decide(ctx, m, asked); a.Decision != Refuse || !strings.HasSuffix(a.Fault, "context canceled") {
		t.Errorf("%+v", a)
	}
	if a := r.Decide(t.Context(), m, asked); a.Decision != Follow || a.Fault != "" {
		t.Errorf("then %+v", a)
	}
}

// A program that did not answer once is not waited for again, and others are.
func TestTheDeadlineIsWaitedForOnce(t *testing.T) {
	r := NewRuntime("", swift())
	defer func() { _ = r.Close() }()
	loop := Module{Name: "loop.wasm", Code: deciding(0, forever, constant(3)).bytes()}
	if a := r.Decide(t.Context(), loop, asked); a.Fault != "policy loop.wasm: did not answer within 400ms" {
		t.Fatalf("%+v", a)
	}
	begin := time.Now()
	for range 40 {
		if a := r.Decide(t.Context(), loop, asked); a.Decision != Refuse || a.Fault != "policy loop.wasm: did not answer within 400ms when it was asked before" {
			t.Fatalf("then %+v", a)
		}
	}
	if took := time.Since(begin); took > swift().Deadline {
		t.Errorf("it was waited for again: %s", took)
	}
	if a := r.Decide(t.Context(), Builtin(), asked); a.Decision != Follow {
		t.Errorf("then the built-in one: %+v", a)
	}
}

// A program that answers each time may still not take for ever.
func TestTheDecisionsOfAProgramHaveATimeInAll(t *testing.T) {
	limits := swift()
	limits.Total = 20 * time.Millisecond
	r := NewRuntime("", limits)
	defer func() { _ = r.Close() }()
	const most = 1_000_000
	var a Answer
	n := 0
	for ; n < most && a.Fault == ""; n++ {
		a = r.Decide(t.Context(), Builtin(), asked)
	}
	if want := "policy builtin: took 20ms for its decisions, and may have no more"; a.Decision != Refuse || a.Fault != want {
		t.Errorf("after %d: %s, %q", n, a.Decision, a.Fault)
	}
}

func TestDecideEndsWithItsContext(t *testing.T) {
	r := NewRuntime("", Limits{Deadline: time.Minute})
	defer func() { _ = r.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	a := r.Decide(ctx, Module{Name: "loop.wasm", Code: deciding(0, forever, constant(3)).bytes()}, asked)
	if a.Decision != Refuse || a.Fault != "policy loop.wasm: context deadline exceeded" {
		t.Errorf("%s, %q", a.Decision, a.Fault)
	}
	if a := r.Decide(t.Context(), Builtin(), asked); a.Decision != Follow {
		t.Errorf("then %+v", a)
	}
}
