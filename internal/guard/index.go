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
// not understood: it says nothing of the name then.
func lookup(root, name string) (e entry, taken bool, err error) {
	all, err := entries(root)
	if err != nil {
		return entry{}, false, err
	}
	e, taken = named(all, name)
	return e, taken, nil
}

// named returns the one of that name.
func named(all []entry, name string) (e entry, ok bool) {
	i := slices.IndexFunc(all, func(e entry) bool { return slices.Contains(e.Names, name) })
	if i < 0 {
		return entry{}, false
	}
	return all[i], true
}

// Names returns the id of each container in podman's storage by its names, without
// a run of podman. The error is as that of an index which says nothing: it is not
// there, cannot be read or is not understood.
func Names(root string) (map[string]string, error) {
	all, err := entries(root)
	ids := map[string]string{}
	for _, e := range all {
		for _, name := range e.Names {
			ids[name] = e.ID
		}
	}
	return ids, err
}

// entries returns all containers in the storage of the machine below root. The files
// are replaced by a rename, so that they can be read without their lock.
func entries(root string) ([]entry, error) {
	dirs, err := StorageDirs(root)
	if err != nil {
		return nil, err
	}
	var indexes []string
	for _, dir := range dirs {
		found, _ := filepath.Glob(filepath.Join(dir, "*-containers")) // the pattern is sound
		indexes = append(indexes, found...)
	}
	if len(indexes) == 0 {
		return nil, fmt.Errorf("%s: no containers' index", strings.Join(dirs, ", "))
	}
	var all []entry
	for _, dir := range indexes {
		for _, file := range []string{"containers.json", "volatile-containers.json"} {
			text, err := os.ReadFile(filepath.Join(dir, file)) //nolint:gosec // of podman's storage
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			some, err := parse(text)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
	}
	return all, nil
}

// parse returns the containers in the text of an index.
func parse(text []byte) (all []entry, err error) {
	err = json.Unmarshal(text, &all)
	return all, err
}

// StorageDirs returns where podman's storage keeps its indexes: its graph root,
// which has the volumes too, and its run root, where it is transient:
// containers-storage.conf(5).
func StorageDirs(root string) ([]string, error) {
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
