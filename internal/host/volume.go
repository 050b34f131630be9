package host

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// VolumeUsers lists the containers that have the volume of that name, those that
// do not run included. One that has its directory by another way is not seen.
func (p Podman) VolumeUsers(ctx context.Context, name string) ([]Object, error) {
	return p.containers(ctx, "ps", "--all", "--filter", "volume="+name, "--format", "json")
}

// Tree is what a walk over a directory tree found.
type Tree struct {
	Bytes uint64 // on the disk; what has several names counts once
	Files uint64
	// Mark changes with any change to what is in the tree, as far as its
	// file system tells it: ctime, inode(7).
	Mark string
}

// Measure walks a tree. Another file system that is mounted in it is an error:
// what lies there is no part of the tree. What goes during the walk is left out.
func Measure(ctx context.Context, root string) (Tree, error) {
	var tree Tree
	var top unix.Stat_t
	if err := unix.Lstat(root, &top); err != nil {
		return tree, fmt.Errorf("%s: %w", root, err)
	}
	h := sha256.New()
	counted := map[uint64]bool{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		if errors.Is(err, fs.ErrNotExist) && path != root {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if st.Dev != top.Dev {
			return fmt.Errorf("%q: another file system is mounted there", path)
		}
		linked := st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR
		if !linked || !counted[st.Ino] {
			tree.Bytes += uint64(st.Blocks) * 512 //nolint:gosec // never negative
			tree.Files++
		}
		if linked {
			counted[st.Ino] = true
		}
		_, _ = io.WriteString(h, path) // a hash takes all
		_ = binary.Write(h, binary.LittleEndian, []uint64{
			0, st.Ino, uint64(st.Mode), uint64(st.Size), //nolint:gosec // bits, not numbers
			uint64(st.Ctim.Sec), uint64(st.Ctim.Nsec), //nolint:gosec // as above
		})
		return nil
	})
	tree.Mark = hex.EncodeToString(h.Sum(nil))
	return tree, err
}

// Room returns the bytes and the files that still fit on the file system of a
// path, beside what it keeps for root. A file system that does not count files
// has room for any number.
func Room(path string) (bytesLeft, filesLeft uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", path, err)
	}
	filesLeft = st.Ffree
	if st.Files == 0 {
		filesLeft = 1 << 63
	}
	return st.Bavail * uint64(st.Frsize), filesLeft, nil //nolint:gosec // never negative
}

// CopyTree gives an empty directory all that is in another, and its attributes,
// by cp(1). It ends with the process that calls it, if that is killed; what is
// there of the copy after an error, or after that, is anything.
func CopyTree(ctx context.Context, from, to string) error {
	// Pdeathsig is sent when the thread ends that made the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "cp", "--archive", "--no-target-directory", "--reflink=auto", "--", from, to)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	cmd.Stderr = &stderr
	// A group of its own: what is typed at the terminal is for the switch.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("copy %s: %w: %s", from, err, lastLine(strings.TrimSpace(stderr.String())))
	}
	return nil
}

// SameTree reports, as an error, the first difference between two trees: in the
// names, types, modes, owners, sizes, contents, times of change, link targets,
// device numbers, extended attributes, which hold ACLs too, and in which names
// are one file. Where data is sparse makes no difference, nor do the times of
// access.
func SameTree(ctx context.Context, a, b string) error {
	c := treeComparison{a: a, b: b, firstA: map[uint64]string{}, firstB: map[uint64]string{}}
	return c.entry(ctx, ".")
}

type treeComparison struct {
	a, b string
	// firstA and firstB are the names by which a file of several names was met
	// first, by its inode.
	firstA, firstB map[uint64]string
}

// entry compares what has the name in both trees, and what is below.
func (c *treeComparison) entry(ctx context.Context, name string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	pathA, pathB := filepath.Join(c.a, name), filepath.Join(c.b, name)
	var a, b unix.Stat_t
	if err := errors.Join(unix.Lstat(pathA, &a), unix.Lstat(pathB, &b)); err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	differs := func(what string) error { return fmt.Errorf("%q: %s differs", name, what) }
	switch {
	case a.Mode&unix.S_IFMT != b.Mode&unix.S_IFMT:
		return differs("type")
	case a.Mode != b.Mode:
		return differs("mode")
	case a.Uid != b.Uid || a.Gid != b.Gid:
		return differs("owner")
	case a.Mtim != b.Mtim:
		return differs("time of change")
	}
	if same, err := sameXattrs(pathA, pathB); err != nil || !same {
		return orElse(err, differs("extended attributes"))
	}
	if a.Mode&unix.S_IFMT != unix.S_IFDIR && first(c.firstA, a, name) != first(c.firstB, b, name) {
		return differs("what it is a hard link to")
	}
	switch a.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return c.directory(ctx, name)
	case unix.S_IFREG:
		if a.Size != b.Size {
			return differs("size")
		}
		if same, err := sameContent(ctx, pathA, pathB, a.Size); err != nil || !same {
			return orElse(err, differs("content"))
		}
	case unix.S_IFLNK:
		toA, errA := os.Readlink(pathA)
		toB, errB := os.Readlink(pathB)
		if err := errors.Join(errA, errB); err != nil || toA != toB {
			return orElse(err, differs("link target"))
		}
	case unix.S_IFBLK, unix.S_IFCHR:
		if a.Rdev != b.Rdev {
			return differs("device number")
		}
	}
	return nil
}

