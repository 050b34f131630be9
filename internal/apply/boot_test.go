package apply

import (
	"slices"
	"testing"

	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// A unit that was due at a boot is confirmed where the boot, or somebody since,
// has started it; it is started where nobody has; and one that its owner has
// stopped since stays stopped.
func TestPlanAfterARecoveryAtBoot(t *testing.T) {
	const name = "x.service"
	for says, c := range map[string]struct {
		unit       host.Unit
		invocation string // of this boot, "" where it has not run
		edited     bool
		confirm    bool
		start      bool
		restart    bool
	}{
		"up":                   {unit: host.Unit{Active: "active"}, invocation: "1", confirm: true},
		"on its way up":        {unit: host.Unit{Active: "activating", Sub: "start"}, invocation: "1"},
		"up and down again":    {unit: host.Unit{Active: "activating", Sub: "auto-restart"}, invocation: "1", confirm: true},
		"stopped by its owner": {unit: host.Unit{Active: "inactive"}, invocation: "1", confirm: true},
		"not started":          {unit: host.Unit{Active: "inactive"}, start: true},
		"failed":               {unit: host.Unit{Active: "failed"}, invocation: "1", start: true},
		"masked":               {unit: host.Unit{Active: "inactive", Load: "masked"}},
		"up, and edited":       {unit: host.Unit{Active: "active"}, invocation: "1", edited: true, restart: true},
		"down, and edited":     {unit: host.Unit{Active: "inactive"}, invocation: "1", edited: true, start: true},
	} {
		t.Run(says, func(t *testing.T) {
			g := generation(1, container("x", "x"))
			b := running(g)
			r := b.record(units.Of(units.TargetUnit, name))
			r.Due, r.DueWhy, r.Started = true, state.Boot, "what ran before"
			c.unit.Name = name
			if c.unit.Load == "" {
				c.unit.Load = "loaded"
			}
			b.seen.units[name] = c.unit
			b.seen.invocations = map[string]string{name: c.invocation}
			if c.edited {
				g = generation(2, container("x", "x", "Image=another"))
			}
			p := makePlan(b, g)
			for what, list := range map[string]struct {
				names []string
				want  bool
			}{"confirmed": {p.Confirm, c.confirm}, "started": {p.Start, c.start}, "restarted": {p.Restart, c.restart}} {
				if slices.Contains(list.names, name) != list.want {
					t.Errorf("%s is %v, want %v", what, !list.want, list.want)
				}
			}
			if !c.edited && p.Empty() == (c.confirm || c.start) {
				t.Errorf("the plan is empty: %v", p.Empty())
			}
		})
	}
}
