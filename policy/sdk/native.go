//go:build !wasip1

package sdk

// Facts are what a policy decides on, by their keys.
type Facts map[string]string

// Lookup returns a fact, and whether it is known.
func (f Facts) Lookup(key string) (text string, known bool) {
	text, known = f[key]
	return text, known
}
