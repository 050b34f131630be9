package apply

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"meshgen/generator"
	"meshgen/internal/hint"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// unfit says why what has a name can never be adopted as it is, and what to do
// instead; "" where nothing is known to be against it. It asks neither systemd nor
// podman: what these would have to say is said where it is adopted.
func (n *Node) unfit(t units.Target, by state.Occupant) (why, instead string) {
	if t.Kind() == units.TargetDir {
		if at, is := obstacle(n.Layout, t.Name()); at != "" {
			return fmt.Sprintf("%s is a %s, and no directory", at, is), "move it out of the way by hand"
		}
		return "", ""
	}
	switch by.What {
	case wasUnit, wasQuadlet, wasMask, wasDropIn:
		return n.unfitUnit(t.Name(), by)
	case wasFile, "symlink":
		if by.Same { // it is not written
			return otherNames(n.Layout, t.Name())
		}
		return immovable(n.Layout, t.Name())
	case wasSecret:
		if by.Driver != host.FileDriver {
			return fmt.Sprintf("its driver is %s, and only what podman keeps in a file of its own is copied", by.Driver), undeclared
		}
		return "", ""
	case wasContainer, wasVolume, wasNetwork:
		return "", ""
	case wasPod:
		if t.Kind() == units.TargetPod && makesPod(n.Layout, by.Unit, t.Name()) {
			return "", ""
		}
		return "podman cannot rename a pod, so that none can be kept", "give the declared one another name, or remove the pod by hand"
	}
	return "what is no file cannot be kept", "move it out of the way by hand"
}

// undeclared is what to do with a secret that cannot be copied.
const undeclared = "give the declared one another name, or refer to it by its name and do not declare it"

func (n *Node) unfitUnit(unit string, by state.Occupant) (why, instead string) {
	if by.Path == "" {
		return by.Words + ", and there is no definition to keep", "stop it by hand"
	}
	for _, path := range generator.Definers(n.Layout.Root, unit) {
		path = relative(n.Layout, path)
		if why, instead = unfitDefinition(n.Layout, unit, path); why != "" {
			return why, instead
		}
		if why, instead = immovable(n.Layout, path); why != "" {
			return why, instead
		}
	}
	return "", ""
}

// unfitDefinition is unfit of one file that defines a unit.
func unfitDefinition(l state.Layout, unit, path string) (why, instead string) {
	switch {
	case strings.HasPrefix(path, "/usr/"):
		return unit + " is defined by " + path + ", which is a package's", "give the resource another name"
	case strings.HasPrefix(path, "/run/systemd/transient/"):
		return unit + " is transient: systemd alone has its definition", "stop it by hand"
	case isAlias(l, path):
		return path + " is another name of a unit that is to stay", "take the alias away by hand"
	}
	return "", ""
}

// isAlias reports whether a path is a link to a unit of another name.
func isAlias(l state.Layout, path string) bool {
	to, err := os.Readlink(l.Path(path))
	return err == nil && isUnitName(to) && filepath.Base(to) != filepath.Base(path)
}

// immovable is unfit of a file or a link that cannot be taken from its place, or parted
// from its other names.
func immovable(l state.Layout, path string) (why, instead string) {
	if why, instead = otherNames(l, path); why != "" {
		return why, instead
	}
	return pinned(l, path)
}

// otherNames is unfit of a file that has other names: what is written, or given back,
// at one of them would part it from them.
func otherNames(l state.Layout, path string) (why, instead string) {
	var st unix.Stat_t
	if err := unix.Lstat(l.Path(path), &st); err != nil || st.Nlink < 2 || st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return "", "" // whoever copies it tells of an error
	}
	return fmt.Sprintf("%s has other names: %d hard links lead to it", path, st.Nlink),
		"find them with `find DIRECTORY -samefile " + hint.Quote(path) + "` and make copies of them"
}

// unfitFor says of a resource that is held what in its way cannot be adopted, and
// what to do instead; "" where all can be.
func unfitFor(h state.Holding, taken map[units.Target]state.Occupant) string {
	for _, t := range h.Taken {
		if by := taken[t.To]; by.Unfit != "" {
			return fmt.Sprintf("%s cannot be adopted: %s; %s", t.To, by.Unfit, by.Instead)
		}
	}
	return ""
}

// withInstead gives each that is held what is to be done instead of adopting what is
// in its way.
func withInstead(held []state.Holding, taken map[units.Target]state.Occupant) []state.Holding {
	held = slices.Clone(held)
	for i, h := range held {
		held[i].Instead = unfitFor(h, taken)
	}
	return held
}
