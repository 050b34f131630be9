package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"meshgen/generator"
	"meshgen/internal/hint"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// survey returns the events that record what is on the machine and not ours, for
// a ledger that has no switch yet: podman's objects, Quadlets, and unit files of
// the owner's. What packages ship is not among it.
func (n *Node) survey(ctx context.Context) ([]state.Event, error) {
	if n.Ledger != nil && (len(n.Ledger.Switches()) > 0 || len(n.Ledger.Found()) > 0) {
		return nil, nil
	}
	found, err := n.surveyUnits()
	if err != nil {
		return nil, err
	}
	objects, err := n.surveyObjects(ctx)
	return slices.DeleteFunc(append(found, objects...), func(e state.Event) bool {
		r, _ := n.ledgerRecord(e.Target)
		return r.State == state.Live || r.State == state.Held
	}), err
}

func (n *Node) surveyObjects(ctx context.Context) ([]state.Event, error) {
	if n.Podman == nil {
		return nil, nil
	}
	var found []state.Event
	for _, kind := range []string{units.TargetContainer, units.TargetPod, units.TargetVolume, units.TargetNetwork, units.TargetSecret} {
		objects, err := n.objectsOf(ctx, kind)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			if kind == units.TargetNetwork && o.Name == defaultNetwork {
				continue
			}
			t := units.Of(kind, o.Name)
			found = append(found, state.Event{Kind: state.EventFind, Target: t, Digest: o.ID, Why: surveyed(t, o)})
		}
	}
	return found, nil
}

// defaultNetwork is podman's own, which is there from the start.
const defaultNetwork = "podman"

// objectsOf lists podman's objects of a kind, in the order of their names.
func (n *Node) objectsOf(ctx context.Context, kind string) ([]host.Object, error) {
	byName, err := n.objects.get(ctx, kind)
	objects := make([]host.Object, 0, len(byName))
	for _, o := range byName {
		objects = append(objects, o)
	}
	slices.SortFunc(objects, func(a, b host.Object) int { return strings.Compare(a.Name, b.Name) })
	return objects, err
}

// surveyed says what is there, of what has the name.
func surveyed(t units.Target, o host.Object) string {
	if t.Kind() == units.TargetContainer {
		does := "does not run"
		if o.Running {
			does = "runs"
		}
		return fmt.Sprintf("a container of image %s, which %s", o.Image, does)
	}
	return "a " + t.Kind()
}

// surveyUnits finds Quadlets and unit files of the owner's.
func (n *Node) surveyUnits() ([]state.Event, error) {
	paths := map[string]string{}
	for name, path := range generator.Quadlets(n.Layout.Root) {
		if !strings.HasPrefix(relative(n.Layout, path), "/usr/") {
			paths[name] = path
		}
	}
	own, err := ownUnits(n.Layout)
	if err != nil {
		return nil, err
	}
	for _, path := range own { // systemd takes it before a Quadlet's
		paths[filepath.Base(path)] = path
	}
	var found []state.Event
	for name, path := range paths {
		e := state.Event{Kind: state.EventFind, Target: units.Of(units.TargetUnit, name), Why: "defined by " + relative(n.Layout, path)}
		// One that cannot be read, a dangling link or a directory, is there too.
		if text, err := os.ReadFile(path); err == nil { //nolint:gosec // a unit file of the machine
			e.Digest = state.TextDigest(string(text))
		}
		found = append(found, e)
	}
	slices.SortFunc(found, func(a, b state.Event) int { return strings.Compare(string(a.Target), string(b.Target)) })
	return found, nil
}

// ownUnitDirs are where a machine's owner puts unit files, what counts more last:
// systemd.unit(5).
//
//nolint:gochecknoglobals // a constant list
var ownUnitDirs = []string{"/usr/local/lib/systemd/system", "/run/systemd/system", "/etc/systemd/system"}