func (c *treeComparison) directory(ctx context.Context, name string) error {
	a, errA := os.ReadDir(filepath.Join(c.a, name))
	b, errB := os.ReadDir(filepath.Join(c.b, name))
	if err := errors.Join(errA, errB); err != nil {
		return err
	}
	named := func(e, f fs.DirEntry) bool { return e.Name() == f.Name() }
	if !slices.EqualFunc(a, b, named) { // both are sorted
		return fmt.Errorf("%q: the names in it differ", name)
	}
	for _, e := range a {
		if err := c.entry(ctx, filepath.Join(name, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// orElse returns err, or where that is nil the difference.
func orElse(err, difference error) error {
	if err != nil {
		return err
	}
	return difference
}

// first returns the name by which a file was met first.
func first(met map[uint64]string, st unix.Stat_t, name string) string {
	if st.Nlink == 1 {
		return name
	}
	if _, ok := met[st.Ino]; !ok {
		met[st.Ino] = name
	}
	return met[st.Ino]
}

func sameXattrs(a, b string) (bool, error) {
	attributesA, errA := xattrs(a)
	attributesB, errB := xattrs(b)
	return maps.Equal(attributesA, attributesB), errors.Join(errA, errB)
}

// xattrs returns the extended attributes of what lies at path, xattr(7).
func xattrs(path string) (map[string]string, error) {
	list, err := grown(func(buf []byte) (int, error) { return unix.Llistxattr(path, buf) })
	if errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: list extended attributes: %w", path, err)
	}
	found := map[string]string{}
	for name := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		if name == "" {
			continue
		}
		value, err := grown(func(buf []byte) (int, error) { return unix.Lgetxattr(path, name, buf) })
		if err != nil {
			return nil, fmt.Errorf("%s: read %s: %w", path, name, err)
		}
		found[name] = value
	}
	return found, nil
}

// grown calls read with a buffer that is large enough.
func grown(read func([]byte) (int, error)) (string, error) {
	for size := 256; ; size *= 2 {
		buf := make([]byte, size)
		n, err := read(buf)
		if err == nil {
			return string(buf[:n]), nil
		}
		if !errors.Is(err, unix.ERANGE) || size > 1<<20 {
			return "", err
		}
	}
}

// sameContent compares two files of one size. Where both have a hole nothing is
// read: a file may be sparse and very large.
func sameContent(ctx context.Context, pathA, pathB string, size int64) (bool, error) {
	a, err := os.OpenFile(pathA, os.O_RDONLY|unix.O_NOFOLLOW, 0) //nolint:gosec // what is copied
	if err != nil {
		return false, err
	}
	defer func() { _ = a.Close() }()                             // read-only
	b, err := os.OpenFile(pathB, os.O_RDONLY|unix.O_NOFOLLOW, 0) //nolint:gosec // as above
	if err != nil {
		return false, err
	}
	defer func() { _ = b.Close() }() // read-only
	bufA, bufB := make([]byte, 1<<18), make([]byte, 1<<18)
	for at := int64(0); at < size; {
		if at = min(data(a, at, size), data(b, at, size)); at == size {
			break
		}
		n := min(int64(len(bufA)), size-at)
		_, errA := a.ReadAt(bufA[:n], at)
		_, errB := b.ReadAt(bufB[:n], at)
		if err := errors.Join(errA, errB, context.Cause(ctx)); err != nil {
			return false, err
		}
		if !bytes.Equal(bufA[:n], bufB[:n]) {
			return false, nil
		}
		at += n
	}
	return true, nil
}

// data returns where the next data of a file begins, lseek(2); size where there
// is none, and at where the file system cannot tell.
func data(f *os.File, at, size int64) int64 {
	next, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return size
	case err != nil:
		return at
	}
	return min(next, size)
}
