package modules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a file is to hold is bounded, and so is what a look at the manifest reads.
func TestASourceIsBounded(t *testing.T) {
	dir := manifestOf(t, "modules: m: files: large: {path: \"/srv/large\", source: \"large\"}\n")
	file := filepath.Join(dir, "large")
	digests := map[string]bool{}
	for _, text := range []string{"a", "b"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(file, mostSource+1); err != nil {
			t.Fatal(err)
		}
		digest, err := Digest(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		digests[digest] = true
	}
	if len(digests) != 1 {
		t.Error("what no manifest can name is read")
	}
	_, err := Load(dir, Options{})
	want := "manifest.cue:1:56: modules.m.files.large.source: \"large\": larger than 64 MiB\n    what a manifest holds "
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v\nwant %s", err, want)
	}
	if err := os.Truncate(file, mostSource); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir, Options{}); err != nil {
		t.Error(err)
	}
}
