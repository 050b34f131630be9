package apply_test

import (
	"os"
	"path/filepath"
	"testing"

	"meshgen/internal/apply"
	"meshgen/state"
	"meshgen/units"
)

// drifting declares a file of the simulated machine, with what its policy says of
// drift, and a container that gives a switch something to do beside it.
func drifting(content, path, drift, env string) apply.Input {
	f := declaration{units.Address{Module: "m", Kind: units.KindFile, ID: "f"}, map[string]string{"path": path, "content": content}}
	c := declaration{units.Address{Module: "m", Kind: units.KindContainer, ID: "a"}, map[string]string{"env": env}}
	r := resource(f, manifest{})
	r.Policy = map[string]string{"drift": drift}
	return apply.Input{Node: "n", Digest: f.String() + c.String(), Resources: []units.Resource{resource(c, manifest{}), r}}
}

// bring switches to an input, as far as the process lives, and returns how that
// was prepared.
func (p *play) bring(t *testing.T, in apply.Input) (prepared apply.Prepared) {
	t.Helper()
	p.onNode(t, func(node *apply.Node) (err error) {
		if prepared, err = node.Prepare(t.Context(), in); err != nil || len(prepared.Rejected) > 0 {
			return err
		}
		_, err = node.Switch(t.Context(), prepared, apply.Options{Rollback: true, Keep: 3}, func(apply.Event) { p.host.Point() })
		return err
	})
	return prepared
}

// A switch is cut short at each of its points in turn, and other hands change a file
// before it is recovered, whose policy refuses that. There is nobody to refuse it to:
// the file is left as it is, whichever way the recovery goes, and the next switch is
// refused.
func TestRecoveryLeavesAFileWhoseDriftIsRefused(t *testing.T) {
	const path = "/etc/x/one"
	for kill := 1; ; kill++ {
		p := newPlay(t.TempDir(), 1)
		p.bring(t, drifting("1", path, "refuse", "N:1"))
		p.host.Kill(kill, false)
		second := drifting("2", path, "refuse", "N:2")
		p.bring(t, second)
		if !p.host.Dead() {
			if kill < 5 {
				t.Errorf("only %d points", kill)
			}
			return
		}
		p.host.Kill(0, false)
		at := p.host.Layout.Path(path)
		p.must(os.WriteFile(at, []byte("by hand\n"), 0o644))
		p.onNode(t, func(node *apply.Node) error {
			_, err := node.Recover(t.Context(), apply.Options{Rollback: true, Keep: 3}, func(apply.Event) {})
			return err
		})
		if text, err := os.ReadFile(at); err != nil || string(text) != "by hand\n" {
			t.Errorf("point %d: the file holds %q (%v)", kill, text, err)
		}
		if next := p.bring(t, second); len(next.Rejected) == 0 {
			t.Errorf("point %d: the next switch is not refused", kill)
		}
	}
}

// A file that is kept as other hands left it is kept at its path. Where it is to lie
// elsewhere, what is declared lies there, and the other version is in the backups.
func TestKeptFileThatIsRenamedIsInTheBackups(t *testing.T) {
	p := newPlay(t.TempDir(), 1)
	p.bring(t, drifting("1", "/etc/x/one", "keep", "N:1"))
	p.must(os.WriteFile(p.host.Layout.Path("/etc/x/one"), []byte("by hand\n"), 0o644))
	p.bring(t, drifting("1", "/etc/x/one", "keep", "N:2"))
	if text, err := os.ReadFile(p.host.Layout.Path("/etc/x/one")); err != nil || string(text) != "by hand\n" {
		t.Errorf("the file that is to be kept holds %q (%v)", text, err)
	}
	p.bring(t, drifting("1", "/etc/x/two", "keep", "N:2"))
	if text, err := os.ReadFile(p.host.Layout.Path("/etc/x/two")); err != nil || string(text) != "content 1\n" {
		t.Errorf("at the new path lies %q (%v)", text, err)
	}
	if _, err := os.Lstat(p.host.Layout.Path("/etc/x/one")); !os.IsNotExist(err) {
		t.Errorf("at the old path: %v", err)
	}
	backups, err := filepath.Glob(filepath.Join(p.host.Layout.Backups(), "*"))
	p.must(err)
	if len(backups) != 1 {
		t.Fatalf("backups: %q", backups)
	}
	if text, err := os.ReadFile(backups[0]); err != nil || string(text) != "by hand\n" {
		t.Errorf("the backup holds %q (%v)", text, err)
	}
	if r, ok := p.ledger().Record(units.Of(units.TargetFile, "/etc/x/one")); !ok || r.State != state.Retired {
		t.Errorf("the ledger has the old path as %+v", r)
	}
}
