package simulated

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"meshgen/generator"
)

// definition is a unit as systemd has read it.
type definition struct {
	path   string // below the root; "" where there is none
	masked bool
	keys   map[string][]string // Section.Key
}

func (d definition) load() string {
	switch {
	case d.path == "":
		return "not-found"
	case d.masked:
		return "masked"
	}
	return "loaded"
}

// words returns all words of a key that may stand more than once.
func (d definition) words(key string) []string {
	return strings.Fields(strings.Join(d.keys[key], " "))
}

func (d definition) value(key string) string {
	values := d.keys[key]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

func (d definition) needs() []string {
	return slices.Concat(d.words("Unit.Requires"), d.words("Unit.BindsTo"))
}

// unitDirs are where systemd looks for units, the strongest first.
var unitDirs = [...]string{ //nolint:gochecknoglobals // a constant list
	"run/systemd/generator.early", "etc/systemd/system", "run/systemd/system", "run/systemd/generator",
	"usr/lib/systemd/system", "run/systemd/generator.late",
}

// definition returns what systemd has of a unit. What it does not have it looks
// for again, since a unit directory may have another time by now.
func (h *Host) definition(name string) definition {
	d, ok := h.definitions[name]
	if !ok || d.path == "" {
		d = h.read(name)
		h.definitions[name] = d
	}
	return d
}

// fragment is the path of a unit's file: of a link, what it leads to.
func (h *Host) fragment(d definition) string {
	if to, err := os.Readlink(h.path(strings.TrimPrefix(d.path, "/"))); err == nil {
		return to
	}
	return d.path
}

// read reads a unit with its drop-ins.
func (h *Host) read(name string) definition {
	d := definition{keys: map[string][]string{}}
	for _, dir := range unitDirs {
		path := dir + "/" + name
		text, err := os.ReadFile(h.path(path))
		if err != nil {
			continue
		}
		d.path, d.masked = "/"+path, len(text) == 0 // also that of /dev/null
		parse(text, d.keys)
		break
	}
	if d.path == "" || d.masked {
		return d
	}
	h.dropIns(name, d.keys)
	return d
}

// dropIns adds the drop-ins of a unit; of those of one name the strongest counts.
func (h *Host) dropIns(name string, keys map[string][]string) {
	seen := map[string]bool{}
	for _, dir := range unitDirs {
		paths, _ := filepath.Glob(h.path(dir + "/" + name + ".d/*.conf")) // the pattern is sound
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if base := filepath.Base(path); err == nil && !seen[base] {
				seen[base] = true
				parse(text, keys)
			}
		}
	}
}

// parse adds what stands in a unit file to keys, by Section.Key.
func parse(text []byte, keys map[string][]string) {
	section := ""
	for line := range bytes.Lines(text) {
		line := strings.TrimSpace(string(line))
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[]")
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		keys[section+"."+key] = append(keys[section+"."+key], value)
	}
}

// reload runs the generators and reads every unit again.
func (h *Host) reload() error {
	dirs := generator.Dirs{
		Normal: h.path("run/systemd/generator"), Early: h.path("run/systemd/generator.early"), Late: h.path("run/systemd/generator.late"),
	}
	for _, dir := range []string{dirs.Normal, dirs.Early, dirs.Late} {
		if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
			return err
		}
	}
	// What the generator cannot do it says in the kernel's log.
	_ = generator.Replay(h.Layout, dirs)
	if err := h.convertOthers(dirs.Normal); err != nil {
		return err
	}
	h.definitions = map[string]definition{}
	for _, dir := range unitDirs {
		entries, err := os.ReadDir(h.path(dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			if !e.IsDir() {
				h.definition(e.Name())
			}
		}
	}
	return nil
}

// convertOthers is podman's generator: it makes services of the Quadlets that
// lie on the machine, and writes over what stands in its way.
func (h *Host) convertOthers(normal string) error {
	const quadlets = "etc/containers/systemd"
	entries, err := os.ReadDir(h.path(quadlets))
	if err != nil {
		return err
	}
	texts := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(h.path(quadlets + "/" + e.Name()))
		if err != nil {
			return err
		}
		texts[e.Name()] = string(text)
	}
	out, _ := convert(texts, "/"+quadlets) // what it refuses has no service
	for name, text := range out.Units {
		if err := os.WriteFile(normal+"/"+name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	for link, to := range out.Links {
		if err := os.MkdirAll(filepath.Dir(normal+"/"+link), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(to, normal+"/"+link); err != nil {
			return err
		}
	}
	return nil
}

// wanted returns the units that a target pulls in.
func (h *Host) wanted(target string) []string {
	keys := map[string][]string{}
	h.dropIns(target, keys)
	names := slices.Concat(definition{keys: keys}.words("Unit.Wants"), definition{keys: keys}.words("Unit.Requires"))
	for _, dir := range unitDirs {
		entries, err := os.ReadDir(h.path(dir + "/" + target + ".wants"))
		for _, e := range entries {
			if err == nil {
				names = append(names, e.Name())
			}
		}
	}
	return names
}
