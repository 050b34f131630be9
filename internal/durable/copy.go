package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// StageCopy makes a temporary beside path that is a full copy of the file or link
// at source, an absolute path: content, mode, owner, group, extended attributes
// and times of a file, the text, the owner and the time of a link. Missing directories are
// made, with mode 0755. What [Stage] says of syncing and of links among the
// directories holds of it too; the source is not followed. After an error nothing
// of it is left.
func StageCopy(source, root, path string) (Staged, error) {
	info, err := os.Lstat(source)
	if err != nil {
		return Staged{}, failed(source, "copy", err)
	}
	if info.Mode()&fs.ModeSymlink == 0 && !info.Mode().IsRegular() {
		return Staged{}, failed(source, "copy", unix.EINVAL)
	}
	s, err := Stage(root, path, nil, 0o600, -1, -1)
	if err != nil {
		return Staged{}, err
	}
	dir, err := openParent(root, s.Path, absent)
	if err != nil {
		return Staged{}, errors.Join(err, s.Discard())
	}
	defer dir.Close() // read-only
	if info.Mode().IsRegular() {
		err = copyFile(source, dir, filepath.Base(s.Temp))
	} else {
		err = copyLink(source, dir, filepath.Base(s.Temp))
	}
	if err != nil {
		return Staged{}, errors.Join(failed(source, "copy", err), s.Discard())
	}
	return s, nil
}

func copyFile(source string, dir *os.Root, temp string) error {
	from, err := os.OpenFile(source, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0) //nolint:gosec // the caller's own path
	if err != nil {
		return err
	}
	defer from.Close() // read-only
	to, err := dir.OpenFile(temp, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer to.Close() // the error that counts is that of the sync to come
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(from.Fd()), &st); err != nil {
		return err
	}
	if err := unix.Fchown(int(to.Fd()), int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	if err := copyAttributes(int(from.Fd()), int(to.Fd())); err != nil {
		return err
	}
	if err := unix.Fchmod(int(to.Fd()), st.Mode&0o7777); err != nil { // after the owner: chown(2) takes the set-ID bits away
		return err
	}
	return dir.Chtimes(temp, time.Unix(st.Atim.Unix()), time.Unix(st.Mtim.Unix()))
}

// copyAttributes copies the extended attributes: access lists, labels, the user's
// own. Those that the kernel itself keeps of a file it refuses to set, and they
// come back by themselves.
func copyAttributes(from, to int) error {
	found, err := attributes(from)
	if err != nil {
		return err
	}
	return setAttributes(to, found)
}

// unsupported drops the error of a file system that has no such attributes.
func unsupported(err error) error {
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

// copyLink puts a link in place of a temporary.
func copyLink(source string, dir *os.Root, temp string) error {
	to, err := os.Readlink(source)
	if err != nil {
		return err
	}
	if err := dir.Remove(temp); err != nil {
		return err
	}
	if err := dir.Symlink(to, temp); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(source, &st); err != nil {
		return err
	}
	return ownLink(dir, temp, int(st.Uid), int(st.Gid), time.Unix(st.Mtim.Unix()))
}

// ownLink gives a link an owner and the times of when it was made.
func ownLink(dir *os.Root, name string, uid, gid int, when time.Time) error {
	if err := dir.Lchown(name, uid, gid); err != nil {
		return err
	}
	at, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer at.Close() // read-only
	times, err := unix.TimeToTimespec(when)
	if err != nil {
		return err
	}
	return unix.UtimesNanoAt(int(at.Fd()), name, []unix.Timespec{times, times}, unix.AT_SYMLINK_NOFOLLOW)
}

// StageLink makes a temporary beside path that is a link with the text dest, of that
// user and group, and of that time where it is not zero. What [StageCopy] says holds
// of it too.
func StageLink(dest, root, path string, uid, gid int, when time.Time) (Staged, error) {
	s, err := Stage(root, path, nil, 0o600, -1, -1)
	if err != nil {
		return Staged{}, err
	}
	dir, err := openParent(root, s.Path, absent)
	if err != nil {
		return Staged{}, errors.Join(err, s.Discard())
	}
	defer dir.Close() // read-only
	temp := filepath.Base(s.Temp)
	if err = dir.Remove(temp); err == nil {
		err = dir.Symlink(dest, temp)
	}
	if err == nil && !when.IsZero() {
		err = ownLink(dir, temp, uid, gid, when)
	}
	if err != nil {
		return Staged{}, errors.Join(failed(path, "link", err), s.Discard())
	}
	return s, nil
}
