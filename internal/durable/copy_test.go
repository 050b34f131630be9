package durable

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A copy of a file is the file over again, to its attributes and its time.
func TestStageCopyCopiesAll(t *testing.T) {
	root := t.TempDir()
	source := filepath.Join(root, "source")
	if err := os.WriteFile(source, []byte("bytes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(source, 0o640|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	attributes := true
	if err := unix.Setxattr(source, "user.note", []byte("of its owner"), 0); errors.Is(err, unix.ENOTSUP) {
		attributes = false
	} else if err != nil {
		t.Fatal(err)
	}
	when := time.Unix(1_000_000_000, 123_456_789)
	if err := os.Chtimes(source, when, when); err != nil {
		t.Fatal(err)
	}
	s, err := StageCopy(source, root, "/made/copy")
	if err == nil {
		err = s.Rename()
	}
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "made/copy")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(path); string(text) != "bytes\n" {
		t.Errorf("it holds %q", text)
	}
	if info.Mode() != 0o640|os.ModeSetgid || !info.ModTime().Equal(when) {
		t.Errorf("it is %v of %v", info.Mode(), info.ModTime())
	}
	value := make([]byte, 64)
	if n, err := unix.Getxattr(path, "user.note", value); attributes && (err != nil || string(value[:n]) != "of its owner") {
		t.Errorf("its attribute is %q, %v", value[:max(n, 0)], err)
	}
}

// A link is copied as a link, and what is neither file nor link not at all.
func TestStageCopyFollowsNoLink(t *testing.T) {
	root := t.TempDir()
	link, when := filepath.Join(root, "link"), time.Unix(1_700_000_000, 123_456_789)
	if err := os.Symlink("nowhere/at all", link); err != nil {
		t.Fatal(err)
	}
	times := unix.NsecToTimespec(when.UnixNano())
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, link, []unix.Timespec{times, times}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		t.Fatal(err)
	}
	s, err := StageCopy(filepath.Join(root, "link"), root, "/copy")
	if err == nil {
		err = s.Rename()
	}
	if err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(filepath.Join(root, "copy")); err != nil || to != "nowhere/at all" {
		t.Errorf("it leads to %q, %v", to, err)
	}
	if info, err := os.Lstat(filepath.Join(root, "copy")); err != nil || !info.ModTime().Equal(when) {
		t.Errorf("it is of another time, %v", err)
	}
	if err := unix.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := StageCopy(filepath.Join(root, "pipe"), root, "/second"); err == nil {
		t.Error("a pipe was copied")
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 3 {
		t.Errorf("the directory holds %v, %v", entries, err)
	}
}
