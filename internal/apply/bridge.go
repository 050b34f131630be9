package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"meshgen/generator"
	"meshgen/internal/durable"
	"meshgen/state"
	"meshgen/units"
)

// runtimeUnits is where systemd finds a unit that is new to it at once, without
// a daemon-reload: it watches this directory's time, as it does not watch the
// generators' directories.
const runtimeUnits = "run/systemd/system"

// raiseBridge lets systemd have the renamed units beside all that it has. The
// links in /run/systemd/system are what it reads now; those in the bridge have
// the generator say the same, should anyone reload.
func (m *move) raiseBridge(context.Context) error {
	if m.node.Systemd == nil || len(m.plan.Handover) == 0 {
		return nil
	}
	// The fences come first: from the moment that systemd can know a new name, its
	// start stops the old.
	dir := m.node.Layout.Path(runtimeUnits)
	names := slices.Clone(m.plan.Bridge)
	for _, h := range m.plan.Handover {
		names = append(names, h.New)
		if err := generator.WriteFence(dir, h.New, []string{h.Old}); err != nil {
			return err
		}
	}
	for _, name := range names {
		unit := filepath.Join(m.node.Layout.Generation(m.to.Number), generator.NormalDir, name)
		if err := relink(unit, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	bridge := m.node.Layout.Bridge()
	if err := os.MkdirAll(bridge, 0o755); err != nil { //nolint:gosec // generators read it
		return err
	}
	for name, g := range map[string]state.Generation{"old": m.from, "new": m.to} {
		if err := relink(m.node.Layout.Generation(g.Number), filepath.Join(bridge, name)); err != nil {
			return err
		}
	}
	return nil
}

// relink makes a link on a file system that does not outlive the power.
func relink(to, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(to, path)
}

// lowerBridge takes the bridge away and has systemd read its units again: the
// old names go, and what changed under a kept name comes.
func (m *move) lowerBridge(ctx context.Context) error {
	if m.node.Systemd == nil {
		return nil
	}
	if err := sweepBridge(m.node.Layout); err != nil {
		return err
	}
	if !m.plan.Reread && len(m.plan.Handover)+len(m.plan.Rescue) == 0 {
		return nil
	}
	return m.reload(ctx)
}

// sweepBridge removes what a switch keeps in /run, also that of one that was
// cut short.
func sweepBridge(l state.Layout) error {
	for _, dir := range []string{l.Bridge(), filepath.Join(l.Runtime, rescueDir)} {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	dir := l.Path(runtimeUnits)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() && strings.HasSuffix(e.Name(), ".d") {
			errs = append(errs, generator.RemoveFence(path))
			continue
		}
		if to, err := os.Readlink(path); err == nil && ours(l, to) {
			errs = append(errs, os.Remove(path))
		}
	}
	return errors.Join(errs...)
}

// ours reports whether a link in /run/systemd/system leads to something that a
// switch put there.
func ours(l state.Layout, to string) bool {
	for _, dir := range []string{l.Generations(), l.Runtime} {
		if rel, err := filepath.Rel(dir, to); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

func (m *move) reload(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, actDeadline)
	defer cancel()
	step := Step{Op: "reload", Reason: "systemd reads its units again"}
	m.progress(Event{Step: step})
	begin := time.Now()
	err := m.node.Systemd.Reload(ctx)
	m.progress(Event{Step: step, Ended: true, Took: time.Since(begin), Err: err})
	return err
}

// rescueDir holds definitions, below /run/meshgen, for as long as it takes to
// stop what has lost them.
const rescueDir = "rescue"

// rescue gives systemd back the recorded definitions of units that it runs and
// has lost, so that it can stop them, and of those that it would lose by the next
// reload, whoever asks for that.
func (m *move) rescue(ctx context.Context) error {
	if m.node.Systemd == nil {
		return nil
	}
	given, err := m.node.InForce()
	if err != nil {
		return err
	}
	names := slices.Clone(m.plan.Rescue)
	for _, name := range m.plan.TakenDown() {
		kept := slices.ContainsFunc(given.Units, func(u state.Unit) bool { return u.Name == name })
		record := m.records[units.Of(units.TargetUnit, name)]
		if record.Definition != "" && !kept && m.seen.foreign[name] == "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return m.putBack(ctx, names)
}

// putBack has systemd read the recorded definitions of units.
func (m *move) putBack(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	dir := filepath.Join(m.node.Layout.Runtime, rescueDir)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // systemd reads it
		return err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		definition := m.records[units.Of(units.TargetUnit, name)].Definition
		if definition == "" {
			return fmt.Errorf("%s: systemd has lost its definition, and the ledger has none", name)
		}
		if err := durable.WriteFile(path, []byte(definition), 0o644); err != nil {
			return err
		}
		if err := relink(path, filepath.Join(m.node.Layout.Path(runtimeUnits), name)); err != nil {
			return err
		}
	}
	return m.reload(ctx)
}
