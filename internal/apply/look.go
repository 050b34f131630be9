package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"sync"
	"syscall"

	"meshgen/generator"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// sight is what one look at the machine found.
type sight struct {
	units map[string]host.Unit
	// invocations are of the units that a switch cut short may have restarted, and
	// of plain ones that others may have started since they changed.
	invocations map[string]string
	// foreign are the units whose names are no longer declared and which run by
	// a definition that is not of meshgen, with its path.
	foreign map[string]string
	// secrets are those that are declared and ours, with the digests of what they hold.
	secrets map[units.Target]string
	// inUse are the networks and volumes that are no longer declared and that
	// containers of ours use whose units are masked: nothing takes them off.
	inUse    map[units.Target]bool
	observed state.Observed
}

// look looks at what is declared and at what the ledger has as ours, and no
// further: podman is asked only for the kinds in which a new name is declared.
func (n *Node) look(ctx context.Context, desired state.Generation, records []state.Record) (sight, error) {
	ours := map[units.Target]bool{}
	held := map[units.Target]state.Record{}
	var names, due []string
	paths, dirs := map[units.Target]bool{}, map[units.Target]bool{}
	for _, r := range records {
		if r.State == state.Held {
			held[r.Target] = r
		} else {
			ours[r.Target] = true
		}
		switch r.Target.Kind() {
		case units.TargetUnit:
			names = append(names, r.Target.Name())
			if r.Due || (r.Resource.Kind == units.KindUnit && r.Started != r.Digest) {
				due = append(due, r.Target.Name())
			}
		case units.TargetFile:
			paths[r.Target] = true
		case units.TargetDir:
			if !r.OnTheWay() {
				dirs[r.Target] = true
			}
		}
	}
	var fresh []units.Target
	for _, r := range desired.Resources {
		for _, t := range units.Targets(r) {
			if t.Kind() == units.TargetDir {
				dirs[t] = true
			}
			if ours[t] {
				continue
			}
			fresh = append(fresh, t)
			switch t.Kind() {
			case units.TargetUnit:
				names = append(names, t.Name())
			case units.TargetFile:
				paths[t] = true
			}
		}
	}
	seen := sight{units: map[string]host.Unit{}, invocations: map[string]string{}, foreign: map[string]string{}}
	var err error
	if n.Systemd != nil {
		if seen.units, err = n.Systemd.Units(ctx, names); err != nil {
			return sight{}, err
		}
		n.unmasked(records, seen.units)
		details, err := n.Systemd.Details(ctx, due)
		if err != nil {
			return sight{}, err
		}
		for name, d := range details {
			seen.invocations[name] = d.Invocation
		}
		goes := going(desired, records)
		if seen.foreign, err = n.foreign(ctx, goes); err != nil {
			return sight{}, err
		}
		n.foundQuadlets(goes, seen.foreign)
	}
	if seen.observed.Files, err = n.lookAtFiles(paths); err != nil {
		return sight{}, err
	}
	if seen.observed.Dirs, err = n.lookAtDirs(dirs, records); err != nil {
		return sight{}, err
	}
	seen.observed.Overridden, seen.observed.Masked = n.overridden(desired, ours, seen.units)
	if seen.inUse, err = n.inUseByMasked(ctx, desired, records, seen); err != nil {
		return sight{}, err
	}
	if seen.observed.Taken, err = n.taken(ctx, desired, fresh, held, seen); err != nil {
		return sight{}, err
	}
	for _, r := range desired.Resources {
		if words := keptOtherwise(r, held, seen.observed.Files); words != "" {
			t := units.Targets(r)[0]
			seen.observed.Taken[t] = state.Occupant{Words: words, What: "file", Path: t.Name(), Digest: seen.observed.Files[t].Digest}
		}
	}
	return seen, nil
}

// foundQuadlets adds those of the units that go whose Quadlets were to be adopted
// and lie in their places: what podman's generator makes of one lies where ours do.
func (n *Node) foundQuadlets(goes []string, foreign map[string]string) {
	for _, name := range goes {
		r, _ := n.ledgerRecord(units.Of(units.TargetUnit, name))
		if r.Adoption == nil || r.Adoption.What != wasQuadlet {
			continue
		}
		if path := generator.Quadlets(n.Layout.Root)[name]; path != "" {
			foreign[name] = relative(n.Layout, path)
		}
	}
}

