//go:build wasip1

package sdk

import "unsafe"

// Facts are what a policy decides on: the host is asked for each.
type Facts struct{}

//go:wasmimport meshgen fact
func fact(key unsafe.Pointer, keyLen uint32, buf unsafe.Pointer, room uint32) int32

//go:wasmimport meshgen reason
func reason(text unsafe.Pointer, textLen uint32)

// Lookup returns a fact, and whether it is known.
func (Facts) Lookup(key string) (text string, known bool) {
	if key == "" {
		return "", false // for the host this would be all facts
	}
	buf := make([]byte, 256)
	for {
		n := fact(unsafe.Pointer(unsafe.StringData(key)), uint32(len(key)), unsafe.Pointer(unsafe.SliceData(buf)), uint32(len(buf)))
		switch {
		case n < 0:
			return "", false
		case int(n) <= len(buf):
			return string(buf[:n]), true
		}
		buf = make([]byte, n)
	}
}

// Run decides by a function, and hands its reason and its decision to the host.
func Run(decide func(Facts) (Decision, string)) int32 {
	d, why := decide(Facts{})
	reason(unsafe.Pointer(unsafe.StringData(why)), uint32(len(why)))
	return int32(d)
}
