package policy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// What a program may ask for beside memory, since wazero has limits that are too
// wide for a program that is not trusted, or none.
const (
	pageSize   = 64 << 10
	maxTables  = 16
	maxEntries = 1 << 17 // of one table: 1 MiB
	maxLocals  = 50_000  // of one function, as browsers have it
	// maxBulk is how often a function may have the byte by which instructions
	// begin that fill and copy memory: each may take milliseconds, and between
	// them nothing looks at the deadline. The example in Go has
	// 57 in its largest function, and 12 MB of Go's own library had 107.
	maxBulk = 128
)

// The ids of the sections that are looked into.
const (
	sectionCustom  = 0
	sectionType    = 1
	sectionImport  = 2
	sectionTable   = 4
	sectionMemory  = 5
	sectionExport  = 7
	sectionStart   = 8
	sectionElement = 9
	sectionCode    = 10
	sectionData    = 11
	sectionCount   = 12
)

var header = []byte("\x00asm\x01\x00\x00\x00") //nolint:gochecknoglobals // a constant, but for its type

// errTruncated is a program that ends too early.
var errTruncated = errors.New("is cut off, or a length in it is wrong")

// vet returns the program as wazero may have it, or what is wrong with it.
//
// wazero believes the counts in a program when it makes room for what they
// count: twenty bytes can have it ask for a terabyte, which ends the process. So
// each is looked at before. What comes back differs in three ways from what went
// in, none of which an honest program sees. Tables, which a program might
// make grow without end, have a limit. Each function begins with an empty loop,
// `loop end`: wazero looks at the deadline where a loop begins and nowhere else,
// and functions that call each other run long without any. Sections for
// debuggers are left out.
//
// See https://webassembly.github.io/spec/core/binary/modules.html.
func vet(code []byte) (vetted []byte, err error) {
	if len(code) == 0 {
		return nil, errors.New("is empty")
	}
	if !bytes.HasPrefix(code, header) {
		return nil, errors.New("is no WebAssembly program of version 1")
	}
	vetted = append(make([]byte, 0, len(code)+len(code)/16), header...)
	for r := (reader{left: code[len(header):]}); len(r.left) > 0; {
		id := r.byte()
		content := r.bytes(r.number())
		if r.failed {
			return nil, errTruncated
		}
		if id == sectionCustom {
			continue
		}
		if content, err = vetSection(id, content); err != nil {
			return nil, err
		}
		vetted = append(vetted, id)
		vetted = binary.AppendUvarint(vetted, uint64(len(content)))
		vetted = append(vetted, content...)
	}
	return vetted, nil
}

// vetSection returns a section as wazero may have it.
func vetSection(id byte, content []byte) (vetted []byte, err error) {
	if id == sectionStart || id == sectionCount {
		return content, nil // one number
	}
	r := reader{left: content}
	n := r.number()
	if r.failed || n > len(r.left) { // nothing that is counted takes no byte
		return nil, errTruncated
	}
	switch id {
	case sectionTable:
		return vetTables(&r, n)
	case sectionCode:
		return vetCode(&r, n)
	case sectionMemory:
		if n > 1 {
			return nil, errors.New("has more than one memory")
		}
	}
	for range n {
		switch id {
		case sectionType:
			r.byte()
			r.bytes(r.number())
			r.bytes(r.number())
		case sectionImport:
			r.bytes(r.number())
			r.bytes(r.number())
			if r.byte() != 0 {
				return nil, errors.New("imports something that is no function")
			}
			r.number()
		case sectionExport:
			r.bytes(r.number())
			r.byte()
			r.number()
		case sectionElement:
			r.element()
		case sectionData:
			r.data()
		}
		if r.failed {
			return nil, errTruncated
		}
	}
	return content, nil
}

// vetTables gives each table a limit.
func vetTables(r *reader, n int) (vetted []byte, err error) {
	if n > maxTables {
		return nil, fmt.Errorf("has %d tables, and may have %d", n, maxTables)
	}
	vetted = binary.AppendUvarint(nil, uint64(n)) //nolint:gosec // no number is below 0
	for range n {
		kind, flags, least := r.byte(), r.byte(), r.number()
		most := maxEntries
		if flags == 1 {
			most = min(most, r.number())
		}
		switch {
		case r.failed:
			return nil, errTruncated
		case flags > 1 || kind != 0x70 && kind != 0x6f: // functions, or references of the host's
			return nil, errors.New("has a table of an unknown sort")
		case least > maxEntries:
			return nil, fmt.Errorf("has a table of %d entries, and may have %d", least, maxEntries)
		}
		vetted = append(vetted, kind, 1)
		vetted = binary.AppendUvarint(vetted, uint64(least)) //nolint:gosec // likewise
		vetted = binary.AppendUvarint(vetted, uint64(most))
	}
	if len(r.left) > 0 {
		return nil, errTruncated
	}
	return vetted, nil
}

