//go:build linux && amd64

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is a system call that changes something, in words.
type call struct{ name, what string }

func (c call) String() string { return c.name + " " + c.what }

// entry is what PTRACE_GET_SYSCALL_INFO tells of a thread that enters a system
// call: see ptrace(2). The kernel fills as much of it as it has.
type entry struct {
	op   uint8
	_    [3]uint8
	arch uint32
	_    [2]uint64 // instruction and stack pointer
	nr   uint64
	args [6]uint64
	_    [2]uint64
}

// entered returns the call that a thread is about to enter; ok is false where
// it comes out of one, or the call changes nothing that counts.
func entered(tid int, bus bool) (c call, ok bool) {
	var e entry
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), unsafe.Sizeof(e), uintptr(unsafe.Pointer(&e)), 0, 0)
	if errno != 0 || e.op != unix.PTRACE_SYSCALL_INFO_ENTRY {
		return call{}, false
	}
	t := thread{tid}
	if c, ok = t.onPath(e); ok {
		return c, true
	}
	return t.onDescriptor(e, bus)
}

// thread is one that stands still and can be looked into.
type thread struct{ tid int }

// onPath reads a call that names what it changes. An open counts where it may
// make or empty the file.
func (t thread) onPath(e entry) (c call, ok bool) {
	a := e.args
	switch e.nr {
	case unix.SYS_OPEN:
		return call{"open", t.path(cwd, a[0])}, a[1]&(unix.O_CREAT|unix.O_TRUNC) != 0
	case unix.SYS_OPENAT:
		return call{"openat", t.path(a[0], a[1])}, a[2]&(unix.O_CREAT|unix.O_TRUNC) != 0
	case unix.SYS_RENAME, unix.SYS_LINK:
		return call{two[e.nr], t.path(cwd, a[0]) + " -> " + t.path(cwd, a[1])}, true
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT:
		return call{two[e.nr], t.path(a[0], a[1]) + " -> " + t.path(a[2], a[3])}, true
	case unix.SYS_SYMLINK:
		return call{"symlink", t.path(cwd, a[1])}, true
	case unix.SYS_SYMLINKAT:
		return call{"symlinkat", t.path(a[1], a[2])}, true
	}
	if name := plain[e.nr]; name != "" {
		return call{name, t.path(cwd, a[0])}, true
	}
	if name := beneath[e.nr]; name != "" {
		return call{name, t.path(a[0], a[1])}, true
	}
	return call{}, false
}

// Calls by what their arguments are: two paths; one path; a directory and a
// path below it; a descriptor.
//
//nolint:gochecknoglobals // tables
var (
	two = map[uint64]string{
		unix.SYS_RENAME: "rename", unix.SYS_LINK: "link",
		unix.SYS_RENAMEAT: "renameat", unix.SYS_RENAMEAT2: "renameat2", unix.SYS_LINKAT: "linkat",
	}
	plain = map[uint64]string{
		unix.SYS_CREAT: "creat", unix.SYS_UNLINK: "unlink", unix.SYS_MKDIR: "mkdir", unix.SYS_RMDIR: "rmdir",
		unix.SYS_MKNOD: "mknod", unix.SYS_CHMOD: "chmod", unix.SYS_CHOWN: "chown", unix.SYS_LCHOWN: "lchown",
		unix.SYS_TRUNCATE: "truncate", unix.SYS_UTIME: "utime", unix.SYS_UTIMES: "utimes",
		unix.SYS_SETXATTR: "setxattr", unix.SYS_LSETXATTR: "lsetxattr", unix.SYS_REMOVEXATTR: "removexattr",
	}
	beneath = map[uint64]string{
		unix.SYS_UNLINKAT: "unlinkat", unix.SYS_MKDIRAT: "mkdirat", unix.SYS_MKNODAT: "mknodat",
		unix.SYS_FCHMODAT: "fchmodat", unix.SYS_FCHMODAT2: "fchmodat2", unix.SYS_FCHOWNAT: "fchownat",
		unix.SYS_UTIMENSAT: "utimensat", unix.SYS_FUTIMESAT: "futimesat",
	}
	onFile = map[uint64]string{
		unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "pwrite64", unix.SYS_WRITEV: "writev", unix.SYS_PWRITEV: "pwritev",
		unix.SYS_PWRITEV2: "pwritev2", unix.SYS_SENDFILE: "sendfile", unix.SYS_FTRUNCATE: "ftruncate",
		unix.SYS_FALLOCATE: "fallocate", unix.SYS_FCHMOD: "fchmod", unix.SYS_FCHOWN: "fchown",
		unix.SYS_FSETXATTR: "fsetxattr", unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fdatasync",
		unix.SYS_SYNCFS: "syncfs", unix.SYS_SYNC_FILE_RANGE: "sync_file_range",
	}
	onSocket = map[uint64]string{
		unix.SYS_WRITE: "write", unix.SYS_WRITEV: "writev",
		unix.SYS_SENDMSG: "sendmsg", unix.SYS_SENDMMSG: "sendmmsg", unix.SYS_SENDTO: "sendto",
	}
)

