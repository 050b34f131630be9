package generator

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"meshgen/state"
)

// Retired is a unit name that was in force once, with the sha256 of each definition
// that it had.
type Retired struct {
	Unit    string
	Digests []string
}

// FormatRetired returns the text that [ReadRetired] reads.
func FormatRetired(retired []Retired) string {
	var b strings.Builder
	for _, t := range retired {
		b.WriteString(t.Unit + " " + strings.Join(t.Digests, " ") + "\n")
	}
	return b.String()
}

// ReadRetired reads the retired names of a generation; a file that is not there has
// none.
func ReadRetired(path string) ([]Retired, error) {
	data, err := readFile(path, mostOfUnits)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var retired []Retired
	for line := range strings.Lines(string(data)) {
		if words := strings.Fields(line); len(words) > 1 {
			retired = append(retired, Retired{Unit: words[0], Digests: words[1:]})
		}
	}
	return retired, nil
}

// masks keeps down what a definition brings back that is no longer in force, out of a
// backup of /etc, say. A definition is one of ours by its text alone: where any that
// has the name is another's, nothing is masked.
func (r *replay) masks(n int) {
	retired, err := ReadRetired(filepath.Join(r.layout.Generation(n), RetiredFile))
	r.fault(err)
	if len(retired) == 0 {
		return
	}
	lying := r.lying(retired)
	for _, t := range retired {
		paths := lying[t.Unit]
		if len(paths) == 0 || r.given[t.Unit] || slices.ContainsFunc(paths, notOf(t)) {
			continue
		}
		if err := os.Symlink("/dev/null", r.dirs.Early+"/"+t.Unit); err != nil {
			r.fault(err)
			continue
		}
		r.warn(fmt.Errorf("%s: masked: %s is of a generation that is not in force", t.Unit, strings.Join(paths, ", ")))
	}
}

// notOf reports of a definition whether it is none of those that a retired name had.
func notOf(t Retired) func(path string) bool {
	return func(path string) bool {
		text, err := readFile(path, mostOfQuadlet)
		return err != nil || !slices.Contains(t.Digests, state.TextDigest(string(text)))
	}
}

// lying returns the definitions of these names that are on the machine, but for what
// a switch has put there. It reads each directory once.
func (r *replay) lying(retired []Retired) map[string][]string {
	lying := map[string][]string{}
	for _, t := range retired {
		lying[t.Unit] = slices.Clone(r.others[t.Unit])
	}
	for _, dir := range unitDirs {
		entries, _ := os.ReadDir(filepath.Join(r.layout.Root, dir)) // what cannot be read defines nothing
		for _, e := range entries {
			path := filepath.Join(r.layout.Root, dir, e.Name())
			if _, ok := lying[e.Name()]; !ok {
				continue
			}
			if info, err := os.Lstat(path); err == nil && !ownLink(r.layout.Root, path, info) {
				lying[e.Name()] = append(lying[e.Name()], path)
			}
		}
	}
	return lying
}
