package simulated

import (
	"time"

	"meshgen/internal/host"
)

// store is what lies on the disk of podman's objects. It is always up to date, as
// podman's own is.
type store struct{ h *Host }

func (s store) Containers() (ids map[string]string, known bool) {
	ids = map[string]string{}
	for _, c := range s.h.Containers() {
		ids[c.Name] = c.ID
	}
	return ids, true
}

func (s store) Network(name string) (o host.Object, there bool) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	n, there := s.h.networks[name]
	if there {
		o = host.Object{Name: n.Name, ID: n.ID, Labels: n.Labels}
	}
	return o, there
}

func (s store) Secrets() (byName map[string]host.Object, known bool) {
	byName = map[string]host.Object{}
	for _, is := range s.h.Secrets() {
		byName[is.Name] = host.Object{Name: is.Name, ID: is.ID, Driver: host.FileDriver, Labels: is.Labels}
	}
	return byName, true
}

func (s store) VolumeMade(name string) (made time.Time, there bool) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	v, there := s.h.volumes[name]
	if there {
		made = v.Made
	}
	return made, there
}
