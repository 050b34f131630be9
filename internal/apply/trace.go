package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"meshgen/internal/durable"
	"meshgen/state"
	"meshgen/units"
)

// removeTraces removes what systemd itself left on the disk for a plain unit that
// is gone: the stamp of a timer with Persistent=, systemd.timer(5), and the
// sockets and FIFOs in the file system, which systemd.socket(5) leaves there.
func (m *move) removeTraces(unit state.Record) error {
	if unit.Resource.Kind != units.KindUnit {
		return nil
	}
	name := unit.Target.Name()
	switch filepath.Ext(name) {
	case ".timer":
		return m.removeTrace(filepath.Join("/var/lib/systemd/timers", "stamp-"+name), 0)
	case ".socket":
		var errs []error
		for _, path := range listens(unit.Definition) {
			errs = append(errs, m.removeTrace(path, fs.ModeSocket|fs.ModeNamedPipe))
		}
		return errors.Join(errs...)
	}
	return nil
}

// removeOldListens removes what sockets that have changed have left where they no
// longer listen.
func (m *move) removeOldListens() error {
	var errs []error
	for t, was := range m.records {
		if filepath.Ext(t.Name()) != ".socket" || was.Resource.Kind != units.KindUnit {
			continue
		}
		now, _ := m.node.Ledger.Record(t)
		if now.State != state.Live || now.Definition == was.Definition {
			continue
		}
		stays := listens(now.Definition)
		for _, path := range listens(was.Definition) {
			if !slices.Contains(stays, path) {
				errs = append(errs, m.removeTrace(path, fs.ModeSocket|fs.ModeNamedPipe))
			}
		}
	}
	return errors.Join(errs...)
}

// removeTrace removes a regular file, or what is of one of the types. A socket that
// a process has by now is that one's.
func (m *move) removeTrace(path string, types fs.FileMode) error {
	info, err := os.Lstat(m.node.Layout.Path(path))
	if err != nil || (types == 0) != info.Mode().IsRegular() || (types != 0 && info.Mode()&types == 0) || (types != 0 && bound(path)) {
		return nil //nolint:nilerr // not there, or not systemd's
	}
	if err := durable.Unlink(m.node.Layout.Root, path); err != nil {
		return fmt.Errorf("%s: left by a unit that is gone: %w", path, err)
	}
	return nil
}

// listens returns the paths at which a socket unit listens, as far as they hold no
// specifier that would have to be asked for: systemd.unit(5).
func listens(definition string) []string {
	var paths []string
	for line := range strings.Lines(definition) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.ReplaceAll(strings.TrimSpace(value), "%t", "/run")
		switch strings.TrimSpace(key) {
		case "ListenStream", "ListenDatagram", "ListenSequentialPacket", "ListenFIFO":
			if filepath.IsAbs(value) && !strings.Contains(value, "%") {
				paths = append(paths, filepath.Clean(value))
			}
		}
	}
	return paths
}

// bound reports whether a process has a socket open at path, as unix(7) lists them.
func bound(path string) bool {
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return true // when unsure, it is not ours
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) > 7 && fields[7] == path {
			return true
		}
	}
	return false
}
