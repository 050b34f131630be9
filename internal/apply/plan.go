package apply

import (
	"slices"

	"meshgen/internal/host"
	"meshgen/units"
)

// Handover is a unit that takes another's place in one transaction of systemd:
// the old is stopped, with its definition at hand, and the new starts.
type Handover struct {
	Old, New string
}

// Plan is what a switch does to the machine. Each list stands for a step; the
// steps are taken in this order.
type Plan struct {
	// Adopt are found things whose places are taken; the copies come first, and they
	// are put aside right before the new set is in force.
	Adopt []Adoption
	// Rescue are units that are up and whose definition systemd has lost.
	Rescue []string
	// Stop are the units that cannot be handed over, or whose names or ports
	// others need.
	Stop []string
	// End are containers that run on while their units are down.
	End []Outlived
	// Free are networks that have to go before what takes their place can come.
	Free []units.Target
	// Astray are those of Stop whose containers go by another name, or are gone.
	Astray []string
	// Copy are volumes that are migrated.
	Copy []Copy
	// Dirs are directories to be made, before the files, and to be set with them.
	Dirs []Directory
	// Write are files to be put in place.
	Write []units.Resource
	// Make are secrets to be made, or made anew.
	Make []units.Resource
	// Handover are renamed units. Bridge are those that they need and that
	// systemd does not have yet.
	Handover []Handover
	Bridge   []string
	// Restart, ReloadUnits and Start are taken after systemd has read the new
	// definitions.
	Restart     []string
	ReloadUnits []string
	Start       []string
	// Idle are those of Start that were down, of a declaration that changed.
	Idle []string
	// Confirm are units that a boot has started since they were due: all that is
	// left is to record it.
	Confirm []string
	// Masked are units that would be started, or started anew, if they were not
	// masked: they are due once they are not.
	Masked []string
	// Barred are units that the plan would bring up again if they were not masked.
	Barred []string
	// Notified are those of Restart and ReloadUnits that a file makes act.
	Notified []string
	// Dependents are up, and go down with a unit that is taken down: they are
	// started again. Some may not be of meshgen.
	Dependents []string
	// Last is the job of the unit that the switch runs in.
	Last Last
	// Release are names of what was adopted and is given back, Lost of what was to be
	// and is not there any more.
	Release []units.Target
	Lost    []units.Target
	// Retire are the names that are to be gone. Hold are those that are let be.
	Retire []units.Target
	Hold   []units.Target
	// Emit are the names that are new, or whose definition is.
	Emit []units.Target
	// Reread says that systemd has to read its units again.
	Reread bool
	// Settings says that the node or a resource has another policy, or that others
	// are held, which a new generation is to remember.
	Settings bool

	reasons map[reasonKey]string
}

// reasonKey is an act on a unit that has a reason.
type reasonKey struct {
	op   Op
	unit string
}

// Reason says why a unit is acted on; "" where that needs no words.
func (p Plan) Reason(op Op, unit string) string { return p.reasons[reasonKey{op, unit}] }

// because gives the reason for an act; the last one counts.
func (p Plan) because(op Op, unit, reason string) { p.reasons[reasonKey{op, unit}] = reason }

// Empty reports whether there is nothing to do.
func (p Plan) Empty() bool {
	return len(p.Adopt)+len(p.Release)+len(p.Lost)+len(p.Rescue)+len(p.Stop)+len(p.End)+len(p.Free)+len(p.Dirs)+len(p.Write)+len(p.Make)+len(p.Handover)+len(p.Restart)+len(p.ReloadUnits)+
		len(p.Start)+len(p.Confirm)+len(p.Retire)+len(p.Hold)+len(p.Emit) == 0 && !p.Reread && !p.Settings && p.Last.Verb == ""
}

// offline returns the plan for a system that does not run: its files and its
// names, and nothing that a unit or podman would have to do.
func (p Plan) offline() Plan {
	return Plan{Adopt: p.Adopt, Release: p.Release, Lost: p.Lost, Dirs: p.Dirs, Write: p.Write, Retire: p.Retire, Hold: p.Hold, Emit: p.Emit, Settings: p.Settings, reasons: p.reasons}
}

// TakenDown are the units that are up and that the plan stops, if only to start
// them again.
func (p Plan) TakenDown() []string {
	names := slices.Concat(p.Stop, p.Restart)
	for _, h := range p.Handover {
		names = append(names, h.Old)
	}
	return names
}

// Touched are the units that the plan has running in the end.
func (p Plan) Touched() []string {
	names := slices.Concat(p.Restart, p.ReloadUnits, p.Start)
	for _, h := range p.Handover {
		names = append(names, h.New)
	}
	return names
}

// sparing returns the plan with nothing done to these units.
func (p Plan) sparing(names map[string]units.Faults) Plan {
	among := func(name string) bool { return len(names[name]) > 0 }
	p.Rescue = slices.DeleteFunc(p.Rescue, among)
	p.Stop = slices.DeleteFunc(p.Stop, among)
	p.Restart = slices.DeleteFunc(p.Restart, among)
	p.ReloadUnits = slices.DeleteFunc(p.ReloadUnits, among)
	p.Start = slices.DeleteFunc(p.Start, among)
	for _, h := range p.Handover { // what it was to take the place of still goes
		if among(h.New) && !slices.Contains(p.Stop, h.Old) {
			p.Stop = append(p.Stop, h.Old)
		}
	}
	p.Handover = slices.DeleteFunc(p.Handover, func(h Handover) bool { return among(h.New) })
	return p
}

// without returns the plan with these units down in the end, and not started for
// their own sake.
func (p Plan) without(names []string, now map[string]host.Unit) Plan {
	among := func(name string) bool { return slices.Contains(names, name) }
	p.Start = slices.DeleteFunc(p.Start, among)
	p.Restart = slices.DeleteFunc(p.Restart, among)
	p.ReloadUnits = slices.DeleteFunc(p.ReloadUnits, among)
	for _, name := range names {
		if now[name].Up() && !slices.Contains(p.Stop, name) {
			p.Stop = append(p.Stop, name)
			p.reasons[reasonKey{"stop", name}] = "it was down before"
		}
	}
	return p
}
