package audit

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"meshgen/internal/apply"
	"meshgen/internal/host"
	"meshgen/units"
)

// hearing is what listens, by who has it, and by its protocol and number.
type hearing struct {
	byPort      map[units.Port][]host.Socket
	byUnit      map[string][]host.Socket
	byContainer map[string][]host.Socket // by id
	declared    map[string]units.Address // units
	containers  map[string]units.Address // declared, by id
}

// Hear adds what the findings listen on and are connected to, and tells of the ports
// that are declared and that others listen on. What cannot be heard is unseen.
func (r *Report) Hear(ctx context.Context, v apply.View) {
	if v.Layout.Root != "/" {
		return // nothing runs below another root
	}
	listening, err := host.Sockets(ctx, 0, host.Listening)
	if err == nil {
		err = host.FindProcesses(ctx, listening)
	}
	if err != nil {
		r.Unseen = append(r.Unseen, err.Error())
		return
	}
	h := hear(v, listening)
	for _, list := range [][]Finding{r.Findings, r.Held, r.Found} {
		for i := range list {
			list[i].Listens = h.listeners(v, list[i])
		}
	}
	r.ports(v, h)
	if err := r.connections(ctx, v, h); err != nil {
		r.Unseen = append(r.Unseen, err.Error())
	}
	r.sort()
}

func hear(v apply.View, listening []host.Socket) hearing {
	h := hearing{
		byPort: map[units.Port][]host.Socket{}, byUnit: map[string][]host.Socket{}, byContainer: map[string][]host.Socket{},
		declared: map[string]units.Address{}, containers: map[string]units.Address{},
	}
	for _, u := range v.Generation.Units {
		h.declared[u.Name] = u.Resource
	}
	for _, o := range v.Objects[units.TargetContainer] {
		if a, ok := h.declared[o.Unit]; ok {
			h.containers[o.ID] = a
		}
	}
	for _, s := range listening {
		port := units.Port{Protocol: s.Protocol, Number: int(s.Local.Port())}
		h.byPort[port] = append(h.byPort[port], s)
		if id := host.ContainerOf(s.Cgroup); id != "" {
			h.byContainer[id] = append(h.byContainer[id], s)
		}
		h.byUnit[unitOf(s)] = append(h.byUnit[unitOf(s)], s)
	}
	return h
}

// on returns what listens at the number of a port, on whatever address.
func (h hearing) on(p units.Port) []host.Socket {
	return h.byPort[units.Port{Protocol: p.Protocol, Number: p.Number}]
}

func listenerOf(s host.Socket) Listener {
	return Listener{Protocol: s.Protocol, Address: s.Local.Addr().String(), Port: int(s.Local.Port()), Process: s.Command, PID: s.PID}
}

// things returns the units and the ids of containers that a finding is about.
func things(v apply.View, f Finding) (names, ids []string) {
	for _, t := range append([]units.Target{f.Target}, f.Also...) {
		switch t.Kind() {
		case units.TargetUnit:
			names = append(names, t.Name())
		case units.TargetContainer:
			if o, ok := v.Objects[units.TargetContainer][t.Name()]; ok {
				ids = append(ids, o.ID)
			}
		case units.TargetPod:
			for _, o := range v.Objects[units.TargetContainer] {
				if o.PodName == t.Name() {
					ids = append(ids, o.ID)
				}
			}
		}
	}
	return names, ids
}

func (h hearing) listeners(v apply.View, f Finding) []Listener {
	found := []Listener{}
	add := func(sockets []host.Socket) {
		for _, s := range sockets {
			if l := listenerOf(s); !slices.Contains(found, l) {
				found = append(found, l)
			}
		}
	}
	if f.Class == Missing || f.Class == Stopped || f.Target.Kind() == units.TargetPort {
		return append(found, f.Listens...)
	}
	names, ids := things(v, f)
	for _, name := range names {
		add(h.byUnit[name])
	}
	for _, id := range ids {
		add(h.byContainer[id])
	}
	return found
}

