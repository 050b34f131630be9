package apply

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// networks finds the networks that have to make room. One keeps its options for
// as long as it exists, and podman gives a subnet to one network only.
func (p *planner) networks() {
	var subnets []netip.Prefix
	was, now := networksByObject(p.generation), networksByObject(p.desired)
	for object, r := range now {
		if before, ok := was[object]; !ok || !sameSection(before, r, "Network") {
			subnets = append(subnets, subnetsOf(r)...)
		}
	}
	for _, r := range p.generation.Resources {
		if r.Address.Kind != units.KindNetwork {
			continue
		}
		object := units.Object(r)
		if record := p.record[object]; record.State != state.Live {
			continue
		}
		if next := p.resource[p.unit[units.Unit(r)].Resource]; next.Address.Kind == units.KindNetwork && units.Object(next) != object {
			p.haltNetwork(r, string(object)+" becomes "+string(units.Object(next)))
		}
		after, kept := now[object]
		if kept && (sameSection(r, after, "Network") || p.madeBy(after)) {
			continue
		}
		overlaps := slices.ContainsFunc(subnetsOf(r), func(s netip.Prefix) bool { return slices.ContainsFunc(subnets, s.Overlaps) })
		if kept || (overlaps && !p.seen.inUse[object]) { // one that stays is refused, see crowded
			p.free(r, object)
		}
	}
	if len(subnets) > 0 {
		p.freeLeft(was, now)
	}
}

// freeLeft plans for networks to be removed that stayed for what was masked, and
// that are of no set any more: what subnets they have is podman's to know. What
// runs by the definition of an earlier set may use them.
func (p *planner) freeLeft(was, now map[units.Target]units.Resource) {
	for _, r := range p.records {
		_, had := was[r.Target]
		_, has := now[r.Target]
		if r.Target.Kind() != units.TargetNetwork || r.State != state.Live || had || has || p.seen.inUse[r.Target] {
			continue
		}
		p.plan.Free = append(p.plan.Free, r.Target)
		for _, u := range p.generation.Units {
			if unit := p.record[units.Of(units.TargetUnit, u.Name)]; p.restart[u.Name] && unit.Started != u.Digest {
				p.halt(u.Name, u.Resource, string(r.Target)+" makes room")
			}
		}
	}
}

// crowded refuses to make a network on a subnet that one has which stays: podman
// would refuse it at its start. Podman is asked only where the plan makes one that
// has been given a subnet.
func (n *Node) crowded(ctx context.Context, plan Plan, desired state.Generation) (units.Faults, error) {
	var faults units.Faults
	for _, r := range desired.Resources {
		subnets := subnetsOf(r)
		if len(subnets) == 0 || !slices.Contains(plan.Touched(), units.Unit(r)) {
			continue
		}
		all, err := n.objectsOf(ctx, units.TargetNetwork)
		if err != nil {
			return nil, err
		}
		there := slices.ContainsFunc(all, func(o host.Object) bool { return o.Name == units.Object(r).Name() })
		if there && !slices.Contains(plan.Free, units.Object(r)) {
			continue // it is not made
		}
		for _, o := range all {
			t := units.Of(units.TargetNetwork, o.Name)
			if t == units.Object(r) || slices.Contains(plan.Free, t) {
				continue
			}
			for _, has := range prefixes(o.Subnets) {
				if slices.ContainsFunc(subnets, has.Overlaps) {
					faults = append(faults, n.crowding(plan, desired, r, t, has))
				}
			}
		}
	}
	return faults, nil
}

// crowding tells of a network that has a subnet, why it is there and how it would go.
func (n *Node) crowding(plan Plan, desired state.Generation, r units.Resource, t units.Target, has netip.Prefix) units.Fault {
	record, _ := n.ledgerRecord(t)
	_, declared := networksByObject(desired)[t]
	why, instead := "is not of meshgen", "take that network away: podman network rm "+t.Name()
	switch {
	case record.State == state.Held:
		why, instead = "is held", "take that network away, when nothing needs it: podman network rm "+t.Name()
	case record.State == state.Live && declared:
		why, instead = "is declared too", "give that network one of its own"
	case record.State == state.Live && slices.Contains(plan.Retire, t):
		why, instead = "goes with this switch, and after this one comes", "switch once without this network"
	case record.State == state.Live:
		why, instead = "stays for what uses it", "have what uses that network end first; where its unit is masked, unmask it"
	}
	return units.Fault{
		Position: r.Position,
		Message:  fmt.Sprintf("%s: its subnet is that of %s, %s, which %s", r.Address, t, has, why),
		Hint:     "give this one another subnet, or " + instead,
	}
}

// subnetsOf returns the subnets that a network has been given.
func subnetsOf(r units.Resource) []netip.Prefix { return prefixes(r.Values("Network", "Subnet")) }

func prefixes(words []string) []netip.Prefix {
	var subnets []netip.Prefix
	for _, v := range words {
		if s, err := netip.ParsePrefix(v); err == nil { // podman says what is wrong with it
			subnets = append(subnets, s)
		}
	}
	return subnets
}

