package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"meshgen/units"
)

func write(t *testing.T, l Layout, g Generation, tree Tree, previous int) {
	t.Helper()
	if err := WriteGeneration(l, g, tree, previous); err != nil {
		t.Fatal(err)
	}
}

func wantNumbers(t *testing.T, l Layout, want ...int) {
	t.Helper()
	if got, err := Numbers(l); err != nil || !slices.Equal(got, want) {
		t.Errorf("generations are %v, %v; want %v", got, err, want)
	}
	if _, err := os.Lstat(filepath.Join(l.Generations(), staging)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the staging directory is left: %v", err)
	}
}

func TestGenerationIsReadAsItWasWritten(t *testing.T) {
	l := NewLayout(t.TempDir(), "")
	g, tree, _ := node(3)
	g.Time = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	g.Adopted, g.Converter = true, "5.4.2"
	g.Decisions = []Transition{{Kind: Create, Resource: server, To: "unit:server.service", Decision: Follow, Position: units.Position{File: "f.cue", Line: 1, Column: 2}}}
	g.Resources[0].Holds = []units.Port{{Protocol: "udp", Host: "::1", Number: 53}}
	g.Resources[1] = units.Resource{Address: gitea, Position: g.Resources[1].Position, File: &units.File{
		Path: "/etc/app.ini", Mode: 0o640, Owner: "root", Group: "12", Digest: "ab",
		Notify: []units.Notification{{Resource: server, Action: "reload"}},
	}}
	write(t, l, g, tree, 0)
	got, err := ReadGeneration(l, 1)
	if err != nil {
		t.Fatal(err)
	}
	g.Schema = generationSchema
	if !reflect.DeepEqual(got, g) {
		t.Errorf("got\n%+v\nwant\n%+v", got, g)
	}
	for path, want := range tree.Files {
		if got, err := os.ReadFile(filepath.Join(l.Generation(1), path)); err != nil || string(got) != string(want) {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	for path, want := range tree.Links {
		if got, err := os.Readlink(filepath.Join(l.Generation(1), path)); err != nil || got != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	wantNumbers(t, l, 1)
}

func TestWhatIsTheSameIsShared(t *testing.T) {
	l := NewLayout(t.TempDir(), "")
	write(t, l, Generation{Number: 1}, Tree{Files: map[string][]byte{"files/ab": []byte("x"), "out/normal/a.service": []byte("y")}}, 0)
	write(t, l, Generation{Number: 2}, Tree{Same: []string{"files/ab", "out/normal/a.service"}}, 1)
	for _, path := range []string{"files/ab", "out/normal/a.service"} {
		first, err1 := os.Stat(filepath.Join(l.Generation(1), path))
		second, err2 := os.Stat(filepath.Join(l.Generation(2), path))
		if err := errors.Join(err1, err2); err != nil || !os.SameFile(first, second) {
			t.Errorf("%s is not shared: %v", path, err)
		}
	}
	if info, err := os.Stat(filepath.Join(l.Generation(2), desired)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s, which has the digests of what may be secret: %v, %v", desired, info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Join(l.Generation(2), "files")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("files/ may be read by others: %v, %v", info, err)
	}
}

// Two resources may have one content. A second link must not become a write, which
// would go through the first into the previous generation.
func TestWhatIsSharedTwiceIsNotWritten(t *testing.T) {
	l := NewLayout(t.TempDir(), "")
	write(t, l, Generation{Number: 1}, Tree{Files: map[string][]byte{"files/ab": []byte("x")}}, 0)
	path := filepath.Join(l.Generation(1), "files", "ab")
	long := time.Unix(1, 0)
	if err := os.Chtimes(path, long, long); err != nil {
		t.Fatal(err)
	}
	write(t, l, Generation{Number: 2}, Tree{Same: []string{"files/ab", "files/ab"}}, 1)
	first, err1 := os.Stat(path)
	second, err2 := os.Stat(filepath.Join(l.Generation(2), "files", "ab"))
	if err := errors.Join(err1, err2); err != nil || !os.SameFile(first, second) {
		t.Errorf("it is not shared: %v", err)
	}
	if first != nil && !first.ModTime().Equal(long) {
		t.Error("the file of the previous generation was written to")
	}
}

func TestWhatCannotBeSharedIsCopied(t *testing.T) {
	l := NewLayout(t.TempDir(), "")
	write(t, l, Generation{Number: 1}, Tree{Files: map[string][]byte{"files/ab": []byte("x")}}, 0)
	// A mount of its own: link(2) refuses to cross it.
	previous := filepath.Join(l.Generation(1), "files")
	if err := unix.Mount(previous, previous, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(previous, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	write(t, l, Generation{Number: 2}, Tree{Same: []string{"files/ab"}}, 1)
	if got, err := os.ReadFile(filepath.Join(l.Generation(2), "files/ab")); err != nil || string(got) != "x" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestGenerationShowsUpWholeOrNotAtAll(t *testing.T) {
	l := NewLayout(t.TempDir(), "")
	write(t, l, Generation{Number: 1}, Tree{}, 0)
	for _, c := range []struct {
		tree Tree
		want string
	}{
		{Tree{Same: []string{"files/ab"}}, "generation 2: open " + l.Generation(1) + "/files/ab: no such file or directory"},
		{Tree{Files: map[string][]byte{"../x": nil}}, "generation 2: ../x: not a path below the generation"},
		{Tree{Files: map[string][]byte{"a": nil, "a/b": nil}}, "generation 2: mkdir " + l.Generations() + "/.staging/a: not a directory"},
	} {
		if err := WriteGeneration(l, Generation{Number: 2}, c.tree, 1); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
		wantNumbers(t, l, 1)
	}
}

func TestLitterOfThatNumberIsReplaced(t *testing.T) {
	l := NewLayout(t.TempDir(), "")
	write(t, l, Generation{Number: 1}, Tree{}, 0)
	write(t, l, Generation{Number: 2}, Tree{Files: map[string][]byte{"litter": nil}}, 1)
	if err := os.MkdirAll(filepath.Join(l.Generations(), staging, "litter"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, l, Generation{Number: 2, Node: "control"}, Tree{}, 1)
	wantNumbers(t, l, 1, 2)
	if g, err := ReadGeneration(l, 2); err != nil || g.Node != "control" {
		t.Errorf("got %+v, %v", g, err)
	}
	if _, err := os.Lstat(filepath.Join(l.Generation(2), "litter")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("litter is left: %v", err)
	}
}

func TestGenerationInUseIsNeverChanged(t *testing.T) {
	l := NewLayout(t.TempDir(), "")
	write(t, l, Generation{Number: 1}, Tree{}, 0)
	write(t, l, Generation{Number: 2}, Tree{}, 1)
	if err := errors.Join(SetCurrent(l, 1), SetPending(l, 2)); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 2} {
		want := fmt.Sprintf("generation %d: is in use and is never changed", n)
		if err := WriteGeneration(l, Generation{Number: n}, Tree{}, 0); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	wantNumbers(t, l, 1, 2)
}

func TestPruneKeepsTheNewestAndWhatIsInUse(t *testing.T) {
	l := NewLayout(t.TempDir(), "")
	for n := 1; n <= 10; n++ {
		write(t, l, Generation{Number: n}, Tree{}, n-1)
	}
	if err := errors.Join(SetCurrent(l, 2), SetPending(l, 4)); err != nil {
		t.Fatal(err)
	}
	if err := Prune(l, 3, 5); err != nil {
		t.Fatal(err)
	}
	wantNumbers(t, l, 2, 4, 5, 8, 9, 10)
	if err := Prune(l, 20); err != nil {
		t.Fatal(err)
	}
	wantNumbers(t, l, 2, 4, 5, 8, 9, 10)
}

func TestLinksSayWhichGenerationIsInForce(t *testing.T) {
	l := NewLayout(t.TempDir(), "")
	if _, ok, err := Current(l); ok || err != nil {
		t.Errorf("a fresh node has one: %v, %v", ok, err)
	}
	if err := SetCurrent(l, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there is put in force: %v", err)
	}
	write(t, l, Generation{Number: 1}, Tree{}, 0)
	if err := errors.Join(SetPending(l, 1), SetCurrent(l, 1)); err != nil {
		t.Fatal(err)
	}
	for _, read := range []func(Layout) (int, bool, error){Current, Pending} {
		if n, ok, err := read(l); n != 1 || !ok || err != nil {
			t.Errorf("got %d, %v, %v", n, ok, err)
		}
	}
	if g, err := os.Stat(filepath.Join(l.Current(), desired)); err != nil || g.IsDir() {
		t.Errorf("the link does not lead there: %v", err)
	}
	if err := errors.Join(ClearPending(l), ClearPending(l)); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := Pending(l); ok || err != nil {
		t.Errorf("still pending: %v, %v", ok, err)
	}
}

func TestMalformedLinkIsNamed(t *testing.T) {
	l := NewLayout(t.TempDir(), "")
	write(t, l, Generation{Number: 1}, Tree{}, 0)
	for _, text := range []string{"1", "generations/", "generations/0", "generations/01", "generations/1/", "/etc/meshgen/generations/1", "generations/-1"} {
		if err := errors.Join(os.RemoveAll(l.Current()), os.Symlink(text, l.Current())); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("%s: leads to %q, which is no generation", l.Current(), text)
		if _, ok, err := Current(l); ok || err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if err := WriteGeneration(l, Generation{Number: 1}, Tree{}, 0); err == nil {
			t.Errorf("%s: written over what may be in use", text)
		}
		if err := Prune(l, 0); err == nil {
			t.Errorf("%s: pruned what may be in use", text)
		}
	}
	wantNumbers(t, l, 1)
}

func TestUnreadableGenerationIsNamed(t *testing.T) {
	l := NewLayout(t.TempDir(), "")
	for text, want := range map[string]string{
		`{`:                        "unexpected end of JSON input",
		`{"schema":2,"number":1}`:  "schema 2, and this meshgen reads 1",
		`{"schema":1,"number":10}`: "says that it is generation 10",
	} {
		write(t, l, Generation{Number: 1}, Tree{}, 0)
		path := filepath.Join(l.Generation(1), desired)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadGeneration(l, 1); err == nil || err.Error() != path+": "+want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := ReadGeneration(l, 7); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "generation 7: ") {
		t.Errorf("got %v", err)
	}
}

func TestLayoutHangsOnTheRoot(t *testing.T) {
	for _, c := range []struct {
		root, stateDir string
		want           Layout
	}{
		{"/", "", Layout{"/", "/etc/meshgen", "/var/lib/meshgen", "/run/meshgen"}},
		{"/mnt/image/", "", Layout{"/mnt/image", "/mnt/image/etc/meshgen", "/mnt/image/var/lib/meshgen", "/mnt/image/run/meshgen"}},
		{"/mnt/image", "/srv/state", Layout{"/mnt/image", "/mnt/image/etc/meshgen", "/srv/state", "/mnt/image/run/meshgen"}},
	} {
		if got := NewLayout(c.root, c.stateDir); got != c.want {
			t.Errorf("got %+v, want %+v", got, c.want)
		}
	}
	l := NewLayout("/mnt/image", "")
	if got := l.Path("/etc/../../../etc/app.ini"); got != "/mnt/image/etc/app.ini" {
		t.Errorf("a path leads to %s", got)
	}
}
