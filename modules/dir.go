package modules

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"meshgen/units"
)

// directory completes a directory.
func (l *loader) directory(d *declared, all fields) {
	dir := &units.Dir{Mode: 0o755, Owner: "root", Group: "root"}
	d.Dir = dir
	dir.Path = l.ownPath(all, "directory", reservedFromDirs())
	l.access(all, &dir.Mode, &dir.Owner, &dir.Group)
	if slices.Contains(systemDirs(), dir.Path) {
		f, _ := all.get("path")
		l.fault(l.place(f.value, f.path), f.path, fmt.Sprintf("%q is a directory of the system", dir.Path),
			"want one below it: its mode and owner are not a manifest's to set")
	}
}

// reservedFromDirs are the directories that no directory of a manifest may lie in.
func reservedFromDirs() []reservation {
	const fleeting = "what is there goes with each boot: want RuntimeDirectory in Service"
	return append(reserved(),
		reservation{"/run", fleeting},
		reservation{"/var/run", fleeting},
		reservation{"/tmp", fleeting},
		reservation{"/var/lib/containers", "it is podman's: declare a volume"},
	)
}

// systemDirs are those of file-hierarchy(7) and of the Filesystem Hierarchy
// Standard that every system has, and that packages own.
func systemDirs() []string {
	return []string{
		"/bin", "/boot", "/efi", "/etc", "/home", "/lib", "/lib32", "/lib64", "/media", "/mnt", "/opt", "/root", "/sbin", "/srv", "/usr", "/var",
		"/etc/containers", "/etc/systemd",
		"/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/local", "/usr/sbin", "/usr/share",
		"/usr/local/bin", "/usr/local/etc", "/usr/local/lib", "/usr/local/sbin", "/usr/local/share",
		"/var/cache", "/var/lib", "/var/local", "/var/lock", "/var/log", "/var/mail", "/var/opt", "/var/spool", "/var/tmp",
	}
}

// nested faults what has a declared file on its way, or in its place; and a directory
// at or below the place of a mount, which would hide it.
func (l *loader) nested(all []*declared) {
	files, mounts := map[string]*declared{}, map[string]*declared{}
	for _, d := range all {
		if d.File != nil {
			files[d.File.Path] = d
		}
		if where := d.Value("Mount", "Where"); where != "" {
			mounts[where] = d
		}
	}
	for _, d := range all {
		at, is := pathOf(d)
		if at == "" {
			continue
		}
		if is == "directory" {
			if file, ok := files[at]; ok {
				l.twice(at, file, d, l.placeBelow(file, "path"), l.placeBelow(d, "path"))
			}
			l.underMount(d, at, mounts)
		}
		for dir := filepath.Dir(at); dir != "/"; dir = filepath.Dir(dir) {
			if above, ok := files[dir]; ok {
				l.fault(l.placeBelow(d, "path"), d.path.to("path"),
					fmt.Sprintf("%s is a file, of %s at %s", dir, above.Address, l.placeBelow(above, "path")), "")
			}
		}
	}
}

// pathOf returns the path that a resource has by its own word, and what is there; ""
// where it has none.
func pathOf(d *declared) (path, is string) {
	switch {
	case d.File != nil:
		return d.File.Path, "file"
	case d.Dir != nil:
		return d.Dir.Path, "directory"
	}
	return "", ""
}

func (l *loader) underMount(d *declared, at string, mounts map[string]*declared) {
	for _, where := range slices.Sorted(maps.Keys(mounts)) {
		mount := mounts[where]
		if at != where && !strings.HasPrefix(at, strings.TrimSuffix(where, "/")+"/") {
			continue
		}
		l.fault(l.placeBelow(d, "path"), d.path.to("path"),
			fmt.Sprintf("%s is where %s mounts, at %s", where, mount.Address, l.placeBelow(mount, "Mount", "Where")),
			"directories are made before that: make it by hand in what is mounted, or mount that by fstab(5)")
	}
}
