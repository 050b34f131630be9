package apply_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"meshgen/internal/apply"
	"meshgen/units"
)

// collect finds what gc would remove, and removes it.
func (w takeover) collect(limits apply.Limits) (s apply.Surplus) {
	limits.Generations = 10
	w.with(w.host.Connect, func(node *apply.Node) (err error) {
		if s, err = node.Surplus(context.Background(), limits); err != nil {
			return err
		}
		return node.Discard(context.Background(), s, func(apply.Event) { w.host.Point() })
	})
	return s
}

func (w takeover) copies() []string {
	found, err := filepath.Glob(w.host.Layout.Adopted() + "/*/*")
	w.must(err)
	return found
}

func (w takeover) asides() int {
	n := 0
	for _, c := range w.host.Containers() {
		if strings.Contains(c.Name, ".adopted-") {
			n++
		}
	}
	return n
}

// What can be given back no age has go; what its owner lets go is gone for good, and
// is not said to be given back.
func TestWhatWasPutAsideGoesAtItsOwnersWord(t *testing.T) {
	try(t, func(w takeover) {
		w.switchTo()
		if s := w.collect(apply.Limits{Backups: time.Nanosecond, Volumes: true}); !s.Empty() {
			t.Fatalf("without a word: %+v", s)
		}
		kept := len(w.copies())
		s := w.collect(apply.Limits{Adopted: true})
		if len(s.Aside) == 0 || kept == 0 || len(w.copies()) != 0 || w.asides() != 0 {
			t.Errorf("%d copies were kept; left: %v, and %d containers; %+v", kept, w.copies(), w.asides(), s)
		}
		if wrong := strings.ReplaceAll(w.adopted(), "nothing was put aside\n", ""); wrong != "" {
			t.Errorf("what has the place is gone too:\n%s", wrong)
		}
		if err := w.attempt("container:hand"); err == nil || !strings.Contains(err.Error(), "was not adopted") {
			t.Errorf("release: %v", err)
		}
		if r, ok := w.ledger().Record("container:hand.adopted-1"); !ok || r.State != "retired" {
			t.Errorf("the container that was put aside is %q", r.State)
		}
		acts := w.host.Acts()
		if w.switchTo(); w.host.Acts() != acts {
			t.Error("a switch acts")
		}
		if s := w.collect(apply.Limits{Adopted: true}); !s.Empty() {
			t.Errorf("again: %+v", s)
		}
	})
}

// A process that dies while it lets go leaves what the next one can.
func TestLettingGoDiesAnywhere(t *testing.T) {
	for n, died := 1, true; died; n++ {
		try(t, func(w takeover) {
			w.switchTo()
			w.host.Kill(n, false)
			w.collect(apply.Limits{Adopted: true})
			died = w.host.Dead()
			w.host.Kill(0, false)
			w.collect(apply.Limits{Adopted: true})
			if len(w.copies()) != 0 || w.asides() != 0 {
				t.Errorf("at point %d: left: %v, and %d containers", n, w.copies(), w.asides())
			}
			if wrong := strings.ReplaceAll(w.adopted(), "nothing was put aside\n", ""); wrong != "" {
				t.Errorf("at point %d: what has the place is gone too:\n%s", n, wrong)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// The copies of what was given back go by their age; what nothing has given back,
// and what is not meshgen's, does not.
func TestCopiesOfWhatWasGivenBackGo(t *testing.T) {
	try(t, func(w takeover) {
		w.switchTo()
		w.switchTo("file:/etc/x/one")
		w.must(os.MkdirAll(filepath.Join(w.host.Layout.Adopted(), "77"), 0o700))
		w.must(os.WriteFile(filepath.Join(w.host.Layout.Adopted(), "77", "x.kept"), nil, 0o600))
		before := w.copies()
		if s := w.collect(apply.Limits{Backups: time.Hour}); len(s.Copies) != 0 {
			t.Errorf("young ones: %v", s.Copies)
		}
		w.collect(apply.Limits{Backups: time.Nanosecond})
		gone := slices.DeleteFunc(before, func(path string) bool { return slices.Contains(w.copies(), path) })
		if len(gone) != 1 || filepath.Base(gone[0]) != "etc!x!one.kept" {
			t.Errorf("gone: %v", gone)
		}
		for _, what := range []units.Target{"container:hand", "unit:quad.service"} {
			if r, _ := w.ledger().Record(what); r.Adoption == nil {
				t.Errorf("%s cannot be given back", what)
			}
		}
	})
}

// A volume that was adopted goes with two words, and not with one.
func TestAdoptedVolumeGoesByTwoWords(t *testing.T) {
	try(t, func(w takeover) {
		w.switchTo()
		w.set = slices.DeleteFunc(w.set, func(r units.Resource) bool { return r.Address.ID == "data" || r.Address.ID == "h" })
		w.switchTo()
		s := w.collect(apply.Limits{Volumes: true})
		if len(w.host.Volumes()) != 1 || len(s.Kept) != 1 || !strings.Contains(s.Kept[0].Reason, "meshgen release volume:vat") {
			t.Fatalf("volumes: %v; kept: %v", w.host.Volumes(), s.Kept)
		}
		w.collect(apply.Limits{Volumes: true, Adopted: true})
		if len(w.host.Volumes()) != 0 {
			t.Errorf("volumes: %v", w.host.Volumes())
		}
		if r, _ := w.ledger().Record("volume:vat"); r.Adoption != nil || r.State != "retired" {
			t.Errorf("the volume is %s, with %v", r.State, r.Adoption)
		}
	})
}
