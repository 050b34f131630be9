package apply_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"meshgen/internal/apply"
	"meshgen/state"
	"meshgen/units"
)

// A file changes after it was judged and before it is written: the switch stops,
// and leaves it as it has become.
func TestFileThatChangesUnderTheSwitchStopsIt(t *testing.T) {
	l := state.NewLayout(t.TempDir(), "")
	path := filepath.Join(l.Root, "etc/app.ini")
	if _, err := write(t, l, "first\n", nil); err != nil {
		t.Fatal(err)
	}
	_, err := write(t, l, "second\n", func() {
		if err := os.WriteFile(path, []byte("by hand\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	if err == nil || !strings.Contains(err.Error(), "/etc/app.ini: changed while the switch was under way") {
		t.Errorf("got %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "first\n" && string(text) != "by hand\n" {
		t.Errorf("the file is %q", text)
	}
	if backup, _ := filepath.Glob(filepath.Join(l.Backups(), "*")); len(backup) != 1 {
		t.Errorf("what came by hand is not kept: %q", backup)
	}
}

// write switches to a set with one file; between is called after it was judged.
func write(t *testing.T, l state.Layout, content string, between func()) (apply.Outcome, error) {
	t.Helper()
	n, err := apply.OpenLocked(t.Context(), l, apply.Local)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}()
	p, err := n.Prepare(t.Context(), apply.Input{Digest: content, Resources: []units.Resource{{
		Address: units.Address{Module: "m", Kind: units.KindFile, ID: "f"},
		File:    &units.File{Path: "/etc/app.ini", Mode: 0o600, Owner: "0", Group: "0", Digest: state.TextDigest(content), Content: []byte(content)},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if between != nil {
		between()
	}
	return n.Switch(t.Context(), p, apply.Options{Rollback: true, Keep: 10}, func(apply.Event) {})
}
