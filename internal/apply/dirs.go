package apply

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"meshgen/internal/durable"
	"meshgen/internal/hint"
	"meshgen/state"
	"meshgen/units"
)

// A declared directory is made before the files that may lie in it, and gets another mode
// or owner with them, right before the new set is in force. What is in it is nobody's
// business here: one that holds something is never removed, moved or copied.

// Directory is one that a switch makes, or whose mode or owner it sets.
type Directory struct {
	units.Dir
	Make bool
	Was  string // mode and owner as they are; "" where it is made
}

func (d Directory) target() units.Target { return units.Of(units.TargetDir, d.Path) }

func (d Directory) step() Step {
	s := Step{Op: "make", Target: d.target(), Reason: state.DirMeta(d.Dir)}
	if !d.Make {
		s.Op, s.Reason = "set", s.Reason+", and was "+d.Was
	}
	return s
}

// lookAtDirs finds what lies at the paths of directories. What is ours in one, and was
// not adopted, is nothing that it holds.
func (n *Node) lookAtDirs(paths map[units.Target]bool, records []state.Record) (map[units.Target]state.DirState, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	ours := map[units.Target]bool{}
	for _, r := range records {
		kind := r.Target.Kind()
		if r.State == state.Live && r.Adoption == nil && (kind == units.TargetFile || kind == units.TargetDir) {
			ours[r.Target] = true
		}
	}
	found := make(map[units.Target]state.DirState, len(paths))
	for t := range paths {
		s, there, err := dirState(n.Layout, t.Name())
		if err == nil && there && s.Is == "" {
			s.Holds, err = holdsOther(n.Layout, t.Name(), ours)
		}
		if err != nil {
			return nil, err
		}
		if there {
			found[t] = s
		}
	}
	return found, nil
}

// dirState returns what lies at the path of a directory, but for what that holds.
func dirState(l state.Layout, path string) (s state.DirState, there bool, err error) {
	info, err := os.Lstat(l.Path(path))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return s, false, nil
	}
	if err != nil {
		return s, false, err
	}
	s.Meta = state.MetaOf(info)
	if !info.IsDir() {
		s.Is = "a " + fileType(info.Mode())
	}
	return s, true, nil
}

