package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"meshgen/internal/durable"
)

// damaged is between the ledger's name and the time in the name of one that was
// set aside.
const damaged = "damaged-"

// SetAside gives a ledger that cannot be used here another name, which it
// returns, so that [CreateLedger] can make one anew. Nothing of it is lost. It
// returns once that is on the disk, and [ErrNoLedger] where there is no ledger,
// whatever is left of one. The caller holds the [Lock] and has no ledger open.
func SetAside(l Layout) (path string, err error) {
	if _, err := os.Lstat(l.Ledger()); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: %w", l.Ledger(), ErrNoLedger)
	}
	name := l.Ledger() + "." + damaged + time.Now().UTC().Format("20060102T150405Z")
	path = name
	for n := 2; ; n++ {
		_, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		path = name + "-" + strconv.Itoa(n)
	}
	if err := durable.Rename(l.Ledger(), path); err != nil {
		return "", unwritable(l.State, err)
	}
	return path, nil
}

// remains returns what lies beside the place of the ledger and was one once.
func remains(l Layout) ([]string, error) {
	entries, err := os.ReadDir(l.State)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.State, err)
	}
	var paths []string
	for _, e := range entries {
		suffix, ok := strings.CutPrefix(e.Name(), filepath.Base(l.Ledger())+".")
		_, number := parseNumber(suffix)
		if ok && (number || strings.HasPrefix(suffix, damaged)) {
			paths = append(paths, filepath.Join(l.State, e.Name()))
		}
	}
	return paths, nil
}
