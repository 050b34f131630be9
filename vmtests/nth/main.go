//go:build linux && amd64

// Command nth runs a command and counts the system calls by which its process
// changes something: the files of a disk, and, with -bus, what it says on a
// socket. The nth of them can be made the last, or made to fail.
//
//	nth -log FILE [-bus] [-only TEXT] [-kill N | -fail N:ERRNO] COMMAND [ARG...]
//
// The count goes over all threads of the process, in the order in which they
// enter the kernel, and stops at its children, which are not looked at. The call
// that is hit does not take effect: nth sees it as it enters the kernel, and
// has the kernel pass over it, before the process is killed or the call returns
// the error. What other threads are in the middle of at that moment may or may
// not be done, as in any crash.
//
// FILE gets a line for each call that was counted: its number, its name, the
// path or the message, and the error that it was given. With -only, those alone
// count whose line has the text. nth exits as the command
// did, with 137 where that was killed.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "nth:", err)
		code = 125
	}
	os.Exit(code)
}

// aim is what is to be hit, and how; at 0 nothing.
type aim struct {
	bus  bool   // the calls that talk to a socket count as well
	only string // in the words of a call that counts
	at   int
	err  unix.Errno // 0 kills
}

func run(args []string) (code int, err error) {
	flags := flag.NewFlagSet("nth", flag.ContinueOnError)
	bus := flags.Bool("bus", false, "count what is said on sockets")
	only := flags.String("only", "", "count the calls that have `TEXT` in their line")
	kill := flags.Int("kill", 0, "kill at call `N`")
	fail := flags.String("fail", "", "have call N fail, `N:ERRNO`")
	path := flags.String("log", "", "write the calls to `FILE`")
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	a := aim{bus: *bus, only: *only, at: *kill}
	if number, name, ok := strings.Cut(*fail, ":"); ok {
		if a.at, err = strconv.Atoi(number); err != nil {
			return 0, err
		}
		if a.err = errnoOf(name); a.err == 0 {
			return 0, fmt.Errorf("%s: no such error", name)
		}
	}
	log, err := os.Create(*path)
	if err != nil {
		return 0, err
	}
	lines := bufio.NewWriter(log)
	code, err = trace(flags.Args(), a, lines)
	return code, errors.Join(err, lines.Flush(), log.Close())
}

func errnoOf(name string) unix.Errno {
	for _, e := range []unix.Errno{unix.EIO, unix.ENOSPC, unix.EROFS} {
		if unix.ErrnoName(e) == name {
			return e
		}
	}
	return 0
}

// trace runs a command to its end.
func trace(command []string, a aim, log *bufio.Writer) (code int, err error) {
	runtime.LockOSThread() // ptrace(2) answers only the thread that began
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	t := &tracer{leader: cmd.Process.Pid, aim: a, log: log}
	// It stands still since its execve. Children made by fork or vfork are
	// not among what is traced.
	var status unix.WaitStatus
	if _, err := unix.Wait4(t.leader, &status, unix.WALL, nil); err != nil {
		return 0, fmt.Errorf("wait: %w", err)
	}
	if err := unix.PtraceSetOptions(t.leader, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL); err != nil {
		return 0, fmt.Errorf("trace: %w", err)
	}
	for tid := t.leader; ; {
		if status.Stopped() {
			if err := t.stopped(tid, status.StopSignal()); err != nil {
				return 0, err
			}
		}
		tid, err = unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			status = 0 // of nobody
		case err != nil:
			return 0, fmt.Errorf("wait: %w", err)
		case tid == t.leader && status.Signaled():
			return 128 + int(status.Signal()), nil
		case tid == t.leader && status.Exited():
			return status.ExitStatus(), nil
		}
	}
}

// tracer is a process whose threads are traced.
type tracer struct {
	leader int
	aim    aim
	count  int
	log    *bufio.Writer // an error stays until Flush
}

// stopped lets a thread go on that a signal, or what looks like one, stopped.
func (t *tracer) stopped(tid int, signal unix.Signal) error {
	switch signal { //nolint:exhaustive // all others are the program's own
	case unix.SIGTRAP | 0x80:
		signal = 0
		if c, ok := entered(tid, t.aim.bus); ok && strings.Contains(c.String(), t.aim.only) {
			if err := t.counted(tid, c); err != nil {
				return err
			}
		}
	case unix.SIGTRAP, unix.SIGSTOP: // an event of ptrace's, a new thread
		signal = 0
	}
	err := unix.PtraceSyscall(tid, int(signal))
	if errors.Is(err, unix.ESRCH) {
		return nil // killed while it stood
	}
	return err
}

// counted counts a call that a thread is entering, and hits it if it is the one.
func (t *tracer) counted(tid int, c call) error {
	t.count++
	if t.count != t.aim.at {
		_, _ = fmt.Fprintf(t.log, "%d %s\n", t.count, c)
		return nil
	}
	_, _ = fmt.Fprintf(t.log, "%d %s: %s\n", t.count, c, t.aim)
	if err := skip(tid, t.aim.err); err != nil {
		return fmt.Errorf("skip %s: %w", c, err)
	}
	if t.aim.err == 0 {
		return unix.Kill(t.leader, unix.SIGKILL)
	}
	return nil
}

func (a aim) String() string {
	if a.err == 0 {
		return "killed"
	}
	return unix.ErrnoName(a.err)
}

// skip has the kernel pass over the call that a thread is entering, and return
// the error instead.
func skip(tid int, errno unix.Errno) error {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &regs); err != nil {
		return err
	}
	regs.Orig_rax = ^uint64(0)
	regs.Rax = -uint64(errno)
	return unix.PtraceSetRegs(tid, &regs)
}
