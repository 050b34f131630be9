package modules

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"cuelang.org/go/cue"

	"meshgen/units"
)

// owners sees to it that each name on the machine has one owner: each target,
// each port of the host and each Quadlet file.
func (l *loader) owners(all []*declared) {
	ports := map[*declared][]portHolder{}
	for _, d := range all {
		ports[d] = l.ports(d)
	}
	// What is not sound may hold other names than its owner meant.
	sound := slices.DeleteFunc(slices.Clone(all), func(d *declared) bool { return !d.sound })
	l.oneOwnerEach(sound)
	l.portOwners(sound, ports)
	l.subnetOwners(sound)
	l.nested(sound)
}

// oneOwnerEach faults two resources with one name. They are named once, by the
// name that tells most.
func (l *loader) oneOwnerEach(all []*declared) {
	owner := map[units.Target]*declared{}
	for _, d := range all {
		for _, t := range namesOf(d) {
			first, ok := owner[t]
			if !ok {
				owner[t] = d
				continue
			}
			if first != d {
				l.twice(string(t), first, d, l.namePlace(first, t), l.namePlace(d, t))
				break
			}
		}
	}
}

// namesOf returns the targets that are not ports, and the Quadlet file.
func namesOf(d *declared) []units.Target {
	switch {
	case d.File != nil:
		return []units.Target{units.Of(units.TargetFile, d.File.Path)}
	case d.Dir != nil:
		return []units.Target{units.Of(units.TargetDir, d.Dir.Path)}
	case d.Secret != nil:
		return []units.Target{units.Object(d.Resource)}
	case d.Address.Kind == units.KindUnit:
		return []units.Target{units.Of(units.TargetUnit, units.Unit(d.Resource))}
	}
	object := units.Object(d.Resource)
	names := []units.Target{
		object,
		units.Of(units.TargetUnit, units.Unit(d.Resource)),
		units.Of("quadlet", units.QuadletFile(d.Resource)),
	}
	if d.Address.Kind == units.KindPod {
		// a command by hand would mean either: pods and containers have one set of names.
		names = append(names, units.Of(units.TargetContainer, object.Name()), units.Infra(d.Resource))
	}
	return names
}

// namePlace returns where a resource was given a name, or where it is declared.
func (l *loader) namePlace(d *declared, t units.Target) units.Position {
	if path, _ := pathOf(d); path != "" {
		return l.placeBelow(d, "path")
	}
	own := ownSection(d.Address.Kind)
	switch t.Kind() {
	case units.TargetUnit:
		if d.Value(own, "ServiceName") != "" {
			return l.placeBelow(d, own, "ServiceName")
		}
	case units.TargetContainer, units.TargetPod, units.TargetVolume, units.TargetNetwork:
		if d.value.LookupPath(cue.ParsePath(own + "." + own + "Name")).Exists() {
			return l.placeBelow(d, own, own+"Name")
		}
	}
	return l.placeBelow(d, "name")
}

// twice faults the later of two places that take one name.
func (l *loader) twice(name string, first, second *declared, a, b units.Position) {
	if a.Compare(b) > 0 {
		a, b, first, second = b, a, second, first
	}
	l.fault(b, second.path, fmt.Sprintf("%s is already %s's, at %s", name, first.Address, a), "want one owner for each name")
}

// A portHolder is a resource and the place where it takes a port.
type portHolder struct {
	*declared
	port  units.Port
	place func() units.Position
}

// portOwners faults two places that take one port of the host.
func (l *loader) portOwners(all []*declared, ports map[*declared][]portHolder) {
	type key struct {
		protocol string
		number   int
	}
	holders := map[key][]portHolder{}
	for _, d := range all {
		for _, h := range ports[d] {
			k := key{h.port.Protocol, h.port.Number}
			for _, other := range holders[k] {
				// A socket may listen on one port of two families.
				if other.port.Overlaps(h.port) && (other.declared != d || d.Address.Kind != units.KindUnit) {
					l.twice(string(h.port.Target()), other.declared, h.declared, other.place(), h.place())
					break
				}
			}
			holders[k] = append(holders[k], h)
		}
	}
}

// ports returns the ports that a resource takes, and faults what is no port.
func (l *loader) ports(d *declared) []portHolder {
	var holders []portHolder
	for i, p := range d.Holds {
		holders = append(holders, portHolder{d, p, func() units.Position {
			return l.placeBelow(d, "holds", strconv.Itoa(i))
		}})
	}
	section := ownSection(d.Address.Kind)
	for i, v := range d.Values(section, "PublishPort") {
		ports, err := units.ParsePublishPort(v)
		if err != nil {
			at, p := l.valuePlace(d, section, "PublishPort", i)
			l.fault(at, p, err.Error(), "want [[ip:][hostPort]:]containerPort[/protocol]")
		}
		for _, p := range ports {
			holders = append(holders, portHolder{d, p, func() units.Position {
				at, _ := l.valuePlace(d, section, "PublishPort", i)
				return at
			}})
		}
	}
	for _, key := range units.ListenKeys() {
		for i, v := range d.Values("Socket", key) {
			place := func() (units.Position, path) { return l.valuePlace(d, "Socket", key, i) }
			p, ok, err := units.ParseListen(v, units.ListenProtocol(d.Resource, key))
			switch {
			case err != nil:
				at, p := place()
				l.fault(at, p, err.Error(), `want a port, an address with one, a path, or a name that begins with "@"`)
			case ok:
				holders = append(holders, portHolder{d, p, func() units.Position {
					at, _ := place()
					return at
				}})
			}
		}
	}
	return holders
}

// subnetOwners faults two bridges with one subnet, or with parts of one: podman
// makes only the first.
func (l *loader) subnetOwners(all []*declared) {
	type holder struct {
		*declared
		subnet netip.Prefix
		at     units.Position
	}
	var holders []holder
	for _, d := range all {
		if driver := d.Value("Network", "Driver"); d.Address.Kind != units.KindNetwork || (driver != "" && driver != "bridge") {
			continue
		}
		for i, v := range d.Values("Network", "Subnet") {
			subnet, err := netip.ParsePrefix(v)
			if err != nil {
				continue // podman says what is wrong with it
			}
			at, _ := l.valuePlace(d, "Network", "Subnet", i)
			h := holder{d, subnet.Masked(), at}
			if other := slices.IndexFunc(holders, func(o holder) bool { return o.subnet.Overlaps(h.subnet) }); other >= 0 {
				l.twice("subnet "+v, holders[other].declared, d, holders[other].at, at)
			}
			holders = append(holders, h)
		}
	}
}
