package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// names returns what lies in a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func wantFile(t *testing.T, path, content string, mode fs.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != mode {
		t.Errorf("%s has mode %v, want %v", path, info.Mode(), mode)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != content {
		t.Errorf("%s holds %q, %v; want %q", path, got, err, content)
	}
}

// withUmask sets the umask of the process, so its test runs alone.
func withUmask(t *testing.T, mask int) {
	t.Helper()
	old := unix.Umask(mask)
	t.Cleanup(func() { unix.Umask(old) })
}

// tinyDisk mounts a file system of 64 KiB.
func tinyDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tiny", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestWriteFileReplacesContentAndMode(t *testing.T) {
	withUmask(t, 0o077)
	dir := t.TempDir()
	path := filepath.Join(dir, "app.ini")
	for _, mode := range []fs.FileMode{0o600, 0o664, 0o444} {
		if err := WriteFile(path, []byte(mode.String()), mode); err != nil {
			t.Fatal(err)
		}
		wantFile(t, path, mode.String(), mode)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("left %q", got)
	}
}

// fchown(2) takes the bits away that run a program as somebody else.
func TestModeHasItsSetIDBits(t *testing.T) {
	dir := t.TempDir()
	for _, mode := range []fs.FileMode{fs.ModeSetuid | 0o755, fs.ModeSetgid | 0o750, fs.ModeSticky | 0o644} {
		path := filepath.Join(dir, "program")
		s, err := Stage("/", path, []byte("x"), mode, os.Getuid(), os.Getgid())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Rename(); err != nil {
			t.Fatal(err)
		}
		wantFile(t, path, "x", mode)
		if err := WriteFile(path, []byte("y"), mode); err != nil {
			t.Fatal(err)
		}
		wantFile(t, path, "y", mode)
	}
}

func TestWriteFileReplacesALinkAndNotWhatItLeadsTo(t *testing.T) {
	dir := t.TempDir()
	other, path := filepath.Join(dir, "other"), filepath.Join(dir, "path")
	if err := errors.Join(WriteFile(other, []byte("other"), 0o644), os.Symlink("other", path)); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, "new", 0o644)
	wantFile(t, other, "other", 0o644)
}

func TestWriteFileOnAFullDiskLeavesTheOldFile(t *testing.T) {
	dir := tinyDisk(t)
	path := filepath.Join(dir, "app.ini")
	if err := WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := WriteFile(path, make([]byte, 128<<10), 0o644)
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("got %v, want ENOSPC", err)
	}
	if want := path + ": write: no space left on device"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	wantFile(t, path, "old", 0o644)
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("left %q", got)
	}
}

func TestReadOnlyDiskIsNamed(t *testing.T) {
	dir := tinyDisk(t)
	path := filepath.Join(dir, "app.ini")
	if err := WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	_, staged := Stage(dir, "/app.ini", nil, 0o644, -1, -1)
	for _, err := range []error{WriteFile(path, nil, 0o644), Symlink("x", path), Remove(path), Unlink(dir, "app.ini"), staged} {
		if !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), "app.ini: ") {
			t.Errorf("got %v, want EROFS with the path", err)
		}
	}
}

func TestDirectoryInTheWayIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "app.ini")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{WriteFile(path, nil, 0o644), Symlink("x", path), Remove(path)} {
		if err == nil || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("got %v, want an error about %s", err, path)
		}
	}
	if got := names(t, dir); !slices.Equal(got, []string{"app.ini"}) {
		t.Errorf("left %q", got)
	}
}

func TestSymlinkReplacesALinkInOneStep(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "current")
	for _, dest := range []string{"generations/1", "generations/2"} {
		if err := Symlink(dest, path); err != nil {
			t.Fatal(err)
		}
		if got, err := os.Readlink(path); err != nil || got != dest {
			t.Fatalf("leads to %q, %v; want %q", got, err, dest)
		}
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("left %q", got)
	}
}

func TestRemoveOfWhatIsAbsentIsFine(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "app.ini")
	if err := WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, path, filepath.Join(dir, "none", "app.ini")} {
		if err := Remove(path); err != nil {
			t.Error(err)
		}
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("left %q", got)
	}
}

func TestLinkGivesASecondNameOnce(t *testing.T) {
	dir := t.TempDir()
	path, second := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := WriteFile(path, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds its own
		if err := Link(path, second); err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteFile(path, []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantFile(t, second, "one", 0o600)
	if err := Link(path, second); !errors.Is(err, fs.ErrExist) || !strings.HasPrefix(err.Error(), second+": link: ") {
		t.Errorf("another file has the name: got %v", err)
	}
	wantFile(t, second, "one", 0o600)
	if got := names(t, dir); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("left behind: %v", got)
	}
}
