package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// furnish makes a tree that has something of all that trees can differ in.
func furnish(t *testing.T, root string) {
	t.Helper()
	for _, dir := range []string{"", "dir", "empty"} {
		must(t, os.Mkdir(filepath.Join(root, dir), 0o755))
	}
	for name, text := range map[string]string{"plain": "text", "dir/other": "more", "line\nbreak": ""} {
		must(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
	must(t, os.Link(filepath.Join(root, "plain"), filepath.Join(root, "dir/hard")))
	must(t, os.Link(filepath.Join(root, "dir/other"), filepath.Join(root, "twin")))
	must(t, os.Symlink("plain", filepath.Join(root, "sym")))
	must(t, unix.Mkfifo(filepath.Join(root, "fifo"), 0o644))
	f, err := os.Create(filepath.Join(root, "sparse"))
	must(t, err)
	must(t, f.Truncate(1<<30))
	_, err = f.WriteAt([]byte("x"), 1<<29)
	must(t, err)
	must(t, f.Close())
	if err := unix.Setxattr(filepath.Join(root, "plain"), "user.a", []byte("1"), 0); err != nil {
		t.Skipf("%s keeps no extended attributes: %v", root, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// copied returns a tree and a copy of it.
func copied(t *testing.T) (from, to string) {
	t.Helper()
	dir := t.TempDir()
	from, to = filepath.Join(dir, "from"), filepath.Join(dir, "to")
	furnish(t, from)
	must(t, os.Mkdir(to, 0o700))
	must(t, CopyTree(t.Context(), from, to))
	return from, to
}

// Trees that differ in any one thing are told apart, and a copy is the same.
func TestSameTreeTellsTreesApart(t *testing.T) {
	tests := []struct {
		name   string
		change func(path func(string) string) error
		says   string
	}{
		{"nothing", func(func(string) string) error { return nil }, ""},
		{"the time of access", func(p func(string) string) error {
			st, err := os.Stat(p("plain"))
			if err != nil {
				return err
			}
			return os.Chtimes(p("plain"), time.Unix(1, 0), st.ModTime())
		}, ""},
		{"where data is sparse", func(p func(string) string) error {
			return keepTime(p("sparse"), func(f *os.File) error { _, err := f.WriteAt(make([]byte, 8192), 1<<20); return err })
		}, ""},
		{"a name more", func(p func(string) string) error {
			return keepTime(p("empty"), func(*os.File) error { return os.WriteFile(p("empty/more"), nil, 0o600) })
		}, `"empty": the names in it differ`},
		{"a name less", func(p func(string) string) error {
			return keepTime(p("dir"), func(*os.File) error { return os.Remove(p("dir/hard")) })
		}, `"dir": the names in it differ`},
		{"the type", func(p func(string) string) error {
			return keepTime(p("."), func(*os.File) error {
				if err := os.Remove(p("fifo")); err != nil {
					return err
				}
				return os.WriteFile(p("fifo"), nil, 0o644)
			})
		}, `"fifo": type differs`},
		{"the mode", func(p func(string) string) error { return os.Chmod(p("line\nbreak"), 0o600) }, `"line\nbreak": mode differs`},
		{"the setuid bit", func(p func(string) string) error { return os.Chmod(p("dir/other"), 0o644|os.ModeSetuid) }, `"dir/other": mode differs`},
		{"the mode of the root", func(p func(string) string) error { return os.Chmod(p("."), 0o711) }, `".": mode differs`},
		{"the owner", func(p func(string) string) error { return os.Lchown(p("sym"), 5, -1) }, `"sym": owner differs`},
		{"the group", func(p func(string) string) error { return os.Lchown(p("empty"), -1, 5) }, `"empty": owner differs`},
		{"the time of change", func(p func(string) string) error { return os.Chtimes(p("dir"), time.Time{}, time.Unix(1, 1)) }, `"dir": time of change differs`},
		{"the size", func(p func(string) string) error {
			return keepTime(p("plain"), func(f *os.File) error { return f.Truncate(9) })
		}, `size differs`},
		{"the content", func(p func(string) string) error {
			return keepTime(p("plain"), func(f *os.File) error { _, err := f.WriteAt([]byte("T"), 3); return err })
		}, `content differs`},
		{"data in a hole", func(p func(string) string) error {
			return keepTime(p("sparse"), func(f *os.File) error { _, err := f.WriteAt([]byte("y"), 1<<30-1); return err })
		}, `"sparse": content differs`},
		{"a link's target", func(p func(string) string) error {
			return keepTime(p("."), func(*os.File) error { return relinked(p("sym"), "dir") })
		}, `"sym": link target differs`},
		{"an attribute's value", func(p func(string) string) error { return unix.Setxattr(p("plain"), "user.a", []byte("2"), 0) }, `extended attributes differs`},
		{"an attribute more", func(p func(string) string) error { return unix.Setxattr(p("empty"), "user.b", nil, 0) }, `"empty": extended attributes differs`},
		{"an attribute less", func(p func(string) string) error { return unix.Removexattr(p("plain"), "user.a") }, `extended attributes differs`},
		{"what is one file", func(p func(string) string) error {
			return keepTime(p("."), func(*os.File) error { return swapped(p("twin"), "more") })
		}, `"twin": what it is a hard link to differs`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			from, to := copied(t)
			err := test.change(func(name string) string { return filepath.Join(to, name) })
			if errors.Is(err, os.ErrPermission) {
				t.Skip("only root may do that")
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, pair := range [][2]string{{from, to}, {to, from}} {
				err := SameTree(t.Context(), pair[0], pair[1])
				if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
					t.Errorf("says %v, want %q", err, test.says)
				}
			}
		})
	}
}

// keepTime changes something and gives it back its time of change.
func keepTime(path string, change func(*os.File) error) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if st.IsDir() {
		f, err = os.Open(path)
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := change(f); err != nil {
		return err
	}
	return os.Chtimes(path, time.Time{}, st.ModTime())
}

// relinked makes a link lead elsewhere and gives it back its time of change.
func relinked(path, to string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	if err := os.Symlink(to, path); err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{st.Mtim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}

// swapped puts a file of its own in the place of one that has another name too,
// the same in all else.
func swapped(path, text string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(text), st.Mode()); err != nil {
		return err
	}
	return os.Chtimes(path, time.Time{}, st.ModTime())
}

// Any change in a tree changes its mark, and a look at it does not.
func TestMeasureMarksATree(t *testing.T) {
	root := filepath.Join(t.TempDir(), "tree")
	furnish(t, root)
	before, err := Measure(t.Context(), root)
	must(t, err)
	if before.Files != 9 || before.Bytes > 1<<20 {
		t.Errorf("measured %+v", before)
	}
	must(t, SameTree(t.Context(), root, root))
	again, err := Measure(t.Context(), root)
	must(t, err)
	if again != before {
		t.Errorf("measured %+v, then %+v", before, again)
	}
	must(t, keepTime(filepath.Join(root, "plain"), func(f *os.File) error { _, err := f.WriteAt([]byte("T"), 3); return err }))
	after, err := Measure(t.Context(), root)
	must(t, err)
	if after.Mark == before.Mark {
		t.Error("a write did not change the mark")
	}
}
