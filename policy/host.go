package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

const (
	hostModule = "meshgen"
	wasiModule = "wasi_snapshot_preview1"
	// maxKey is the length from which on a key names no fact.
	maxKey = 256
	// maxOutput is how much of what a program prints is kept, for a fault.
	maxOutput = 512
)

// call is one decision under way: what the host's functions read and write.
type call struct {
	facts  Facts
	read   Facts
	whole  []byte // all facts as JSON, once they were asked for
	reason []byte
	most   int    // bytes of the reason
	output output // what the program printed
	broke  error  // the first rule of the ABI that it broke
}

type callKey struct{}

// broken is what a host function ends a program with that breaks a rule.
type broken struct{ error }

// breach ends the program that is running.
func (c *call) breach(format string, args ...any) {
	c.broke = fmt.Errorf(format, args...)
	panic(broken{c.broke})
}

// words returns the type of n numbers of 32 bits.
func words(n int) []api.ValueType { return slices.Repeat([]api.ValueType{api.ValueTypeI32}, n) }

// newHost returns what a program may import of ours.
func newHost(rt wazero.Runtime) wazero.HostModuleBuilder { //nolint:ireturn // wazero has no other type for it
	return rt.NewHostModuleBuilder(hostModule).
		NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(fact), words(4), words(1)).Export("fact").
		NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(reason), words(2), nil).Export("reason")
}

// fact is fact(key, key_len, buf, cap) -> length: it writes a fact to buf and
// returns its length in bytes, -1 for one that is not known. Where cap is less it
// writes nothing. The key "" gives all facts as one JSON object, its keys sorted.
func fact(ctx context.Context, mod api.Module, stack []uint64) {
	c := ctx.Value(callKey{}).(*call) //nolint:forcetypeassert // run puts it there
	keyAt, keyLen, at, room := api.DecodeU32(stack[0]), api.DecodeU32(stack[1]), api.DecodeU32(stack[2]), api.DecodeU32(stack[3])
	key, ok := mod.Memory().Read(keyAt, keyLen)
	if !ok {
		c.breach("fact: the key, %d bytes at %d, is not in its memory", keyLen, keyAt)
	}
	value, known := c.lookUp(key)
	if !known {
		stack[0] = api.EncodeI32(-1)
		return
	}
	stack[0] = api.EncodeU32(uint32(len(value))) //nolint:gosec // facts are short
	if _, ok := mod.Memory().Read(at, room); !ok {
		c.breach("fact: the buffer, %d bytes at %d, is not in its memory", room, at)
	}
	if uint64(len(value)) <= uint64(room) {
		mod.Memory().Write(at, value)
	}
}

// lookUp returns a fact, and records that it was read.
func (c *call) lookUp(key []byte) (value []byte, known bool) {
	if len(key) == 0 {
		if c.whole == nil {
			c.whole, _ = json.Marshal(c.facts) // a map of strings always can be
			maps.Copy(c.read, c.facts)
		}
		return c.whole, true
	}
	if len(key) > maxKey {
		return nil, false
	}
	text, known := c.facts[string(key)]
	if known {
		c.read[string(key)] = text
	}
	return []byte(text), known
}

// reason is reason(ptr, len): it adds text to the reason for the decision.
func reason(ctx context.Context, mod api.Module, stack []uint64) {
	c := ctx.Value(callKey{}).(*call) //nolint:forcetypeassert // run puts it there
	at, size := api.DecodeU32(stack[0]), api.DecodeU32(stack[1])
	text, ok := mod.Memory().Read(at, size)
	if !ok {
		c.breach("reason: the text, %d bytes at %d, is not in its memory", size, at)
	}
	if len(text) > c.most-len(c.reason) {
		c.reason = append(c.reason, text[:c.most-len(c.reason)]...)
		c.breach("reason: it is longer than %d bytes", c.most)
	}
	c.reason = append(c.reason, text...)
}

// output keeps the beginning of what is written to it.
type output struct{ text []byte }

func (o *output) Write(p []byte) (n int, err error) {
	o.text = append(o.text, p[:min(len(p), maxOutput-len(o.text))]...)
	return len(p), nil
}

// oneLine returns text of a program's as it can be shown in a line.
func oneLine(text []byte) string { return strings.TrimSpace(Line(string(text))) }

// Line returns text as it can be shown in a line, since who writes programs, or
// names files, may write what moves a terminal's cursor or begins a line that
// looks like another's. Line ends and tabs are spaces, and what is no character,
// or would move or hide others, is U+FFFD.
func Line(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return utf8.RuneError
		}
		return r
	}, text)
}
