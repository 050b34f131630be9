package apply

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"meshgen/internal/durable"
	"meshgen/internal/hint"
	"meshgen/units"
)

// Export writes what was compiled into a directory that is not there or is
// empty: the Quadlets below quadlet, plain units below units, the config files
// and directories below files, at their paths.
func Export(c Compiled, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return hint.Add(fmt.Errorf("%s: not empty", dir), "name a directory that is not there yet")
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	var staged []durable.Staged
	write := func(path string, content []byte, mode uint32) error {
		s, err := durable.Stage(dir, path, content, fileMode(mode), -1, -1)
		staged = append(staged, s)
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // Quadlets are no secret
		return err
	}
	for _, r := range c.Generation.Resources {
		switch r.Address.Kind {
		case units.KindFile:
			err = write(filepath.Join("/files", r.File.Path), r.File.Content, r.File.Mode)
		case units.KindDir: // comes with what is in it
		case units.KindSecret: // who runs these Quadlets has to make it
		case units.KindUnit:
			err = write(filepath.Join("/units", r.Name), []byte(units.Render(r)), 0o644)
		case units.KindContainer, units.KindPod, units.KindVolume, units.KindNetwork:
			err = write(filepath.Join("/quadlet", units.QuadletFile(r)), []byte(units.Render(r)), 0o644)
		}
		if err != nil {
			return errors.Join(err, discard(staged))
		}
	}
	for _, s := range staged {
		if err := s.Rename(); err != nil {
			return err
		}
	}
	if err := exportDirs(c, dir); err != nil {
		return err
	}
	return durable.Sync(dir)
}

// exportDirs makes the declared directories, and gives them their modes, those of the
// innermost first: a mode may keep out who builds.
func exportDirs(c Compiled, dir string) error {
	var dirs []units.Dir
	for _, r := range c.Generation.Resources {
		if r.Dir != nil {
			dirs = append(dirs, *r.Dir)
		}
	}
	slices.SortFunc(dirs, func(a, b units.Dir) int { return cmp.Compare(b.Path, a.Path) })
	for _, d := range dirs {
		if err := os.MkdirAll(filepath.Join(dir, "files", d.Path), 0o755); err != nil { //nolint:gosec // its own mode comes next
			return err
		}
	}
	for _, d := range dirs {
		if err := os.Chmod(filepath.Join(dir, "files", d.Path), fileMode(d.Mode)); err != nil {
			return err
		}
	}
	return nil
}
