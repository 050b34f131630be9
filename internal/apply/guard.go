package apply

import (
	"context"
	"fmt"
	"slices"

	"meshgen/state"
	"meshgen/units"
)

// guard refuses a plan that would start, stop or restart what is not ours under
// a name that is: podman run --replace destroys whatever container has the name,
// and a unit file of the owner's comes before ours.
func (n *Node) guard(ctx context.Context, plan Plan, desired state.Generation) (units.Faults, error) {
	if n.Systemd == nil {
		return nil, nil
	}
	names := slices.Concat(plan.Touched(), plan.Stop)
	defined, err := n.foreign(ctx, names)
	if err != nil {
		return nil, err
	}
	var faults units.Faults
	for _, r := range desired.Resources {
		unit := units.Unit(r)
		if !slices.Contains(names, unit) {
			continue
		}
		if path := defined[unit]; path != "" {
			faults = append(faults, taken(r, units.Of(units.TargetUnit, unit), "defined by "+path))
		}
		if r.Address.Kind != units.KindContainer {
			continue
		}
		o, there, err := n.object(ctx, units.Object(r))
		if err != nil {
			return nil, err
		}
		if there && o.Labels[units.MarkLabel] == "" {
			faults = append(faults, taken(r, units.Object(r), objectHolder(units.Object(r), o)))
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
