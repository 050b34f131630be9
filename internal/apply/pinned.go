package apply

import (
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"meshgen/internal/hint"
	"meshgen/state"
	"meshgen/units"
)

// pinned says why what lies at a path can be neither replaced nor taken away, or
// nothing be put there, and what to do; "" where nothing is known to be against it.
// That no other hands keep it so, the move itself finds out.
func pinned(l state.Layout, path string) (why, instead string) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, l.Path(path), unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if why, instead = attributed(path, st); why != "" {
			return why, instead
		}
		if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
			return path + " is a mount point: another file is mounted over it", "`umount " + hint.Quote(path) + "`"
		}
	}
	return pinnedIn(l, filepath.Dir(path))
}

// pinnedIn says why nothing in a directory can be made, replaced or taken away. Of one
// that is not there, the one counts that it would be made in.
func pinnedIn(l state.Layout, dir string) (why, instead string) {
	var st unix.Statx_t
	for {
		err := unix.Statx(unix.AT_FDCWD, l.Path(dir), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE, &st)
		if err == nil {
			break
		}
		if dir == "/" {
			return "", "" // whoever uses it tells of the error
		}
		dir = filepath.Dir(dir)
	}
	if why, instead = attributed(dir, st); why != "" {
		return why, instead
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(l.Path(dir), &fs); err == nil && fs.Flags&unix.ST_RDONLY != 0 {
		return dir + " is on a read-only file system", "mount that for writing"
	}
	return "", ""
}

// attributed says which attribute of chattr(1) is in the way.
func attributed(path string, st unix.Statx_t) (why, instead string) {
	switch {
	case st.Attributes&unix.STATX_ATTR_IMMUTABLE != 0:
		return path + " is immutable", "`chattr -i " + hint.Quote(path) + "`"
	case st.Attributes&unix.STATX_ATTR_APPEND != 0:
		return path + " is append-only", "`chattr -a " + hint.Quote(path) + "`"
	}
	return "", ""
}

// unmovable refuses a plan that would write, make or remove what cannot be.
func (n *Node) unmovable(plan Plan, seen sight, desired state.Generation) units.Faults {
	var faults units.Faults
	refuse := func(position units.Position, what, why, instead string) {
		if why != "" {
			faults = append(faults, units.Fault{Position: position, Message: what + ": " + why, Hint: instead + ", then switch again"})
		}
	}
	for _, r := range plan.Write {
		why, instead := pinned(n.Layout, r.File.Path)
		refuse(r.Position, r.Address.String(), why, instead)
	}
	for _, r := range desired.Resources {
		i := slices.IndexFunc(plan.Dirs, func(d Directory) bool { return r.Dir != nil && d.Path == r.Dir.Path })
		if i < 0 {
			continue
		}
		in := r.Dir.Path
		if plan.Dirs[i].Make {
			in = filepath.Dir(in)
		}
		why, instead := pinnedIn(n.Layout, in)
		refuse(r.Position, r.Address.String(), why, instead)
	}
	for _, t := range plan.Retire {
		if _, there := seen.observed.Files[t]; !there || t.Kind() != units.TargetFile {
			continue
		}
		why, instead := pinned(n.Layout, t.Name())
		refuse(units.Position{}, fmt.Sprintf("%s: no longer declared, and cannot be removed", t), why, instead)
	}
	return faults
}

// pinnedFor says what keeps the files of an adoption from being put in their places
// again.
func (n *Node) pinnedFor(r state.Record) (why, instead string) {
	for _, f := range r.Adoption.Files {
		if isAsItWas(n.Layout.Path(f.Path), f, filepath.Join(n.Layout.State, r.Adoption.Dir, f.Copy)) {
			continue
		}
		if why, instead = pinned(n.Layout, f.Path); why != "" {
			return why, instead
		}
	}
	return "", ""
}
