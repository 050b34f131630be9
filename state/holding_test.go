package state

import (
	"testing"

	"meshgen/units"
)

// What is to be typed is for a shell, whatever is in the way is called.
func TestHoldingSaysWhatIsTyped(t *testing.T) {
	for want, h := range map[string]Holding{
		"":                            {Adopt: []units.Target{"file:/a"}, Instead: "move it by hand"},
		"meshgen adopt container:web": {Taken: []Transition{{To: "container:web"}}},
		"meshgen adopt 'file:/etc/a b' volume:data":  {Adopt: []units.Target{"file:/etc/a b", "volume:data"}},
		"meshgen adopt 'file:/etc/$(reboot)' unit:x": {Adopt: []units.Target{"file:/etc/$(reboot)", "unit:x"}, Taken: []Transition{{To: "unit:x"}}},
	} {
		if got := h.Command(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
