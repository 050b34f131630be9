package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// inUseByMasked returns the networks and volumes that are no longer declared, and
// that a container uses whose unit is declared, up and masked. Its owner wants it
// neither stopped nor started: what it has stays until it ends. What it keeps is
// said beside the mask. Podman is asked only where there is such a unit, and such
// a name.
func (n *Node) inUseByMasked(ctx context.Context, desired state.Generation, records []state.Record, seen sight) (map[units.Target]bool, error) {
	going := map[units.Target]bool{}
	for _, r := range records {
		switch r.Target.Kind() {
		case units.TargetNetwork, units.TargetVolume:
			going[r.Target] = r.State == state.Live
		}
	}
	for _, r := range desired.Resources {
		delete(going, units.Object(r))
	}
	maps.DeleteFunc(going, func(_ units.Target, live bool) bool { return !live })
	inUse := map[units.Target]bool{}
	if len(going) == 0 {
		return inUse, nil
	}
	for _, r := range records {
		u := seen.units[r.Target.Name()]
		if !runsContainer(r) || u.Load != "masked" || !u.Up() || seen.observed.Overridden[r.Target] == "" {
			continue
		}
		containers, err := n.objects.get(ctx, units.TargetContainer)
		if err != nil {
			return nil, err
		}
		var uses []string
		for _, o := range madeBy(r, containers) {
			kept, err := n.uses(ctx, o, going)
			if err != nil {
				return nil, err
			}
			for _, t := range kept {
				inUse[t] = true
				uses = append(uses, string(t))
			}
		}
		slices.Sort(uses)
		for _, name := range uses {
			seen.observed.Overridden[r.Target] += fmt.Sprintf(", and runs on with %s, which is no longer declared and stays for it", name)
		}
	}
	return inUse, nil
}

// uses returns those of the names that a container has: a network or a volume that
// it was made with.
func (n *Node) uses(ctx context.Context, o host.Object, names map[units.Target]bool) ([]units.Target, error) {
	var found []units.Target
	for t := range names {
		switch {
		case t.Kind() == units.TargetNetwork:
			if slices.Contains(o.Networks, t.Name()) {
				found = append(found, t)
			}
		default:
			users, err := n.Podman.VolumeUsers(ctx, t.Name())
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(users, func(u host.Object) bool { return u.ID == o.ID }) {
				found = append(found, t)
			}
		}
	}
	return found, nil
}
