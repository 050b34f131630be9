package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// hinted fails unless err says all of this, in this order, the last after hint.
func hinted(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	rest := err.Error()
	for _, part := range append(want[:len(want)-1:len(want)-1], "\nhint: ", want[len(want)-1]) {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			t.Errorf("got %v\nwithout %q", err, part)
			return
		}
		rest = after
	}
}

func TestWhatCannotBeWrittenIsToldWithWhatToDo(t *testing.T) {
	for errno, hint := range map[unix.Errno]string{
		unix.ENOSPC: "make room below /var/lib/meshgen",
		unix.EDQUOT: "make room below /var/lib/meshgen",
		unix.EROFS:  "mount what holds /var/lib/meshgen for writing",
		unix.EIO:    "see what the kernel says of the disk",
	} {
		err := unwritable("/var/lib/meshgen", &fs.PathError{Op: "write", Path: "x", Err: errno})
		hinted(t, err, errno.Error(), "; what was to be written is not recorded", hint)
	}
	denied := unwritable("/var/lib/meshgen", fmt.Errorf("x: %w", unix.EPERM))
	if os.Geteuid() == 0 {
		hinted(t, denied, "operation not permitted", "is not recorded", "see what keeps root from /var/lib/meshgen")
	} else if strings.Contains(denied.Error(), "hint:") {
		t.Errorf("that one has to be root is said where the error is printed: %v", denied)
	}
}

func TestReadOnlyFileSystemTakesNoEvent(t *testing.T) {
	l := tiny(t, "size=1m")
	ledger, err := CreateLedger(l, machine)
	if err != nil {
		t.Fatal(err)
	}
	appendAll(t, ledger, []Event{{Kind: EventBegin, Generation: 1}, {Kind: EventEnd, Generation: 1, Result: Done}})
	if err := ledger.Close(); err != nil {
		t.Fatal(err)
	}
	mount := filepath.Dir(l.State)
	if err := unix.Mount("", mount, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	ledger = reopen(t, l)
	hint := "mount what holds " + l.State + " for writing"
	hinted(t, ledger.Append(Event{Kind: EventBegin, Generation: 2}), l.Ledger()+": append: ", "read-only file system", "is not recorded", hint)
	hinted(t, reopen(t, l).Compact(), l.Ledger()+": compact: ", "read-only file system", "is not recorded", hint)
	_, err = SetAside(l)
	hinted(t, err, l.Ledger()+".damaged-", "read-only file system", hint)
	_, err = CreateLedger(NewLayout("/", filepath.Join(mount, "other")), machine)
	hinted(t, err, filepath.Join(mount, "other"), "read-only file system", "mount what holds")
	_, err = Acquire(NewLayout("/", filepath.Join(mount, "other")))
	hinted(t, err, filepath.Join(mount, "other"), "read-only file system", "mount what holds")
	if s := reopen(t, l).Switches(); len(s) != 1 {
		t.Errorf("switches are %+v", s)
	}
}

func TestTextThatIsNotUTF8IsNotRecordedAsAnother(t *testing.T) {
	l, ledger := newLedger(t)
	for _, e := range []Event{
		{Kind: EventFind, Target: "file:/srv/\xff"},
		{Kind: EventEmit, Generation: 1, Target: "unit:a", Resource: server, Definition: "Description=\xe4"},
		{Kind: EventBegin, Generation: 1, Transitions: []Transition{{Kind: Update, Resource: server, Reason: "\xc3\x28"}}},
	} {
		if err := ledger.Append(e); err == nil || !strings.HasSuffix(err.Error(), " is not UTF-8") || !strings.HasPrefix(err.Error(), l.Ledger()+": "+string(e.Kind)) {
			t.Errorf("got %v", err)
		}
	}
	if n := len(reopen(t, l).Records()); n != 0 {
		t.Errorf("%d records", n)
	}
}

func TestMissingLedgerSaysWhatMakesOne(t *testing.T) {
	_, err := OpenLedger(NewLayout(t.TempDir(), ""), machine)
	hinted(t, err, "/ledger: no ledger", "`meshgen switch`")
}

func TestLedgerThatCannotBeReadIsNotAMissingOne(t *testing.T) {
	l := NewLayout(t.TempDir(), "")
	if err := os.MkdirAll(l.Ledger(), 0o700); err != nil {
		t.Fatal(err)
	}
	want := l.Ledger() + ": read: is a directory" + nothingDone + "\nhint: move what stands in its place out of the way, then run it again"
	if _, err := OpenLedger(l, machine); !errors.Is(err, unix.EISDIR) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	broken := unreadable("/var/lib/meshgen/ledger", &fs.PathError{Op: "read", Path: "x", Err: unix.EIO})
	hinted(t, broken, "/var/lib/meshgen/ledger: read: input/output error; nothing was touched", "see what the kernel says of the disk")
}

func TestForeignLedgerIsToldFromDamage(t *testing.T) {
	l, _ := newLedger(t)
	_, err := OpenLedger(l, "fedcba")
	hinted(t, err, l.Ledger()+": belongs to machine "+machine+", and this is fedcba", "may not be here", "nothing was touched", "`meshgen rebuild`")
}
