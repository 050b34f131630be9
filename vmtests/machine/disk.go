package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// newDisk makes an empty directory below the cache and locks it. A disk whose
// lock nobody holds was left by a process that died, and is removed first.
func newDisk(cache string) (*os.File, error) {
	disks := filepath.Join(cache, "disks")
	if err := os.MkdirAll(disks, 0o755); err != nil {
		return nil, err
	}
	// Between a disk's making and its locking nobody else may sweep.
	unlock, err := lock(filepath.Join(cache, "disks.lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := sweep(disks); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(disks, "")
	if err != nil {
		return nil, err
	}
	disk, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	return disk, syscall.Flock(int(disk.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// sweep removes the disks that nobody holds.
func sweep(disks string) error {
	entries, err := os.ReadDir(disks)
	if err != nil {
		return err
	}
	for _, e := range entries {
		disk, err := os.Open(filepath.Join(disks, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // closed by its owner since we listed it
		}
		if err != nil {
			return err
		}
		if syscall.Flock(int(disk.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			_ = disk.Close() // in use
			continue
		}
		left := &Machine{disk: disk}
		if err := left.Close(); err != nil {
			return fmt.Errorf("remove what a dead process left: %w", err)
		}
	}
	return nil
}

// lock waits for the lock of that name and returns what gives it back.
func lock(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	unlock := func() { _ = f.Close() } // nothing was written
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		unlock()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return unlock, nil
}

// cgroup returns the path of the machine's own cgroup.
func (m *Machine) cgroup() (string, error) {
	mount, err := cgroupMount()
	return filepath.Join(mount, "meshgen-"+filepath.Base(m.disk.Name())), err
}

// cgroupMount returns where the host has its cgroup2 mounted, see
// proc_pid_mountinfo(5).
func cgroupMount() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(mounts)) {
		mount, source, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(mount); strings.HasPrefix(source, "cgroup2 ") && len(fields) > 4 {
			return fields[4], nil
		}
	}
	return "", errors.New("cgroup2 is not mounted")
}

// makeCgroup makes and opens the machine's cgroup.
func (m *Machine) makeCgroup() (*os.File, error) {
	dir, err := m.cgroup()
	if err != nil {
		return nil, err
	}
	return makeAndOpen(dir)
}

// makeShellCgroup makes and opens the cgroup for what comes into the machine
// from outside: a command left in the host's cgroup would belong nowhere, and
// systemd allows none beside its own in the root.
func (m *Machine) makeShellCgroup() (*os.File, error) {
	dir, err := m.cgroup()
	if err != nil {
		return nil, err
	}
	return makeAndOpen(filepath.Join(dir, "shell"))
}

func makeAndOpen(dir string) (*os.File, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	return os.Open(dir)
}

// removeCgroup kills what is left in the machine's cgroup and removes it with
// all that systemd made below it.
func (m *Machine) removeCgroup() error {
	dir, err := m.cgroup()
	if err != nil {
		return err
	}
	err = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for {
		err := removeTree(dir)
		if err == nil {
			return nil
		}
		select {
		case <-deadline:
			return fmt.Errorf("remove cgroup: %w", err)
		case <-tick.C:
		}
	}
}

// removeTree removes a cgroup and those below it, innermost first.
func removeTree(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	for _, d := range slices.Backward(dirs) {
		err = errors.Join(err, syscall.Rmdir(d))
	}
	return err
}

// run runs a command on the host; its output is in the error.
func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}
