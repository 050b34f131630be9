// Package policy decides, by a WebAssembly program and on facts alone, what
// becomes of a difference between a manifest and a machine.
//
// A program, the built-in one or a module's own, is given facts as text, and
// answers with a decision and a reason. It runs in a sandbox without files,
// network, arguments, environment, a clock that tells the time or memory of
// earlier calls: with the same facts it answers the same. Whatever else it does
// counts as Refuse. [Runtime.Decide] asks one; [Inspect] looks at one without
// running it; [FactTable] says what may be asked.
//
// The package knows no manifest, no ledger and no machine: who calls it gathers
// the facts and carries the decision out. It alone uses wazero.
package policy

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"slices"
	"strconv"
	"time"
)

// ABI is the version of what a program imports, exports and answers with.
const ABI = 1

// Decision is an answer of a policy, by its number in the ABI.
type Decision uint32

// The decisions. Their numbers never change.
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

// String returns the word for the decision, as manifests, plans and the ledger
// have it, and its number in parentheses where there is none.
func (d Decision) String() string {
	words := [...]string{"refuse", "hold", "adopt", "follow", "migrate", "transfer", "remove", "keep", "restore"}
	if int64(d) < int64(len(words)) {
		return words[d]
	}
	return "(" + strconv.FormatUint(uint64(d), 10) + ")"
}

// ParseDecision returns the decision that a word stands for.
func ParseDecision(word string) (d Decision, ok bool) {
	for d := Refuse; d <= Restore; d++ {
		if d.String() == word {
			return d, true
		}
	}
	return Refuse, false
}

// Transitions returns the transitions of which policies decide.
func Transitions() []string {
	return []string{"takeover", "rename", "transfer", "remove", "drift"}
}

// Offers returns the decisions that there are for a transition, Refuse last;
// none for one of which no policy decides.
func Offers(transition string) []Decision {
	switch transition {
	case "takeover":
		return []Decision{Adopt, Hold, Refuse}
	case "rename":
		return []Decision{Follow, Migrate, Refuse}
	case "transfer":
		return []Decision{Transfer, Refuse}
	case "remove":
		return []Decision{Remove, Keep, Refuse}
	case "drift":
		return []Decision{Restore, Keep, Refuse}
	}
	return nil
}

// Facts are what a policy decides on: text by dotted keys, those of [FactTable].
// A boolean is "true" or "false", a number decimal, a list has one space between
// its members. What is not known has no key.
type Facts map[string]string

// Module is a policy's program.
type Module struct {
	Name string // what messages call it: "builtin", or its path
	Code []byte // WebAssembly; not to be changed once it was used
}

// SHA256 returns the digest of the program, in hexadecimal digits.
func (m Module) SHA256() string {
	sum := sha256.Sum256(m.Code)
	return hex.EncodeToString(sum[:])
}

//go:embed builtin/builtin.wasm
var builtin []byte

// BuiltinName is the name of the policy that decides where a module brings none.
const BuiltinName = "builtin"

// Builtin returns the policy that decides where a module brings none. Its source
// is builtin/builtin.c, its table docs/policy.md.
func Builtin() Module { return Module{Name: BuiltinName, Code: builtin} }

// Limits are what a policy may use. A zero field takes its default; what is out
// of its bounds takes the nearer one.
type Limits struct {
	Memory   int           // bytes of an instance's memory, rounded up to 64 KiB: 64 KiB to 1 GiB
	Size     int           // bytes of a program: 1 KiB to 64 MiB
	Reason   int           // bytes that a policy may give as its reason for one decision: 64 to 64 KiB
	Deadline time.Duration // for one decision, the start of the instance included: 1 ms to 1 min
	Total    time.Duration // for all decisions of one program by one runtime: 1 ms to 1 h
}

// DefaultLimits returns the limits that hold where nothing else is said: 64 MiB,
// programs of 16 MiB, reasons of 1 KiB, two seconds for a decision and a
// minute for all of a program.
func DefaultLimits() Limits {
	return Limits{Memory: 64 << 20, Size: 16 << 20, Reason: 1 << 10, Deadline: 2 * time.Second, Total: time.Minute}
}

// bounded returns the limits with defaults and bounds applied.
func (l Limits) bounded() Limits {
	d := DefaultLimits()
	l.Memory = bound(l.Memory, d.Memory, pageSize, 1<<30)
	l.Size = bound(l.Size, d.Size, 1<<10, 64<<20)
	l.Reason = bound(l.Reason, d.Reason, 64, 64<<10)
	l.Deadline = bound(l.Deadline, d.Deadline, time.Millisecond, time.Minute)
	l.Total = bound(l.Total, d.Total, time.Millisecond, time.Hour)
	return l
}

func bound[N int | time.Duration](n, byDefault, least, most N) N {
	if n == 0 {
		return byDefault
	}
	return min(max(n, least), most)
}

// Answer is what came of asking a policy.
type Answer struct {
	Decision Decision
	Reason   string // in one line of printable text
	Read     Facts  // the facts that it read; all of them where it asked for all
	// Fault says why the answer counts as Refuse, the policy's name first; ""
	// where it answered within the rules, be it with Refuse.
	Fault string
}

// offered reports whether a transition has the decision.
func offered(transition string, d Decision) bool { return slices.Contains(Offers(transition), d) }
