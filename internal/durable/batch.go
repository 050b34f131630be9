package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Staged is a temporary that lies beside the path it is meant for. It holds
// nothing open.
type Staged struct {
	Root string   // the directory that Path counts from
	Path string   // where the file is meant to go, absolute below Root
	Temp string   // the temporary, absolute below Root
	Made []string // directories that were made for it, outermost first
}

// Stage writes a temporary with this content beside path, with exactly this
// mode, whatever the umask, and this owner; -1 leaves the owner as it comes.
// Missing directories are made, with mode 0755. Nothing is synced: what was
// staged may be gone or empty after a power cut until [Sync] has returned.
//
// A link among the directories below root is refused, naming it. After an
// error nothing of it is left.
func Stage(root, path string, data []byte, mode fs.FileMode, uid, gid int) (Staged, error) {
	s := Staged{Root: root, Path: clean(path)}
	dir, err := openParent(root, s.Path, func(d *os.Root, name, at string) error {
		if err := d.Mkdir(name, 0o755); err != nil {
			return failed(at, "make directory", err)
		}
		s.Made = append(s.Made, at)
		return openToAll(d, name, at)
	})
	if err != nil {
		return Staged{}, errors.Join(err, s.Discard())
	}
	defer dir.Close() // read-only
	f, err := writeTemp(dir, path, data, mode, uid, gid)
	if err != nil {
		return Staged{}, errors.Join(err, s.Discard())
	}
	s.Temp = filepath.Join(filepath.Dir(s.Path), filepath.Base(f.Name()))
	if err := f.Close(); err != nil {
		return Staged{}, errors.Join(failed(path, "write", err), s.Discard())
	}
	return s, nil
}

// openToAll gives a directory that was made on the way to something its mode, whatever
// the umask.
func openToAll(d *os.Root, name, at string) error {
	if err := d.Chmod(name, 0o755); err != nil {
		return failed(at, "set mode", err)
	}
	return nil
}

// Rename puts the temporary in place of what lies at the path, in one step. A
// link there is replaced, as by rename(2); a directory is refused. It is on the
// disk once [Sync] has returned.
func (s Staged) Rename() error {
	dir, err := openParent(s.Root, s.Path, absent)
	if err != nil {
		return err
	}
	defer dir.Close() // read-only
	base := filepath.Base(s.Path)
	if info, err := dir.Lstat(base); err == nil && info.IsDir() {
		return fmt.Errorf("%s: replace: %w", s.Path, unix.EISDIR)
	}
	if err := dir.Rename(filepath.Base(s.Temp), base); err != nil {
		return failed(s.Path, "replace", err)
	}
	return nil
}

// Discard removes the temporary, where it is still there, and the directories
// that were made for it, where they are empty. A batch is discarded in the
// reverse of the order in which it was staged.
func (s Staged) Discard() error {
	if s.Temp != "" {
		if err := Unlink(s.Root, s.Temp); err != nil {
			return err
		}
	}
	for _, made := range slices.Backward(s.Made) {
		dir, err := openParent(s.Root, made, absent)
		if err != nil {
			return err
		}
		err = dir.Remove(filepath.Base(made))
		_ = dir.Close() // read-only
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
			return failed(made, "remove", err)
		}
	}
	return nil
}

// Unlink removes the file or link at path below root, as part of a batch: it
// is on the disk once [Sync] has returned. Where nothing is there, nothing is
// done. A link among the directories is refused, naming it.
func Unlink(root, path string) error {
	path = clean(path)
	dir, err := openParent(root, path, absent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close() // read-only
	base := filepath.Base(path)
	info, err := dir.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && info.IsDir():
		err = unix.EISDIR
	case err == nil:
		err = dir.Remove(base)
	}
	if err != nil {
		return failed(path, "remove", err)
	}
	return nil
}

// Sync has everything written so far on the file systems of these paths reach
// the disk, by one syncfs(2) for each file system. The paths are directories,
// as they stand on the host.
func Sync(dirs ...string) error {
	synced := map[uint64]bool{}
	for _, path := range dirs {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			return failed(path, "sync", err)
		}
		if synced[st.Dev] {
			continue
		}
		if err := syncfs(path); err != nil {
			return failed(path, "sync", err)
		}
		synced[st.Dev] = true
	}
	return nil
}

func syncfs(dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) // read-only
	return unix.Syncfs(fd)
}

// Sweep removes the temporaries that an interrupted run left in these
// directories below root, and returns their paths. It knows them by their
// names, so nobody else may be staging meanwhile. A directory that is not there
// has none.
func Sweep(root string, dirs ...string) ([]string, error) {
	var swept []string
	var faults []error
	for _, path := range dirs {
		path = clean(path)
		names, err := temps(root, path)
		faults = append(faults, err)
		for _, name := range names {
			name = filepath.Join(path, name)
			if err := Unlink(root, name); err != nil {
				faults = append(faults, err)
				continue
			}
			swept = append(swept, name)
		}
	}
	return swept, errors.Join(faults...)
}

// temps returns the names of the temporaries in a directory below root.
func temps(root, path string) ([]string, error) {
	dir, err := openParent(root, filepath.Join(path, tempPrefix), absent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close() // read-only
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return nil, failed(path, "read", err)
	}
	var names []string
	for _, e := range entries {
		if isTemp(e.Name()) && !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// openParent opens the directory that path lies in, going down from root one
// name at a time without following a link. missing is called for a name that
// is not there, with its path below root, and makes it or says why not.
func openParent(root, path string, missing func(dir *os.Root, name, at string) error) (*os.Root, error) {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil, failed(root, "open", err)
	}
	at := "/"
	for name := range strings.SplitSeq(strings.Trim(filepath.Dir(path), "/"), "/") {
		if name == "" {
			continue
		}
		at = filepath.Join(at, name)
		next, err := descend(dir, name, at, missing)
		_ = dir.Close() // read-only
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

func descend(dir *os.Root, name, at string, missing func(dir *os.Root, name, at string) error) (*os.Root, error) {
	info, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err := missing(dir, name, at); err != nil {
			return nil, err
		}
		info, err = dir.Lstat(name)
	}
	switch {
	case err != nil:
		return nil, failed(at, "look", err)
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("%s: a symbolic link: not followed", at)
	case !info.IsDir():
		return nil, fmt.Errorf("%s: %w", at, unix.ENOTDIR)
	}
	next, err := dir.OpenRoot(name)
	if err != nil {
		return nil, failed(at, "open", err)
	}
	// OpenRoot follows a link that stays below the root, and the name may
	// have become one since it was looked at.
	if opened, err := next.Stat("."); err != nil || !os.SameFile(info, opened) {
		_ = next.Close() // read-only
		return nil, fmt.Errorf("%s: changed while it was opened", at)
	}
	return next, nil
}

// absent is the answer to a missing directory where none is to be made.
func absent(_ *os.Root, _, at string) error { return failed(at, "open", fs.ErrNotExist) }

// clean makes a path absolute and free of dots, so that it cannot lead above
// the root.
func clean(path string) string { return filepath.Clean("/" + path) }