// onDescriptor reads a call on an open file or socket. What goes to a pipe, to
// a terminal or to the runtime's own eventfd does not count.
func (t thread) onDescriptor(e entry, bus bool) (c call, ok bool) {
	if e.nr == unix.SYS_SYNC {
		return call{"sync", "/"}, true
	}
	fd := e.args[0]
	if e.nr == unix.SYS_COPY_FILE_RANGE {
		return call{"copy_file_range", t.open(e.args[2])}, true
	}
	file, socket := onFile[e.nr], onSocket[e.nr]
	if file == "" && socket == "" || fd <= 2 { // what it says is not what it does
		return call{}, false
	}
	switch is := t.open(fd); {
	case strings.HasPrefix(is, "socket:"):
		return call{socket, t.message(e)}, bus && socket != ""
	case onDisk(is):
		return call{file, is}, file != ""
	}
	return call{}, false
}

// onDisk reports whether a descriptor is of a file, and of no device.
func onDisk(is string) bool {
	return strings.HasPrefix(is, "/") && (!strings.HasPrefix(is, "/dev/") || strings.HasPrefix(is, "/dev/shm/"))
}

const cwd = 0xffffff9c // AT_FDCWD, as the kernel reads it

// path returns the path that a call names below a directory.
func (t thread) path(dirfd, at uint64) string {
	text, _, _ := bytes.Cut(t.memory(at, unix.PathMax), []byte{0})
	switch path := string(text); {
	case filepath.IsAbs(path):
		return path
	case uint32(dirfd) == cwd: // an int in the kernel
		dir, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", t.tid)) // in the log alone
		return filepath.Join(dir, path)
	default:
		return filepath.Join(t.open(dirfd), path)
	}
}

// open returns what a descriptor stands for, in the words of proc_pid_fd(5).
func (t thread) open(fd uint64) string {
	is, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.tid, int32(fd)))
	return is
}

// message returns what can be read of that which goes to a socket: of a message
// on the bus its path, interface and member.
func (t thread) message(e entry) string {
	if e.nr != unix.SYS_WRITE && e.nr != unix.SYS_SENDTO {
		return "…"
	}
	words := bytes.FieldsFunc(t.memory(e.args[1], min(e.args[2], 512)), func(r rune) bool { return r < ' ' || r > '~' })
	var long []string
	for _, w := range words {
		if len(w) > 3 {
			long = append(long, string(w))
		}
	}
	return strings.Join(long, " ")
}

// memory returns up to n bytes of the thread's memory, fewer where it ends.
func (t thread) memory(at, n uint64) []byte {
	buf := make([]byte, n)
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", t.tid))
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()   // read-only
	got, _ := f.ReadAt(buf, int64(at)) // short at the end of a mapping
	return buf[:got]
}
