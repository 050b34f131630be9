package simulated

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"meshgen/internal/host"
)

// unit is what systemd holds of a unit in memory.
type unit struct {
	active, sub, result string
	invocation          string
	container           string     // id of the one that it started
	cleared             *Container // that the guard of its last start removed
	changed             time.Time
}

// systemd is the machine's as a switch has it.
type systemd struct{ h *Host }

func (s systemd) Units(_ context.Context, names []string) (map[string]host.Unit, error) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	found := make(map[string]host.Unit, len(names))
	for _, name := range names {
		found[name] = s.h.unit(name)
	}
	return found, nil
}

func (s systemd) Loaded(context.Context) ([]host.Unit, error) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	names := slices.Concat(slices.Collect(maps.Keys(s.h.units)), slices.Collect(maps.Keys(s.h.definitions)))
	slices.Sort(names)
	var found []host.Unit
	for _, name := range slices.Compact(names) {
		if u := s.h.unit(name); u.Up() || u.Active == "failed" || u.Load != "not-found" {
			found = append(found, u)
		}
	}
	return found, nil
}

func (h *Host) unit(name string) host.Unit {
	found := host.Unit{Name: name, Load: h.definition(name).load(), Active: "inactive", Sub: "dead"}
	if u := h.units[name]; u != nil {
		found.Active, found.Sub = u.active, u.sub
	}
	return found
}

func (h *Host) up(name string) bool { return h.unit(name).Up() }

// Downs has nothing to say: no unit here has conditions, or is started anew.
func (s systemd) Downs(context.Context, []string) (map[string]host.Down, error) { return nil, nil }

func (s systemd) Details(_ context.Context, names []string) (map[string]host.Details, error) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	details := make(map[string]host.Details, len(names))
	for _, name := range names {
		d := s.h.definition(name)
		found := host.Details{Fragment: d.path, Source: d.value("Unit.SourcePath"), Type: d.value("Service.Type"), Result: "success"}
		if u := s.h.units[name]; u != nil {
			found.Invocation, found.Result, found.Changed = u.invocation, u.result, u.changed
			found.ControlGroup = "/system.slice/" + name
		}
		details[name] = found
	}
	return details, nil
}

func (s systemd) Dependents(_ context.Context, names []string) ([]string, error) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	seen := map[string]bool{}
	for _, name := range names {
		seen[name] = true
	}
	var found []string
	for queue := slices.Clone(names); len(queue) > 0; queue = queue[1:] {
		for _, name := range s.h.dependents(queue[0]) {
			if !seen[name] {
				seen[name] = true
				found, queue = append(found, name), append(queue, name)
			}
		}
	}
	return found, nil
}

// dependents returns the units that go down with one.
func (h *Host) dependents(name string) []string {
	var found []string
	for _, other := range slices.Sorted(maps.Keys(h.definitions)) {
		d := h.definitions[other]
		if slices.Contains(slices.Concat(d.needs(), d.words("Unit.PartOf")), name) {
			found = append(found, other)
		}
	}
	return found
}

func (s systemd) Reload(context.Context) error {
	s.h.act()
	return s.h.Reload()
}

func (s systemd) ResetFailed(_ context.Context, name string) error {
	s.h.act()
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	if u := s.h.units[name]; u != nil && u.active == "failed" {
		u.active, u.sub, u.result = "inactive", "dead", "success"
	}
	return nil
}

// Run gives systemd the jobs one by one, as a client does: one that dies
// half-way has given some.
func (s systemd) Run(_ context.Context, verb host.Verb, names []string, done func(host.Job)) []host.Job {
	jobs := s.h.run(verb, names)
	if s.h.fuse.dead {
		panic(Killed{})
	}
	for _, j := range jobs {
		done(j)
	}
	return jobs
}

func (h *Host) run(verb host.Verb, names []string) []host.Job {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := transaction{host: h, jobs: map[string]*job{}}
	jobs := make([]host.Job, len(names))
	for i, name := range names {
		h.acts++
		if h.fuse.burn() {
			break
		}
		jobs[i] = host.Job{Unit: name, Verb: verb}
		as := string(verb)
		if verb == host.Reload {
			as = "restart" // no service here has ExecReload=
		}
		if err := t.ask(as, name); err != nil {
			jobs[i].Err = fmt.Errorf("%s %s: %w", verb, name, err)
		}
	}
	t.run()
	for i, name := range names {
		if j := t.asked[name]; j != nil && jobs[i].Err == nil && j.err != nil {
			jobs[i].Err = fmt.Errorf("%s %s: %w", verb, name, j.err)
		}
	}
	return jobs
}

func (s systemd) Enqueue(_ context.Context, verb host.Verb, name string) error {
	return s.h.run(verb, []string{name})[0].Err
}

func (s systemd) PayloadEnded(controlGroup string) bool {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	for name, u := range s.h.units {
		if controlGroup == "/system.slice/"+name {
			c := s.h.byID(u.container)
			return c == nil || !c.Running
		}
	}
	return false
}

func (s systemd) Journal(context.Context, string, time.Time, int) []string { return nil }

func (s systemd) LastRun(context.Context, string, string, int) []string { return nil }

func (s systemd) Close() {}

var (
	errNotFound = errors.New("unit not found")
	errMasked   = errors.New("unit is masked")
)