// ownUnits returns the unit files that the owner wrote, or linked from a place that
// systemd does not look in: of several with one name the last counts. The links that
// systemctl enable and mask make are none, nor is what a system puts there as a whole,
// by a link, and what is meshgen's.
func ownUnits(l state.Layout) ([]string, error) {
	var paths []string
	for _, dir := range ownUnitDirs {
		inDir, err := ownUnitsIn(l, dir)
		if err != nil {
			return nil, err
		}
		paths = append(paths, inDir...)
	}
	return paths, nil
}

func ownUnitsIn(l state.Layout, from string) ([]string, error) {
	dir := l.Path(from)
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !isUnitName(e.Name()) || (from != "/etc/systemd/system" && isInstalled(e.Name())) {
			continue
		}
		if e.Type().IsRegular() || linkedIn(l, path) {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// isInstalled reports whether a unit comes with meshgen itself.
func isInstalled(unit string) bool {
	return slices.Contains([]string{generator.RecoverUnit, generator.ConfirmUnit, generator.SwitchUnit, "meshgen-audit.service", "meshgen-audit.timer"}, unit)
}

// linkedIn reports whether a link brings in a file from where systemd would not
// have found it.
func linkedIn(l state.Layout, path string) bool {
	to, err := os.Readlink(path)
	if err != nil {
		return false
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(relative(l, filepath.Dir(path)), to)
	}
	if ours(l, l.Path(to)) {
		return false
	}
	for _, dir := range []string{"/usr/lib/systemd", "/lib/systemd", "/usr/local/lib/systemd", "/run/systemd", "/etc/systemd", "/dev"} {
		if strings.HasPrefix(to, dir+"/") {
			return false
		}
	}
	info, err := os.Stat(l.Path(to))
	return err == nil && info.Mode().IsRegular()
}

// isUnitName reports whether systemd would load a file of that name as a unit:
// systemd.unit(5).
func isUnitName(name string) bool {
	return slices.Contains([]string{
		".service", ".socket", ".device", ".mount", ".automount", ".swap", ".target", ".path", ".timer", ".slice", ".scope",
	}, filepath.Ext(name))
}

// bearing returns the containers that bear our mark.
func (n *Node) bearing(ctx context.Context) ([]host.Object, error) {
	all, err := n.objectsOf(ctx, units.TargetContainer)
	return slices.DeleteFunc(all, func(o host.Object) bool { return o.Labels[units.MarkLabel] == "" }), err
}

// unclaimed refuses a first switch on a machine that carries our marks: there was a
// ledger once.
func (n *Node) unclaimed(ctx context.Context) error {
	if !blank(n.Ledger) || n.Podman == nil {
		return nil
	}
	marked, err := n.marked(ctx)
	if err != nil || len(marked) == 0 {
		return err
	}
	names := make([]string, len(marked))
	for i, t := range marked {
		names[i] = string(t)
	}
	return hint.Add(fmt.Errorf("%s: missing, and what bears meshgen's mark is here: %s", n.Layout.Ledger(), strings.Join(names, ", ")), lostHint)
}

// marked returns what bears our mark: units that our generator gave systemd, and
// podman's objects.
func (n *Node) marked(ctx context.Context) ([]units.Target, error) {
	var found []units.Target
	entries, err := os.ReadDir(n.Layout.Path(generatedBy))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(n.Layout.Path(generatedBy), e.Name()))
		if _, ours := units.Mark(string(text)); err == nil && ours {
			found = append(found, units.Of(units.TargetUnit, e.Name()))
		}
	}
	containers, err := n.bearing(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range containers {
		found = append(found, units.Of(units.TargetContainer, o.Name))
	}
	for _, kind := range []string{units.TargetPod, units.TargetVolume, units.TargetNetwork, units.TargetSecret} {
		objects, err := n.objectsOf(ctx, kind)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			if o.Labels[units.MarkLabel] != "" {
				found = append(found, units.Of(kind, o.Name))
			}
		}
	}
	return found, nil
}
