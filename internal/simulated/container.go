package simulated

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"meshgen/internal/host"
)

func (p podman) InspectContainer(_ context.Context, id string) (host.Inspection, error) {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	c := p.h.byID(id)
	if c == nil {
		return host.Inspection{}, noContainer(id)
	}
	text, err := json.Marshal(c)
	restart := c.Restart
	if restart == "" {
		restart = "no"
	}
	return host.Inspection{Text: text, Restart: restart, Remove: c.Unit != "", Writes: c.Volumes}, err
}

// Ties tells of the units that run containers, and of networks that are another's.
func (p podman) Ties(_ context.Context, ids []string) (map[string]host.Tie, error) {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	ties := map[string]host.Tie{}
	for _, id := range ids {
		c := p.h.byID(id)
		if c == nil {
			return nil, noContainer(id)
		}
		t := host.Tie{Needs: c.Needs}
		if c.Running {
			t.Unit = c.Unit
		}
		ties[id] = t
	}
	return ties, nil
}

// StopContainer ends the process. Only the container of a service is removed
// then, since that has --rm.
func (p podman) StopContainer(_ context.Context, id string) error {
	p.h.act()
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	return p.h.stopContainer(id)
}

func (h *Host) stopContainer(id string) error {
	c := h.byID(id)
	switch {
	case c == nil:
		return noContainer(id)
	case c.Unit != "":
		h.lose(id)
	default:
		c.Running = false
	}
	return nil
}

func (p podman) StartContainer(_ context.Context, id string) error {
	p.h.act()
	return p.h.startContainer(id)
}

func (h *Host) startContainer(id string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.byID(id)
	switch {
	case c == nil:
		return noContainer(id)
	case c.Running:
		return nil
	case h.portTaken(c.Ports):
		return errPort
	case slices.ContainsFunc(c.Networks, func(n string) bool { return h.networks[n] == nil }):
		return fmt.Errorf("container %s: a network of it is not found", c.Name)
	}
	c.Running = true
	return nil
}

func (p podman) RenameContainer(_ context.Context, id, name string) error {
	p.h.act()
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	c, has := p.h.byID(id), p.h.containers[name]
	switch {
	case c == nil:
		return noContainer(id)
	case has != nil && has != c:
		return fmt.Errorf("container %s: in use", name)
	}
	delete(p.h.containers, c.Name)
	c.Name = name
	p.h.containers[name] = c
	return nil
}

func (p podman) SetRestart(_ context.Context, id, policy string) error {
	p.h.act()
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	c := p.h.byID(id)
	if c == nil {
		return noContainer(id)
	}
	c.Restart = policy
	return nil
}

func noContainer(id string) error { return fmt.Errorf("container %s: not found", id) }