// unmasked takes units for what they are once systemd has read its units again: one
// whose mask was adopted is masked no more, and systemd may not know it yet where a
// switch was cut short.
func (n *Node) unmasked(records []state.Record, now map[string]host.Unit) {
	for _, r := range records {
		name := r.Target.Name()
		u := now[name]
		if r.Adoption != nil && r.Adoption.What == wasMask && u.Load == "masked" && generator.Definition(n.Layout.Root, name) == "" {
			u.Load = "loaded"
			now[name] = u
		}
	}
}

// keptOtherwise says of a file that was let be, and is declared again, that it is
// not as it is to be: it is the owner's to say which of the two is wanted.
func keptOtherwise(r units.Resource, held map[units.Target]state.Record, lie map[units.Target]state.FileState) string {
	if r.File == nil {
		return ""
	}
	t := units.Of(units.TargetFile, r.File.Path)
	lies, there := lie[t]
	if _, kept := held[t]; !kept || !there || lies == stateOf(*r.File) {
		return ""
	}
	return "what was kept there is not as it is declared now"
}

// going returns the units that the ledger has live and that are not declared.
func going(desired state.Generation, records []state.Record) []string {
	declared := map[string]bool{}
	for _, u := range desired.Units {
		declared[u.Name] = true
	}
	var names []string
	for _, r := range records {
		if r.Target.Kind() == units.TargetUnit && r.State == state.Live && !declared[r.Target.Name()] {
			names = append(names, r.Target.Name())
		}
	}
	return names
}

// foreign returns those of the units that systemd has from a definition that is
// not of meshgen, with its path.
func (n *Node) foreign(ctx context.Context, names []string) (map[string]string, error) {
	details, err := n.Systemd.Details(ctx, names)
	found := map[string]string{}
	for name, d := range details {
		if path := n.definedBy(name, d); path != "" {
			found[name] = path
		}
	}
	return found, err
}

// definedBy returns the path of the definition that systemd has of a unit, where it
// is not of meshgen.
func (n *Node) definedBy(name string, d host.Details) string {
	path := d.Fragment
	if path == generatedBy+name { // by our generator, or by podman's from a Quadlet of the owner's
		path = d.Source
	}
	if path == "" || strings.HasPrefix(path, relative(n.Layout, n.Layout.Config)+"/") {
		return ""
	}
	if to, err := os.Readlink(n.Layout.Path(path)); err == nil && (ours(n.Layout, to) || to == os.DevNull) {
		return "" // a mask defines nothing
	}
	if _, err := os.Lstat(n.Layout.Path(path)); errors.Is(err, os.ErrNotExist) {
		return "" // nor does what is gone, and is still in systemd's memory
	}
	return path
}

// overridden says of the units that are declared and ours what keeps systemd from
// running them by our definition, and which of them are masked.
func (n *Node) overridden(
	desired state.Generation, ours map[units.Target]bool, now map[string]host.Unit,
) (found map[units.Target]string, masked map[units.Target]bool) {
	var names []string
	for _, u := range desired.Units {
		if ours[units.Of(units.TargetUnit, u.Name)] {
			names = append(names, u.Name)
		}
	}
	found, masked = map[units.Target]string{}, map[units.Target]bool{}
	defined := generator.Definitions(n.Layout.Root, names)
	for _, name := range names {
		t := units.Of(units.TargetUnit, name)
		switch path := defined[name]; {
		case now[name].Load == "masked" || isMask(path):
			found[t], masked[t] = "is masked", true
		case path != "":
			found[t] = "is defined by " + path + ", which comes before meshgen's"
		}
	}
	return found, masked
}

