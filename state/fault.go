package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"meshgen/internal/hint"
)

// ErrNoLedger says that a node has no ledger, and nothing that is left of one.
var ErrNoLedger = errors.New("no ledger")

// ErrLedgerLost says that a node's ledger is gone, though logs are there that
// were set aside from it.
var ErrLedgerLost = errors.New("the ledger is gone")

// errUnknown says that a ledger has a word that this program does not know.
var errUnknown = errors.New("is none that this meshgen knows")

// DamageError says that a ledger cannot be read from a line on.
type DamageError struct {
	Path string
	Line int
	What string
	Hint string
}

// Error names the file and the line, what is wrong, and what to do.
func (e *DamageError) Error() string {
	return e.Path + ":" + strconv.Itoa(e.Line) + ": " + e.What + nothingDone + "\nhint: " + e.Hint
}

// Next returns what to do.
func (e *DamageError) Next() string { return e.Hint }

// Newer reports whether nothing is wrong with the ledger but that this program is
// too old for it.
func (e *DamageError) Newer() bool { return e.Hint == newerHint }

// ForeignError says that a ledger is bound to another machine.
type ForeignError struct {
	Path    string
	Bound   string // the machine that it is bound to
	Machine string // this one
}

// Error names both machines, and what to do.
func (e *ForeignError) Error() string {
	return e.Path + ": belongs to machine " + e.Bound + ", and this is " + e.Machine +
		": what it names may not be here, or be another's" + nothingDone + "\nhint: " + foreignHint
}

// Next returns what to do.
func (e *ForeignError) Next() string { return foreignHint }

// What the ledger says is the ground for every act: where it cannot be read,
// nothing is done.
const nothingDone = "; nothing was touched, and what runs runs on"

const (
	damagedHint = "bring the ledger back from a backup; without one, `meshgen rebuild` makes a ledger from the marks on this machine"
	newerHint   = "the ledger was written by a newer meshgen: use that one, or one newer still"
	foreignHint = "bring back this machine's own ledger; where the machine is a copy of the other, `meshgen rebuild` makes a ledger from the marks that are here"
	lostHint    = "bring the ledger back from a backup; without one, `meshgen rebuild` makes a ledger from the marks on this machine"
	noneHint    = "the first `meshgen switch` makes one"
)

// unreadable tells of a log that cannot be read at all.
func unreadable(path string, err error) error {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		err = errno
	}
	return remedied(filepath.Dir(path), fmt.Errorf("%s: read: %w%s", path, err, nothingDone))
}

// unwritable tells besides, of a write below dir that did not come about, what
// that leaves undone and what to do.
func unwritable(dir string, err error) error {
	return remedied(dir, fmt.Errorf("%w; what was to be written is not recorded", err))
}

func remedied(dir string, err error) error {
	if next := remedy(dir, err); next != "" {
		return hint.Add(err, next)
	}
	return err
}

// remedy returns what to do about a fault of the file system below dir; ""
// where that is for the caller to say.
func remedy(dir string, err error) string {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return "make room below " + dir + ", then run it again"
	case errors.Is(err, unix.EROFS):
		return "mount what holds " + dir + " for writing, then run it again"
	case errors.Is(err, unix.EIO):
		return "see what the kernel says of the disk (journalctl -k), then run it again"
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENOTDIR):
		return "move what stands in its place out of the way, then run it again"
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() == 0:
		return "see what keeps root from " + dir + ": an attribute (lsattr) or a security module; then run it again"
	}
	return ""
}