// madeBy reports whether a network that lies on the machine was made by the
// definition that it is to have, as where a switch is undone before its own came.
func (p *planner) madeBy(r units.Resource) bool {
	unit := units.Unit(r)
	record := p.record[units.Of(units.TargetUnit, unit)]
	return p.seen.units[unit].Up() && record.Started == p.unit[unit].Digest && (!record.Due || record.Invocation == p.seen.invocations[unit])
}

// networksByObject returns the networks of a generation by what podman knows
// them as, whoever declares them.
func networksByObject(g state.Generation) map[units.Target]units.Resource {
	networks := map[units.Target]units.Resource{}
	for _, r := range g.Resources {
		if r.Address.Kind == units.KindNetwork {
			networks[units.Object(r)] = r
		}
	}
	return networks
}

// free plans for a network to be removed before the new set comes: what uses it
// stops first.
func (p *planner) free(network units.Resource, object units.Target) {
	p.plan.Free = append(p.plan.Free, object)
	p.haltNetwork(network, string(object)+" makes room")
}

// haltNetwork stops a network's unit, which would not make another network while
// it is up, and what uses it.
func (p *planner) haltNetwork(network units.Resource, reason string) {
	p.halt(units.Unit(network), network.Address, reason)
	stays := p.seen.inUse[units.Object(network)]
	for _, r := range p.generation.Resources {
		if stays && p.seen.units[units.Unit(r)].Load == "masked" {
			continue // it is what the network stays for
		}
		if slices.Contains(r.Uses, network.Address) && units.Unit(r) != "" {
			p.halt(units.Unit(r), r.Address, "it uses "+string(units.Object(network)))
			p.haltStarters(r)
		}
	}
	// A switch that was cut short may have come as far as to have others use it.
	now := networksByObject(p.desired)[units.Object(network)]
	for _, r := range p.desired.Resources {
		if now.Name != "" && slices.Contains(r.Uses, now.Address) && p.seen.units[units.Unit(r)].Up() {
			p.halt(units.Unit(r), r.Address, "it uses "+string(units.Object(network)))
		}
	}
}

// halt stops a unit before the new set comes; what then has its place starts
// after.
func (p *planner) halt(name string, a units.Address, reason string) {
	if !p.seen.units[name].Up() {
		return
	}
	delete(p.restart, name)
	p.stop[name] = true
	p.because("stop", name, reason)
	if _, kept := p.unit[name]; kept {
		p.start[name] = true // for whoever has the name now
	}
	successor, ok := p.of[a]
	if !ok {
		return
	}
	delete(p.handover, successor)
	delete(p.restart, successor)
	p.start[successor] = true
	if p.seen.units[successor].Up() && !p.stop[successor] {
		p.stop[successor] = true // it is somebody else's as yet
		p.because("stop", successor, "its name goes to "+a.String())
	}
}

// contention has a unit stop first whose name, container name, port or data goes
// to another resource.
func (p *planner) contention() {
	takes := map[units.Target]units.Address{}
	ports := map[units.Port][]portUse{}
	for _, r := range p.desired.Resources {
		for _, t := range units.Targets(r) {
			takes[t] = r.Address
		}
		for _, port := range units.Ports(r) {
			ports[anywhere(port)] = append(ports[anywhere(port)], portUse{port, r.Address})
		}
	}
	had, has := storage(p.generation), storage(p.desired)
	takers := map[string][]units.Address{} // of what each mounts, those that did not
	for a, sources := range has {
		for source := range sources {
			if !had[a][source] {
				takers[source] = append(takers[source], a)
			}
		}
	}
	for _, r := range p.generation.Resources {
		now := r.Address
		if !p.declared(now) {
			u, kept := p.unit[units.Unit(r)]
			if !kept {
				continue // its unit stops as it is
			}
			now = u.Resource
		}
		for source := range had[r.Address] {
			for _, taker := range takers[source] {
				if taker != now && !has[now][source] {
					p.halt(units.Unit(r), now, source+" goes to "+taker.String())
				}
			}
		}
		for _, t := range units.Targets(r) {
			if taker, ok := takes[t]; ok && taker != now {
				p.halt(units.Unit(r), now, string(t)+" goes to "+taker.String())
			}
		}
		for _, port := range units.Ports(r) {
			for _, use := range ports[anywhere(port)] {
				if use.by != now && use.port.Overlaps(port) {
					p.halt(units.Unit(r), now, string(port.Target())+" goes to "+use.by.String())
				}
			}
		}
	}
}

// storage returns what each container and pod of a generation mounts: volumes, and paths
// of the host.
func storage(g state.Generation) map[units.Address]map[string]bool {
	named := volumes(g)
	found := map[units.Address]map[string]bool{}
	for _, r := range g.Resources {
		if r.Address.Kind != units.KindContainer && r.Address.Kind != units.KindPod {
			continue
		}
		sources := map[string]bool{}
		for _, source := range mounts(r) {
			if volume, ok := named[source]; ok {
				source = volume.Name()
			}
			sources[source] = source != ""
		}
		found[r.Address] = sources
	}
	return found
}

// portUse is a port that a declared resource takes.
type portUse struct {
	port units.Port
	by   units.Address
}

// anywhere returns the port without the address that it is taken on.
func anywhere(p units.Port) units.Port {
	p.Host = ""
	return p
}

func (p *planner) declared(a units.Address) bool {
	_, ok := p.resource[a]
	return ok
}
