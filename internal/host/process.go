package host

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Process is a process of this machine; its fields are zero where it is not known.
type Process struct {
	PID     int
	Command string // comm, as in proc_pid_comm(5)
	Cgroup  string // below the cgroup2 mount, from its "/" on
}

// FindProcesses fills in the Process of each of the sockets, whatever their network
// namespaces, by one look at all processes. Of several that have a socket it is the one
// with the lowest PID, and systemd, which keeps what it listens on for its services,
// only where no other has it.
//
// What it may not see stays unknown: without root that is who has the sockets of
// others.
func FindProcesses(ctx context.Context, sockets []Socket) error {
	missing := make(map[uint64][]int, len(sockets)) // inode: where it is in sockets
	for i, s := range sockets {
		if s.Inode != 0 {
			missing[s.Inode] = append(missing[s.Inode], i)
		}
	}
	pids, err := processes()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if len(missing) == 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		var p Process
		eachSocket(pid, func(inode uint64) {
			if missing[inode] == nil {
				return
			}
			if p.PID == 0 {
				p = process(pid)
			}
			if p.PID == 0 {
				return // it has ended: another may have the socket
			}
			for _, i := range missing[inode] {
				sockets[i].Process = p
			}
			delete(missing, inode)
		})
	}
	return nil
}

// processes are the PIDs of all, systemd's last.
func processes() ([]int, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer func() { _ = proc.Close() }() // read-only
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid > 1 {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return append(pids, 1), nil
}

// eachSocket calls found with the inode of each socket that a process has. One that
// has ended, or that is not to be looked at, has none.
func eachSocket(pid int, found func(inode uint64)) {
	dir, err := os.Open("/proc/" + strconv.Itoa(pid) + "/fd")
	if err != nil {
		return
	}
	defer func() { _ = dir.Close() }() // read-only
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return
	}
	var buffer [64]byte // a path does not fit, and does not have to
	for _, name := range names {
		n, err := unix.Readlinkat(int(dir.Fd()), name, buffer[:])
		if err != nil {
			continue
		}
		text, ok := bytes.CutPrefix(buffer[:n], []byte("socket:["))
		if !ok {
			continue
		}
		if inode, err := strconv.ParseUint(string(bytes.TrimSuffix(text, []byte("]"))), 10, 64); err == nil {
			found(inode)
		}
	}
}

func process(pid int) Process {
	comm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil {
		return Process{}
	}
	return Process{PID: pid, Command: strings.TrimSuffix(string(comm), "\n"), Cgroup: cgroupOf(strconv.Itoa(pid))}
}

// cgroups finds the paths of cgroups by their ids.
type cgroups struct {
	paths  map[uint64]string
	walked bool
}

// path returns "" where there is none such any more.
func (c *cgroups) path(id uint64) string {
	if id == 0 {
		return ""
	}
	path, known := c.paths[id]
	if known || c.walked {
		return path
	}
	path, err := cgroupByHandle(id)
	if errors.Is(err, os.ErrPermission) {
		c.walk()
		return c.paths[id]
	}
	c.paths[id] = path
	return path
}

// kernfsHandle is FILEID_KERNFS: a handle to a file of a cgroup is its id.
const kernfsHandle = 0xfe

func cgroupByHandle(id uint64) (string, error) {
	root, err := os.Open(cgroupMount)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }() // read-only
	handle := unix.NewFileHandle(kernfsHandle, binary.NativeEndian.AppendUint64(nil, id))
	fd, err := unix.OpenByHandleAt(int(root.Fd()), handle, unix.O_PATH|unix.O_CLOEXEC)
	if err != nil {
		return "", os.NewSyscallError("open_by_handle_at", err)
	}
	defer func() { _ = unix.Close(fd) }() // read-only
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return "", err
	}
	return cgroupPath(path), nil
}

// walk finds all, for who may not use handles: root alone may.
func (c *cgroups) walk() {
	c.walked = true
	_ = filepath.WalkDir(cgroupMount, func(path string, d fs.DirEntry, err error) error { // what is not seen is not known
		if err != nil || !d.IsDir() {
			return nil //nolint:nilerr // it went in the meantime
		}
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil {
			c.paths[st.Ino] = cgroupPath(path)
		}
		return nil
	})
}

// cgroupPath is a directory's path below the mount, "/" for that itself, and "" for one
// that is not below it.
func cgroupPath(dir string) string {
	path, ok := strings.CutPrefix(dir, cgroupMount)
	switch {
	case !ok:
		return ""
	case path == "":
		return "/"
	}
	return path
}