// holdsOther reports whether something is in a directory besides what is ours.
func holdsOther(l state.Layout, path string, ours map[units.Target]bool) (bool, error) {
	d, err := os.Open(l.Path(path))
	if err != nil {
		return false, err
	}
	defer d.Close() // read-only
	for {
		entries, err := d.ReadDir(64) // most hold something, and few of them have to be read
		for _, e := range entries {
			at := filepath.Join(path, e.Name())
			switch {
			case !e.IsDir() && ours[units.Of(units.TargetFile, at)]:
			case e.IsDir() && ours[units.Of(units.TargetDir, at)]:
				if holds, err := holdsOther(l, at, ours); holds || err != nil {
					return holds, err
				}
			default:
				return true, nil
			}
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// dirHolder describes what stands where a directory is to be.
func dirHolder(path string, s state.DirState, want units.Dir) state.Occupant {
	switch {
	case s.Is != "":
		return fileHolder(path, state.FileState{Digest: s.Is})
	case s.Holds:
		return state.Occupant{Words: "a directory that holds something is at " + path, What: "directory", Path: path, Same: s.Meta == state.DirMeta(want)}
	}
	return state.Occupant{Words: "an empty directory is at " + path, What: "directory", Path: path, Same: s.Meta == state.DirMeta(want)}
}

// dirs finds the directories to be made or to be set right. What uses one that was gone
// is started anew: a container has the one that it was started with.
func (p *planner) dirs() {
	for _, r := range p.desired.Resources {
		if r.Dir == nil {
			continue
		}
		t := units.Of(units.TargetDir, r.Dir.Path)
		lies, there := p.seen.observed.Dirs[t]
		if p.kept[t] || lies.Is != "" || (there && lies.Meta == state.DirMeta(*r.Dir)) {
			continue
		}
		p.plan.Dirs = append(p.plan.Dirs, Directory{Dir: *r.Dir, Make: !there, Was: lies.Meta})
		if record := p.record[t]; there || record.State != state.Live || record.OnTheWay() {
			continue
		}
		for _, u := range p.desired.Units {
			if mentions(p.resource[u.Resource], r.Dir.Path) {
				p.notify(u.Name, "restart", r.Dir.Path)
			}
		}
	}
	slices.SortFunc(p.plan.Dirs, func(a, b Directory) int { return cmp.Compare(a.Path, b.Path) }) // the outer first
}

// passOn has a directory that is no longer declared stay for what is declared in it. One
// that was such before a switch that is undone is again as those are.
func (p *planner) passOn(r state.Record) {
	p.plan.Emit = append(p.plan.Emit, r.Target)
	lies, there := p.seen.observed.Dirs[r.Target]
	was, known := dirOf(r.Target.Name(), r.Digest)
	if p.undoes() && known && there && lies.Is == "" && lies.Meta != r.Digest && state.Between(lies.Meta, r.Definition, r.Digest) {
		p.plan.Dirs = append(p.plan.Dirs, Directory{Dir: was, Was: lies.Meta})
	}
}

// dirOf returns the directory that has a mode and an owner, in the form of [state.MetaOf].
func dirOf(path, meta string) (d units.Dir, ok bool) {
	mode, owner, _ := strings.Cut(meta, " ")
	user, group, ok := strings.Cut(owner, ":")
	bits, err := strconv.ParseUint(mode, 8, 32)
	return units.Dir{Path: path, Mode: uint32(bits), Owner: user, Group: group}, ok && err == nil
}

// was returns the mode and the owner that the plan changes of a directory; "" where it
// does not.
func (p Plan) was(t units.Target) string {
	i := slices.IndexFunc(p.Dirs, func(d Directory) bool { return d.target() == t })
	if i < 0 {
		return ""
	}
	return p.Dirs[i].Was
}

// declaredIn returns the resource that is declared below a directory, or is mounted at it
// or below.
func declaredIn(dir string, resources []units.Resource) (units.Resource, bool) {
	i := slices.IndexFunc(resources, func(r units.Resource) bool {
		where := r.Value("Mount", "Where")
		return strings.HasPrefix(ownPath(r), dir+"/") || where == dir || strings.HasPrefix(where, dir+"/")
	})
	if i < 0 {
		return units.Resource{}, false
	}
	return resources[i], true
}

// ownPath returns the path that a file or a directory is declared with.
func ownPath(r units.Resource) string {
	switch {
	case r.File != nil:
		return r.File.Path
	case r.Dir != nil:
		return r.Dir.Path
	}
	return ""
}

// makeDirs makes the directories that are not there, and returns once they are on the
// disk. What came up at one of the paths meanwhile stops the switch.
func (m *move) makeDirs() error {
	l := m.node.Layout
	var parents []string
	for _, d := range m.plan.Dirs {
		if !d.Make {
			continue
		}
		uid, gid, err := owners(d.Dir)
		if err != nil {
			return err
		}
		if err := durable.MakeDir(l.Root, d.Path, fileMode(d.Mode), uid, gid); err != nil {
			if errors.Is(err, fs.ErrExist) {
				err = hint.Add(fmt.Errorf("%s: came up while the switch was under way, and is not of meshgen", d.target()), leaveIt)
			}
			return err
		}
		parents = append(parents, filepath.Dir(l.Path(d.Path)))
		m.progress(Event{Step: d.step(), Ended: true})
	}
	return durable.Sync(parents...)
}

func owners(d units.Dir) (uid, gid int, err error) {
	uid, errOwner := strconv.Atoi(d.Owner)
	gid, errGroup := strconv.Atoi(d.Group)
	if err := errors.Join(errOwner, errGroup); err != nil {
		return 0, 0, fmt.Errorf("%s: owner: %w", d.Path, err)
	}
	return uid, gid, nil
}

// setDirs gives the directories that are there the modes and owners of the new set, and
// returns once that is on the disk. What changed since it was looked at stops the switch,
// and so does what came into a directory whose place another takes.
func (m *move) setDirs() error {
	if err := m.stillEmpty(); err != nil {
		return err
	}
	l := m.node.Layout
	var set []string
	for _, d := range m.plan.Dirs {
		if d.Make {
			continue
		}
		uid, gid, err := owners(d.Dir)
		if err != nil {
			return err
		}
		lies, there, err := dirState(l, d.Path)
		if err != nil {
			return err
		}
		if !there || lies.Is != "" || lies.Meta != d.Was {
			return changedSince(d.Path)
		}
		if err := durable.SetDir(l.Root, d.Path, fileMode(d.Mode), uid, gid, nil); err != nil {
			return err
		}
		set = append(set, l.Path(d.Path))
		m.progress(Event{Step: d.step(), Ended: true})
	}
	return durable.Sync(set...)
}

// stillEmpty sees that the directories that get another path hold nothing by now: what
// used them is down, or reads the new one from its next start on.
func (m *move) stillEmpty() error {
	if m.undoing {
		return nil // they stay
	}
	for _, d := range m.plan.Dirs {
		was, renamed := m.renamedDir(d.target())
		if !renamed {
			continue
		}
		now, err := m.node.lookAtDirs(map[units.Target]bool{was: true}, m.node.records())
		if err != nil {
			return err
		}
		if now[was].Holds && !m.seen.observed.Dirs[was].Holds {
			return hint.Add(fmt.Errorf("%s: came to hold something while the switch was under way, and is to be %s", was.Name(), d.Path), lookAtIt)
		}
	}
	return nil
}

// renamedDir returns the directory whose place another takes.
func (m *move) renamedDir(t units.Target) (units.Target, bool) {
	for _, r := range m.to.Resources {
		if r.Dir == nil || units.Of(units.TargetDir, r.Dir.Path) != t {
			continue
		}
		for _, was := range m.plan.Retire {
			if record := m.records[was]; record.Resource == r.Address && was.Kind() == units.TargetDir && !record.OnTheWay() {
				return was, true
			}
		}
	}
	return "", false
}

// keepsDir reports whether a directory of ours that could not be removed is let be.
func (m *move) keepsDir(t units.Target) bool {
	record := m.records[t]
	lies, there, err := dirState(m.node.Layout, t.Name())
	return t.Kind() == units.TargetDir && !record.OnTheWay() && err == nil && there && lies.Is == "" && !m.neverMade(t, lies)
}

// neverMade reports whether what lies at the path of a directory is not what a switch
// that is undone was to make there: it came up before that did. What ran in a set that
// stood may have changed it.
func (m *move) neverMade(t units.Target, lies state.DirState) bool {
	record := m.records[t]
	begun := fmt.Sprintf("0700 %d:%d", os.Geteuid(), os.Getegid())
	return m.undoing && !m.stood && !record.OnTheWay() && record.Last.Generation == m.from.Number &&
		!state.Between(lies.Meta, begun, record.Definition)
}

// dir says how a directory is adopted: as it is, with what is in it.
func (a *adoption) dir(t state.Transition, by state.Occupant) error {
	path := t.To.Name()
	info, err := os.Lstat(a.node.Layout.Path(path))
	if err != nil {
		return err
	}
	was := state.AdoptedDir{Meta: state.MetaOf(info)}
	if was.Attributes, err = durable.DirAttributes(a.node.Layout.Root, path); err != nil {
		return err
	}
	a.add(t, state.Adoption{What: wasDir, Directory: &was}, by.Same)
	return nil
}

// dirBack gives a directory that was adopted the mode, the owner and the attributes that
// it had. One whose owner has set them since keeps them.
func (m *move) dirBack(r state.Record) error {
	was := r.Adoption.Directory
	if was == nil {
		return nil
	}
	l := m.node.Layout
	lies, there, err := dirState(l, r.Target.Name())
	if err != nil || !there || lies.Is != "" || !state.Between(lies.Meta, was.Meta, r.Definition) {
		return err
	}
	d, known := dirOf(r.Target.Name(), was.Meta)
	uid, gid, err := owners(d)
	if err != nil || !known {
		return errors.Join(err, fmt.Errorf("%s: what it was is not known: %q", r.Target, was.Meta))
	}
	if err := durable.SetDir(l.Root, d.Path, fileMode(d.Mode), uid, gid, was.Attributes); err != nil {
		return err
	}
	return durable.Sync(l.Path(r.Target.Name()))
}

// goneDir says that a directory which is to be given back is not there any more.
func (n *Node) goneDir(r state.Record) (string, error) {
	if r.Adoption.Directory == nil {
		return "", nil
	}
	lies, there, err := dirState(n.Layout, r.Target.Name())
	switch {
	case err != nil:
		return "", err
	case !there:
		return "the directory is gone", nil
	case lies.Is != "":
		return "the directory is gone, and " + lies.Is + " has its place", nil
	}
	return "", nil
}

// usedAsItIs reports whether what was adopted stays in its place: there is no copy of it.
func usedAsItIs(was *state.Adoption) bool {
	return was != nil && (was.What == wasVolume || was.What == wasNetwork || was.What == wasDir)
}
