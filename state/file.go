package state

import (
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"meshgen/units"
)

// FileMeta returns the mode and the owner that a file is to have, in the form of
// [MetaOf]. Its owner and group have to be numbers.
func FileMeta(f units.File) string {
	return fmt.Sprintf("%04o %s:%s", f.Mode, f.Owner, f.Group)
}

// DirMeta returns the mode and the owner that a directory is to have, in the form of
// [MetaOf]. Its owner and group have to be numbers.
func DirMeta(d units.Dir) string {
	return fmt.Sprintf("%04o %s:%s", d.Mode, d.Owner, d.Group)
}

// Between reports whether a mode and owner, in the form of [MetaOf], are on the way from
// one to another: chmod(2) and chown(2) are two steps, and a process may die in between.
func Between(meta, one, other string) bool {
	mode, owner, _ := strings.Cut(meta, " ")
	oneMode, oneOwner, _ := strings.Cut(one, " ")
	otherMode, otherOwner, _ := strings.Cut(other, " ")
	return (mode == oneMode || mode == otherMode) && (owner == oneOwner || owner == otherOwner)
}

// MetaOf returns the mode and the owner of what lies on the machine, as
// "0640 0:117".
func MetaOf(info fs.FileInfo) string {
	mode := uint32(info.Mode().Perm())
	for bit, special := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if info.Mode()&bit != 0 {
			mode |= special
		}
	}
	owner := "?:?"
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		owner = fmt.Sprintf("%d:%d", s.Uid, s.Gid)
	}
	return fmt.Sprintf("%04o %s", mode, owner)
}
