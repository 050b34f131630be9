package apply

import (
	"path"
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

// sockets has the service of each socket that is to be started go down before,
// and come back after: systemd refuses to start a socket while its service runs.
func (p *planner) sockets() {
	for _, u := range p.desired.Units {
		if path.Ext(u.Name) != ".socket" {
			continue
		}
		old := p.handover[u.Name]
		service := serviceOf(p.resource[u.Resource])
		if !p.start[u.Name] && !p.restart[u.Name] && old == "" || !p.seen.units[service].Up() {
			continue
		}
		if _, ours := p.unit[service]; !ours {
			continue // systemd says what is in the way
		}
		switch {
		case old != "":
			delete(p.handover, u.Name)
			p.stop[old] = true
		case p.restart[u.Name]:
			delete(p.restart, u.Name)
			p.stop[u.Name] = true
		}
		p.start[u.Name] = true
		delete(p.restart, service)
		p.stop[service], p.start[service] = true, true
		p.because("stop", service, "its socket "+u.Name+" has to be started before it")
	}
}

// serviceOf returns the service that a socket starts.
func serviceOf(socket units.Resource) string {
	if service := socket.Value("Socket", "Service"); service != "" {
		return service
	}
	return strings.TrimSuffix(socket.Name, ".socket") + ".service"
}

// trigger puts what starts other units before them: a service that goes down must
// not come back.
func turnToStop(unit string) int {
	switch path.Ext(unit) {
	case ".timer", ".socket", ".path", ".automount":
		return 0
	}
	return 1
}
