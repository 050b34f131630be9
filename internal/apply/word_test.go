package apply_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"meshgen/internal/apply"
	"meshgen/state"
	"meshgen/units"
)

// adopt has what words mean adopted, and nothing else.
func (w takeover) adopt(words ...string) (failed error) {
	w.with(w.host.Connect, func(node *apply.Node) error {
		p, err := node.Prepare(context.Background(), apply.Input{Node: "n", Adopted: true, Digest: fmt.Sprint(len(w.set)), Resources: w.set, Adopt: words})
		switch {
		case err != nil:
			failed = err
		case len(p.Rejected) > 0:
			failed = p.Rejected
		default:
			_, failed = node.Switch(context.Background(), p, apply.Options{Rollback: true, Keep: 3}, func(apply.Event) {})
		}
		return nil
	})
	return failed
}

// held has nothing adopted but by word.
func (w takeover) held() {
	for i := range w.set {
		w.set[i].Policy = map[string]string{"takeover": "hold"}
	}
}

// A resource's address means all that is in its way, or was adopted for it; so does
// a name that it alone has.
func TestWordsForAdoption(t *testing.T) {
	for _, c := range []struct{ adopt, release string }{
		{"m/container/h m/network/net m/volume/data", "m/container/h m/network/net m/volume/data"},
		{"hand net vat", "hand net vat"},
		{"hand.service network:net vat", "container:hand net volume:vat"},
	} {
		t.Run(c.adopt, func(t *testing.T) {
			try(t, func(w takeover) {
				was := w.found(false)
				w.held()
				w.must(w.adopt(strings.Fields(c.adopt)...))
				for _, name := range []units.Target{"container:hand", "unit:hand.service", "network:net", "volume:vat"} {
					if r, _ := w.ledger().Record(name); r.Adoption == nil {
						t.Errorf("%s is not adopted", name)
					}
				}
				if r, _ := w.ledger().Record("unit:quad.service"); r.Adoption != nil {
					t.Error("unit:quad.service is adopted, and was not named")
				}
				w.switchTo(strings.Fields(c.release)...)
				if is := w.found(false); is != was {
					t.Errorf("released:\n%s\nwas:\n%s", is, was)
				}
			})
		})
	}
}

// What a word does not mean, or may mean twice, is said as explain says it.
func TestWordsThatAreNotClear(t *testing.T) {
	try(t, func(w takeover) {
		w.must(w.host.CreateVolume("quad"))
		w.step("volume m/more name=quad")
		w.step("volume m/free name=free")
		w.set = w.manifest.resources()
		w.held()
		for word, want := range map[string]string{
			"quad":          "quad: may be one of several; meshgen adopt m/container/q, or meshgen adopt m/volume/more",
			"m/container/i": "m/container/i: no resource of that address is declared; nearest: m/container/h",
			"m/volume/free": "unit:m-free-volume.service: nothing is in its way: it is of m/volume/free, as declared; there is nothing to adopt",
			"hnd":           "hnd: is in the way of no declared resource; nearest: container:hand",
			"container:hnd": "container:hnd: is in the way of no declared resource; nearest: container:hand",
		} {
			if got := said(w.adopt(word)); got != want {
				t.Errorf("adopt %s: %s\nwant %s", word, got, want)
			}
		}
		w.must(w.adopt("m/container/q", "m/volume/more"))
		for word, want := range map[string]string{
			"m/container/i": "m/container/i: the ledger has no such address; nearest: m/container/q",
			"m/volume/free": "m/volume/free: was not adopted: there is nothing to give back",
			"free":          "volume:free: was not adopted: there is nothing to give back",
			"quad":          "quad: may be one of several; meshgen release m/container/q, or meshgen release m/volume/more",
			"quat":          "quat: the ledger has no such name; nearest: container:quad",
		} {
			if got := said(w.attempt(word)); got != want {
				t.Errorf("release %s: %s\nwant %s", word, got, want)
			}
		}
		if r, _ := w.ledger().Record("container:quad"); r.State != state.Live || r.Adoption == nil {
			t.Errorf("container:quad is %s", r.State)
		}
	})
}

// said returns what an error says, and its hint.
func said(err error) string {
	if faults, ok := errors.AsType[units.Faults](err); ok {
		return faults[0].Message + "; " + faults[0].Hint
	}
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), "\nhint: ", "; ")
}
