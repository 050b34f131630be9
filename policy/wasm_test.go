package policy

import (
	"encoding/binary"
	"slices"
)

// What follows writes WebAssembly programs, so that a test needs no compiler.

// Value types, and the types that every program here has.
const (
	i32 = 0x7f
	i64 = 0x7e

	typeNothing = iota - 2 // ()
	typeAnswer             // () -> i32
	typeFact               // (i32, i32, i32, i32) -> i32
	typeReason             // (i32, i32)
	typeTwo                // () -> (i32, i32)
	typeLong               // () -> i64
	typeOne                // (i32) -> i32
	typeSizes              // (i32, i32) -> i32
	typeClock              // (i32, i64, i32) -> i32
	typeExit               // (i32)
)

// Instructions.
const (
	opUnreachable = 0x00
	opLoop        = 0x03
	opEnd         = 0x0b
	opBr          = 0x0c
	opBrIf        = 0x0d
	opCall        = 0x10
	opDrop        = 0x1a
	opLocalGet    = 0x20
	opLocalTee    = 0x22
	opI32Const    = 0x41
	opI32Add      = 0x6a
	opMemoryGrow  = 0x40
	empty         = 0x40 // the type of a block without a result
)

// prog is a program that imports fact and reason as its functions 0 and 1, and
// has functions from 2 on. Sections that are nil are left out.
type prog struct {
	imports [][]byte // nil for the two
	pages   int      // of memory; -1 for none
	funcs   []fn
	start   int    // a function's number; 0 for none
	table   []byte // the content of the section
	element []byte
	data    []byte
	exports [][]byte // beside the memory and the functions that have names
}

type fn struct {
	name   string // as it is exported; "" where it is not
	kind   byte   // its type
	locals int    // of type i32
	body   []byte // without its end
}

func num(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) }

// constant is i32.const.
func constant(n int) []byte {
	b := []byte{opI32Const}
	for {
		low := byte(n & 0x7f)
		n >>= 7
		if n == 0 && low&0x40 == 0 || n == -1 && low&0x40 != 0 {
			return append(b, low)
		}
		b = append(b, low|0x80)
	}
}

func text(s string) []byte { return append(num(len(s)), s...) }

func vector(items ...[]byte) []byte { return append(num(len(items)), slices.Concat(items...)...) }

func section(id byte, content []byte) []byte {
	return slices.Concat([]byte{id}, num(len(content)), content)
}

func importOf(module, name string, kind byte) []byte {
	return slices.Concat(text(module), text(name), []byte{0, kind})
}

func exportOf(name string, sort byte, index int) []byte {
	return slices.Concat(text(name), []byte{sort}, num(index))
}

func code(parts ...[]byte) []byte { return slices.Concat(parts...) }

func ops(b ...byte) []byte { return b }

func calls(function int) []byte { return append([]byte{opCall}, num(function)...) }

func (p prog) bytes() []byte {
	types := vector(ops(0x60, 0, 0), ops(0x60, 0, 1, i32), ops(0x60, 4, i32, i32, i32, i32, 1, i32), ops(0x60, 2, i32, i32, 0),
		ops(0x60, 0, 2, i32, i32), ops(0x60, 0, 1, i64), ops(0x60, 1, i32, 1, i32),
		ops(0x60, 2, i32, i32, 1, i32), ops(0x60, 3, i32, i64, i32, 1, i32), ops(0x60, 1, i32, 0))
	imports := p.imports
	if imports == nil {
		imports = [][]byte{importOf("meshgen", "fact", typeFact), importOf("meshgen", "reason", typeReason)}
	}
	var kinds, exports, bodies [][]byte
	for i, f := range p.funcs {
		kinds = append(kinds, ops(f.kind))
		if f.name != "" {
			exports = append(exports, exportOf(f.name, 0, len(imports)+i))
		}
		locals := ops(0)
		if f.locals > 0 {
			locals = slices.Concat(ops(1), num(f.locals), ops(i32))
		}
		body := slices.Concat(locals, f.body, ops(opEnd))
		bodies = append(bodies, slices.Concat(num(len(body)), body))
	}
	out := slices.Concat([]byte("\x00asm\x01\x00\x00\x00"), section(1, types), section(2, vector(imports...)), section(3, vector(kinds...)))
	if p.table != nil {
		out = append(out, section(4, p.table)...)
	}
	if p.pages >= 0 {
		out = append(out, section(5, vector(append(ops(0), num(max(p.pages, 1))...)))...)
		exports = append(exports, exportOf("memory", 2, 0))
	}
	out = append(out, section(7, vector(append(exports, p.exports...)...))...)
	if p.start > 0 {
		out = append(out, section(8, num(p.start))...)
	}
	if p.element != nil {
		out = append(out, section(9, p.element)...)
	}
	out = append(out, section(10, vector(bodies...))...)
	if p.data != nil {
		out = append(out, section(11, p.data)...)
	}
	return out
}

// deciding is a program whose decide has a body.
func deciding(locals int, body ...[]byte) prog {
	return prog{funcs: []fn{{name: "decide", kind: typeAnswer, locals: locals, body: code(body...)}}}
}

// forever is a loop without end.
var forever = ops(opLoop, empty, opBr, 0, opEnd)

// times repeats what leaves nothing on the stack, counting down in local 0.
func times(n int, body ...[]byte) []byte {
	return code(constant(n), ops(0x21, 0), ops(opLoop, empty), code(body...),
		ops(opLocalGet, 0), constant(-1), ops(opI32Add, opLocalTee, 0, opBrIf, 0, opEnd))
}
