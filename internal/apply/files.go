package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"meshgen/internal/durable"
	"meshgen/internal/hint"
	"meshgen/state"
	"meshgen/units"
)

// stageFiles writes the temporaries of the files to come, beside their places,
// and returns once they are on the disk.
func (m *move) stageFiles() ([]durable.Staged, error) {
	var staged []durable.Staged
	var dirs []string
	for _, r := range m.plan.Write {
		s, err := m.stageFile(*r.File)
		if err != nil {
			return nil, errors.Join(err, discard(staged))
		}
		staged = append(staged, s)
		dirs = append(dirs, filepath.Dir(m.node.Layout.Path(r.File.Path)))
	}
	if err := durable.Sync(dirs...); err != nil {
		return nil, errors.Join(err, discard(staged))
	}
	return staged, nil
}

func (m *move) stageFile(f units.File) (durable.Staged, error) {
	content, err := os.ReadFile(filepath.Join(m.node.Layout.Generation(m.to.Number), "files", f.Digest))
	if err != nil {
		return durable.Staged{}, err
	}
	if state.TextDigest(string(content)) != f.Digest {
		return durable.Staged{}, hint.Add(fmt.Errorf("%s: the copy in generation %d was changed by other hands", f.Path, m.to.Number),
			"any edit of the manifest has it made anew; then switch again")
	}
	uid, errOwner := strconv.Atoi(f.Owner)
	gid, errGroup := strconv.Atoi(f.Group)
	if err := errors.Join(errOwner, errGroup); err != nil {
		return durable.Staged{}, fmt.Errorf("%s: owner: %w", f.Path, err)
	}
	return durable.Stage(m.node.Layout.Root, f.Path, content, fileMode(f.Mode), uid, gid)
}

// fileMode returns the mode with chmod(2)'s bits in the places that package fs
// has for them.
func fileMode(mode uint32) fs.FileMode {
	fm := fs.FileMode(mode & 0o777)
	if mode&0o4000 != 0 {
		fm |= fs.ModeSetuid
	}
	if mode&0o2000 != 0 {
		fm |= fs.ModeSetgid
	}
	if mode&0o1000 != 0 {
		fm |= fs.ModeSticky
	}
	return fm
}

// renameFiles puts the files in place. What other hands made of one of ours is
// kept in the backups; what changed since it was looked at stops the switch.
func (m *move) renameFiles(staged []durable.Staged) error {
	for _, r := range m.plan.Write {
		t := units.Of(units.TargetFile, r.File.Path)
		if err := m.unchanged(t); err != nil {
			return err
		}
		if err := m.backUp(t); err != nil {
			return err
		}
	}
	var dirs []string
	for i, s := range staged {
		if err := s.Rename(); err != nil {
			return err
		}
		dirs = append(dirs, filepath.Dir(m.node.Layout.Path(s.Path)))
		m.progress(Event{Step: Step{Op: "write", Target: units.Of(units.TargetFile, m.plan.Write[i].File.Path)}, Ended: true})
	}
	return durable.Sync(dirs...)
}

// unchanged sees that a file is as it was when the switch was judged.
func (m *move) unchanged(t units.Target) error {
	now, there, err := fileState(m.node.Layout.Path(t.Name()))
	if err != nil {
		return err
	}
	seen, was := m.seen.observed.Files[t]
	if there != was || now != seen {
		return hint.Add(fmt.Errorf("%s: changed while the switch was under way", t.Name()), "look at it, then switch again")
	}
	return nil
}

// backUp keeps a copy of a file of ours that is not as we wrote it.
func (m *move) backUp(t units.Target) error {
	seen, there := m.seen.observed.Files[t]
	record, ours := m.records[t]
	if !there || !ours || seen.Digest == record.Digest || writtenBy(m.from, t, m.seen.observed.Files) {
		return nil
	}
	content, err := keepable(m.node.Layout.Path(t.Name()))
	if err != nil || content == nil {
		return err
	}
	name := time.Now().UTC().Format(backupTime) + strings.ReplaceAll(t.Name(), "/", "!")
	if len(name) > 200 { // a file name has 255 bytes at most
		name = name[:100] + "…" + state.TextDigest(t.Name())
	}
	dir := m.node.Layout.Backups()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	backup := filepath.Join(dir, name)
	if err := durable.WriteFile(backup, content, 0o600); err != nil {
		return err
	}
	m.progress(Event{Step: Step{Op: "keep", Target: t, Reason: "as other hands left it, in " + backup}, Ended: true})
	return nil
}

// writtenBy reports whether what lies at the place of a file is what a generation
// has there.
func writtenBy(g state.Generation, t units.Target, lie map[units.Target]state.FileState) bool {
	return slices.ContainsFunc(g.Resources, func(r units.Resource) bool {
		return r.File != nil && units.Of(units.TargetFile, r.File.Path) == t && lie[t].Digest == r.File.Digest
	})
}

// keepable returns what is to be kept of a file: its content, or where it leads
// if it is a link; nil of what has neither.
func keepable(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(path)
		return []byte("a symbolic link to " + to + "\n"), err
	case info.Mode().IsRegular():
		return os.ReadFile(path) //nolint:gosec // a declared path
	}
	return nil, nil
}

// missingDirs returns the directories that a file needs and that are not there,
// the outermost first.
func missingDirs(l state.Layout, path string) []string {
	var missing []string
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(l.Path(dir)); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append([]string{dir}, missing...)
	}
	return missing
}

// unreachable returns the faults of files and directories whose own directories are reached by a
// link, which may lead anywhere, or cannot be made.
func unreachable(l state.Layout, plan Plan, desired state.Generation) units.Faults {
	var faults units.Faults
	placed := slices.Clone(plan.Write)
	for _, r := range desired.Resources {
		if r.Dir != nil && slices.ContainsFunc(plan.Dirs, func(d Directory) bool { return d.Path == r.Dir.Path }) {
			placed = append(placed, r)
		}
	}
	for _, r := range placed {
		if at, is := obstacle(l, filepath.Dir(ownPath(r))); at != "" {
			faults = append(faults, units.Fault{
				Position: r.Position, Message: fmt.Sprintf("%s: %s is a %s", r.Address, at, is),
				Hint: "the way to a file has to be of directories: no link is followed",
			})
		}
	}
	return faults
}

// obstacle returns the first path on the way to a directory, and itself, that is
// there and is no directory, and what it is; "" where there is none.
func obstacle(l state.Layout, dir string) (at, is string) {
	for name := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		at += "/" + name
		info, err := os.Lstat(l.Path(at))
		if err != nil {
			return "", "" // not there, or told of when it is used
		}
		if !info.IsDir() {
			return at, fileType(info.Mode())
		}
	}
	return "", ""
}
