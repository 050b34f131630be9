package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// following and refusing are two programs that differ in a byte.
func following() Module {
	return Module{Name: "following.wasm", Code: deciding(0, constant(int(Follow))).bytes()}
}

func refusing() Module {
	return Module{Name: "refusing.wasm", Code: deciding(0, constant(int(Refuse))).bytes()}
}

// decideFrom asks a program in a runtime of its own.
func decideFrom(t *testing.T, dir string, m Module) Answer {
	t.Helper()
	r := NewRuntime(dir, swift())
	defer func() { _ = r.Close() }()
	return r.Decide(t.Context(), m, asked)
}

func filesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestCompiledProgramsAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "when", "needed")
	if a := decideFrom(t, dir, following()); a.Decision != Follow {
		t.Fatalf("%+v", a)
	}
	c := cache{dir}
	entry, ok := c.entry(following().SHA256())
	if !ok {
		t.Fatalf("nothing to be used in %v", filesBelow(t, dir))
	}
	before := filesBelow(t, dir)
	info, err := os.Stat(filepath.Join(entry, sealFile))
	if err != nil {
		t.Fatal(err)
	}
	if a := decideFrom(t, dir, following()); a.Decision != Follow {
		t.Fatalf("%+v", a)
	}
	if after := filesBelow(t, dir); !slices.Equal(before, after) {
		t.Errorf("it was compiled again: %v, then %v", before, after)
	}
	if again, err := os.Stat(filepath.Join(entry, sealFile)); err != nil || !os.SameFile(info, again) {
		t.Errorf("it was compiled again")
	}
}

func TestBuiltinNeedsNoCache(t *testing.T) {
	dir := t.TempDir()
	if a := decideFrom(t, dir, Builtin()); a.Decision != Follow {
		t.Fatalf("%+v", a)
	}
	if files := filesBelow(t, dir); len(files) > 0 {
		t.Errorf("%v", files)
	}
}

// Each byte of what is kept is changed, and each file cut off at each length and
// made longer: the answer is always the program's own, and afterwards the cache
// can be used again.
func TestDamagedCacheIsCompiledAnew(t *testing.T) {
	dir := t.TempDir()
	decideFrom(t, dir, following())
	files := filesBelow(t, dir)
	if len(files) != 2 {
		t.Fatalf("%v", files)
	}
	check := func(what string) {
		t.Helper()
		c := cache{dir}
		if _, ok := c.entry(following().SHA256()); ok {
			t.Fatalf("%s: it would be used", what)
		}
	}
	for _, path := range files {
		whole := read(t, path)
		for i := range whole {
			for _, changed := range [][]byte{
				whole[:i],
				slices.Concat(whole[:i], []byte{whole[i] ^ 0xff}, whole[i+1:]),
				slices.Concat(whole[:i], []byte{whole[i] ^ 1}, whole[i+1:]),
			} {
				write(t, path, changed)
				check(path)
			}
			if i%61 != 0 {
				continue
			}
			if a := decideFrom(t, dir, following()); a.Decision != Follow || a.Fault != "" {
				t.Fatalf("byte %d of %s: %+v", i, path, a)
			}
			if again := read(t, path); !bytes.Equal(again, whole) {
				t.Fatalf("byte %d of %s: it was not made anew", i, path)
			}
		}
		write(t, path, append(whole, 0))
		check(path)
		write(t, path, whole)
	}
	if _, ok := (cache{dir}).entry(following().SHA256()); !ok {
		t.Error("as it was it is not used")
	}
}

// One program's entry in the place of another's, with its seal or without: each
// answers for itself.
func TestSwappedCacheEntriesAreNotUsed(t *testing.T) {
	for _, what := range []string{"directories", "files", "files without seals"} {
		dir := t.TempDir()
		decideFrom(t, dir, following())
		decideFrom(t, dir, refusing())
		a, b := filepath.Join(dir, following().SHA256()), filepath.Join(dir, refusing().SHA256())
		switch what {
		case "directories":
			for _, move := range [][2]string{{a, a + "x"}, {b, a}, {a + "x", b}} {
				if err := os.Rename(move[0], move[1]); err != nil {
					t.Fatal(err)
				}
			}
		default:
			ours, theirs := filesBelow(t, a), filesBelow(t, b)
			for i := range ours {
				content, other := read(t, ours[i]), read(t, theirs[i])
				write(t, ours[i], other)
				write(t, theirs[i], content)
				if what == "files without seals" && filepath.Base(ours[i]) == sealFile {
					if err := os.Remove(ours[i]); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if a := decideFrom(t, dir, following()); a.Decision != Follow || a.Fault != "" {
			t.Errorf("%s: %+v", what, a)
		}
		if a := decideFrom(t, dir, refusing()); a.Decision != Refuse || a.Fault != "" {
			t.Errorf("%s: %+v", what, a)
		}
	}
}

// A directory, a link or a fifo in the place of a file, a file in the place of
// the directory: it is compiled anew, and what a link led to is left alone.
func TestWhatIsNoCacheIsNotRead(t *testing.T) {
	dir := t.TempDir()
	decideFrom(t, dir, following())
	entry := filepath.Join(dir, following().SHA256())
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	write(t, elsewhere, []byte("not ours"))
	compiled := filesBelow(t, entry)[1]
	if filepath.Base(compiled) == sealFile {
		t.Fatal(compiled)
	}
	for _, spoil := range []func() error{
		func() error { return os.Remove(compiled) },
		func() error {
			return errors.Join(os.Remove(filepath.Join(entry, sealFile)), syscall.Mkfifo(filepath.Join(entry, sealFile), 0o600))
		},
		func() error { return syscall.Mkfifo(filepath.Join(entry, "fifo"), 0o600) },
		func() error { return os.Symlink(elsewhere, filepath.Join(entry, "link")) },
		func() error { return errors.Join(os.RemoveAll(entry), os.WriteFile(entry, nil, 0o600)) },
		func() error { return os.Mkdir(filepath.Join(entry, sealFile+".d"), 0o700) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if a := decideFrom(t, dir, following()); a.Decision != Follow || a.Fault != "" {
			t.Errorf("%+v", a)
		}
	}
	if string(read(t, elsewhere)) != "not ours" {
		t.Error("what a link led to was changed")
	}
}

// What a killed process left behind goes, what another is at work on stays, and of
// many programs the newest are kept.
func TestCacheDoesNotGrowForEver(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * time.Hour)
	for _, name := range []string{"new-old", "new-now"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for i := range kept + 5 {
		path := filepath.Join(dir, fmt.Sprintf("%064x", i))
		if err := errors.Join(os.Mkdir(path, 0o700), os.Chtimes(path, old, old.Add(time.Duration(i)*time.Second))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(filepath.Join(dir, "new-old"), old, old); err != nil {
		t.Fatal(err)
	}
	decideFrom(t, dir, following())
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if len(names) != kept+1 || slices.Contains(names, "new-old") || !slices.Contains(names, "new-now") || slices.Contains(names, fmt.Sprintf("%064x", 0)) {
		t.Errorf("%d left: %v", len(names), names)
	}
}

func TestDecidesWhereNothingCanBeKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, nil)
	for _, dir := range []string{"", file, filepath.Join(file, "below"), "/proc/policies"} {
		if a := decideFrom(t, dir, following()); a.Decision != Follow || a.Fault != "" {
			t.Errorf("%q: %+v", dir, a)
		}
	}
}