// isMask reports whether a unit file is a mask, systemd.unit(5): a link to
// /dev/null, or empty.
func isMask(path string) bool {
	if path == "" {
		return false
	}
	if to, err := os.Readlink(path); err == nil {
		return to == os.DevNull
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == 0
}

func (n *Node) lookAtFiles(paths map[units.Target]bool) (map[units.Target]state.FileState, error) {
	found := make(map[units.Target]state.FileState, len(paths))
	for t := range paths {
		s, there, err := fileState(n.Layout.Path(t.Name()))
		if err != nil {
			return nil, err
		}
		if there {
			found[t] = s
		}
	}
	return found, nil
}

// fileState returns the state of what lies at path. What is no regular file has
// its type for a digest: it is like no content that was written.
func fileState(path string) (s state.FileState, there bool, err error) {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return s, false, nil
	}
	if err != nil {
		return s, false, err
	}
	s.Meta = state.MetaOf(info)
	if !info.Mode().IsRegular() {
		s.Digest = "a " + fileType(info.Mode())
		return s, true, nil
	}
	f, err := os.Open(path) //nolint:gosec // a declared path
	if err != nil {
		return s, false, err
	}
	defer func() { _ = f.Close() }() // read-only
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return s, false, fmt.Errorf("%s: read: %w", path, err)
	}
	s.Digest = hex.EncodeToString(h.Sum(nil))
	return s, true, nil
}

func fileType(m os.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&os.ModeSymlink != 0:
		return "symbolic link"
	case m.IsRegular():
		return "file"
	}
	return "special file"
}

// object returns the podman object that holds a target.
func (n *Node) object(ctx context.Context, t units.Target) (host.Object, bool, error) {
	if n.objects == nil {
		return host.Object{}, false, nil
	}
	all, err := n.objects.get(ctx, t.Kind())
	if err != nil {
		return host.Object{}, false, err
	}
	o, ok := all[t.Name()]
	return o, ok, nil
}

// listing holds podman's lists of one look, each made when first asked for.
type listing struct {
	podman Podman
	layout state.Layout
	lists  map[string]func() (map[string]host.Object, error)
	mu     sync.Mutex
}

func newListing(p Podman, l state.Layout) *listing {
	return &listing{podman: p, layout: l, lists: map[string]func() (map[string]host.Object, error){}}
}

// Foresee has podman list its containers while other work goes on. A call of
// podman takes a tenth of a second, most of which is its start.
func (n *Node) Foresee(ctx context.Context) {
	if n.objects != nil {
		go func() { _, _ = n.objects.get(ctx, units.TargetContainer) }() // the error comes again when asked
	}
}

// forget drops the lists: what was listed may have changed.
func (n *Node) forget() {
	if n.Podman != nil {
		n.objects = newListing(n.Podman, n.Layout)
	}
}

func (l *listing) get(ctx context.Context, kind string) (map[string]host.Object, error) {
	l.mu.Lock()
	list, ok := l.lists[kind]
	if !ok {
		list = sync.OnceValues(func() (map[string]host.Object, error) { return l.list(ctx, kind) })
		l.lists[kind] = list
	}
	l.mu.Unlock()
	return list()
}

func (l *listing) list(ctx context.Context, kind string) (map[string]host.Object, error) {
	var found []host.Object
	var err error
	switch kind {
	case units.TargetContainer:
		if found, err = l.podman.Containers(ctx); err == nil {
			err = l.unmark(ctx, found)
		}
	case units.TargetPod:
		found, err = l.podman.Pods(ctx)
	case units.TargetVolume:
		found, err = l.podman.Volumes(ctx)
	case units.TargetNetwork:
		found, err = l.podman.Networks(ctx)
	case units.TargetSecret:
		found, err = l.podman.Secrets(ctx)
	}
	if err != nil {
		return nil, err
	}
	byName := make(map[string]host.Object, len(found))
	for _, o := range found {
		byName[o.Name] = o
	}
	return byName, nil
}

// unmark takes our mark off the containers that have it from their image alone: one
// that was made of a container of ours, by podman commit, has its labels, and what
// is run from it by hand is not ours. Those whose unit has just them up are.
func (l *listing) unmark(ctx context.Context, containers []host.Object) error {
	var labels map[string]map[string]string
	for i, o := range containers {
		mark := o.Labels[units.MarkLabel]
		if mark == "" || o.Infra || containerOf(l.layout, o.Unit) == o.ID {
			continue
		}
		if labels == nil {
			var err error
			if labels, err = l.podman.ImageLabels(ctx); err != nil {
				return err
			}
		}
		if labels[o.ImageID][units.MarkLabel] == mark {
			containers[i].Labels = maps.Clone(o.Labels)
			delete(containers[i].Labels, units.MarkLabel)
		}
	}
	return nil
}