// of returns the declared resource that has a socket.
func (h hearing) of(s host.Socket) (units.Address, bool) {
	if a, ok := h.containers[host.ContainerOf(s.Cgroup)]; ok {
		return a, true
	}
	if a, ok := h.declared[host.UnitOf(s.Cgroup)]; ok {
		return a, true
	}
	a, ok := h.declared[host.UnitOf(s.Maker)]
	return a, ok
}

// ports tells of declared ports that somebody else listens on.
func (r *Report) ports(v apply.View, h hearing) {
	told := map[Listener]bool{}
	for _, f := range r.Findings {
		for _, l := range f.Listens {
			told[l] = true
		}
	}
	for _, res := range v.Generation.Resources {
		for _, p := range units.Ports(res) {
			for _, s := range h.on(p) {
				l := listenerOf(s)
				if _, ours := h.of(s); ours || told[l] || !p.Overlaps(portOf(s)) || s.PID == 0 {
					continue
				}
				told[l] = true
				r.add(r.portTaken(v, res, p, s, l))
			}
		}
	}
}

func (r *Report) portTaken(v apply.View, res units.Resource, p units.Port, s host.Socket, l Listener) Finding {
	f := Finding{Class: Foreign, Target: p.Target(), Resource: res.Address, Listens: []Listener{l}}
	f.Detail = "declared for " + res.Address.String() + ", and " + s.Command + " listens on it"
	unit := unitOf(s)
	container := ""
	for _, o := range v.Objects[units.TargetContainer] {
		if o.ID != "" && o.ID == host.ContainerOf(s.Cgroup) {
			container = o.Name
		}
	}
	switch {
	case container != "":
		f.Owner, f.Also = container, []units.Target{units.Of(units.TargetContainer, container)}
		f.Detail += ", of container " + container
		f.Fix = "podman stop " + operand(container)
	case isStoppable(unit) && v.Units[unit].Load == "loaded":
		f.Owner, f.Also = unit, []units.Target{units.Of(units.TargetUnit, unit)}
		f.Detail += ", of " + unit
		f.Fix = "systemctl stop " + operand(unit)
	case s.PID > 1:
		f.Owner = unit
		f.Fix = "kill " + strconv.Itoa(s.PID)
	}
	return f
}

// unitOf returns the unit that has a socket. What systemd listens on it does for the
// socket unit that it made that for.
func unitOf(s host.Socket) string {
	if s.PID == 1 {
		return host.UnitOf(s.Maker)
	}
	return host.UnitOf(s.Cgroup)
}

// isStoppable reports whether to stop a unit ends no more than what it is for: it is
// neither a user's manager nor a session, in which there is all that the user does.
func isStoppable(unit string) bool {
	return strings.HasSuffix(unit, ".socket") || strings.HasSuffix(unit, ".service") && !strings.HasPrefix(unit, "user@")
}

func portOf(s host.Socket) units.Port {
	p := units.Port{Protocol: s.Protocol, Number: int(s.Local.Port()), Host: s.Local.Addr().WithZone("").String()}
	if s.Local.Addr().IsUnspecified() {
		p.Host = "" // one for IPv6 takes IPv4 too, as long as nobody says otherwise
	}
	return p
}

// connections adds the connections from what nobody asked for to what was asked for.
func (r *Report) connections(ctx context.Context, v apply.View, h hearing) error {
	c := caller{view: v, hearing: h, established: map[uint64][]host.Socket{}}
	var errs []error
	for i, f := range r.Findings {
		if f.Class != Foreign && f.Class != Stale {
			continue
		}
		names, ids := things(v, f)
		if len(names)+len(ids) == 0 {
			continue // it is nothing that runs
		}
		sockets, err := c.sockets(ctx, ids)
		if err != nil {
			errs = append(errs, err)
		}
		for _, s := range sockets {
			if !slices.Contains(names, host.UnitOf(s.Cgroup)) && !slices.Contains(ids, host.ContainerOf(s.Cgroup)) {
				continue
			}
			a, ours, err := c.of(ctx, s)
			if err != nil {
				errs = append(errs, err)
			}
			if ours {
				r.Findings[i].Connects = append(r.Findings[i].Connects,
					Connection{From: s.Local.String(), To: s.Remote.String(), Of: a, Process: s.Command, PID: s.PID})
			}
		}
	}
	return errors.Join(errs...)
}

