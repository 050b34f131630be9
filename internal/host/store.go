package host

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"meshgen/internal/guard"
)

// Store is where podman keeps what it knows of containers, volumes, networks and
// secrets, read without a run of podman, which takes a tenth of a second. What it says is
// a hint: the files are podman's own, and may lie elsewhere. Who is told of
// something other than expected, or of nothing, asks podman.
//
// It reads the store of root, where the distribution or storage.conf has it:
// containers-storage.conf(5), containers.conf(5).
type Store struct {
	Root string // of the file system
}

// Containers returns the id of each container by its names. known is false where
// there is no index, or none that can be read.
func (s Store) Containers() (ids map[string]string, known bool) {
	ids, err := guard.Names(s.Root)
	return ids, err == nil
}

// Network returns the network of that name, with its id and its labels; there is
// false where none is seen.
func (s Store) Network(name string) (o Object, there bool) {
	text, err := os.ReadFile(filepath.Join(s.Root, "etc/containers/networks", name+".json")) //nolint:gosec // podman's own
	if err != nil {
		return o, false
	}
	var n struct {
		Name   string            `json:"name"`
		ID     string            `json:"id"`
		Labels map[string]string `json:"labels"`
	}
	if json.Unmarshal(text, &n) != nil || n.Name != name {
		return o, false
	}
	return Object{Name: n.Name, ID: n.ID, Labels: n.Labels}, true
}

// Secrets returns the secrets by their names, each with its id, its driver and its
// labels. known is false where there is no index, or none that can be read: podman
// writes it in place.
func (s Store) Secrets() (byName map[string]Object, known bool) {
	dirs, err := guard.StorageDirs(s.Root)
	if err != nil {
		return nil, false
	}
	text, err := os.ReadFile(filepath.Join(dirs[0], "secrets", "secrets.json"))
	if err != nil {
		return nil, false
	}
	// As github.com/containers/common/pkg/secrets has it.
	var index struct {
		Secrets map[string]struct {
			Name   string            `json:"name"`
			ID     string            `json:"id"`
			Driver string            `json:"driver"`
			Labels map[string]string `json:"labels"`
		} `json:"secrets"`
	}
	if json.Unmarshal(text, &index) != nil {
		return nil, false
	}
	byName = map[string]Object{}
	for id, s := range index.Secrets {
		if s.Name == "" || s.ID != id {
			return nil, false
		}
		byName[s.Name] = Object{Name: s.Name, ID: id, Driver: s.Driver, Labels: s.Labels}
	}
	return byName, true
}

// VolumeMade returns when the volume of that name was made: podman writes below
// its directory, and not into it. there is false where none is seen.
func (s Store) VolumeMade(name string) (made time.Time, there bool) {
	dirs, err := guard.StorageDirs(s.Root)
	if err != nil {
		return made, false
	}
	info, err := os.Lstat(filepath.Join(dirs[0], "volumes", name))
	if err != nil || !info.IsDir() {
		return made, false
	}
	return info.ModTime(), true
}
