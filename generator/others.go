package generator

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// quadletDirs are where podman's generator looks, podman-systemd.unit(5).
var quadletDirs = [...]string{ //nolint:gochecknoglobals // a constant list
	"run/containers/systemd", "etc/containers/systemd", "usr/share/containers/systemd",
}

// unitDirs are where systemd looks besides the generators' directories, the
// strongest first: systemd.unit(5).
var unitDirs = [...]string{ //nolint:gochecknoglobals // a constant list
	"etc/systemd/system.control", "run/systemd/system.control", "run/systemd/transient",
	"etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system",
}

// Definition returns the path of a definition of the service on the machine
// that is not of meshgen: a unit file or a Quadlet; "" where there is none.
func Definition(root, service string) string {
	if path := definition(root, service); path != "" {
		return path
	}
	return Quadlets(root)[service]
}

// Definitions returns, of units, those that other definitions on the machine make
// or change into something else: each with the path that does. It reads each
// directory once.
func Definitions(root string, names []string) map[string]string {
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		wanted[name] = true
	}
	found := map[string]string{}
	for _, dir := range unitDirs {
		entries, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil {
			continue // what cannot be read defines nothing
		}
		for _, e := range entries {
			if !wanted[e.Name()] || found[e.Name()] != "" {
				continue
			}
			if path := definition(root, e.Name()); path != "" {
				found[e.Name()] = path
			}
		}
	}
	for service, path := range Quadlets(root) {
		if wanted[service] && found[service] == "" {
			found[service] = path
		}
	}
	return found
}

// DropIns returns the drop-ins of each of the units that are the owner's, by their
// paths below root, in the order in which systemd would read them: systemd.unit(5).
// Those for several units at once, as service.d, count for none.
func DropIns(root string, names []string) map[string][]string {
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		wanted[name+".d"] = true
	}
	found := map[string][]string{}
	for _, dir := range unitDirs {
		if strings.HasPrefix(dir, "usr/lib/") {
			continue // what a distribution ships is not the owner's
		}
		entries, _ := os.ReadDir(filepath.Join(root, dir)) // what cannot be read changes nothing
		for _, e := range entries {
			if !wanted[e.Name()] {
				continue
			}
			files, _ := os.ReadDir(filepath.Join(root, dir, e.Name()))
			for _, f := range files {
				path := filepath.Join(root, dir, e.Name(), f.Name())
				info, err := os.Lstat(path)
				if err == nil && strings.HasSuffix(f.Name(), ".conf") && !ownLink(root, path, info) {
					name := strings.TrimSuffix(e.Name(), ".d")
					found[name] = append(found[name], "/"+filepath.Join(dir, e.Name(), f.Name()))
				}
			}
		}
	}
	return found
}

func definition(root, unit string) string {
	paths := unitFiles(root, unit)
	if len(paths) == 0 {
		return ""
	}
	return paths[0]
}

// unitFiles returns the unit files of that name that are not of meshgen, the
// strongest first.
func unitFiles(root, unit string) []string {
	var paths []string
	for _, dir := range unitDirs {
		path := filepath.Join(root, dir, unit)
		if info, err := os.Lstat(path); err == nil && !ownLink(root, path, info) {
			paths = append(paths, path)
		}
	}
	return paths
}

// ownLink reports whether a unit file is one of the links with which a switch
// hands a unit over.
func ownLink(root, path string, info fs.FileInfo) bool {
	if info.Mode()&fs.ModeSymlink == 0 {
		return false
	}
	to, err := os.Readlink(path)
	to = strings.TrimPrefix(to, strings.TrimSuffix(root, "/"))
	return err == nil && (strings.HasPrefix(to, "/etc/meshgen/generations/") || strings.HasPrefix(to, "/run/meshgen/"))
}

// Quadlets returns the services that podman's own generator makes, each with the
// path of the Quadlet that it is made from.
func Quadlets(root string) map[string]string {
	services := map[string]string{}
	eachQuadlet(root, func(service, path string) {
		if _, ok := services[service]; !ok {
			services[service] = path
		}
	})
	return services
}

// Definers returns every definition of a unit on the machine that is not of
// meshgen, the strongest first: one that is taken away leaves the next in force.
func Definers(root, unit string) []string {
	paths := unitFiles(root, unit)
	eachQuadlet(root, func(service, path string) {
		if service == unit {
			paths = append(paths, path)
		}
	})
	return paths
}

// othersServices returns the services that podman's own generator makes, each with the
// paths of the Quadlets that define it, the strongest first. Of what cannot be read it
// makes none.
func othersServices(root string) map[string][]string {
	services := map[string][]string{}
	eachQuadlet(root, func(service, path string) {
		if regular(path, mostOfQuadlet) == nil {
			services[service] = append(services[service], path)
		}
	})
	return services
}

// eachQuadlet tells of each Quadlet on the machine, the strongest first, and of the
// service that it becomes.
func eachQuadlet(root string, tell func(service, path string)) {
	w := quadletWalk{root: root, seen: map[string]bool{}, tell: tell}
	for _, dir := range quadletDirs {
		top := filepath.Join(root, dir)
		w.seen[filepath.Join(top, "users")] = true // for the users' own systemd
		w.dir(top)
	}
}

// quadletWalk goes through directories as podman's generator does: it follows links
// to directories, and comes to each once.
type quadletWalk struct {
	root string
	seen map[string]bool // directories, by their paths without links
	tell func(service, path string)
}

func (w quadletWalk) dir(path string) {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil || w.seen[resolved] || w.seen[path] || !below(w.root, resolved) {
		return
	}
	w.seen[resolved] = true
	entries, _ := os.ReadDir(path) // what cannot be read makes no service
	for _, e := range entries {
		at := filepath.Join(path, e.Name())
		if e.IsDir() || e.Type()&fs.ModeSymlink != 0 && isDir(at) {
			w.dir(at)
		} else if service := quadletService(at); service != "" {
			w.tell(service, at)
		}
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// quadletService returns the service that a Quadlet file becomes, by its name where
// it cannot be read.
func quadletService(path string) string {
	name := filepath.Base(path)
	extension := filepath.Ext(name)
	base := strings.TrimSuffix(name, extension)
	suffix := ""
	switch extension {
	case ".container", ".kube":
	case ".volume", ".network", ".image", ".build", ".pod":
		suffix = "-" + extension[1:]
	default:
		return ""
	}
	if given := serviceName(path); given != "" {
		return given + ".service"
	}
	return base + suffix + ".service"
}

// serviceName returns the value of ServiceName= in a Quadlet.
func serviceName(path string) string {
	text, _ := readFile(path, mostOfQuadlet) // what cannot be read has none
	given := ""
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(key) == "ServiceName" {
			given = strings.TrimSpace(value)
		}
	}
	return given
}
