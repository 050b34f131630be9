// Package machine boots real Debian machines, systemd and podman and all, in
// namespaces of the host, each in about half a second.
//
// [Prepare] makes what machines are made of and caches it, [New] gives a
// machine a disk, [Machine.Boot] starts it. The disk survives
// [Machine.PowerCut] and is there again at the next boot; [Machine.Close]
// leaves nothing behind. A machine never outlives the process that booted it:
// the kernel kills its PID 1, and with it all the rest, when that process dies.
//
// The package knows neither the testing package nor what meshgen does.
package machine

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

//go:embed boot.sh
var bootScript string

// bootDeadline is how long a machine may take from its power switch to the
// state "running"; half a second is usual.
const bootDeadline = 60 * time.Second

// pollEvery is the pause between two looks at what sends no signal.
const pollEvery = 10 * time.Millisecond

// Machine is a disk and, from [Machine.Boot] to [Machine.PowerCut], the
// machine that runs on it. It is for one goroutine at a time.
type Machine struct {
	root  string   // of the Debian system below the disk
	disk  *os.File // the directory, locked for as long as the machine is ours
	power *power   // nil while it is off
}

// power is what there is of a machine only while it is on.
type power struct {
	pid   int           // of its PID 1, as the host counts
	gone  chan struct{} // closed when PID 1, and so every process, is gone
	shell *os.File      // the cgroup of what Command starts
}

// New returns a machine that is off, with a disk of its own made from p. The
// caller closes it.
func New(p Parts) (*Machine, error) {
	disk, err := newDisk(p.cache)
	if err != nil {
		return nil, err
	}
	m := &Machine{root: p.root, disk: disk}
	if err := m.fill(p); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// fill lays the programs and the container images on the disk.
func (m *Machine) fill(p Parts) error {
	for _, dir := range []string{"upper", "work", "merged"} {
		if err := os.Mkdir(m.path(dir), 0o755); err != nil {
			return err
		}
	}
	if p.images == "" {
		return os.Mkdir(m.path("containers"), 0o755)
	}
	if err := run("cp", "-a", "--reflink=auto", p.images, m.path("containers")); err != nil {
		return err
	}
	for path, program := range p.programs {
		info, err := os.Stat(program)
		if err != nil {
			return err
		}
		if err := run("install", "-D", fmt.Sprintf("--mode=%o", info.Mode().Perm()), program, m.path("upper", path)); err != nil {
			return err
		}
	}
	return nil
}

// path returns a path below the disk's directory.
func (m *Machine) path(elem ...string) string {
	return filepath.Join(append([]string{m.disk.Name()}, elem...)...)
}

// Boot starts the machine and returns when systemd says that it is running.
// Where it does not come so far, the machine is off again and the error says
// what failed, but for the units that may. /run, /tmp and /dev are new at each boot.
func (m *Machine) Boot(ctx context.Context, mayFail ...string) error {
	if m.power != nil {
		return errors.New("the machine is on already")
	}
	ctx, cancel := context.WithTimeout(ctx, bootDeadline)
	defer cancel()
	err := m.start(ctx)
	if err == nil {
		err = m.awaitRunning(ctx, mayFail)
	}
	if err != nil {
		console, _ := os.ReadFile(m.path("console")) // more words to the error, if there are any
		return errors.Join(fmt.Errorf("boot: %w\n%s", err, console), m.PowerCut())
	}
	return nil
}

// start runs the boot script as PID 1 and returns when it has become systemd.
func (m *Machine) start(ctx context.Context) error {
	cgroup, err := m.makeCgroup()
	if err != nil {
		return err
	}
	defer func() { _ = cgroup.Close() }() // opened to be named to clone3
	console, err := os.Create(m.path("console"))
	if err != nil {
		return err
	}
	defer func() { _ = console.Close() }() // the machine holds its own
	ready, word, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = ready.Close() }() // read-only

	cmd := exec.Command("sh", "-c", bootScript, "boot", m.disk.Name(), m.root)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = console, console, []*os.File{word}
	cmd.SysProcAttr = namespaces()
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(cgroup.Fd())
	m.power, err = powerOn(cmd)
	_ = word.Close() // the machine holds its own
	if err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := ready.SetReadDeadline(deadline); err != nil {
			return err
		}
	}
	said, err := io.ReadAll(ready)
	if err != nil || len(said) == 0 {
		return errors.Join(errors.New("the boot script broke off"), err)
	}
	m.power.shell, err = m.makeShellCgroup()
	return err
}

// namespaces has a command start in namespaces of its own, and die with us.
// The cgroup namespace is entered after the cgroup, which becomes its root.
func namespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC |
			syscall.CLONE_NEWUTS | syscall.CLONE_NEWNET,
		Unshareflags: syscall.CLONE_NEWCGROUP,
		Pdeathsig:    syscall.SIGKILL,
		Setsid:       true, // systemd takes the terminal's SIGINT for Ctrl-Alt-Del
	}
}

// powerOn starts cmd, the machine's PID 1.
func powerOn(cmd *exec.Cmd) (*power, error) {
	started, gone := make(chan error), make(chan struct{})
	go func() {
		// The parent of prctl(2) PR_SET_PDEATHSIG is a thread, not a process:
		// this one lives as long as the machine.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // killed: that is how it ends
		}
		close(gone)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return &power{pid: cmd.Process.Pid, gone: gone}, nil
}