// caller knows who is connected to whom. Each is asked for when it is wanted, and once.
type caller struct {
	view        apply.View
	hearing     hearing
	established map[uint64][]host.Socket // by network namespace
	local       []netip.Addr             // of this host
	inside      map[netip.Addr]string    // names of containers
}

// sockets returns the established connections in the host's network namespace, and in
// those of the containers with these ids.
func (c *caller) sockets(ctx context.Context, ids []string) ([]host.Socket, error) {
	pids := []int{0}
	for _, o := range c.view.Objects[units.TargetContainer] {
		if slices.Contains(ids, o.ID) && o.PID > 0 {
			pids = append(pids, o.PID)
		}
	}
	var all []host.Socket
	var seen []uint64
	var errs []error
	for _, pid := range pids {
		namespace, err := host.NetworkNamespace(pid)
		if err != nil {
			errs = append(errs, unlessEnded(err))
			continue
		}
		if slices.Contains(seen, namespace) {
			continue
		}
		seen = append(seen, namespace)
		found, asked := c.established[namespace]
		if !asked {
			if found, err = host.Sockets(ctx, pid, host.Established); err == nil {
				err = host.FindProcesses(ctx, found)
			}
			errs = append(errs, unlessEnded(err))
			c.established[namespace] = found
		}
		all = append(all, found...)
	}
	return all, errors.Join(errs...)
}

// unlessEnded returns no error where a container has ended since podman listed it: it
// is connected to nothing.
func unlessEnded(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// of returns the declared resource that the other end of a connection is.
func (c *caller) of(ctx context.Context, s host.Socket) (a units.Address, ours bool, err error) {
	remote := s.Remote.Addr().WithZone("")
	if c.local == nil {
		c.local = localAddresses()
	}
	if remote.IsLoopback() || slices.Contains(c.local, remote) {
		a, ours = c.listener(s)
		return a, ours, nil
	}
	if c.inside == nil {
		if c.inside, err = c.addresses(ctx); err != nil {
			return a, false, err
		}
	}
	o, ok := c.view.Objects[units.TargetContainer][c.inside[remote]]
	if !ok {
		return a, false, nil
	}
	a, ours = c.hearing.containers[o.ID]
	return a, ours, nil
}

// listener returns the declared resource that has the port of this host that a socket
// is connected to.
func (c *caller) listener(s host.Socket) (a units.Address, ours bool) {
	to := units.Port{Protocol: s.Protocol, Number: int(s.Remote.Port()), Host: s.Remote.Addr().WithZone("").String()}
	for _, l := range c.hearing.on(to) {
		if a, ours = c.hearing.of(l); ours && portOf(l).Overlaps(to) {
			return a, true
		}
	}
	for _, r := range c.view.Generation.Resources {
		for _, p := range units.Ports(r) {
			if p.Overlaps(to) && c.view.Units[units.Unit(r)].Up() {
				return r.Address, true
			}
		}
	}
	return units.Address{}, false
}

// addresses asks podman which container has which address.
func (c *caller) addresses(ctx context.Context) (map[netip.Addr]string, error) {
	podman, err := host.FindPodman()
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range c.view.Objects[units.TargetNetwork] {
		names = append(names, name)
	}
	return podman.Addresses(ctx, names)
}

// localAddresses returns those of this host; none where they cannot be had.
func localAddresses() []netip.Addr {
	addresses, _ := net.InterfaceAddrs()
	local := []netip.Addr{} // so that it is asked once
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			local = append(local, prefix.Addr().Unmap())
		}
	}
	return local
}
