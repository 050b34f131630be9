package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// MakeDir makes the directory at path below root, as part of a batch, with exactly
// this mode, whatever the umask, and this owner; -1 leaves the owner as it comes. Until
// it has both, nobody but root may look into it. Missing directories above it are made,
// with mode 0755. What has the path already is refused, and so is a link among the
// directories.
func MakeDir(root, path string, mode fs.FileMode, uid, gid int) error {
	path = clean(path)
	parent, err := openParent(root, path, makeParent)
	if err != nil {
		return err
	}
	defer parent.Close() // read-only
	if err := parent.Mkdir(filepath.Base(path), 0o700); err != nil {
		return failed(path, "make directory", err)
	}
	return SetDir(root, path, mode, uid, gid, nil)
}

func makeParent(d *os.Root, name, at string) error {
	if err := d.Mkdir(name, 0o755); err != nil {
		return failed(at, "make directory", err)
	}
	return openToAll(d, name, at)
}

// SetDir gives the directory at path below root an owner, extended attributes and a
// mode, in this order, as part of a batch. Attributes that are so already are not set,
// and others that it has stay. A process that dies may have set a part of this. A link
// at path or among the directories above it is refused.
func SetDir(root, path string, mode fs.FileMode, uid, gid int, attributes map[string][]byte) error {
	path = clean(path)
	d, err := openDir(root, path)
	if err != nil {
		return err
	}
	defer d.Close() // its own entries do not change
	if uid != -1 || gid != -1 {
		if err := d.Chown(uid, gid); err != nil {
			return failed(path, "set owner", err)
		}
	}
	if err := setAttributes(int(d.Fd()), attributes); err != nil {
		return failed(path, "set attributes", err)
	}
	if err := d.Chmod(mode); err != nil { // after the attributes: an access list has a say in it
		return failed(path, "set mode", err)
	}
	return nil
}

// DirAttributes returns the extended attributes of the directory at path below root, by
// name, xattr(7).
func DirAttributes(root, path string) (map[string][]byte, error) {
	path = clean(path)
	d, err := openDir(root, path)
	if err != nil {
		return nil, err
	}
	defer d.Close() // read-only
	found, err := attributes(int(d.Fd()))
	if err != nil {
		return nil, failed(path, "read attributes", err)
	}
	return found, nil
}

// openDir opens a directory below root, following no link.
func openDir(root, path string) (*os.File, error) {
	parent, err := openParent(root, path, absent)
	if err != nil {
		return nil, err
	}
	defer parent.Close() // read-only
	dir, err := descend(parent, filepath.Base(path), path, absent)
	if err != nil {
		return nil, err
	}
	defer dir.Close() // read-only
	d, err := dir.Open(".")
	if err != nil {
		return nil, failed(path, "open", err)
	}
	return d, nil
}

// attributes returns the extended attributes of an open file; none where its file
// system has no such thing.
func attributes(fd int) (map[string][]byte, error) {
	size, err := unix.Flistxattr(fd, nil)
	if err != nil || size == 0 {
		return nil, unsupported(err)
	}
	names := make([]byte, size)
	// ext4 counts names at first that it does not give then.
	if size, err = unix.Flistxattr(fd, names); err != nil || size == 0 {
		return nil, err
	}
	found := map[string][]byte{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names[:size]), "\x00"), "\x00") {
		size, err := unix.Fgetxattr(fd, name, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		value := make([]byte, size)
		if size, err = unix.Fgetxattr(fd, name, value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		found[name] = value[:size]
	}
	return found, nil
}

// setAttributes sets those extended attributes that are not so already.
func setAttributes(fd int, wanted map[string][]byte) error {
	if len(wanted) == 0 {
		return nil
	}
	there, err := attributes(fd)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if is, ok := there[name]; ok && bytes.Equal(is, wanted[name]) {
			continue
		}
		if err := unix.Fsetxattr(fd, name, wanted[name], 0); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
