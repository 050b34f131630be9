package modules

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestDigest(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	put("forge.cue", "modules: forge: volumes: data: {}\n")
	put("conf/app.ini", "a")
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.WriteFile(elsewhere, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	options := Options{Hostname: "here"}
	digest := func() string {
		t.Helper()
		d, err := Digest(dir, options)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	steps := []struct {
		what    string
		do      func()
		changes bool
	}{
		{"nothing", func() {}, false},
		{"a source's content", func() { put("conf/app.ini", "b") }, true},
		{"another file", func() { put("conf/ab", "") }, true},
		{"bytes from one file to the next", func() { put("conf/app.ini", ""); put("conf/ab", "b") }, true},
		{"a link", func() { link(elsewhere, "link.cue") }, true},
		{"what a link leads to", func() { put("../"+filepath.Base(filepath.Dir(elsewhere))+"/elsewhere", "b") }, true},
		{"a link that dangles", func() { link("user@host.1:1", ".#forge.cue") }, true},
		{"times", func() {
			if err := os.Chtimes(filepath.Join(dir, "forge.cue"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"Git's own files", func() { put(".git/index", "x") }, false},
		{"an empty directory", func() {
			if err := os.Mkdir(filepath.Join(dir, "new"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"the host's name", func() { options.Hostname = "there" }, true},
		{"the node's name", func() { options.Node = "there" }, true},
		{"what is allowed", func() { options.AllowEmpty = true }, true},
	}
	before := digest()
	for _, step := range steps {
		step.do()
		after := digest()
		if changed := after != before; changed != step.changes {
			t.Errorf("%s: changed %v, want %v", step.what, changed, step.changes)
		}
		before = after
	}
}

func TestDigestThroughALink(t *testing.T) {
	dir := manifestOf(t, "modules: forge: volumes: data: {}\n")
	link := filepath.Join(t.TempDir(), "manifest")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	want, err := Digest(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Digest(link, Options{}); got != want || err != nil {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if m, err := Load(link, Options{}); err != nil || len(m.Resources) != 1 {
		t.Errorf("Load: got %v, %v", m, err)
	}
}

func TestUnreadableIsNotEmpty(t *testing.T) {
	dir := manifestOf(t, "modules: forge: volumes: data: {}\n")
	if err := os.Symlink("nowhere", filepath.Join(dir, "gone.cue")); err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(dir, "gone")
	for _, name := range []string{dir, gone} {
		m, err := Load(name, Options{AllowEmpty: true})
		if err == nil || len(m.Resources) > 0 {
			t.Errorf("Load(%s): got %v, %v, want an error", name, m, err)
		}
	}
	if _, err := Digest(gone, Options{}); err == nil {
		t.Error("Digest: no error")
	}
}
