package apply

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"meshgen/generator"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// Outlived is a container of ours that runs while the unit that ran it is down,
// or is somebody else's by now.
type Outlived struct {
	Unit, Container, ID string
}

// outlived returns the containers that run on without a unit of ours, of the units
// that the plan starts, retires or gives back, or that have failed. Podman is asked only
// where there is such a unit.
func (n *Node) outlived(ctx context.Context, plan Plan, b before) ([]Outlived, error) {
	var down []state.Record
	for _, r := range b.records {
		failed := b.seen.units[r.Target.Name()].Active == "failed" && !plan.Empty() // as after a stop that timed out
		goes := slices.Contains(plan.Retire, r.Target) || slices.Contains(plan.Release, r.Target)
		ends := goes || slices.Contains(plan.Start, r.Target.Name()) || failed
		lost := !b.seen.units[r.Target.Name()].Up() || b.seen.foreign[r.Target.Name()] != ""
		if runsContainer(r) && ends && lost {
			down = append(down, r)
		}
	}
	if len(down) == 0 {
		return nil, nil
	}
	containers, err := n.objects.get(ctx, units.TargetContainer)
	if err != nil {
		return nil, err
	}
	var found []Outlived
	for _, r := range down {
		for _, o := range madeBy(r, containers) {
			was := o.Running
			if was && b.seen.foreign[r.Target.Name()] != "" {
				if was, err = n.startedByOurs(ctx, o, r); err != nil {
					return nil, err
				}
			}
			if was {
				found = append(found, Outlived{Unit: r.Target.Name(), Container: o.Name, ID: o.ID})
			}
		}
	}
	return found, nil
}

// inTheWay returns the containers of ours that run under units which are let be,
// since they are somebody else's by now, and that stand in the way of a container
// that the plan starts.
func (n *Node) inTheWay(ctx context.Context, plan Plan, barred map[string]units.Faults, from, to state.Generation) ([]Outlived, error) {
	var starts []units.Resource
	for _, r := range to.Resources {
		if r.Address.Kind == units.KindContainer && slices.Contains(plan.Touched(), units.Unit(r)) {
			starts = append(starts, r)
		}
	}
	if len(barred) == 0 || len(starts) == 0 {
		return nil, nil
	}
	containers, err := n.objectsOf(ctx, units.TargetContainer)
	if err != nil {
		return nil, err
	}
	var found []Outlived
	for _, o := range containers {
		unit, ours := n.ledgerRecord(units.Of(units.TargetUnit, o.Unit))
		if !ours || !o.Running || barred[o.Unit] == nil || o.Labels[units.MarkLabel] == "" {
			continue
		}
		if !slices.ContainsFunc(starts, func(r units.Resource) bool { return hinders(o, r, from, to) }) {
			continue
		}
		was, err := n.startedByOurs(ctx, o, unit)
		if err != nil {
			return nil, err
		}
		if was {
			found = append(found, Outlived{Unit: o.Unit, Container: o.Name, ID: o.ID})
		}
	}
	return found, nil
}

// hinders reports whether a container of ours must not run beside one that another
// unit starts: it has its name, or is of the same resource, or has a port or data
// that it had before, and that goes to the other.
func hinders(o host.Object, r units.Resource, from, to state.Generation) bool {
	if o.Unit == units.Unit(r) {
		return false
	}
	a, err := units.ParseAddress(o.Labels[units.MarkLabel])
	if err != nil || a == r.Address || o.Name == units.Object(r).Name() {
		return true
	}
	has := storage(to)
	for source := range storage(from)[a] {
		if has[r.Address][source] && !has[a][source] {
			return true
		}
	}
	return slices.ContainsFunc(units.Ports(byAddress(from)[a]), func(p units.Port) bool {
		return slices.ContainsFunc(units.Ports(r), p.Overlaps)
	})
}

// startedByOurs reports whether a container of a unit that somebody else defines
// by now was started when the definition was ours still: the ledger has its id, or,
// where a boot or systemd itself has started it since, it has the path of our
// generator's file. A path that its image has too, by podman commit, says nothing.
func (n *Node) startedByOurs(ctx context.Context, o host.Object, unit state.Record) (bool, error) {
	if o.ID == unit.Container {
		return true, nil
	}
	path := o.Labels[units.FragmentLabel]
	if path != generatedBy+unit.Target.Name() && !ours(n.Layout, path) {
		return false, nil
	}
	images, err := n.Podman.ImageLabels(ctx)
	return images[o.ImageID][units.FragmentLabel] != path, err
}

// isOurs reports whether a container is of a unit of ours. One that bears our mark
// is not, where the owner's unit runs it: a copy of ours, with our label in it.
func (n *Node) isOurs(ctx context.Context, o host.Object) (bool, error) {
	if o.Labels[units.MarkLabel] == "" {
		return false, nil
	}
	unit, known := n.ledgerRecord(units.Of(units.TargetUnit, o.Unit))
	if known && o.ID == unit.Container {
		return true, nil
	}
	if known && unit.State == state.Live && generator.Definition(n.Layout.Root, o.Unit) == "" {
		return true, nil // whatever started it by our definition: a boot, or systemd
	}
	return n.startedByOurs(ctx, o, unit)
}

func runsContainer(r state.Record) bool {
	return r.Target.Kind() == units.TargetUnit && r.Resource.Kind == units.KindContainer && r.State == state.Live
}

// containerOf returns the id of the container that a service runs, from the file
// in which Quadlet has podman put it; "" where there is none.
func containerOf(l state.Layout, service string) string {
	text, err := os.ReadFile(l.Path("/run/" + strings.TrimSuffix(service, ".service") + ".cid"))
	if err != nil {
		return "" // of a network, say; a container is also known by its labels
	}
	return strings.TrimSpace(string(text))
}

// madeBy returns the containers that a unit of ours made, under whatever names
// they go by now: podman rename changes that, and neither the id nor the label
// and what podman was told of the unit.
func madeBy(unit state.Record, containers map[string]host.Object) []host.Object {
	var found []host.Object
	for _, o := range containers {
		if (unit.Container != "" && o.ID == unit.Container) || (marked(o, unit) && o.Unit == unit.Target.Name()) {
			found = append(found, o)
		}
	}
	return found
}

// endOutlived removes the containers that outlived their units, before what has
// their place comes.
func (m *move) endOutlived(ctx context.Context) error {
	for _, o := range m.plan.End {
		step := Step{Op: "end", Target: units.Of(units.TargetContainer, o.Container), Reason: "it outlived " + o.Unit}
		if err := m.node.Podman.RemoveContainer(ctx, o.ID); err != nil {
			return fmt.Errorf("%s: end: %w", step.Target, err)
		}
		m.progress(Event{Step: step, Ended: true})
	}
	if len(m.plan.End) > 0 {
		m.node.forget()
	}
	return nil
}
