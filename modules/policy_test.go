package modules

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What a policy is read from is below the manifest directory, is a regular file,
// and is no larger than a program that decides has to be.
func TestPolicyIsReadFromTheManifestAlone(t *testing.T) {
	const most = 16 << 20
	outside := filepath.Join(t.TempDir(), "outside.wasm")
	if err := os.WriteFile(outside, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		what string
		make func(file string) error
		want string // of the fault; "" where it is taken
	}{
		{"a link that leads out", func(file string) error { return os.Symlink(outside, file) }, "policy.wasm: lies outside the manifest directory"},
		{"a link within", func(file string) error { return os.Symlink("manifest.cue", file) }, ""},
		{"a link to nothing", func(file string) error { return os.Symlink("gone", file) }, "policy.wasm: no such file or directory"},
		{"a pipe", func(file string) error { return syscall.Mkfifo(file, 0o600) }, "policy.wasm: not a regular file"},
		{"the largest", func(file string) error { return os.WriteFile(file, make([]byte, most), 0o600) }, ""},
		{"one that is larger", func(file string) error { return os.WriteFile(file, make([]byte, most+1), 0o600) }, "policy.wasm: larger than 16 MiB"},
	}
	for _, test := range tests {
		t.Run(test.what, func(t *testing.T) {
			dir := manifestOf(t, "modules: m: {wasm: \"policy.wasm\", volumes: data: {}}\n")
			if err := test.make(filepath.Join(dir, "policy.wasm")); err != nil {
				t.Fatal(err)
			}
			_, err := Load(dir, Options{})
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), "manifest.cue:1:20: modules.m.wasm: "+test.want+"\n    want ")):
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// A policy that was changed in place is another input.
func TestPolicyTakesPartInTheDigest(t *testing.T) {
	dir := manifestOf(t, "modules: m: {wasm: \"policy.wasm\", volumes: data: {}}\n")
	var digests []string
	for _, text := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, "policy.wasm"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		digest, err := Digest(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest)
	}
	if digests[0] == digests[1] {
		t.Error("the digest is the same")
	}
}

// A name that a terminal would obey is shown quoted, and not taken.
func TestAPolicyHasANameThatCanBeShown(t *testing.T) {
	dir := manifestOf(t, "modules: m: {wasm: \"p\\u001b[2J.wasm\", volumes: data: {}}\n")
	if err := os.WriteFile(filepath.Join(dir, "p\x1b[2J.wasm"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(dir, Options{})
	if want := `modules.m.wasm: "p\x1b[2J.wasm" holds what cannot be shown`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}
