package state

import (
	"fmt"
	"strings"

	"meshgen/units"
)

// Holding is a declared resource that a switch leaves out: what has a name of it
// is somebody else's, or it needs a resource of which that is so. One that the
// node has already stays as it is.
type Holding struct {
	Resource units.Address `json:"resource"`
	// Taken are the takeovers that were decided to be held; none where Needs says
	// which other resource it waits for.
	Taken    []Transition   `json:"taken,omitempty"`
	Needs    units.Address  `json:"needs,omitzero"`
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

// Hint says how the resource comes to be; "" where it comes with what it needs.
func (h Holding) Hint() string {
	if len(h.Taken) == 0 {
		return ""
	}
	names := make([]string, len(h.Taken))
	for i, t := range h.Taken {
		names[i] = string(t.To)
	}
	return "`meshgen adopt " + strings.Join(names, " ") + "` takes its place and keeps a copy; or give the resource another name, or move what is there out of the way"
}
