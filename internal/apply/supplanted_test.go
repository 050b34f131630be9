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
	"meshgen/state"
	"meshgen/units"
)

// A switch that adopts dies at each of its points, and its owner writes other files at
// the places of what it was to adopt: they stay, and where there is a copy of what was
// there before, that is named until it is removed.
func TestWhatItsOwnerReplacedStaysNamed(t *testing.T) {
	owners := map[units.Target]string{"unit:plain.service": "/etc/systemd/system/plain.service", "file:/etc/x/one": "/etc/x/one"}
	const text = "[Service]\nExecStart=/usr/bin/sleep 7\n"
	left := 0
	for n, died := 1, true; died; n++ {
		for _, cut := range []bool{false, true} {
			try(t, func(w takeover) {
				w.host.Kill(n, cut)
				w.switchTo()
				died = w.host.Dead()
				w.host.Kill(0, false)
				if current, _, err := state.Current(w.host.Layout); !died || err != nil || current > 0 {
					return
				}
				for _, path := range owners {
					w.must(os.WriteFile(w.host.Layout.Path(path), []byte(text), 0o644))
				}
				if cut {
					w.must(w.host.Cut())
					w.must(w.host.Boot())
				}
				w.recover(w.host.Connect)
				for target, path := range owners {
					if is, err := os.ReadFile(w.host.Layout.Path(path)); string(is) != text {
						t.Errorf("at point %d, power cut %t: %s is %q (%v)", n, cut, path, is, err)
					}
					kept := filepath.Join(w.host.Layout.Adopted(), "1", strings.ReplaceAll(path[1:], "/", "!")+".kept")
					_, err := os.Lstat(kept)
					if w.names(t, target, kept, err == nil) && err == nil {
						left++
					}
				}
				w.collect(apply.Limits{Adopted: true})
				if copies := w.copies(); len(copies) > 0 {
					t.Errorf("at point %d, power cut %t: %v stays", n, cut, copies)
				}
				for target := range owners {
					w.names(t, target, "adopted/1", false)
				}
				w.switchTo() // and what is there by now is adopted in its turn
				if wrong := w.adopted(); wrong != "" {
					t.Errorf("at point %d, power cut %t: not adopted:\n%s", n, cut, wrong)
				}
			})
		}
		if t.Failed() {
			return
		}
	}
	if left == 0 {
		t.Error("no copy was left of anything")
	}
}

// names sees that status and explain name a copy of what had a name, or do not.
func (w takeover) names(t *testing.T, of units.Target, kept string, want bool) (named bool) { //nolint:revive // it is there, or not
	t.Helper()
	var now string
	w.with(w.host.Connect, func(node *apply.Node) error {
		s, err := node.Explain(context.Background(), string(of))
		now = strings.Join(slices.Concat(s.Now, s.Next), "\n")
		return err
	})
	why := w.standing(of).Why
	if strings.Contains(now, kept) != want || strings.Contains(why, kept) != want {
		t.Errorf("want %t of %s:\nexplain: %s\nstatus: %s", want, kept, now, why)
	}
	return want
}

// What its owner replaced goes by its age too, as a backup does.
func TestWhatItsOwnerReplacedGoesByItsAge(t *testing.T) {
	try(t, func(w takeover) {
		at := w.host.Layout.Path("/etc/systemd/system/plain.service")
		for n := 1; ; n++ {
			w.host.Kill(n, false)
			if w.switchTo(); !w.host.Dead() {
				t.Fatal("nothing was taken from its place")
			}
			w.host.Kill(0, false)
			if _, err := os.Lstat(at); err != nil {
				break
			}
			w.recover(w.host.Connect)
		}
		w.must(os.WriteFile(at, []byte("[Service]\nExecStart=/usr/bin/sleep 7\n"), 0o644))
		w.recover(w.host.Connect)
		if w.standing("unit:plain.service").Why == "" {
			t.Fatal("nothing is told of the copy")
		}
		if s := w.collect(apply.Limits{Backups: time.Hour}); len(s.Copies) != 0 {
			t.Errorf("young ones: %v", s.Copies)
		}
		w.collect(apply.Limits{Backups: time.Nanosecond})
		if why := w.standing("unit:plain.service").Why; why != "" {
			t.Errorf("of a copy that is gone, status says %q", why)
		}
	})
}
