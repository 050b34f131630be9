//go:build linux && amd64

// Command nth runs a command and counts the system calls by which its process
// changes something: the files of a disk, and, with -bus, what it says on a
// socket. The nth of them can be made the last, or made to fail.
//
//	nth -log FILE [-bus] [-kill N | -fail N:ERRNO] COMMAND [ARG...]
//
// The count goes over all threads of the process, in the order in which they
// enter the kernel, and stops at its children, which are not looked at. The call
// that is hit does not take effect: nth sees it as it enters the kernel, and
// has the kernel pass over it, before the process is killed or the call returns
// the error. What other threads are in the middle of at that moment may or may
// not be done, as in any crash.
//
// FILE gets a line for each call that was counted: its number, its name, the
// path or the message, and the error that it was given. nth exits as the command
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
	bus bool // the calls that talk to a socket count as well
	at  int
	err unix.Errno // 0 kills
}

func run(args []string) (code int, err error) {
	flags := flag.NewFlagSet("nth", flag.ContinueOnError)
	bus := flags.Bool("bus", false, "count what is said on sockets")
	kill := flags.Int("kill", 0, "kill at call `N`")
	fail := flags.String("fail", "", "have call N fail, `N:ERRNO`")
	path := flags.String("log", "", "write the calls to `FILE`")
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	a := aim{bus: *bus, at: *kill}
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
	leader, count := cmd.Process.Pid, 0
	options := 0
	for {
		var status unix.WaitStatus
		tid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("wait: %w", err)
		}
		if tid == leader && (status.Exited() || status.Signaled()) {
			return exitCode(status), nil
		}
		if !status.Stopped() {
			continue
		}
		if options == 0 {
			options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_EXITKILL
			if err := unix.PtraceSetOptions(tid, options); err != nil {
				return 0, fmt.Errorf("trace: %w", err)
			}
		}
		pass := 0
		switch stop := status.StopSignal(); stop {
		case unix.SIGTRAP | 0x80:
			c, ok := entered(tid, a.bus)
			if !ok {
				break
			}
			count++
			if count != a.at {
				_, _ = fmt.Fprintf(log, "%d %s\n", count, c) // an error stays until Flush
				break
			}
			_, _ = fmt.Fprintf(log, "%d %s: %s\n", count, c, a) // as above
			if err := skip(tid, a.err); err != nil {
				return 0, fmt.Errorf("skip %s: %w", c, err)
			}
			if a.err == 0 {
				if err := unix.Kill(leader, unix.SIGKILL); err != nil {
					return 0, fmt.Errorf("kill: %w", err)
				}
				continue
			}
		case unix.SIGTRAP, unix.SIGSTOP: // an event of ptrace's, a new thread
		default:
			pass = int(stop)
		}
		if err := unix.PtraceSyscall(tid, pass); err != nil && !errors.Is(err, unix.ESRCH) {
			return 0, fmt.Errorf("trace: %w", err)
		}
	}
}

func (a aim) String() string {
	if a.err == 0 {
		return "killed"
	}
	return unix.ErrnoName(a.err)
}

func exitCode(status unix.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
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
