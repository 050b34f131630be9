package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"meshgen/internal/hint"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// AtBoot connects to a machine that is booting, before any unit of a generation
// has started. There is no bus yet: systemd is asked by its own socket.
func AtBoot(ctx context.Context, _ state.Layout) (Machine, error) {
	podman, err := host.FindPodman()
	if err != nil {
		return Machine{}, err
	}
	podman.Booting = true
	systemd, err := host.DialManager(context.WithoutCancel(ctx))
	if err != nil {
		return Machine{}, err
	}
	return Machine{Systemd: systemd, Podman: podman, Booting: true}, nil
}

// recoverAtBoot takes the switch that the boot found unfinished as far as it goes
// before a unit starts. What systemd was given is the generation in force, so
// that is the aim, on whichever side of the flip the switch was cut short; its
// files are put right, and what is no longer declared is retired. Nothing is
// started, and no job is waited for: systemd holds the jobs of the boot back
// until this has ended.
//
// Where units are due the switch stays unfinished, with a word that whatever
// starts them now starts them by the right definition: once they have been
// started, [Node.Recover] confirms them or brings the old set back.
func (n *Node) recoverAtBoot(ctx context.Context, s state.Switch, current state.Generation, progress Progress) (Outcome, error) {
	if err := n.mustBeDown(ctx, current); err != nil {
		return Outcome{}, err
	}
	out := Outcome{From: s.Generation, To: current.Number, Result: state.Undone}
	if current.Number == s.Generation {
		out.From, out.Result = s.From, state.Done
	}
	from, err := n.generation(out.From)
	if err != nil {
		return Outcome{}, err
	}
	m, err := n.again(ctx, from, current, nil, progress)
	if err != nil {
		return Outcome{}, err
	}
	m.undoing = out.Result == state.Undone
	if err := m.act(ctx); err != nil {
		return Outcome{From: out.From, To: out.To}, fmt.Errorf("put the files of generation %d right: %w", current.Number, err)
	}
	sweepOwn(n.Layout)
	events, left := m.retire(ctx)
	if !m.undoing {
		m.left = m.giveBack(ctx)
	}
	left = errors.Join(left, m.left)
	due, told := m.dueAtBoot()
	due = due || m.owed
	events = append(events, told...)
	switch {
	case due:
		out.Result = ""
	case left != nil && out.Result == state.Done:
		out.Result = state.Failed
	}
	if !due {
		events = append(events, state.Event{Kind: state.EventEnd, Generation: s.Generation, Result: out.Result})
	}
	if len(events) > 0 {
		if err := n.Ledger.Append(events...); err != nil {
			return out, errors.Join(left, err)
		}
	}
	if due {
		return out, left
	}
	return out, errors.Join(left, state.ClearPending(n.Layout))
}

// mustBeDown sees that nothing of ours runs yet. Beside what runs, a name could
// be taken for gone that is not.
func (n *Node) mustBeDown(ctx context.Context, current state.Generation) error {
	var names []string
	for _, u := range current.Units {
		names = append(names, u.Name)
	}
	for _, r := range n.records() {
		if r.Target.Kind() == units.TargetUnit {
			names = append(names, r.Target.Name())
		}
	}
	found, err := n.Systemd.Units(ctx, names)
	if err != nil {
		return err
	}
	for _, name := range names {
		if found[name].Up() {
			return hint.Add(fmt.Errorf("%s: is %s: this is no boot", name, found[name].Active), "run meshgen recover without --boot, or switch")
		}
	}
	return nil
}

// dueAtBoot reports whether units are due in the set that boots, and has the
// events that say that they were down before. One that was down before a switch that
// is undone is not due any more.
func (m *move) dueAtBoot() (due bool, events []state.Event) {
	for _, u := range m.to.Units {
		t := units.Of(units.TargetUnit, u.Name)
		r, ok := m.node.Ledger.Record(t)
		if !ok || r.State != state.Live || !r.Due {
			continue
		}
		why := state.Boot
		if m.undoing && r.DueWhy == state.Idle {
			why = state.Withdrawn
		}
		due = due || why == state.Boot
		if r.DueWhy != why { // else it was told by the boot before
			events = append(events, state.Event{Kind: state.EventDue, Generation: m.to.Number, Target: t, Why: why})
		}
	}
	return due, events
}

