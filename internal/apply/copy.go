package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"meshgen/generator"
	"meshgen/internal/durable"
	"meshgen/internal/hint"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// copyVolumes makes the new volumes, while the old set is in force and all that
// uses the old ones is down. When it returns without an error, the copies are on
// the disk, and the same as what they are of.
func (m *move) copyVolumes(ctx context.Context) error {
	marks := map[units.Target]string{}
	for _, c := range m.plan.Copy {
		m.progress(Event{Step: c.step()})
		begin := time.Now()
		mark, err := m.copyVolume(ctx, c)
		m.progress(Event{Step: c.step(), Ended: true, Took: time.Since(begin), Err: err})
		if err != nil {
			return m.dropped(ctx, c, err)
		}
		marks[c.From] = mark
	}
	for _, c := range m.plan.Copy { // at the end: the first was copied a while ago
		if err := m.untouched(ctx, c, marks[c.From]); err != nil {
			return m.dropped(ctx, c, err)
		}
	}
	return nil
}

// dropped removes the copies, since one of them cannot be. This is done at once: a
// full disk would have no room for the record of what comes next.
func (m *move) dropped(ctx context.Context, c Copy, err error) error {
	return errors.Join(fmt.Errorf("%s: copy of %s: %w", c.To, c.From, err), m.node.dropCopies(ctx))
}

// copyVolume makes one copy and returns the mark of what it is a copy of.
func (m *move) copyVolume(ctx context.Context, c Copy) (mark string, err error) {
	m.node.forget()
	if err := m.node.unused(ctx, c.From); err != nil {
		return "", err
	}
	from, reason, err := m.node.copyable(ctx, c.From)
	if err != nil || reason != "" {
		return "", orBecause(err, reason)
	}
	tree, err := host.Measure(ctx, from.Mountpoint)
	if err != nil {
		return "", err
	}
	to, err := m.makeVolume(ctx, c)
	if err != nil {
		return "", err
	}
	if err := room(to.Mountpoint, tree); err != nil {
		return "", err
	}
	if err := host.CopyTree(ctx, from.Mountpoint, to.Mountpoint); err != nil {
		return "", err
	}
	if err := host.SameTree(ctx, from.Mountpoint, to.Mountpoint); err != nil {
		return "", fmt.Errorf("compared with what it was made of: %w", err)
	}
	return tree.Mark, durable.Sync(to.Mountpoint)
}

func orBecause(err error, reason string) error {
	if err != nil {
		return err
	}
	return errors.New(reason)
}

// untouched sees that nobody wrote to the old volume since its mark was taken, and
// that nobody is about to.
func (m *move) untouched(ctx context.Context, c Copy, mark string) error {
	from, _, err := m.node.object(ctx, c.From)
	if err != nil {
		return err
	}
	tree, err := host.Measure(ctx, from.Mountpoint)
	if err == nil && tree.Mark != mark {
		err = hint.Add(errors.New("the data was changed while it was copied"), "find out what writes there, and switch again")
	}
	return errors.Join(err, m.node.unused(ctx, c.From), m.node.unused(ctx, c.To))
}

// unused sees that no container runs with a volume.
func (n *Node) unused(ctx context.Context, t units.Target) error {
	users, err := n.Podman.VolumeUsers(ctx, t.Name())
	if err != nil {
		return err
	}
	for _, u := range users {
		if u.Running {
			return hint.Add(fmt.Errorf("container %s runs with %s", u.Name, t), "stop it, and switch again")
		}
	}
	return nil
}

// makeVolume makes a volume as its own unit would, which finds it when it starts.
// What an earlier try left of it goes first.
func (m *move) makeVolume(ctx context.Context, c Copy) (host.Object, error) {
	if err := m.node.dropCopy(ctx, c.To); err != nil {
		return host.Object{}, err
	}
	if _, there, err := m.node.object(ctx, c.To); err != nil || there {
		return host.Object{}, orBecause(err, "it exists by now, and is not of meshgen")
	}
	if err := m.runOnce(ctx, c); err != nil {
		return host.Object{}, err
	}
	m.node.forget()
	o, reason, err := m.node.copyable(ctx, c.To)
	if err != nil || reason != "" {
		return o, orBecause(err, reason)
	}
	entries, err := os.ReadDir(o.Mountpoint)
	if err == nil && len(entries) > 0 {
		err = errors.New("it was made, and is not empty")
	}
	return o, err
}

// runOnce has systemd run the commands of a volume's unit, under a name that is
// gone when they have ended: the unit itself may have the name of the old one, and
// its dependencies are of a set that is not in force yet.
func (m *move) runOnce(ctx context.Context, c Copy) error {
	definition, err := os.ReadFile(filepath.Join(m.node.Layout.Generation(m.to.Number), generator.NormalDir, c.Unit))
	if err != nil {
		return err
	}
	name := "meshgen-make-" + c.Unit
	path := filepath.Join(m.node.Layout.Runtime, rescueDir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // systemd reads it
		return err
	}
	text := "[Unit]\nDescription=Make " + string(c.To) + "\n[Service]\n" + service(string(definition)) + "RemainAfterExit=no\n"
	if err := durable.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	link := filepath.Join(m.node.Layout.Path(runtimeUnits), name)
	if err := relink(path, link); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, actDeadline)
	defer cancel()
	begun := time.Now()
	job := m.node.Systemd.Run(ctx, host.Start, []string{name}, func(host.Job) {})[0]
	if job.Err != nil {
		for _, line := range m.node.Systemd.Journal(ctx, name, begun, 3) {
			job.Err = fmt.Errorf("%w\n    %s", job.Err, line)
		}
		job.Err = errors.Join(job.Err, m.node.Systemd.ResetFailed(ctx, name))
	}
	return errors.Join(job.Err, os.Remove(link), os.Remove(path))
}

// service returns the lines of the sections [Service] of a unit.
func service(definition string) string {
	var b strings.Builder
	in := false
	for line := range strings.Lines(definition) {
		if strings.HasPrefix(line, "[") {
			in = strings.TrimSpace(line) == "[Service]"
		} else if in {
			b.WriteString(line)
		}
	}
	return b.String()
}

// dropCopies removes what is there of partial copies.
func (n *Node) dropCopies(ctx context.Context) error {
	var errs []error
	for _, r := range n.records() {
		if partial(r) {
			errs = append(errs, n.dropCopy(ctx, r.Target))
		}
	}
	return errors.Join(errs...)
}

func (n *Node) dropCopy(ctx context.Context, t units.Target) error {
	record, ok := n.Ledger.Record(t)
	if n.Systemd == nil || !ok || record.State != state.Live || !partial(record) {
		return nil
	}
	n.forget()
	o, there, err := n.object(ctx, t)
	if err != nil || !there || !marked(o, record) {
		return err
	}
	err = n.Podman.RemoveVolume(ctx, o.Name)
	if err != nil && n.unused(ctx, t) == nil {
		// On a full disk podman cannot even note that it goes: its data first.
		err = errors.Join(clearDir(o.Mountpoint), n.Podman.RemoveVolume(ctx, o.Name))
	}
	n.forget()
	return err
}

func clearDir(path string) error {
	entries, err := os.ReadDir(path)
	errs := []error{err}
	for _, e := range entries {
		errs = append(errs, os.RemoveAll(filepath.Join(path, e.Name())))
	}
	return errors.Join(errs...)
}
