package apply_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"meshgen/units"
)

// Attributes of chattr(1): ioctl_iflags(2).
const (
	immutable  = 0x10
	appendOnly = 0x20
)

// attribute gives a file or a directory an attribute for as long as the test runs.
func attribute(t *testing.T, path string, flag int) (mend func()) {
	t.Helper()
	set := func(flags int) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close() // read-only
		return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags)
	}
	if err := set(flag); err != nil {
		if os.Getenv("MESHGEN_REQUIRE_MACHINE") == "1" {
			t.Fatal(err)
		}
		t.Skipf("%s: set attribute: %v", path, err)
	}
	mend = func() { _ = set(0) } // it may be cleared, or gone
	t.Cleanup(mend)
	return mend
}

// What cannot be written over, taken away or given back where it lies is refused
// before anything is done, and done once that is mended.
func TestWhatCannotBeMovedIsRefused(t *testing.T) {
	ready := func(w *takeover) { w.switchTo() }
	for _, c := range []struct {
		name  string
		begin func(w *takeover) // and what is attempted from there on
		path  string
		flag  int
		says  []string
		give  []string
	}{
		{name: "a file to be adopted", path: "/etc/x/one", flag: immutable, says: []string{"file:/etc/x/one cannot be adopted: /etc/x/one is immutable", "`chattr -i /etc/x/one`, or leave it alone"}},
		{name: "a unit file to be adopted", path: "/etc/systemd/system/plain.service", flag: appendOnly, says: []string{"unit:plain.service cannot be adopted: /etc/systemd/system/plain.service is append-only", "`chattr -a "}},
		{name: "a drop-in to be adopted", path: "/etc/systemd/system/plain.service.d/x.conf", flag: immutable, says: []string{"unit:plain.service cannot be adopted: /etc/systemd/system/plain.service.d/x.conf is immutable"}},
		{name: "the directory of a link to be adopted", path: "/etc/systemd/system/multi-user.target.wants", flag: immutable, says: []string{"unit:plain.service cannot be adopted: /etc/systemd/system/multi-user.target.wants is immutable", "`chattr -i /etc/systemd/system/multi-user.target.wants`"}},
		{name: "a file of ours to change", begin: func(w *takeover) {
			ready(w)
			w.step("file m/f path=/etc/x/one content=7")
			w.set = w.manifest.resources()
		}, path: "/etc/x/one", flag: immutable, says: []string{"m/file/f: /etc/x/one is immutable", "`chattr -i /etc/x/one`, then switch again"}},
		{name: "the directory of a file of ours to change", begin: func(w *takeover) {
			ready(w)
			w.step("file m/f path=/etc/x/one content=7")
			w.set = w.manifest.resources()
		}, path: "/etc/x", flag: immutable, says: []string{"m/file/f: /etc/x is immutable"}},
		{name: "a file of ours to go", begin: func(w *takeover) {
			ready(w)
			w.without("f")
		}, path: "/etc/x/one", flag: immutable, says: []string{"file:/etc/x/one: no longer declared, and cannot be removed: /etc/x/one is immutable", "`chattr -i /etc/x/one`, then switch again"}},
		{name: "where a file is to be given back", begin: ready, give: released, path: "/etc/x/one", flag: immutable, says: []string{"file:/etc/x/one: cannot be given back: /etc/x/one is immutable"}},
		{name: "where a unit file is to be given back", begin: ready, give: released, path: "/etc/systemd/system", flag: immutable, says: []string{"unit:plain.service: cannot be given back: /etc/systemd/system is immutable"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			try(t, func(w takeover) {
				if c.begin != nil {
					c.begin(&w)
				}
				mend := attribute(t, w.host.Layout.Path(c.path), c.flag)
				was, acts := w.found(false), w.host.Acts()
				err := w.attempt(c.give...)
				for _, says := range c.says {
					if err == nil || !strings.Contains(err.Error(), says) {
						t.Errorf("says %v, not %q", err, says)
					}
				}
				if diff := gocmp.Diff(was, w.found(false)); diff != "" || w.host.Acts() != acts {
					t.Errorf("refused (-was +is):\n%s", diff)
				}
				mend()
				w.switchTo(c.give...)
			})
		})
	}
}

// What lies as declared is adopted though it cannot be written: it is not.
func TestWhatIsAsDeclaredNeedNotBeMoved(t *testing.T) {
	try(t, func(w takeover) {
		one := w.host.Layout.Path("/etc/x/one")
		for _, r := range w.set {
			if r.Address.ID == "f" {
				w.must(os.WriteFile(one, r.File.Content, 0o600))
				w.must(os.Chmod(one, os.FileMode(r.File.Mode)))
			}
		}
		attribute(t, one, immutable)
		w.switchTo()
		if r, _ := w.ledger().Record(units.Of(units.TargetFile, "/etc/x/one")); r.Adoption == nil {
			t.Errorf("%s is %s", filepath.Base(one), r.State)
		}
	})
}