// awaitRunning waits for systemd to have done its start-up jobs.
func (m *Machine) awaitRunning(ctx context.Context, mayFail []string) error {
	if err := m.awaitSocket(ctx); err != nil {
		return err
	}
	r, err := m.Exec(ctx, "systemctl", "is-system-running", "--wait")
	if err != nil {
		return err
	}
	if state := strings.TrimSpace(r.Stdout); state != "running" {
		failed, err := m.Run(ctx, "systemctl", "--failed", "--plain", "--no-legend")
		others := slices.DeleteFunc(strings.Split(strings.TrimSpace(failed), "\n"), func(line string) bool {
			name, _, _ := strings.Cut(line, " ")
			return slices.Contains(mayFail, name)
		})
		if err == nil && state == "degraded" && len(others) == 0 {
			return nil
		}
		args := []string{"journalctl", "--boot", "--lines=60", "--no-pager"}
		for _, line := range others {
			name, _, _ := strings.Cut(line, " ")
			args = append(args, "--unit="+name)
		}
		journal, journalErr := m.Run(ctx, args...)
		return errors.Join(fmt.Errorf("%s\n%s%s%s", state, r.Stderr, failed, journal), err, journalErr)
	}
	return nil
}

// awaitSocket waits until systemctl finds the systemd that it is to ask.
func (m *Machine) awaitSocket(ctx context.Context) error {
	socket := fmt.Sprintf("/proc/%d/root/run/systemd/private", m.power.pid)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		_, err := os.Stat(socket)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.power.gone:
			return fmt.Errorf("PID 1 exited: %w", err)
		case <-tick.C:
		}
	}
}

// On reports whether the machine has power.
func (m *Machine) On() bool { return m.power != nil }

// PowerCut kills every process of the machine at once and returns when they
// are gone. What was written stays, synced or not: the host's page cache lives
// on. It does nothing to a machine that is off.
func (m *Machine) PowerCut() error {
	if m.power == nil {
		return m.removeCgroup()
	}
	if err := syscall.Kill(m.power.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill PID 1: %w", err)
	}
	<-m.power.gone
	if m.power.shell != nil {
		_ = m.power.shell.Close() // opened to be named to clone3
	}
	m.power = nil
	return m.removeCgroup()
}

// PowerOff has systemd end all that runs, in order, and returns when the machine is
// off. It does nothing to a machine that is.
func (m *Machine) PowerOff(ctx context.Context) error {
	if m.power == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, bootDeadline)
	defer cancel()
	_ = m.Command(ctx, "systemctl", "poweroff").Run() // it may go down with the machine
	select {
	case <-m.power.gone:
		return m.PowerCut() // of what is left: its cgroup
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("power off: %w", ctx.Err()), m.PowerCut())
	}
}

// Close cuts the power and removes the disk. It may be called again.
func (m *Machine) Close() error {
	if m.disk == nil {
		return nil
	}
	err := errors.Join(m.PowerCut(), os.RemoveAll(m.disk.Name()))
	_ = m.disk.Close() // a directory: only its lock goes
	m.disk = nil
	return err
}

// Command returns a command to be run on the machine as root, in / and with an
// environment of nothing but PATH, HOME and LANG; it dies with its caller's
// process and when ctx is done. It cannot set the clock, which is the host's, and no
// more can anything else on the machine. On a machine that is off it does not start.
func (m *Machine) Command(ctx context.Context, args ...string) *exec.Cmd {
	if m.power == nil {
		return &exec.Cmd{Err: errors.New("the machine is off")}
	}
	enter := []string{
		"--target", fmt.Sprint(m.power.pid), "--all",
		"--", "setpriv", "--pdeathsig", "KILL", "--bounding-set", "-sys_time", "--",
	}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "HOME=/root", "LANG=C.UTF-8"}
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(m.power.shell.Fd())}
	return cmd
}

// Result is what a command left.
type Result struct {
	Stdout, Stderr string
	Code           int // its exit code; -1 where a signal ended it
}

// Exec runs a command on the machine to its end. A code other than zero is no
// error here.
func (m *Machine) Exec(ctx context.Context, args ...string) (Result, error) {
	var stdout, stderr bytes.Buffer
	cmd := m.Command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}
	if _, exited := errors.AsType[*exec.ExitError](err); exited && ctx.Err() == nil {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", strings.Join(args, " "), errors.Join(err, ctx.Err()))
	}
	return r, nil
}

// Run runs a command on the machine and returns its stdout; an error where it
// exits with another code than zero, with what it had to say on stderr.
func (m *Machine) Run(ctx context.Context, args ...string) (string, error) {
	r, err := m.Exec(ctx, args...)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("%s: exit %d\n%s", strings.Join(args, " "), r.Code, r.Stderr)
	}
	return r.Stdout, err
}

// WriteFile writes a file on the machine with the given mode, and the
// directories that it lacks.
func (m *Machine) WriteFile(ctx context.Context, path string, content []byte, mode os.FileMode) error {
	cmd := m.Command(ctx, "install", "-D", "-m", fmt.Sprintf("%o", mode), "/dev/stdin", path)
	cmd.Stdin = bytes.NewReader(content)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("write %s: %w\n%s", path, err, out)
	}
	return nil
}

// ReadFile returns the content of a file on the machine.
func (m *Machine) ReadFile(ctx context.Context, path string) (string, error) {
	return m.Run(ctx, "cat", path)
}