// vetCode has each function begin with an empty loop.
func vetCode(r *reader, n int) (vetted []byte, err error) {
	vetted = binary.AppendUvarint(make([]byte, 0, len(r.left)+8*n), uint64(n)) //nolint:gosec // no number is below 0
	for i := range n {
		body := reader{left: r.bytes(r.number())}
		whole, locals := body.left, 0
		for range body.number() {
			locals += body.number()
			if body.valueType(); body.failed || locals > maxLocals {
				break
			}
		}
		switch {
		case r.failed || body.failed:
			return nil, errTruncated
		case locals > maxLocals:
			return nil, fmt.Errorf("has more than %d local variables in its function %d", maxLocals, i)
		case bytes.Count(body.left, []byte{0xfc}) > maxBulk:
			return nil, fmt.Errorf("has more than %d instructions that fill and copy memory in its function %d", maxBulk, i)
		}
		declared := whole[:len(whole)-len(body.left)]
		vetted = binary.AppendUvarint(vetted, uint64(len(whole)+3))
		vetted = append(vetted, declared...)
		vetted = append(vetted, 0x03, 0x40, 0x0b) // loop, without a result; end
		vetted = append(vetted, body.left...)
	}
	if len(r.left) > 0 {
		return nil, errTruncated
	}
	return vetted, nil
}

// reader takes a program apart. Once it has failed it returns nothing but zeros.
type reader struct {
	left   []byte
	failed bool
}

func (r *reader) byte() byte {
	if b := r.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *reader) bytes(n int) []byte {
	if r.failed || n > len(r.left) {
		r.failed, r.left = true, nil
		return nil
	}
	taken := r.left[:n]
	r.left = r.left[n:]
	return taken
}

// number reads an unsigned number of 32 bits, LEB128. One of 2 GiB and more is
// returned as the largest that an int has everywhere: it is too large to count
// anything.
func (r *reader) number() int {
	n, size := binary.Uvarint(r.left)
	if size <= 0 || size > 5 || n > math.MaxUint32 {
		r.failed, r.left = true, nil
		return 0
	}
	r.left = r.left[size:]
	return int(min(n, math.MaxInt32))
}

// skipNumber passes over a number of any sort, LEB128.
func (r *reader) skipNumber() {
	for r.byte()&0x80 != 0 {
		continue
	}
}

// valueType passes over the type of a value.
func (r *reader) valueType() {
	if b := r.byte(); b == 0x63 || b == 0x64 { // a reference to a heap type
		r.skipNumber()
	}
}

// expression passes over a constant expression.
func (r *reader) expression() {
	for !r.failed {
		switch op := r.byte(); op {
		case 0x0b: // end
			return
		case 0x41, 0x42, 0x23, 0xd0, 0xd2: // i32.const, i64.const, global.get, ref.null, ref.func
			r.skipNumber()
		case 0x43: // f32.const
			r.bytes(4)
		case 0x44: // f64.const
			r.bytes(8)
		case 0x6a, 0x6b, 0x6c, 0x7c, 0x7d, 0x7e: // add, sub, mul, of i32 and of i64
		case 0xfd: // v128.const
			r.skipNumber()
			r.bytes(16)
		default:
			r.failed = true
		}
	}
}

// element passes over a segment of a table. Its flags: 1 passive or declared, 2
// with a table's number, 4 with expressions.
func (r *reader) element() {
	flags := r.number()
	if flags > 7 {
		r.failed = true
		return
	}
	if flags&1 == 0 {
		if flags&2 != 0 {
			r.number()
		}
		r.expression()
	}
	if flags&3 != 0 {
		if flags&4 != 0 {
			r.valueType()
		} else {
			r.byte()
		}
	}
	n := r.number()
	if n > len(r.left) {
		r.failed = true
	}
	for i := 0; i < n && !r.failed; i++ {
		if flags&4 != 0 {
			r.expression()
		} else {
			r.number()
		}
	}
}

// data passes over a segment of the memory. Its flags: 1 passive, 2 with a
// memory's number.
func (r *reader) data() {
	flags := r.number()
	if flags == 2 {
		r.number()
	}
	if flags != 1 {
		r.expression()
	}
	r.bytes(r.number())
}
