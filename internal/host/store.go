package host

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// Store is where podman keeps what it knows of containers, volumes and networks,
// read without a run of podman, which takes a tenth of a second. What it says is
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
	ids = map[string]string{}
	// One for those that outlive a boot, one for those with --rm.
	indexes, _ := filepath.Glob(filepath.Join(s.graphRoot(), "*-containers", "*containers.json")) // the pattern is good
	for _, path := range indexes {
		text, err := os.ReadFile(path) //nolint:gosec // below the graph root
		if err != nil || !readIndex(text, ids) {
			return nil, false
		}
	}
	return ids, len(indexes) > 0
}

// readIndex adds the containers of an index of c/storage.
func readIndex(text []byte, ids map[string]string) bool {
	var list []struct {
		ID    string   `json:"id"`
		Names []string `json:"names"`
	}
	if json.Unmarshal(text, &list) != nil {
		return false
	}
	for _, c := range list {
		for _, name := range c.Names {
			ids[name] = c.ID
		}
	}
	return true
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

// VolumeMade returns when the volume of that name was made: podman writes below
// its directory, and not into it. there is false where none is seen.
func (s Store) VolumeMade(name string) (made time.Time, there bool) {
	info, err := os.Lstat(filepath.Join(s.graphRoot(), "volumes", name))
	if err != nil || !info.IsDir() {
		return made, false
	}
	return info.ModTime(), true
}

var graphRootKey = regexp.MustCompile(`(?m)^\s*graphroot\s*=\s*"([^"]+)"`)

// graphRoot returns where containers are stored. The first file that is there
// counts.
func (s Store) graphRoot() string {
	for _, path := range []string{"etc/containers/storage.conf", "usr/share/containers/storage.conf"} {
		text, err := os.ReadFile(filepath.Join(s.Root, path)) //nolint:gosec // of the machine
		if err != nil {
			continue
		}
		if m := graphRootKey.FindSubmatch(text); m != nil {
			return filepath.Join(s.Root, string(m[1]))
		}
		break
	}
	return filepath.Join(s.Root, "var/lib/containers/storage")
}
