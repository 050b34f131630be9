package apply

import (
	"context"
	"slices"

	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// Last is the job that a plan has for the unit that the switch itself runs in, or
// for what takes its place: it would end the switch, and so is given when all
// else is done and recorded, and is not waited for. The zero value is none.
type Last struct {
	Verb host.Verb
	Unit string
	// Invocation is the run that the job ends.
	Invocation string
}

const runsInIt = "last: this switch runs in it"

// ownLast returns the plan with what it has for the unit own put off to the end. A
// name that goes with it stays live until a later switch.
func (p Plan) ownLast(own, invocation string) Plan {
	is := func(name string) bool { return name == own }
	p.Last = Last{Unit: own, Invocation: invocation}
	i := slices.IndexFunc(p.Handover, func(h Handover) bool { return h.Old == own })
	stops, starts := slices.Contains(p.Stop, own), slices.Contains(p.Start, own)
	switch {
	case i >= 0:
		p.Last.Verb, p.Last.Unit = host.Start, p.Handover[i].New
		p.Handover = slices.Delete(slices.Clone(p.Handover), i, i+1)
	case stops && starts, slices.Contains(p.Restart, own):
		p.Last.Verb = host.Restart
	case slices.Contains(p.ReloadUnits, own):
		p.Last.Verb = host.Reload
	case stops:
		p.Last.Verb = host.Stop
	default:
		p.Last = Last{}
		return p
	}
	p.Stop = slices.DeleteFunc(p.Stop, is)
	p.Rescue = slices.DeleteFunc(p.Rescue, is)
	p.Start = slices.DeleteFunc(p.Start, is)
	p.Restart = slices.DeleteFunc(p.Restart, is)
	p.ReloadUnits = slices.DeleteFunc(p.ReloadUnits, is)
	if p.Last.Verb == host.Stop || p.Last.Unit != own {
		p.Retire = slices.DeleteFunc(p.Retire, func(t units.Target) bool { return t == units.Of(units.TargetUnit, own) })
	}
	p.because(Op(p.Last.Verb), p.Last.Unit, runsInIt)
	return p
}

// giveLast gives the job that was put off.
func (m *move) giveLast(ctx context.Context) error {
	last := m.plan.Last
	if last.Verb == "" {
		return nil
	}
	err := m.node.Systemd.Enqueue(ctx, last.Verb, last.Unit)
	m.progress(Event{Step: last.step(), Ended: true, Err: err})
	return err
}

func (l Last) step() Step {
	return Step{Op: Op(l.Verb), Target: units.Of(units.TargetUnit, l.Unit), Reason: runsInIt}
}

// due returns what is to be recorded of the job: until a switch sees another run,
// the unit has not had it.
func (l Last) due() []state.Event {
	if l.Verb == "" || l.Verb == host.Stop {
		return nil
	}
	return []state.Event{{Kind: state.EventDue, Target: units.Of(units.TargetUnit, l.Unit), Why: state.Last, Invocation: l.Invocation}}
}
