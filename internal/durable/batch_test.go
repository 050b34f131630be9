package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func stage(t *testing.T, root, path, content string) Staged {
	t.Helper()
	s, err := Stage(root, path, []byte(content), 0o640, -1, -1)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBatchPutsFilesInPlaceWithModeAndOwner(t *testing.T) {
	withUmask(t, 0o077)
	root := t.TempDir()
	s, err := Stage(root, "/etc/gitea/app.ini", []byte("new"), 0o664, os.Getuid(), os.Getgid())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"/etc", "/etc/gitea"}; !slices.Equal(s.Made, want) {
		t.Errorf("made %q, want %q", s.Made, want)
	}
	path := filepath.Join(root, "etc/gitea/app.ini")
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in place before Rename: %v", err)
	}
	dir := filepath.Dir(path)
	if err := errors.Join(Sync(dir, root), s.Rename(), Sync(dir, root)); err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, "new", 0o664)
	if got := names(t, dir); !slices.Equal(got, []string{"app.ini"}) {
		t.Errorf("left %q", got)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("made %s with %v, %v", dir, info.Mode(), err)
	}
	if err := s.Discard(); err != nil {
		t.Errorf("discard after rename: %v", err)
	}
	wantFile(t, path, "new", 0o664)
}

func TestStageSetsTheOwner(t *testing.T) {
	root := t.TempDir()
	s, err := Stage(root, "/app.ini", nil, 0o600, 12, 34)
	if errors.Is(err, fs.ErrPermission) {
		if got := names(t, root); len(got) != 0 {
			t.Errorf("left %q", got)
		}
		t.Skip("needs the right to give files away")
	}
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(filepath.Join(root, s.Temp))
	if err != nil {
		t.Fatal(err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != 12 || st.Gid != 34 {
		t.Errorf("owner is %+v", info.Sys())
	}
}

func TestTemporaryIsNamedLikeNoUnit(t *testing.T) {
	root := t.TempDir()
	s := stage(t, root, "/etc/gitea.container", "")
	if base := filepath.Base(s.Temp); !isTemp(base) || filepath.Ext(base) != base {
		t.Errorf("temporary %s", base)
	}
}

func TestLinkAmongTheParentsIsRefused(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	for link, dest := range map[string]string{"etc": outside, "srv": "var"} {
		if err := os.Symlink(dest, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{outside, filepath.Join(root, "var")} {
		if err := os.MkdirAll(filepath.Join(dir, "gitea"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"/etc/gitea/app.ini":        "/etc: a symbolic link: not followed",
		"/srv/gitea/app.ini":        "/srv: a symbolic link: not followed",
		"/../etc/../etc/gitea/a.in": "/etc: a symbolic link: not followed",
	} {
		_, err := Stage(root, path, []byte("new"), 0o644, -1, -1)
		staged := Staged{Root: root, Path: clean(path), Temp: clean(path) + "x"}
		_, swept := Sweep(root, filepath.Dir(path))
		for _, err := range []error{err, staged.Rename(), staged.Discard(), Unlink(root, path), swept} {
			if err == nil || err.Error() != want {
				t.Errorf("%s: got %v, want %s", path, err, want)
			}
		}
	}
	for _, dir := range []string{outside, filepath.Join(root, "var")} {
		if got := names(t, filepath.Join(dir, "gitea")); len(got) != 0 {
			t.Errorf("%s now holds %q", dir, got)
		}
	}
}

func TestPathNeverLeadsAboveTheRoot(t *testing.T) {
	above := t.TempDir()
	root := filepath.Join(above, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	s := stage(t, root, "/../../app.ini", "new")
	if err := s.Rename(); err != nil {
		t.Fatal(err)
	}
	wantFile(t, filepath.Join(root, "app.ini"), "new", 0o640)
	if got := names(t, above); !slices.Equal(got, []string{"root"}) {
		t.Errorf("above the root: %q", got)
	}
}

func TestRenameReplacesALinkAndRefusesADirectory(t *testing.T) {
	root := t.TempDir()
	other := filepath.Join(root, "other")
	err := errors.Join(
		WriteFile(other, []byte("other"), 0o644),
		os.Symlink("other", filepath.Join(root, "link")),
		os.Mkdir(filepath.Join(root, "dir"), 0o755),
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := stage(t, root, "/link", "new").Rename(); err != nil {
		t.Fatal(err)
	}
	wantFile(t, filepath.Join(root, "link"), "new", 0o640)
	wantFile(t, other, "other", 0o644)
	s := stage(t, root, "/dir", "new")
	if err := s.Rename(); !errors.Is(err, unix.EISDIR) || err.Error() != "/dir: replace: is a directory" {
		t.Errorf("got %v, want EISDIR", err)
	}
	if err := s.Discard(); err != nil {
		t.Error(err)
	}
	if got := names(t, root); !slices.Equal(got, []string{"dir", "link", "other"}) {
		t.Errorf("left %q", got)
	}
}

func TestDiscardInReverseLeavesNothing(t *testing.T) {
	root := t.TempDir()
	var batch []Staged
	for _, path := range []string{"/etc/gitea/app.ini", "/etc/gitea/b/c", "/etc/d"} {
		batch = append(batch, stage(t, root, path, "new"))
	}
	for _, s := range slices.Backward(batch) {
		if err := s.Discard(); err != nil {
			t.Error(err)
		}
	}
	if got := names(t, root); len(got) != 0 {
		t.Errorf("left %q", got)
	}
}

func TestStageOnAFullDiskLeavesNothing(t *testing.T) {
	root := tinyDisk(t)
	_, err := Stage(root, "/etc/gitea/app.ini", make([]byte, 128<<10), 0o644, -1, -1)
	if !errors.Is(err, unix.ENOSPC) || !strings.HasPrefix(err.Error(), "/etc/gitea/app.ini: write: ") {
		t.Errorf("got %v, want ENOSPC with the path", err)
	}
	if got := names(t, root); len(got) != 0 {
		t.Errorf("left %q", got)
	}
}

func TestUnlinkOfWhatIsAbsentIsFine(t *testing.T) {
	root := t.TempDir()
	if err := stage(t, root, "/etc/app.ini", "").Rename(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/etc/app.ini", "/etc/app.ini", "/none/app.ini"} {
		if err := Unlink(root, path); err != nil {
			t.Error(err)
		}
	}
	if err := Unlink(root, "/etc"); !errors.Is(err, unix.EISDIR) {
		t.Errorf("unlink of a directory: %v", err)
	}
}

func TestSweepKnowsOnlyItsOwn(t *testing.T) {
	root := t.TempDir()
	s := stage(t, root, "/etc/app.ini", "new")
	etc := filepath.Join(root, "etc")
	kept := []string{".meshgen-", ".meshgen-1.container", ".meshgen-12a", ".meshgen1", "app.ini", "x.meshgen-1"}
	for _, name := range kept {
		if err := WriteFile(filepath.Join(etc, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(etc, ".meshgen-7"), 0o755); err != nil {
		t.Fatal(err)
	}
	swept, err := Sweep(root, "/etc", "/none")
	if err != nil || !slices.Equal(swept, []string{s.Temp}) {
		t.Errorf("swept %q, %v; want %q", swept, err, s.Temp)
	}
	if got := names(t, etc); !slices.Equal(got, slices.Sorted(slices.Values(append(kept, ".meshgen-7")))) {
		t.Errorf("left %q", got)
	}
}

func TestSyncNamesWhatIsAbsent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	if err := Sync(path); err == nil || err.Error() != path+": sync: no such file or directory" {
		t.Errorf("got %v", err)
	}
}