// HoldBack is for a boot whose recovery failed. It has systemd not start the
// units in force that would read a config file of the switch that was cut short
// in place of their own, and returns their names, with nothing but the
// generations to go by. All else starts.
func HoldBack(ctx context.Context, l state.Layout) ([]string, error) {
	current, inForce, err := state.Current(l)
	if err != nil || !inForce {
		return nil, err
	}
	pending, unfinished, err := state.Pending(l)
	if err != nil || !unfinished {
		return nil, err
	}
	others := []int{pending}
	if pending == current { // a rollback was cut short, to a set that the ledger alone names
		if others, err = state.Numbers(l); err != nil {
			return nil, err
		}
	}
	to, err := state.ReadGeneration(l, current)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, number := range others {
		from, err := state.ReadGeneration(l, number)
		if err != nil {
			return nil, err
		}
		more, err := astray(l, from, to)
		if err != nil {
			return nil, err
		}
		paths = append(paths, more...)
	}
	names := readers(to, paths)
	if len(names) == 0 {
		return nil, nil
	}
	return stopWhatIsDown(ctx, names)
}

// astray returns the paths where a file lies as one generation has it, and not
// as the other does that is in force.
func astray(l state.Layout, from, inForce state.Generation) ([]string, error) {
	own := map[string]units.File{}
	for _, r := range inForce.Resources {
		if r.File != nil {
			own[r.File.Path] = *r.File
		}
	}
	var paths []string
	for _, r := range from.Resources {
		if r.File == nil {
			continue
		}
		lies, there, err := fileState(l.Path(r.File.Path))
		if err != nil {
			return nil, err
		}
		was, declared := own[r.File.Path]
		differs := !declared || stateOf(was) != stateOf(*r.File)
		if there && differs && lies == stateOf(*r.File) {
			paths = append(paths, r.File.Path)
		}
	}
	return paths, nil
}

func stateOf(f units.File) state.FileState {
	return state.FileState{Digest: f.Digest, Meta: state.FileMeta(f)}
}

// readers returns the units of a generation that may read one of the files: they
// are told of its changes, or name it or a directory that it lies in.
func readers(g state.Generation, paths []string) []string {
	told := map[units.Address]bool{}
	resource := byAddress(g)
	for _, r := range g.Resources {
		if r.File != nil && slices.Contains(paths, r.File.Path) {
			for _, n := range r.File.Notify {
				told[n.Resource] = true
			}
		}
	}
	var names []string
	for _, u := range g.Units {
		named := func(path string) bool { return mentions(resource[u.Resource], path) }
		if told[u.Resource] || slices.ContainsFunc(paths, named) {
			names = append(names, u.Name)
		}
	}
	return names
}

// mentions reports whether a value of the resource has the path in it, or a
// directory above.
func mentions(r units.Resource, path string) bool {
	return names(r, func(word string) bool { return isBelow(path, word) })
}

// usedIn returns the resource whose definition has a directory in it, or a path
// below that: it would not start without.
func usedIn(dir string, resources []units.Resource) (units.Resource, bool) {
	i := slices.IndexFunc(resources, func(r units.Resource) bool {
		return names(r, func(word string) bool { return isBelow(word, dir) })
	})
	if i < 0 {
		return units.Resource{}, false
	}
	return resources[i], true
}

// isBelow reports whether a path is a directory or below it.
func isBelow(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// names reports whether one of the paths in the values of the resource is such a one.
// A path may have a space in it, or end where there is one.
func names(r units.Resource, is func(path string) bool) bool {
	found := func(value, ends string) bool {
		words := strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune(ends, c) })
		return slices.ContainsFunc(words, func(w string) bool { return w[0] == '/' && is(strings.TrimSuffix(w, "/")) })
	}
	for _, s := range r.Sections {
		for _, e := range s.Entries {
			for _, v := range e.Values {
				if found(v, " :,='\"") || found(v, ":,='\"") {
					return true
				}
			}
		}
	}
	return false
}

// stopWhatIsDown cancels the jobs that are to start units, and leaves alone what
// is up.
func stopWhatIsDown(ctx context.Context, names []string) (held []string, err error) {
	systemd, err := host.DialManager(ctx)
	if err != nil {
		return nil, err
	}
	defer systemd.Close()
	found, err := systemd.Units(ctx, names)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if found[name].Load == "loaded" && !found[name].Up() {
			held = append(held, name)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, holdBackDeadline)
	defer cancel()
	var errs []error
	for _, j := range systemd.Run(ctx, host.Stop, held, func(host.Job) {}) {
		errs = append(errs, j.Err)
	}
	return held, errors.Join(errs...)
}

// holdBackDeadline bounds the wait for jobs that stop what is down already.
const holdBackDeadline = 10 * time.Second
