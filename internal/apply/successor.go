package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"meshgen/internal/hint"
	"meshgen/state"
	"meshgen/units"
)

// besideSuccessor refuses to give back what would run beside the resource that took its
// place, where that stays under another name or address and both would be at the same
// data or port. What a unit of the owner's runs on is not known before it runs.
func (n *Node) besideSuccessor(ctx context.Context, r state.Record, stay []units.Resource, moved units.Moves) error {
	now, stays := n.successor(r, stay, moved)
	if !stays {
		return nil
	}
	shared := ""
	switch was := r.Adoption; {
	case was.What == wasContainer && was.Aside != "" && len(was.Files) == 0:
		if !was.Running && was.Restart == "" {
			return nil
		}
		var err error
		if shared, err = n.sharedBy(ctx, was.ID, now, stay); err != nil || shared == "" {
			return err
		}
		shared = "and both would use " + shared
	case was.What == wasContainer, was.What == wasPod, was.What == wasUnit, was.What == wasQuadlet:
		shared = "and what the two would share is not known"
	default:
		return nil
	}
	return hint.Add(fmt.Errorf("%s: cannot be given back: %s at %s took its place and stays, as %s, %s", r.Target, now.Address, now.Position, units.Object(now), shared),
		"take that out of the manifest and switch, then "+hint.Command("meshgen", "release", string(r.Target)))
}

// successor returns the one of the resources that took the place of what was adopted
// under a name, at whatever address it is by now.
func (n *Node) successor(r state.Record, resources []units.Resource, moved units.Moves) (units.Resource, bool) {
	declared := func(a units.Address) bool {
		return slices.ContainsFunc(resources, func(d units.Resource) bool { return d.Address == a })
	}
	now := r.Resource
	if to, ok := moved.Until(now, declared); ok && !declared(now) {
		now = to
	}
	for _, d := range resources {
		if d.Address == now {
			return d, true
		}
		passed := func(of state.Record) bool { // from there to this address, since
			return of.State == state.Live && of.Last.Generation > r.Adoption.Generation && slices.Contains(of.Earlier, r.Resource)
		}
		if slices.ContainsFunc(n.Ledger.Of(d.Address), passed) {
			return d, true
		}
	}
	return units.Resource{}, false
}

// sharedBy says what a container that was put aside and a declared one would both write
// to or listen at; "" where that is nothing.
func (n *Node) sharedBy(ctx context.Context, id string, now units.Resource, resources []units.Resource) (string, error) {
	o, there, err := n.byID(ctx, id)
	if err != nil || !there {
		return "", err // that it is gone is told where it is given back
	}
	for _, of := range o.Ports {
		port, err := units.ParsePort(of)
		if err == nil && slices.ContainsFunc(units.Ports(now), port.Overlaps) {
			return "port " + of, nil
		}
	}
	known, err := n.Podman.InspectContainer(ctx, id)
	if err != nil {
		return "", err
	}
	for _, source := range written(now, resources) {
		if slices.Contains(known.Writes, source) {
			return source, nil
		}
	}
	return "", nil
}

// written returns the volumes and the paths that a container or a pod mounts and may
// write to, as podman knows them.
func written(r units.Resource, resources []units.Resource) []string {
	var found []string
	for path, source := range mounts(r) {
		readOnly := slices.ContainsFunc(append(r.Values("Container", "Volume"), r.Values("Pod", "Volume")...), func(v string) bool {
			fields := strings.Split(v, ":")
			return len(fields) > 2 && clean(fields[1]) == path && slices.Contains(strings.Split(fields[2], ","), "ro")
		})
		if readOnly {
			continue
		}
		for _, v := range resources {
			if v.Address.Kind == units.KindVolume && units.QuadletFile(v) == source {
				source = units.Object(v).Name()
			}
		}
		found = append(found, source)
	}
	slices.Sort(found)
	return found
}
