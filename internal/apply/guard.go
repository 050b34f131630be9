package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"meshgen/generator"
	"meshgen/state"
	"meshgen/units"
)

// guard refuses a plan that would start, stop or restart what is not ours under
// a name that is: the start of a container or a pod would fail, by what every start
// of ours has before it, units.Guarded; a unit file of the owner's comes before ours;
// and podman makes no network on the subnet of one that stays.
func (n *Node) guard(ctx context.Context, plan Plan, desired state.Generation) (units.Faults, error) {
	if n.Systemd == nil {
		return nil, nil
	}
	barred, err := n.barred(ctx, plan, desired)
	if err != nil {
		return nil, err
	}
	var faults units.Faults
	for _, name := range slices.Sorted(maps.Keys(barred)) {
		faults = append(faults, barred[name]...)
	}
	faults = append(faults, n.adoptedAsItIs(plan, desired)...)
	crowded, err := n.crowded(ctx, plan, desired)
	if err != nil {
		return nil, err
	}
	others, err := n.othersNeed(ctx, plan, desired)
	return slices.Concat(faults, crowded, others), err
}

// adoptedAsItIs refuses to make anew a network that was adopted: there is no copy of
// it that could be given back.
func (n *Node) adoptedAsItIs(plan Plan, desired state.Generation) units.Faults {
	var faults units.Faults
	for _, r := range desired.Resources {
		t := units.Object(r)
		record, _ := n.ledgerRecord(t)
		if record.Adoption != nil && slices.Contains(plan.Free, t) {
			faults = append(faults, units.Fault{
				Position: r.Position, Message: fmt.Sprintf("%s: %s would have to be made anew, and was adopted as it is", r.Address, t),
				Hint: "declare it as it was, or give this network another name",
			})
		}
	}
	return faults
}

// barred returns what keeps the units of a plan from being acted on, by unit.
func (n *Node) barred(ctx context.Context, plan Plan, desired state.Generation) (map[string]units.Faults, error) {
	names := slices.Concat(plan.Touched(), plan.Stop)
	defined, err := n.foreign(ctx, names)
	if err != nil {
		return nil, err
	}
	for name, path := range generator.Definitions(n.Layout.Root, names) {
		if !isMask(path) {
			defined[name] = path // as soon as systemd reads its units again
		}
	}
	faults := map[string]units.Faults{}
	for _, r := range desired.Resources {
		unit := units.Unit(r)
		if !slices.Contains(names, unit) {
			continue
		}
		if path := defined[unit]; path != "" && !plan.adopts(units.Of(units.TargetUnit, unit)) {
			faults[unit] = append(faults[unit], taken(r, units.Of(units.TargetUnit, unit), "defined by "+path))
		}
		if r.Address.Kind != units.KindContainer && r.Address.Kind != units.KindPod {
			continue
		}
		o, there, err := n.object(ctx, units.Object(r))
		if err != nil {
			return nil, err
		}
		if !there || plan.adopts(units.Object(r)) {
			continue
		}
		ours := o.Labels[units.MarkLabel] != ""
		if r.Address.Kind == units.KindContainer && (o.Unit != unit || defined[unit] != "") {
			if ours, err = n.isOurs(ctx, o); err != nil {
				return nil, err
			}
		}
		if !ours {
			faults[unit] = append(faults[unit], taken(r, units.Object(r), objectHolder(units.Object(r), o)))
		}
	}
	return faults, nil
}

// othersNeed refuses to take away a network or a pod, or to copy a volume, that a
// container uses which is not ours.
func (n *Node) othersNeed(ctx context.Context, plan Plan, desired state.Generation) (units.Faults, error) {
	inUse, err := n.inUse(ctx, plan.Free, desired)
	if err != nil {
		return nil, err
	}
	inPods, err := n.strangers(ctx, plan)
	if err != nil {
		return nil, err
	}
	others, err := n.othersUse(ctx, plan)
	return slices.Concat(inUse, inPods, others), err
}

// inUse refuses to make anew a network that a container uses which is not ours:
// the container would be cut off.
func (n *Node) inUse(ctx context.Context, networks []units.Target, desired state.Generation) (units.Faults, error) {
	if len(networks) == 0 {
		return nil, nil
	}
	containers, err := n.objects.get(ctx, units.TargetContainer)
	if err != nil {
		return nil, err
	}
	var faults units.Faults
	for _, t := range networks {
		for _, name := range slices.Sorted(maps.Keys(containers)) {
			c := containers[name]
			if !slices.Contains(c.Networks, t.Name()) {
				continue
			}
			if ours, err := n.isOurs(ctx, c); err != nil {
				return nil, err
			} else if ours {
				continue
			}
			f := units.Fault{
				Message: fmt.Sprintf("%s has to be made anew, and container %s uses it, which is not of meshgen", t, name),
				Hint:    "take that container off the network first",
			}
			for _, r := range desired.Resources {
				if units.Object(r) == t {
					f.Position = r.Position
				}
			}
			faults = append(faults, f)
		}
	}
	return faults, nil
}

func taken(r units.Resource, t units.Target, holder string) units.Fault {
	return units.Fault{
		Position: r.Position,
		Message:  fmt.Sprintf("%s: %s is taken: %s, and it is not of meshgen", r.Address, t, holder),
		Hint:     leaveIt,
	}
}
