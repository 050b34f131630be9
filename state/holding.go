package state

import (
	"fmt"
	"strings"

	"meshgen/internal/hint"
	"meshgen/units"
)

// Holding is a declared resource that a switch leaves out: what has a name of it
// is somebody else's, or it needs a resource of which that is so. One that the
// node has already stays as it is.
type Holding struct {
	Resource units.Address `json:"resource"`
	// Taken are the takeovers that were decided to be held; none where Needs says
	// which other resource it waits for.
	Taken []Transition  `json:"taken,omitempty"`
	Needs units.Address `json:"needs,omitzero"`
	// Adopt are the names that have to be adopted for it to come: those in its own
	// way, then those in the way of what it needs.
	Adopt []units.Target `json:"adopt,omitempty"`
	// Instead says which of these can never be adopted, why, and what to do; "" where
	// all may be.
	Instead  string         `json:"instead,omitempty"`
	Position units.Position `json:"position"`
}

// Why says what the resource waits for.
func (h Holding) Why() string {
	if len(h.Taken) == 0 {
		return fmt.Sprintf("it needs %s, which is held", h.Needs)
	}
	words := make([]string, len(h.Taken))
	for i, t := range h.Taken {
		words[i] = fmt.Sprintf("%s is taken: %s", t.To, t.Reason)
	}
	return strings.Join(words, "; ")
}

// Hint says how the resource comes to be; "" where that is not known.
func (h Holding) Hint() string {
	switch command := h.Command(); {
	case h.Instead != "":
		return h.Instead
	case command == "":
		return ""
	case len(h.Taken) == 0:
		return "`" + command + "` takes the place of what it waits for"
	default:
		return "`" + command + "` takes its place and keeps a copy; or give the resource another name, or move what is there out of the way"
	}
}

// Command is what is typed for the resource to come to be; "" where that is not
// known, or no command does it.
func (h Holding) Command() string {
	names := h.Adopts()
	if len(names) == 0 {
		return ""
	}
	words := []string{"meshgen", "adopt"}
	for _, name := range names {
		words = append(words, string(name))
	}
	return hint.Command(words...)
}

// Adopts returns the names that [Holding.Command] adopts.
func (h Holding) Adopts() []units.Target {
	switch {
	case h.Instead != "":
		return nil
	case len(h.Adopt) > 0:
		return h.Adopt
	}
	var names []units.Target // of one that an earlier version wrote
	for _, t := range h.Taken {
		names = append(names, t.To)
	}
	return names
}
