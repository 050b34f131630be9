package apply_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"meshgen/internal/apply"
	"meshgen/state"
	"meshgen/units"
)

// heldAsides are the names of containers that the ledger has as put aside.
func (w takeover) heldAsides() (names []units.Target) {
	for _, r := range w.ledger().Records() {
		if r.State == state.Held && isAside(r.Target) {
			names = append(names, r.Target)
		}
	}
	return names
}

// A container that was put aside and is gone by the time it is to be given back has
// its name retired with it, whether the switch that adopted it stood or not.
func TestNoNameIsHeldOfAnAsideThatIsGone(t *testing.T) {
	try(t, func(w takeover) {
		w.switchTo()
		w.must(w.host.Stop("hand.service"))
		w.must(w.host.RunContainer("hand", "localhost/probe:2"))
		if err := w.attempt(released...); err == nil {
			t.Fatal("what has no name to come back to is given back")
		}
		w.host.RemoveContainer("hand")
		w.host.RemoveContainer("hand.adopted-1")
		if err := w.attempt(); err == nil || !strings.Contains(err.Error(), "which was kept as hand.adopted-1, is gone") {
			t.Errorf("release: %v", err)
		}
		if held := w.heldAsides(); len(held) > 0 {
			t.Errorf("held: %v", held)
		}
	})
	for n, died := 1, true; died; n++ {
		try(t, func(w takeover) {
			w.host.Kill(n, false)
			w.switchTo()
			died = w.host.Dead()
			w.host.Kill(0, false)
			if _, cutShort := w.ledger().Unfinished(); !died || !cutShort {
				return
			}
			for _, c := range w.host.Containers() {
				if c.Labels[units.MarkLabel] == "" && c.Name != "bystander" && c.Unit == "" {
					w.host.RemoveContainer(c.Name)
				}
			}
			w.with(w.host.Connect, func(node *apply.Node) error {
				_, _ = node.Recover(context.Background(), apply.Options{Rollback: true, Keep: 3}, func(apply.Event) {}) // tells what is lost
				return nil
			})
			r, _ := w.ledger().Record("container:hand")
			if held := w.heldAsides(); len(held) > 0 && r.Adoption == nil {
				t.Errorf("at point %d, held: %v", n, held)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// A container that is still there and cannot be given back, since the unit that ran it
// cannot, stays put aside, is told so, and goes by the word for all that was.
func TestAnAsideThatNothingGivesBackGoesWithTheOthers(t *testing.T) {
	try(t, func(w takeover) {
		at := w.host.Layout.Path("/etc/systemd/system/both.service")
		w.must(os.WriteFile(at, []byte("[Service]\nExecStart=/bin/sh -c \"podman start hand; exec sleep inf\"\n"), 0o644))
		w.must(w.host.Start("both.service"))
		w.switchTo()
		w.must(w.host.Stop("hand.service"))
		w.must(w.host.RunContainer("hand", "localhost/probe:2"))
		if err := w.attempt(released...); err == nil {
			t.Fatal("what has no name to come back to is given back")
		}
		w.host.RemoveContainer("hand")
		w.must(os.Remove(at))
		w.must(os.Remove(filepath.Join(w.host.Layout.Adopted(), "1", "etc!systemd!system!both.service.kept")))
		if err := w.attempt(); err == nil || !strings.Contains(err.Error(), "the copy of /etc/systemd/system/both.service is gone") {
			t.Fatalf("release: %v", err)
		}
		if held := w.heldAsides(); !slices.Equal(held, []units.Target{"container:hand.adopted-1"}) || w.asides() != 1 {
			t.Fatalf("held: %v, of %d containers that were put aside", held, w.asides())
		}
		want := "container:hand cannot be given back: the copy of /etc/systemd/system/both.service is gone"
		if why := w.standing("container:hand.adopted-1").Why; !strings.Contains(why, want) || !strings.Contains(why, "meshgen gc --adopted") {
			t.Errorf("status says %q, want %q", why, want)
		}
		s := w.collect(apply.Limits{Adopted: true})
		if held := w.heldAsides(); len(held) > 0 || w.asides() != 0 {
			t.Errorf("held: %v, of %d containers that were put aside; %+v", held, w.asides(), s.Aside)
		}
	})
}

// standing is what status says of a name.
func (w takeover) standing(t units.Target) (s apply.Standing) {
	w.with(w.host.Connect, func(node *apply.Node) error {
		_, standings, err := node.Status(context.Background())
		for _, each := range standings {
			if slices.Equal(each.Targets, []units.Target{t}) {
				s = each
			}
		}
		return err
	})
	return s
}

// Copies that a former ledger made are told with the others, stay, and are not written
// over by a later switch of their number.
func TestCopiesOfAFormerLedgerAreToldAndStay(t *testing.T) {
	try(t, func(w takeover) {
		former := filepath.Join(w.host.Layout.Adopted(), "1", "etc!x!one.kept")
		w.must(os.MkdirAll(filepath.Dir(former), 0o700))
		w.must(os.WriteFile(former, []byte("former\n"), 0o600))
		w.switchTo()
		s := w.collect(apply.Limits{Adopted: true})
		if !slices.ContainsFunc(s.Kept, func(k apply.KeptVolume) bool {
			return k.Target == units.Of(units.TargetDir, "/var/lib/meshgen/adopted/1") && strings.Contains(k.Reason, "rm -r")
		}) {
			t.Errorf("kept: %v", s.Kept)
		}
		if text, err := os.ReadFile(former); string(text) != "former\n" {
			t.Errorf("the copy is %q (%v)", text, err)
		}
	})
}
