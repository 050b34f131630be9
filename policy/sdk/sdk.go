// Package sdk is what a policy in Go is written with: a function from facts to a
// decision, that runs in meshgen's sandbox and in an ordinary test alike.
//
//	func Decide(f sdk.Facts) (sdk.Decision, string) { … }
//
// Built with GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared, [Facts] asks
// the host, and a file of the program's hands the function over:
//
//	//go:wasmexport decide
//	func decide() int32 { return sdk.Run(Decide) }
//
// Anywhere else Facts is a map, which a test fills. docs/policy.md says which
// facts there are, and which decisions a transition has.
package sdk

import (
	"strconv"
	"strings"
)

// Decision is what a policy answers, by its number in ABI 1.
type Decision int32

// The decisions.
const (
	Refuse Decision = iota
	Hold
	Adopt
	Follow
	Migrate
	Transfer
	Remove
	Keep
	Restore
)

// Text returns a fact; "" where it is not known.
func (f Facts) Text(key string) string {
	text, _ := f.Lookup(key)
	return text
}

// Is reports whether a fact is known and true.
func (f Facts) Is(key string) bool { return f.Text(key) == "true" }

// Number returns a fact that is a number.
func (f Facts) Number(key string) (n int64, known bool) {
	n, err := strconv.ParseInt(f.Text(key), 10, 64)
	return n, err == nil
}

// List returns the members of a fact that is a list.
func (f Facts) List(key string) []string { return strings.Fields(f.Text(key)) }

// Setting returns a setting of the module or resource; "" where there is none.
func (f Facts) Setting(name string) string { return f.Text("policy." + name) }

// Label returns a label of what is on the machine; "" where there is none.
func (f Facts) Label(name string) string { return f.Text("observed.label." + name) }

// Default decides as the built-in policy does without settings: for the
// transitions that a policy has no opinion on.
func Default(f Facts) (Decision, string) {
	data := f.Is("data")
	switch f.Text("transition") {
	case "takeover":
		if f.Is("node.adopted") {
			return Hold, "on an adopted node what was there is let be"
		}
		return Refuse, "what meshgen did not make it does not touch"
	case "rename":
		if data && f.Text("kind") == "dir" {
			return Refuse, "its data would stay behind and an empty directory take its place"
		}
		if data {
			return Refuse, "its data would stay behind and an empty volume take its place"
		}
		return Follow, "what holds no data follows its new name"
	case "transfer":
		if candidates := f.List("candidates"); len(candidates) > 1 {
			return Refuse, "it may have been " + strings.Join(candidates, " or ")
		}
		return Transfer, "the name stays, and has another address"
	case "remove":
		return remove(f.Text("kind"), data)
	case "drift":
		return drift(f)
	}
	return Refuse, "of this nothing is known here"
}

func remove(kind string, data bool) (Decision, string) {
	switch {
	case !data:
		return Remove, "it is no longer declared"
	case kind == "container" || kind == "unit" || kind == "pod" || kind == "kube":
		return Refuse, "it holds data, and without its unit nothing could stop it any more"
	}
	return Keep, "it holds data"
}

func drift(f Facts) (Decision, string) {
	switch f.Text("change") {
	case "gone":
		if f.Is("data") {
			return Refuse, "it held data, and an empty one would take its place"
		}
	case "directory":
		return Refuse, "a directory is in its place"
	case "masked":
		return Keep, "a mask is its owner's word"
	case "overridden":
		return Keep, "what comes before it was found, and is not ours"
	case "remade":
		return Keep, "what has the name is not ours"
	}
	return Restore, "what is declared is put back"
}
