package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"meshgen/internal/durable"
	"meshgen/internal/hint"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// retire removes what is no longer declared, sees each thing gone, and returns
// what to record. A name whose thing could not be seen gone stays live, and is
// told in the error.
func (m *move) retire(ctx context.Context) ([]state.Event, error) {
	var events []state.Event
	var errs []error
	targets := m.plan.Retire
	found, processes, err := m.unitsToRetire(ctx, targets)
	if err != nil {
		return nil, err
	}
	kept, err := m.unlinkFiles(targets)
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		if len(processes[t]) > 0 {
			errs = append(errs, stillRun(t.Name(), processes[t]))
			continue
		}
		left, err := m.retireOne(ctx, t, found)
		if kept[t] != nil {
			err = kept[t]
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		e := state.Event{Kind: state.EventRetire, Generation: m.to.Number, Target: t, Why: m.why(t)}
		op := Op("retire")
		if left != "" {
			e.Kind, e.Why, op = state.EventForget, left, "leave"
			if m.keepsDir(t) {
				e.Kind, op = state.EventHold, "hold"
			}
		}
		if t.Kind() != units.TargetPort {
			m.progress(Event{Step: Step{Op: op, Target: t, Reason: e.Why}, Ended: true})
		}
		events = append(events, e)
	}
	if err := m.syncRemoved(targets); err != nil {
		return nil, err
	}
	lost, err := m.asidesLost(ctx)
	events = append(append(events, m.hold()...), lost...)
	return events, errors.Join(append(errs, err, m.removeOldListens())...)
}

// retiringOrder puts units before the objects that they run, and files before
// their directories, the innermost first.
func retiringOrder(a, b units.Target) int {
	if byKind := cmp.Compare(turn(a), turn(b)); byKind != 0 {
		return byKind
	}
	if a.Kind() == units.TargetDir {
		return cmp.Compare(b, a)
	}
	return 0
}

func turn(t units.Target) int {
	switch t.Kind() {
	case units.TargetUnit:
		return 0
	case units.TargetPod: // takes its own container along, which does not go alone
		return 1
	case units.TargetContainer:
		return 2
	case units.TargetDir:
		return 4
	}
	return 3
}

// unitsToRetire returns the units among the targets, and the processes that those left
// which have ended: with KillMode=process, or where something could not be killed.
func (m *move) unitsToRetire(ctx context.Context, targets []units.Target) (map[string]host.Unit, map[units.Target][]host.Process, error) {
	if m.node.Systemd == nil {
		return nil, nil, nil
	}
	var names []string
	for _, t := range targets {
		if t.Kind() == units.TargetUnit {
			names = append(names, t.Name())
		}
	}
	found, err := m.node.Systemd.Units(ctx, names)
	if err != nil {
		return nil, nil, err
	}
	details, err := m.node.Systemd.Details(ctx, names)
	left := map[units.Target][]host.Process{}
	for name, d := range details {
		t := units.Of(units.TargetUnit, name)
		if !found[name].Up() && m.seen.foreign[name] == "" { // else it is its owner's
			left[t] = host.ProcessesIn(d.ControlGroup)
		}
	}
	return found, left, err
}

// stillRun says which processes a unit left that is to be gone. They are still what the
// unit was for, and nothing else would know of them.
func stillRun(name string, left []host.Process) error {
	words := make([]string, len(left))
	for i, p := range left {
		words[i] = fmt.Sprintf("%s (%d)", p.Command, p.PID)
	}
	return hint.Add(fmt.Errorf("%s: has ended, and left %s", name, strings.Join(words, ", ")),
		hint.Command("systemctl", "kill", name)+" ends them; the next switch sees it gone")
}

// unlinkFiles removes the files that are to go, and returns once that is on the
// disk, with those that it had to leave and why.
func (m *move) unlinkFiles(targets []units.Target) (kept map[units.Target]error, err error) {
	kept = map[units.Target]error{}
	var dirs []string
	for _, t := range targets {
		if t.Kind() != units.TargetFile {
			continue
		}
		if err := m.unlink(t); err != nil {
			kept[t] = err
			continue
		}
		if dir := filepath.Dir(m.node.Layout.Path(t.Name())); isDir(dir) {
			dirs = append(dirs, dir)
		}
	}
	return kept, durable.Sync(dirs...)
}

