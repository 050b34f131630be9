package apply

import (
	"path"
	"slices"
	"strings"

	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// plainUnit plans for a unit of systemd's own that is up and stays declared.
func (p *planner) plainUnit(r state.Record, u state.Unit, seen host.Unit) {
	if !p.seen.observed.Damaged[r.Target] && (p.runs(r, u) || p.ranSince(r, u)) {
		return
	}
	switch path.Ext(u.Name) {
	case ".slice":
		// To stop it would end all that is in it; what it says comes into force as
		// systemd reads it.
	case ".target":
		p.start[u.Name] = true // pulls in what it has come to want
		p.because("start", u.Name, "its definition changed")
	case ".mount":
		p.reload[u.Name] = true // mounted anew, under whoever has files open there
		p.because("reload", u.Name, "its definition changed")
	default:
		if seen.Active == "activating" && p.isOneshot(u) {
			return // it does its work to the end, and the next time by the new definition
		}
		p.restart[u.Name] = true
		p.because("restart", u.Name, "its definition changed")
	}
}

// ranSince reports whether a unit that was down when its definition changed, or
// came to its end since, was started by systemd after that: by a timer, a socket
// or a path.
func (p *planner) ranSince(r state.Record, u state.Unit) bool {
	return !r.Due && r.Digest == u.Digest && r.Invocation != p.seen.invocations[u.Name]
}

func (p *planner) isOneshot(u state.Unit) bool {
	return p.resource[u.Resource].Value("Service", "Type") == "oneshot"
}

// sockets has the service of each socket that is to be started go down before, and
// come back after. systemd refuses to start a socket while its service runs, and
// one of another name cannot listen where the former service still does: that has
// the former socket open until it ends.
func (p *planner) sockets() {
	for _, u := range p.desired.Units {
		if path.Ext(u.Name) != ".socket" {
			continue
		}
		former := p.handover[u.Name]
		if !p.start[u.Name] && !p.restart[u.Name] && former == "" {
			continue
		}
		service := serviceOf(p.resource[u.Resource])
		users := p.usersOf(u, service)
		if len(users) == 0 {
			continue
		}
		switch {
		case former != "":
			delete(p.handover, u.Name)
			p.stop[former] = true
		case p.restart[u.Name]:
			delete(p.restart, u.Name)
			p.stop[u.Name] = true
		}
		p.start[u.Name] = true
		for _, name := range users {
			delete(p.restart, name)
			p.stop[name] = true
			p.because("stop", name, "its socket "+u.Name+" has to be started before it")
			if _, kept := p.unit[name]; kept {
				p.start[name] = true
			}
		}
		if p.handover[service] != "" {
			delete(p.handover, service)
			p.start[service] = true
		}
	}
}

// usersOf returns the services of ours that are up and have the socket, or the one
// whose place it takes.
func (p *planner) usersOf(u state.Unit, service string) []string {
	names := []string{service, p.handover[service]}
	if was, ok := p.old[u.Resource]; ok {
		names = append(names, serviceOf(was))
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		_, ours := p.record[units.Of(units.TargetUnit, name)]
		return !ours || !p.seen.units[name].Up() // of another's, systemd says what is in the way
	})
}

// serviceOf returns the service that a socket starts.
func serviceOf(socket units.Resource) string {
	if service := socket.Value("Socket", "Service"); service != "" {
		return service
	}
	return strings.TrimSuffix(socket.Name, ".socket") + ".service"
}

// turnToStop puts what starts other units before them: a service that goes down must
// not come back.
func turnToStop(unit string) int {
	switch path.Ext(unit) {
	case ".timer", ".socket", ".path", ".automount":
		return 0
	}
	return 1
}
