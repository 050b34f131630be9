package generator

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseRefusals(t *testing.T) {
	tests := []struct {
		name, stderr string
		want         []Refusal
	}{
		{"nothing", "", nil},
		{
			"one of a key",
			`quadlet-generator[12]: Starting quadlet-generator, output to: /tmp/x/normal
quadlet-generator[12]: Loading source unit file /tmp/meshgen-quadlet-1/in/a.container
quadlet-generator[12]: converting "a.container": unsupported key 'Foo' in group 'Container' in /tmp/meshgen-quadlet-1/in/a.container
`,
			[]Refusal{{File: "a.container", Message: "unsupported key 'Foo' in group 'Container'"}},
		},
		{
			"two at once",
			`quadlet-generator[12]: processing encountered some errors: converting "a.container": no Image or Rootfs key specified
converting "b.container": requested Quadlet image x.image was not found
`,
			[]Refusal{{File: "a.container", Message: "no Image or Rootfs key specified"}, {File: "b.container", Message: "requested Quadlet image x.image was not found"}},
		},
		{
			"one that names no file",
			"quadlet-generator[7]: something else went wrong\n",
			[]Refusal{{Message: "something else went wrong"}},
		},
		{"one without its prefix", "a panic\n\n", []Refusal{{Message: "a panic"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, parseRefusals(test.stderr)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// script stands in for a converter that goes wrong as the real one cannot be
// made to.
func script(t *testing.T, body string) Converter {
	path := filepath.Join(t.TempDir(), "quadlet")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return Converter{Path: path}
}

func TestConverterThatHangsIsGivenUp(t *testing.T) {
	for name, body := range map[string]string{
		"itself":                        "exec sleep 60",
		"a child that holds its output": "sleep 60 & wait",
	} {
		t.Run(name, func(t *testing.T) {
			c := script(t, body)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			begin := time.Now()
			_, _, err := c.Convert(ctx, nil, "/s")
			if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), c.Path+": no answer: ") {
				t.Errorf("error %v", err)
			}
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

func TestConverterThatFailsIsAnError(t *testing.T) {
	for name, c := range map[string]struct{ body, says string }{
		"it crashes":             {"kill -SEGV $$", "segmentation fault"},
		"an exit that is not 1":  {"echo boom >&2; exit 2", "exit status 2: boom"},
		"an exit without a word": {"exit 1", "exit status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, refused, err := script(t, c.body).Convert(t.Context(), nil, "/s")
			if err == nil || !strings.Contains(err.Error(), c.says) || refused != nil {
				t.Errorf("refused %v, error %v", refused, err)
			}
		})
	}
	t.Run("it is not there", func(t *testing.T) {
		if _, _, err := (Converter{Path: filepath.Join(t.TempDir(), "none")}).Convert(t.Context(), nil, "/s"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("error %v", err)
		}
	})
}

// Words that are none of the converter's own are passed on, and never taken for
// success.
func TestConverterThatTalksGarbageIsPassedOn(t *testing.T) {
	_, refused, err := script(t, `printf 'qu\000x\nconverting "": \n' >&2; exit 1`).Convert(t.Context(), nil, "/s")
	if err != nil || len(refused) == 0 {
		t.Errorf("refused %v, error %v", refused, err)
	}
	out, refused, err := script(t, "echo warning >&2").Convert(t.Context(), map[string]string{"a.container": ""}, "/s")
	if err != nil || len(refused) > 0 || len(out.Units) > 0 {
		t.Errorf("%v, refused %v, error %v", out, refused, err)
	}
}

// Beside what was refused, the rest is there.
func TestConvertReturnsTheRestBesideRefusals(t *testing.T) {
	c := script(t, `
cat "$QUADLET_UNIT_DIRS/a.container" > "$2/a.service"
echo "SourcePath=$QUADLET_UNIT_DIRS/a.container" >> "$2/a.service"
mkdir "$2/multi-user.target.wants"
ln -s ../a.service "$2/multi-user.target.wants/a.service"
echo 'quadlet-generator[1]: converting "b.container": no' >&2
exit 1`)
	out, refused, err := c.Convert(t.Context(), map[string]string{"a.container": "[Service]\n", "b.container": ""}, "/etc/meshgen/current/quadlet")
	if err != nil {
		t.Fatal(err)
	}
	want := Output{
		Units: map[string]string{"a.service": "[Service]\nSourcePath=/etc/meshgen/current/quadlet/a.container\n"},
		Links: map[string]string{"multi-user.target.wants/a.service": "../a.service"},
	}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Refusal{{File: "b.container", Message: "no"}}, refused); diff != "" {
		t.Error(diff)
	}
}

func TestFindConverter(t *testing.T) {
	m := newMachine(t)
	if _, ok := FindConverter(m.layout.Root); ok {
		t.Error("found one where there is none")
	}
	m.write("usr/libexec/podman/quadlet", "#!")
	c, ok := FindConverter(m.layout.Root)
	if want := m.layout.Path("usr/libexec/podman/quadlet"); !ok || c.Path != want {
		t.Errorf("found %q, want %q", c.Path, want)
	}

	// The program is another when it was replaced.
	m.write("usr/libexec/podman/quadlet", "#!!")
	if again, _ := FindConverter(m.layout.Root); again.Fingerprint() == c.Fingerprint() {
		t.Error("the fingerprint is that of another program")
	}

	// The one that systemd runs comes first; a link that leads out of the root
	// is none.
	m.link("/usr/libexec/podman/quadlet", "etc/systemd/system-generators/podman-system-generator")
	m.link("../../../libexec/podman/quadlet", "usr/lib/systemd/system-generators/podman-system-generator")
	if c, ok := FindConverter(m.layout.Root); !ok || c.Path != m.layout.Path("usr/libexec/podman/quadlet") {
		t.Errorf("found %q", c.Path)
	}
	linked := filepath.Join(t.TempDir(), "linked")
	if err := os.Symlink(m.layout.Root, linked); err != nil {
		t.Fatal(err)
	}
	if c, ok := FindConverter(linked); !ok || c.Path != m.layout.Path("usr/libexec/podman/quadlet") {
		t.Errorf("found %q below a root that is named by a link", c.Path)
	}
	other := newMachine(t)
	beside := other.layout.Root + "-beside"
	if err := os.Mkdir(beside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(beside, "quadlet"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	other.link(filepath.Join(beside, "quadlet"), "usr/libexec/podman/quadlet")
	if c, ok := FindConverter(other.layout.Root); ok {
		t.Errorf("found %q, which is not below the root", c.Path)
	}
}
