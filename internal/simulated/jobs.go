package simulated

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// job is what systemd is to do with a unit.
type job struct {
	unit string
	verb string // start, stop or restart, which becomes start once it has stopped
	err  error
}

// transaction is the jobs that wait at one time, at most one a unit.
type transaction struct {
	host  *Host
	jobs  map[string]*job
	asked map[string]*job // the last one of each unit that was asked for by name
}

var (
	errFailed     = errors.New("failed")
	errDependency = errors.New("dependency")
	errCanceled   = errors.New("canceled")
)

// ask adds the job of a unit that a client names.
func (t *transaction) ask(verb, name string) error {
	err := t.enqueue(verb, name)
	if err == nil {
		if t.asked == nil {
			t.asked = map[string]*job{}
		}
		t.asked[name] = t.jobs[name]
	}
	return err
}

// enqueue adds a job with those that it pulls in.
func (t *transaction) enqueue(verb, name string) error {
	d := t.host.definition(name)
	if verb != "stop" {
		switch d.load() {
		case "not-found":
			return errNotFound
		case "masked":
			return errMasked
		}
	} else if d.path == "" && !t.host.up(name) {
		return errNotFound
	}
	if verb == "start" {
		for _, needed := range d.needs() {
			if load := t.host.definition(needed).load(); load != "loaded" && !t.host.up(needed) {
				return fmt.Errorf("%s: %s", needed, load)
			}
		}
	}
	t.add(verb, name)
	if verb == "start" || verb == "restart" {
		t.pull(name, d)
	}
	if verb == "stop" || verb == "restart" {
		for _, dependent := range t.host.dependents(name) {
			if t.host.up(dependent) && t.jobs[dependent] == nil {
				_ = t.enqueue(verb, dependent) // it is up: it can be stopped
			}
		}
	}
	return nil
}

// add puts a job in place of the one that the unit has, as mode replace does.
func (t *transaction) add(verb, name string) {
	if had := t.jobs[name]; had != nil {
		if had.verb == verb || (had.verb == "restart" && verb == "start") {
			return
		}
		had.err = errCanceled
	}
	t.jobs[name] = &job{unit: name, verb: verb}
}

// pull adds the jobs that the start of a unit brings.
func (t *transaction) pull(name string, d definition) {
	for _, needed := range slices.Concat(d.needs(), d.words("Unit.Wants")) {
		if !t.host.up(needed) && t.jobs[needed] == nil {
			_ = t.enqueue("start", needed) // tried when the unit starts
		}
	}
	conflicts := d.words("Unit.Conflicts")
	for other, o := range t.host.definitions {
		if slices.Contains(o.words("Unit.Conflicts"), name) {
			conflicts = append(conflicts, other)
		}
	}
	slices.Sort(conflicts)
	for _, other := range slices.Compact(conflicts) {
		if t.host.up(other) || t.jobs[other] != nil {
			_ = t.enqueue("stop", other) // it is up: it can be stopped
		}
	}
}

// run takes up one job after the other, until all have ended or the power goes.
func (t *transaction) run() {
	for len(t.jobs) > 0 {
		var ready []string
		for _, name := range slices.Sorted(maps.Keys(t.jobs)) {
			if t.runnable(t.jobs[name]) {
				ready = append(ready, name)
			}
		}
		if len(ready) == 0 {
			ready = slices.Sorted(maps.Keys(t.jobs))[:1] // a cycle, which systemd breaks
		}
		j := t.jobs[ready[t.host.order.IntN(len(ready))]]
		t.host.fuse.burn()
		if t.host.fuse.off() {
			return
		}
		t.take(j)
	}
}

// runnable reports whether no other job has to come before. Of a unit and one
// that is After= it, the second stops first where it has to stop, and else
// waits: job_compare of systemd's job.c.
func (t *transaction) runnable(j *job) bool {
	for _, other := range t.jobs {
		if other == j {
			continue
		}
		if t.after(j.unit, other.unit) && j.verb == "start" {
			return false
		}
		if t.after(other.unit, j.unit) && other.verb != "start" {
			return false
		}
	}
	return true
}

func (t *transaction) after(name, other string) bool {
	return slices.Contains(t.host.definition(name).words("Unit.After"), other) ||
		slices.Contains(t.host.definition(other).words("Unit.Before"), name)
}

func (t *transaction) take(j *job) {
	if j.verb != "start" {
		t.host.stop(j.unit)
		if j.verb == "restart" {
			j.verb = "start"
			return
		}
		delete(t.jobs, j.unit)
		return
	}
	delete(t.jobs, j.unit)
	if j.err = t.host.start(j.unit); j.err != nil {
		t.failDependents(j.unit)
	}
}

// failDependents ends the jobs of those that need a unit which did not start.
func (t *transaction) failDependents(name string) {
	for _, other := range slices.Sorted(maps.Keys(t.jobs)) {
		j := t.jobs[other]
		if j != nil && j.verb == "start" && slices.Contains(t.host.definition(other).needs(), name) {
			j.err = errDependency
			delete(t.jobs, other)
			t.failDependents(other)
		}
	}
}

// start brings a unit up.
func (h *Host) start(name string) error {
	if h.up(name) {
		return nil
	}
	u := &unit{active: "active", sub: "running", result: "success", invocation: strconv.Itoa(h.next()), changed: time.Now()}
	h.units[name] = u
	d := h.definition(name)
	if d.value("Service.RemainAfterExit") == "yes" {
		u.sub = "exited"
	}
	err := h.prepare(name, u, d.value("Service.ExecStartPre"))
	if err == nil {
		err = h.execute(name, u, strings.ReplaceAll(d.value("Service.ExecStart"), "%y", h.fragment(d)))
	}
	if err != nil {
		u.active, u.sub, u.result = "failed", "failed", "exit-code"
		return errFailed
	}
	return nil
}

// stop brings a unit down by the definition that systemd has of it now.
func (h *Host) stop(name string) {
	u := h.units[name]
	if u == nil || !h.up(name) {
		return
	}
	u.changed = time.Now()
	d := h.definition(name)
	if c := h.byID(u.container); c != nil {
		if d.path == "" && h.OnLost != nil {
			h.OnLost(*c)
		}
		if d.value("Service.ExecStop") == "" && c.Deaf {
			u.active, u.sub, u.result = "failed", "failed", "timeout"
			return // it is not up any more: the job is done
		}
		h.removeContainer(u.container)
	}
	u.active, u.sub, u.result, u.container = "inactive", "dead", "success", ""
}
