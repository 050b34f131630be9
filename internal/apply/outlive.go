package apply

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

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
// that the plan starts or retires, or that have failed. Podman is asked only where
// there is such a unit.
func (n *Node) outlived(ctx context.Context, plan Plan, b before) ([]Outlived, error) {
	var down []state.Record
	for _, r := range b.records {
		failed := b.seen.units[r.Target.Name()].Active == "failed" && !plan.Empty() // as after a stop that timed out
		ends := slices.Contains(plan.Retire, r.Target) || slices.Contains(plan.Start, r.Target.Name()) || failed
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
			// What another's unit runs under that name is ours if it was there before.
			if o.Running && (b.seen.foreign[r.Target.Name()] == "" || o.ID == r.Container) {
				found = append(found, Outlived{Unit: r.Target.Name(), Container: o.Name, ID: o.ID})
			}
		}
	}
	return found, nil
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
