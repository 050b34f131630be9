package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a container in the index of podman's storage, containers.json of
// github.com/containers/storage. What podman run --rm makes is volatile, and
// stands in a file of its own.
type entry struct {
	ID      string    `json:"id"`
	Names   []string  `json:"names"`
	Created time.Time `json:"created"`
	Flags   struct {
		Volatile bool
	} `json:"flags"`
}

// lookup returns the container that has a name in the storage of the machine
// below root. The error is for an index that is not there, cannot be read or is
// not understood: it says nothing of the name then. The files are replaced by a
// rename, so that they can be read without their lock.
func lookup(root, name string) (e entry, taken bool, err error) {
	dirs, err := storageDirs(root)
	if err != nil {
		return entry{}, false, err
	}
	var indexes []string
	for _, dir := range dirs {
		found, _ := filepath.Glob(filepath.Join(dir, "*-containers")) // the pattern is sound
		indexes = append(indexes, found...)
	}
	if len(indexes) == 0 {
		return entry{}, false, fmt.Errorf("%s: no containers' index", strings.Join(dirs, ", "))
	}
	for _, dir := range indexes {
		for _, file := range []string{"containers.json", "volatile-containers.json"} {
			text, err := os.ReadFile(filepath.Join(dir, file)) //nolint:gosec // of podman's storage
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return entry{}, false, err
			}
			if e, taken, err = named(text, name); err != nil || taken {
				return e, taken, err
			}
		}
	}
	return entry{}, false, nil
}

// named returns the container of that name in the text of an index.
func named(text []byte, name string) (e entry, ok bool, err error) {
	var all []entry
	if err := json.Unmarshal(text, &all); err != nil {
		return entry{}, false, err
	}
	i := slices.IndexFunc(all, func(e entry) bool { return slices.Contains(e.Names, name) })
	if i < 0 {
		return entry{}, false, nil
	}
	return all[i], true, nil
}

// storageDirs returns where podman's storage keeps its indexes: below its graph
// root or, where it is transient, below its run root, containers-storage.conf(5).
func storageDirs(root string) ([]string, error) {
	keys := []string{"graphroot", "runroot"}
	dirs := []string{"/var/lib/containers/storage", "/run/containers/storage"}
	for _, path := range []string{"etc/containers/storage.conf", "usr/share/containers/storage.conf"} {
		text, err := os.ReadFile(filepath.Join(root, path)) //nolint:gosec // of the system
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for i, key := range keys {
			dir, set, err := setting(string(text), key)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			if set {
				dirs[i] = dir
			}
		}
		break // the first file counts alone
	}
	for i, dir := range dirs {
		dirs[i] = filepath.Join(root, dir)
	}
	return dirs, nil
}

// setting returns a key of a TOML file that is set to a path.
func setting(text, key string) (path string, ok bool, err error) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, "=")
		if strings.Trim(strings.TrimSpace(name), `"'`) != key {
			continue
		}
		value = strings.TrimSpace(value)
		if len(value) < 3 || (value[0] != '"' && value[0] != '\'') {
			return "", false, fmt.Errorf("%s: not a plain string", key)
		}
		path, after, closed := strings.Cut(value[1:], value[:1])
		after = strings.TrimSpace(after)
		if !closed || !filepath.IsAbs(path) || strings.ContainsAny(path, `\$*?[`) || (after != "" && after[0] != '#') {
			return "", false, fmt.Errorf("%s: not a plain path", key)
		}
		return path, true, nil
	}
	return "", false, nil
}
