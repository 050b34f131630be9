package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"meshgen/state"
	"meshgen/units"
)

// members returns the containers that are in each pod.
func members(resources []units.Resource) map[units.Address][]units.Resource {
	pods := map[string]units.Address{} // by their Quadlets
	for _, r := range resources {
		if r.Address.Kind == units.KindPod {
			pods[units.QuadletFile(r)] = r.Address
		}
	}
	in := map[units.Address][]units.Resource{}
	for _, r := range resources {
		if pod, ok := pods[r.Value("Container", "Pod")]; ok {
			in[pod] = append(in[pod], r)
		}
	}
	return in
}

// pods finds the pods that have to be made anew. A pod takes its containers down with
// it, and they live in what it holds open: what is in it stops before, by the
// definition that it was started with, and what is in its successor starts after.
func (p *planner) pods() {
	was, is := members(p.generation.Resources), members(p.desired.Resources)
	for _, r := range p.generation.Resources {
		unit := units.Unit(r)
		if r.Address.Kind != units.KindPod || p.record[units.Of(units.TargetUnit, unit)].State != state.Live {
			continue
		}
		if reason := p.podChanges(r); reason != "" {
			p.halt(unit, r.Address, reason)
		}
		if !p.stop[unit] {
			continue
		}
		for _, c := range was[r.Address] {
			p.halt(units.Unit(c), c.Address, "it is in "+string(units.Object(r)))
		}
		// A switch that was cut short may have come as far as to have others in it.
		for _, c := range is[r.Address] {
			p.halt(units.Unit(c), c.Address, "it is in "+string(units.Object(r)))
		}
	}
}

// podChanges says why a pod cannot stay as it is; "" where it can.
func (p *planner) podChanges(r units.Resource) string {
	unit := units.Unit(r)
	next, stays := p.resource[r.Address]
	u, kept := p.unit[unit]
	record := p.record[units.Of(units.TargetUnit, unit)]
	switch {
	case stays && units.Object(next) != units.Object(r):
		return string(units.Object(r)) + " becomes " + string(units.Object(next))
	case stays && units.Unit(next) != unit:
		return "renamed to " + units.Unit(next)
	case !kept:
		return "no longer declared"
	case u.Resource.Kind == units.KindPod && !p.runs(record, u):
		return "its definition changed"
	}
	return ""
}

// strangers refuses to stop a pod of ours that has a container in it which is not:
// systemd stops a pod by removing it, with all that is in it.
func (n *Node) strangers(ctx context.Context, plan Plan) (units.Faults, error) {
	down := map[string]bool{}
	for _, unit := range plan.TakenDown() {
		down[unit] = n.isPod(unit)
	}
	maps.DeleteFunc(down, func(_ string, pod bool) bool { return !pod })
	if len(down) == 0 {
		return nil, nil
	}
	pods, err := n.objects.get(ctx, units.TargetPod)
	if err != nil {
		return nil, err
	}
	containers, err := n.objects.get(ctx, units.TargetContainer)
	if err != nil {
		return nil, err
	}
	var faults units.Faults
	for _, name := range slices.Sorted(maps.Keys(containers)) {
		c := containers[name]
		for _, pod := range pods {
			if c.Pod != pod.ID || c.Infra || !down[pod.Unit] || n.unitMakesAgain(c) {
				continue
			}
			if ours, err := n.isOurs(ctx, c); err != nil {
				return nil, err
			} else if ours {
				continue
			}
			faults = append(faults, units.Fault{
				Message: fmt.Sprintf("pod:%s has to be stopped, and container %s is in it, which is not of meshgen", pod.Name, name),
				Hint:    "take that container away first: it would go with the pod",
			})
		}
	}
	return faults, nil
}

// isPod reports whether a unit of ours runs a pod.
func (n *Node) isPod(unit string) bool {
	r, ok := n.ledgerRecord(units.Of(units.TargetUnit, unit))
	return ok && r.Resource.Kind == units.KindPod
}
