package state

import (
	"strings"

	"meshgen/units"
)

// TransitionKind says how a resource differs from what the node has.
type TransitionKind string

// The kinds of transition.
const (
	Create   TransitionKind = "create"
	Update   TransitionKind = "update"
	Rename   TransitionKind = "rename"
	Transfer TransitionKind = "transfer"
	Remove   TransitionKind = "remove"
	Takeover TransitionKind = "takeover"
	Drift    TransitionKind = "drift"
)

// Decision is what is to be done about a transition.
type Decision string

// The decisions.
const (
	Refuse      Decision = "refuse"
	Hold        Decision = "hold"  // leave what is there, and this resource out
	Adopt       Decision = "adopt" // keep a copy of what is there, and take its place
	Follow      Decision = "follow"
	Migrate     Decision = "migrate" // copy, then follow
	Transferred Decision = "transfer"
	Removed     Decision = "remove"
	Keep        Decision = "keep"
	Restore     Decision = "restore"
)

// Change is what other hands did to what is ours.
type Change string

// The changes.
const (
	ChangedContent Change = "content"
	ChangedMode    Change = "mode" // or owner
	Gone           Change = "gone"
	Directory      Change = "directory" // stands in its place, as do the next two
	Symlink        Change = "symlink"
	Special        Change = "special"
	File           Change = "file" // stands in the place of a directory
	Masked         Change = "masked"
	Overridden     Change = "overridden" // another definition comes before ours
	Damaged        Change = "damaged"    // what the generation gives systemd
	Renamed        Change = "renamed"
	Remade         Change = "remade"
)

// Transition is one difference between what is declared and what the node has.
type Transition struct {
	Kind     TransitionKind `json:"kind"`
	Resource units.Address  `json:"resource"`
	// From and To are the target before and after; one is empty where there is
	// no before or after.
	From units.Target `json:"from,omitempty"`
	To   units.Target `json:"to,omitempty"`
	// Change says of a drift what other hands did.
	Change Change `json:"change,omitempty"`
	// Candidates are the resources that a transfer may come from, where they are
	// more than one.
	Candidates []units.Address `json:"candidates,omitempty"`
	// Reason says what differs, where that needs words, and Said what the policy
	// said of it. Decision is empty where nothing needed judging.
	Decision Decision `json:"decision,omitempty"`
	// Policy is the name of the policy that decided, PolicySum the sha256 of its
	// code in hexadecimal, and Facts what it read before it did.
	Policy    string            `json:"policy,omitempty"`
	Reason    string            `json:"reason,omitempty"`
	Said      string            `json:"said,omitempty"`
	PolicySum string            `json:"policySum,omitempty"`
	Facts     map[string]string `json:"facts,omitempty"`
	Position  units.Position    `json:"position"`
}

// BuiltinPolicy is the name of the policy that decides where a module brings none.
const BuiltinPolicy = "builtin"

// Why says why it was decided so, as far as that needs words: what differs, and
// what the policy said. Where the built-in one has things go on as usual, it has
// nothing to add.
func (t Transition) Why() string {
	said := t.Said
	switch {
	case said == "":
	case t.Policy != BuiltinPolicy:
		said = t.Spoken()
	case t.Decision == Refuse && t.Kind != Takeover:
	case t.Reason != "" || t.usual():
		said = ""
	}
	if t.Reason == "" || said == "" {
		return t.Reason + said
	}
	return t.Reason + ": " + said
}

// Spoken is what the policy said, with its name, which a fault of it has already.
func (t Transition) Spoken() string {
	name := "policy " + t.Policy + ": "
	return name + strings.TrimPrefix(t.Said, name)
}

// usual reports whether things go on as they do where nobody says otherwise.
func (t Transition) usual() bool {
	switch t.Decision {
	case Follow, Transferred, Removed, Restore:
		return true
	case Refuse, Hold, Adopt, Migrate, Keep:
	}
	return false
}
