package generator

import (
	"io/fs"
	"os"
	"strings"

	"meshgen/state"
)

// SwitchUnit makes the first switch of a machine whose image came with a manifest.
const SwitchUnit = "meshgen-switch.service"

// first pulls in [SwitchUnit] where a manifest is there, nothing is in force nor about
// to be, and the node was not ejected.
func (r *replay) first() {
	if _, ejected, err := state.Ejected(r.layout); err != nil || ejected {
		return
	}
	if _, unfinished, err := state.Pending(r.layout); err != nil || unfinished || !r.declares() {
		return
	}
	r.dropIn("multi-user.target", "switch", "# A manifest, and nothing in force.\n[Unit]\nWants="+SwitchUnit+"\n")
}

// declares reports whether the manifest's directory has CUE in it.
func (r *replay) declares() bool {
	entries, _ := os.ReadDir(r.layout.Manifest()) // what cannot be read declares nothing
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".cue") && (e.Type().IsRegular() || e.Type()&fs.ModeSymlink != 0) {
			return true
		}
	}
	return false
}
