// Package durable changes files so that a power cut finds either the old or
// the new, whole.
//
// When [WriteFile], [Symlink], [Rename], [Link] or [Remove] returns without an error,
// the change outlives a power cut: the content and the directory entry have
// both been synced. At every instant before that, the path holds all of what it
// held before, or all of the new. After an error it holds one of the two, and
// no temporary is left unless the power went.
//
// Many files are changed together by a batch, whose syncs do not grow with
// their number: [Stage] each, [Sync], [Staged.Rename] each, [Sync] again. The
// batch works below a root directory, which it never leaves, and follows no
// link on the way down.
//
// It is built on renameio, which makes the temporaries, and adds the directory
// sync that renameio leaves to its caller.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// tempPrefix begins the name of every temporary, and digits alone follow:
// Quadlet and systemd load by suffix, and must never load one of these.
const tempPrefix = ".meshgen-"

// WriteFile replaces the file at path by one with this content and exactly
// this mode, whatever the umask, in one step. A link at path is replaced, not
// followed. It returns once file and directory are synced; the directory must
// exist.
func WriteFile(path string, data []byte, mode os.FileMode) error {
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return failed(path, "open directory", err)
	}
	defer dir.Close() // read-only
	f, err := writeTemp(dir, path, data, mode, -1, -1)
	if err != nil {
		return err
	}
	defer f.Cleanup() //nolint:errcheck // absent after the rename
	if err := f.Sync(); err != nil {
		return failed(path, "sync", err)
	}
	if err := dir.Rename(filepath.Base(f.Name()), filepath.Base(path)); err != nil {
		return failed(path, "replace", err)
	}
	return syncDir(filepath.Dir(path))
}

// writeTemp makes a temporary in dir for a file that is meant for path, not yet
// synced. The caller calls Cleanup where it does not rename it; after an error
// nothing is left.
func writeTemp(dir *os.Root, path string, data []byte, mode fs.FileMode, uid, gid int) (*renameio.PendingFile, error) {
	// renameio puts a dot before the base of the path, and digits behind it.
	// It would set modes too, but drops the set-ID bits, and where it fails it
	// leaves the temporary.
	f, err := renameio.NewPendingFile(tempPrefix[1:], renameio.WithRoot(dir), renameio.WithPermissions(0o600))
	if err != nil {
		return nil, failed(path, "write", err)
	}
	doing := "write"
	_, err = f.Write(data)
	if err == nil && (uid != -1 || gid != -1) {
		doing, err = "set owner", f.Chown(uid, gid)
	}
	if err == nil { // after the owner: chown(2) takes the set-ID bits away
		doing, err = "set mode", f.Chmod(mode)
	}
	if err != nil {
		return nil, errors.Join(failed(path, doing, err), f.Cleanup())
	}
	return f, nil
}

// Symlink replaces what lies at path by a symbolic link with the text dest, in
// one step. It returns once the directory is synced; a directory at path is
// refused.
func Symlink(dest, path string) error {
	temp := filepath.Join(filepath.Dir(path), tempPrefix+strconv.FormatInt(rand.Int64(), 10)) //nolint:gosec // a name, no secret
	if err := os.Symlink(dest, temp); err != nil {
		return failed(path, "link", err)
	}
	if err := os.Rename(temp, path); err != nil {
		_ = os.Remove(temp) // the first error is the one to tell
		return failed(path, "replace", err)
	}
	return syncDir(filepath.Dir(path))
}

// Rename gives what lies at from the name to, on the same file system, in one
// step. What it holds must have been synced before; it returns once the
// directory is synced.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return failed(to, "replace", err)
	}
	return syncDir(filepath.Dir(to))
}

// Link gives the file at path a second name in the same directory. It returns
// once the directory is synced, also where the file had that name already: an
// earlier link may not be on the disk yet. What else has the name is refused.
func Link(path, second string) error {
	err := os.Link(path, second)
	if errors.Is(err, fs.ErrExist) && sameFile(path, second) {
		err = nil
	}
	if err != nil {
		return failed(second, "link", err)
	}
	return syncDir(filepath.Dir(second))
}

func sameFile(a, b string) bool {
	x, errX := os.Lstat(a)
	y, errY := os.Lstat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// Remove unlinks the file or link at path. It returns once the directory is
// synced, also where nothing was there: an earlier unlink may not be on the
// disk yet. A directory is refused.
func Remove(path string) error {
	err := unix.Unlink(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failed(path, "remove", err)
	}
	err = syncDir(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the caller's own path
	if err != nil {
		return failed(dir, "open", err)
	}
	defer d.Close() // read-only
	if err := d.Sync(); err != nil {
		return failed(dir, "sync", err)
	}
	return nil
}

// isTemp reports whether a name is one that writeTemp and Symlink give.
func isTemp(name string) bool {
	digits, ok := strings.CutPrefix(name, tempPrefix)
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// failed puts the object first, and drops the names of temporaries that the
// os package's errors carry.
func failed(path, doing string, err error) error {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		err = errno
	}
	return fmt.Errorf("%s: %s: %w", path, doing, err)
}