// never reports whether what lies at the place of a file is not what a switch
// that is undone was to put there: then it never did.
func (m *move) never(t units.Target) bool {
	seen, there := m.seen.observed.Files[t]
	record := m.records[t]
	return m.undoing && there && record.Last.Generation == m.from.Number &&
		(seen != state.FileState{Digest: record.Digest, Meta: record.Definition})
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (m *move) unlink(t units.Target) error {
	if err := m.unchanged(t); err != nil {
		return err
	}
	seen, there := m.seen.observed.Files[t]
	switch {
	case !there:
		return nil
	case m.never(t):
		return nil // another's, who came before we did
	case seen.Digest == "a directory":
		return fmt.Errorf("%s: not removed: it is a directory", t.Name())
	}
	if err := m.backUp(t); err != nil {
		return err
	}
	return durable.Unlink(m.node.Layout.Root, t.Name())
}

// retireOne sees one thing gone. What is there and turns out to be somebody else's
// is left, and told why.
func (m *move) retireOne(ctx context.Context, t units.Target, found map[string]host.Unit) (left string, err error) {
	switch t.Kind() {
	case units.TargetUnit:
		if path := m.seen.foreign[t.Name()]; path != "" {
			return "now defined by " + path, nil
		}
		if err := m.retireUnit(ctx, t.Name(), found[t.Name()]); err != nil {
			return "", err
		}
		return "", errors.Join(m.removeTraces(m.records[t]), m.removeMadeBy(ctx, m.records[t]))
	case units.TargetContainer, units.TargetPod, units.TargetNetwork, units.TargetVolume, units.TargetSecret:
		return m.removeObject(ctx, t)
	case units.TargetFile:
		if m.never(t) {
			return "never written: what is there is not of meshgen", nil
		}
		if _, err := os.Lstat(m.node.Layout.Path(t.Name())); err == nil {
			return "", fmt.Errorf("%s: removed, and still there", t.Name())
		}
	case units.TargetDir:
		return m.removeDir(t)
	}
	return "", nil
}

// why says what became of the resource that had the name.
func (m *move) why(t units.Target) string {
	a := m.records[t].Resource
	if m.undoing {
		return "did not stay in force"
	}
	for _, r := range m.to.Resources {
		if r.Address != a {
			continue
		}
		for _, now := range units.Targets(r) {
			if now.Kind() == t.Kind() {
				return "renamed to " + now.Name()
			}
		}
	}
	if m.records[t].OnTheWay() {
		return "nothing declared is in it"
	}
	if givesBack(m.node.adopted(), m.to, a) {
		return "is given back"
	}
	return "no longer declared"
}

func (m *move) retireUnit(ctx context.Context, name string, u host.Unit) error {
	if m.node.Systemd == nil {
		return nil
	}
	if u.Up() {
		return fmt.Errorf("%s: is to be gone and is %s", name, u.Active)
	}
	if u.Active == "failed" { // it would stay in systemd's list for ever
		return m.node.Systemd.ResetFailed(ctx, name)
	}
	return nil
}

// removeObject removes a podman object of ours and sees it gone. One of that
// name that is somebody else's is left, and told why.
func (m *move) removeObject(ctx context.Context, t units.Target) (left string, err error) {
	record := m.records[t]
	if m.node.Systemd == nil {
		return "", m.neverStarted(record)
	}
	o, there, err := m.node.object(ctx, t)
	switch {
	case err != nil || !there:
		return "", err
	case !marked(o, record):
		return "what has the name is not of meshgen", nil
	}
	if by := m.seen.foreign[o.Unit]; by != "" {
		was, err := m.node.startedByOurs(ctx, o, m.records[units.Of(units.TargetUnit, o.Unit)])
		if err != nil || !was {
			return o.Unit + " runs it, which is now defined by " + by, err
		}
	} else if t.Kind() == units.TargetContainer {
		if was, err := m.node.isOurs(ctx, o); err != nil || !was {
			return cmp.Or(o.Unit, "a hand") + " runs it, which is not of meshgen", err
		}
	}
	return "", m.removeMarked(ctx, t, o)
}

func (m *move) removeMarked(ctx context.Context, t units.Target, o host.Object) (err error) {
	switch t.Kind() {
	case units.TargetContainer:
		err = m.node.Podman.RemoveContainer(ctx, o.ID)
	case units.TargetPod:
		err = m.node.Podman.RemovePod(ctx, o.ID)
	case units.TargetNetwork:
		err = m.node.Podman.RemoveNetwork(ctx, o.Name)
	case units.TargetVolume:
		err = m.node.Podman.RemoveVolume(ctx, o.Name)
	case units.TargetSecret:
		err = m.node.Podman.RemoveSecret(ctx, o.ID)
	}
	if err != nil {
		return fmt.Errorf("%s: remove: %w", t, err)
	}
	m.node.forget()
	again, there, err := m.node.object(ctx, t)
	if err == nil && there && again.ID == o.ID {
		err = fmt.Errorf("%s: removed, and still there", t)
	}
	return err
}

// removeMadeBy removes what a unit that is gone left of its containers, whatever
// they are called by now.
func (m *move) removeMadeBy(ctx context.Context, unit state.Record) error {
	if m.node.Systemd == nil || !runsContainer(unit) {
		return nil
	}
	containers, err := m.node.objects.get(ctx, units.TargetContainer)
	if err != nil {
		return err
	}
	for _, o := range madeBy(unit, containers) {
		if err := m.node.Podman.RemoveContainer(ctx, o.ID); err != nil {
			return fmt.Errorf("container:%s: remove: %w", o.Name, err)
		}
		m.node.forget()
	}
	return nil
}

// marked reports whether a podman object is the one that the ledger means: it bears
// our mark, or it was adopted, and was not made anew since.
func marked(o host.Object, r state.Record) bool {
	if usedAsItIs(r.Adoption) && r.Adoption.ID == born(o) {
		return true
	}
	mark := o.Labels[units.MarkLabel]
	if mark == r.Resource.String() {
		return true
	}
	return slices.ContainsFunc(r.Earlier, func(a units.Address) bool { return mark == a.String() })
}

// neverStarted allows a name to be retired below --root, where podman cannot be
// asked: what no unit of ours was ever started for does not exist.
func (m *move) neverStarted(r state.Record) error {
	for _, other := range m.records {
		if other.Resource == r.Resource && other.Started != "" {
			return fmt.Errorf("%s: may exist, and podman cannot be asked below --root; a switch on the machine itself removes it", r.Target)
		}
	}
	return nil
}

func (m *move) removeDir(t units.Target) (left string, err error) {
	if at, is := obstacle(m.node.Layout, t.Name()); at != "" {
		return fmt.Sprintf("%s is a %s now", at, is), nil
	}
	if lies, there, err := dirState(m.node.Layout, t.Name()); err != nil || there && m.neverMade(t, lies) {
		return "never made: what is there is not of meshgen", err
	}
	err = syscall.Rmdir(m.node.Layout.Path(t.Name())) // which takes nothing but a directory
	switch {
	case errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.ENOTDIR):
		return "it holds what is not of meshgen", nil
	case errors.Is(err, syscall.EBUSY):
		return "something is mounted there", nil
	case errors.Is(err, os.ErrNotExist):
		return "", nil
	}
	return "", err
}

// syncRemoved returns once it is on the disk that the directories among the targets are
// gone.
func (m *move) syncRemoved(targets []units.Target) error {
	var parents []string
	for _, t := range targets {
		if parent := filepath.Dir(m.node.Layout.Path(t.Name())); t.Kind() == units.TargetDir && isDir(parent) {
			parents = append(parents, parent)
		}
	}
	return durable.Sync(parents...)
}
