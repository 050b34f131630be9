package apply_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"meshgen/internal/apply"
)

// secretIs is what podman has under the name of the secret; "" where it has none.
func (w takeover) secretIs() string {
	for _, s := range w.host.Secrets() {
		if s.Name == "pass" {
			return s.Content
		}
	}
	return ""
}

// remade removes the secret and makes another, as a hand would.
func (w takeover) remade(content string, labels map[string]string) {
	w.host.RemoveSecret("pass")
	w.must(w.host.CreateSecret("pass", content, labels))
}

// The copy is for root alone, and neither it nor a plain digest is in the ledger.
func TestAdoptKeepsASecretToItself(t *testing.T) {
	try(t, func(w takeover) {
		w.remade("hunter2", nil)
		w.switchTo()
		kept := filepath.Join(w.host.Layout.Adopted(), "1", "secret:pass.content")
		if text, err := os.ReadFile(kept); string(text) != "hunter2" {
			t.Errorf("the copy holds %q (%v)", text, err)
		}
		for _, path := range []string{kept, filepath.Join(filepath.Dir(kept), "secret:pass.inspect.json")} {
			if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 {
				t.Errorf("%s: %v (%v)", path, info, err)
			}
		}
		ledger, err := os.ReadFile(w.host.Layout.Ledger())
		for _, told := range []string{"hunter2", digest("hunter2")} {
			if err != nil || strings.Contains(string(ledger), told) {
				t.Errorf("the ledger has %s (%v)", told, err)
			}
		}
	})
}

// What other hands did to our secret is not in the way of giving back theirs, and what
// they made under its name is not replaced.
func TestReleaseReplacesNoSecretOfOthers(t *testing.T) {
	try(t, func(w takeover) {
		was := w.found(false)
		w.switchTo()
		w.remade("other", nil)
		if err := w.attempt(released...); err == nil || !strings.Contains(err.Error(), "secret:pass: cannot be given back: somebody else has made a secret of that name") {
			t.Errorf("release: %v", err)
		}
		if got := w.secretIs(); got != "other" {
			t.Errorf("it holds %q", got)
		}
		w.host.RemoveSecret("pass")
		w.switchTo(released...)
		if diff := gocmp.Diff(was, w.found(false)); diff != "" {
			t.Errorf("released (-was +is):\n%s", diff)
		}
	})
}

// A secret whose copy is gone or changed is not taken away.
func TestReleaseOfASecretWithoutItsCopy(t *testing.T) {
	try(t, func(w takeover) {
		w.switchTo()
		kept := filepath.Join(w.host.Layout.Adopted(), "1", "secret:pass.content")
		w.must(os.WriteFile(kept, []byte("changed"), 0o600))
		w.refused(t, "secret:pass: cannot be given back: the copy of what it held was changed, or ", "secret:pass")
		w.must(os.Remove(kept))
		w.refused(t, "secret:pass: cannot be given back: the copy of what it held is gone from ", "secret:pass")
		if got := w.secretIs(); got != "ours" {
			t.Errorf("it holds %q", got)
		}
	})
}

// podman syncs nothing: after a power cut it may have the secret again that was
// adopted, and ours is made anew.
func TestAdoptedSecretIsBackAfterAPowerCut(t *testing.T) {
	try(t, func(w takeover) {
		w.switchTo()
		w.remade("found", map[string]string{"app": "x"})
		w.switchTo()
		if got := w.secretIs(); got != "ours" {
			t.Errorf("it holds %q", got)
		}
		w.remade("found", nil) // another's, with the same content
		w.switchTo()
		if s := w.host.Secrets(); len(s) != 1 || s[0].Content != "found" || len(s[0].Labels) > 0 {
			t.Errorf("what other hands made was replaced: %v", s)
		}
	})
}

// Once it is let go for good there is no copy, and nothing to give back.
func TestGCOfAnAdoptedSecret(t *testing.T) {
	try(t, func(w takeover) {
		w.switchTo()
		w.with(w.host.Connect, func(node *apply.Node) error {
			s, err := node.Surplus(context.Background(), apply.Limits{Generations: 3, Adopted: true})
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(s.Aside, func(k apply.KeptAside) bool { return k.Target == "secret:pass" && len(k.Copies) == 2 }) {
				t.Errorf("put aside are %v", s.Aside)
			}
			return node.Discard(context.Background(), s, func(apply.Event) {})
		})
		left, err := filepath.Glob(filepath.Join(w.host.Layout.Adopted(), "*", "secret:pass*"))
		if err != nil || len(left) > 0 {
			t.Errorf("left: %v (%v)", left, err)
		}
		if err := w.attempt("secret:pass"); err == nil || !strings.Contains(err.Error(), "secret:pass: was not adopted") {
			t.Errorf("release: %v", err)
		}
		w.switchTo()
		if got := w.secretIs(); got != "ours" {
			t.Errorf("it holds %q", got)
		}
	})
}
