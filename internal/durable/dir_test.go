package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMakeDirMakesItWithItsMode(t *testing.T) {
	root := t.TempDir()
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	if err := MakeDir(root, "/a/b/c", 0o771, -1, -1); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]fs.FileMode{"a": 0o755, "a/b": 0o755, "a/b/c": 0o771} {
		if info, err := os.Stat(filepath.Join(root, path)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if err := MakeDir(root, "/a/b/c", 0o700, -1, -1); !errors.Is(err, unix.EEXIST) {
		t.Errorf("one that is there is made: %v", err)
	}
}

func TestDirIsSetWhereNoLinkLeads(t *testing.T) {
	root, elsewhere := t.TempDir(), t.TempDir()
	if err := os.Chmod(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		SetDir(root, "/link", 0o755, -1, -1, nil), MakeDir(root, "/link", 0o755, -1, -1), MakeDir(root, "/link/a", 0o755, -1, -1),
	} {
		if err == nil {
			t.Error("a link is followed")
		}
	}
	if info, err := os.Stat(elsewhere); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("where the link leads: %v, %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(elsewhere); err != nil || len(entries) > 0 {
		t.Errorf("where the link leads: %v, %v", entries, err)
	}
}

func TestDirGetsItsAttributesBack(t *testing.T) {
	root := t.TempDir()
	at := filepath.Join(root, "d")
	if err := os.Mkdir(at, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(at, "user.meshgen", []byte("was\x00so"), 0); err != nil {
		if os.Getenv("MESHGEN_REQUIRE_MACHINE") == "1" {
			t.Fatal(err)
		}
		t.Skipf("no extended attributes: %v", err)
	}
	was, err := DirAttributes(root, "/d")
	if err != nil || string(was["user.meshgen"]) != "was\x00so" {
		t.Fatalf("%q, %v", was, err)
	}
	if err := unix.Setxattr(at, "user.meshgen", []byte("is so"), 0); err != nil {
		t.Fatal(err)
	}
	if err := SetDir(root, "/d", 0o700, -1, -1, was); err != nil {
		t.Fatal(err)
	}
	if is, err := DirAttributes(root, "/d"); err != nil || string(is["user.meshgen"]) != "was\x00so" {
		t.Errorf("%q, %v", is, err)
	}
	if info, err := os.Stat(at); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
