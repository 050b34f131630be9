package apply

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meshgen/state"
)

// The owner's unit files are told wherever they may be, the one that counts last; what
// systemctl and meshgen make there is none.
func TestOwnUnits(t *testing.T) {
	l := state.NewLayout(t.TempDir(), "")
	for _, path := range []string{
		"/etc/systemd/system/both.service", "/run/systemd/system/both.service", "/run/systemd/system/passing.timer",
		"/usr/local/lib/systemd/system/local.service", "/usr/local/lib/systemd/system/meshgen-recover.service",
		"/usr/lib/systemd/system/shipped.service", "/etc/systemd/system/note.txt", "/opt/linked.service",
		"/etc/meshgen/generations/1/units/ours.service",
	} {
		if err := os.MkdirAll(filepath.Dir(l.Path(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(l.Path(path), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{
		"/etc/systemd/system/alias.service":  "/usr/lib/systemd/system/shipped.service",
		"/etc/systemd/system/linked.service": "/opt/linked.service",
		"/run/systemd/system/masked.service": "/dev/null",
		"/run/systemd/system/ours.service":   "/etc/meshgen/generations/1/units/ours.service",
	} {
		if err := os.Symlink(to, l.Path(from)); err != nil {
			t.Fatal(err)
		}
	}
	paths, err := ownUnits(l)
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range paths {
		paths[i] = relative(l, path)
	}
	want := []string{
		"/usr/local/lib/systemd/system/local.service", "/run/systemd/system/both.service", "/run/systemd/system/passing.timer",
		"/etc/systemd/system/both.service", "/etc/systemd/system/linked.service",
	}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
