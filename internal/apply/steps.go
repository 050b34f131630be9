package apply

import (
	"time"

	"meshgen/units"
)

// Event tells of a step that is begun or has ended. Steps that take no time of
// their own are told of at their end alone.
type Event struct {
	Step
	Ended bool
	Took  time.Duration // where it ended
	Err   error         // where it ended badly
}

// Progress is told of each step, one call at a time.
type Progress func(Event)

// Op is what a step does. For what is done by a job it is the job's verb.
type Op string

// HandOver is the start of a renamed unit, which stops the one whose place it
// takes.
const HandOver Op = "hand over"

// Step is one thing that a switch does, as the owner is shown it.
type Step struct {
	Op     Op           `json:"op"`
	Target units.Target `json:"target,omitempty"`
	Reason string       `json:"reason,omitempty"`
}

// Steps lists what the plan does, in its order.
func (p Plan) Steps() []Step {
	var steps []Step
	unit := func(op Op, names []string) {
		for _, name := range names {
			steps = append(steps, Step{Op: op, Target: units.Of(units.TargetUnit, name), Reason: p.Reason(op, name)})
		}
	}
	for _, a := range p.Adopt {
		steps = append(steps, a.step())
	}
	for _, name := range p.Rescue {
		steps = append(steps, Step{Op: "rescue", Target: units.Of(units.TargetUnit, name), Reason: "its recorded definition is put back"})
	}
	unit("stop", p.Stop)
	for _, o := range p.End {
		steps = append(steps, Step{Op: "end", Target: units.Of(units.TargetContainer, o.Container), Reason: "it outlived " + o.Unit})
	}
	for _, t := range p.Free {
		steps = append(steps, Step{Op: "remove", Target: t, Reason: "makes room"})
	}
	for _, c := range p.Copy {
		steps = append(steps, c.step())
	}
	for _, d := range p.Dirs {
		steps = append(steps, d.step())
	}
	for _, r := range p.Write {
		steps = append(steps, Step{Op: "write", Target: units.Of(units.TargetFile, r.File.Path)})
	}
	for _, r := range p.Make {
		steps = append(steps, Step{Op: "make", Target: units.Object(r)})
	}
	for _, h := range p.Handover {
		unit(HandOver, []string{h.New})
	}
	if p.Reread {
		steps = append(steps, Step{Op: "reload", Reason: "systemd reads its units again"})
	}
	unit("reload", p.ReloadUnits)
	unit("restart", p.Restart)
	unit("start", p.Start)
	for _, name := range p.Confirm {
		steps = append(steps, Step{Op: "confirm", Target: units.Of(units.TargetUnit, name), Reason: "started at the boot after a switch that was cut short"})
	}
	for _, name := range p.Dependents {
		steps = append(steps, Step{Op: "start", Target: units.Of(units.TargetUnit, name), Reason: "goes down with what it needs"})
	}
	for _, t := range p.Retire {
		if t.Kind() != units.TargetPort {
			steps = append(steps, Step{Op: "retire", Target: t, Reason: p.Reason("retire", string(t))})
		}
	}
	for _, t := range p.Release {
		steps = append(steps, Step{Op: "release", Target: t, Reason: "what it was is given back"})
	}
	for _, t := range p.Lost {
		steps = append(steps, Step{Op: "release", Target: t, Reason: "cannot be given back: " + p.Reason("release", string(t))})
	}
	for _, t := range p.Hold {
		steps = append(steps, Step{Op: "hold", Target: t, Reason: p.Reason("hold", string(t))})
	}
	if p.Last.Verb != "" {
		steps = append(steps, p.Last.step())
	}
	return steps
}
