package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"meshgen/vmtests/machine"
)

// This program lies on each machine too: a command is timed there, and not
// through the namespaces.
const (
	there     = "/usr/local/bin/bench"
	onMachine = "-on-machine"
	// The ways to run a command: alone; with three new directories for its
	// last arguments; with the gap measured that it makes in a service.
	plainly   = "plainly"
	generator = "generator"
	watched   = "watched"
)

// watchedAddress is where the service answers whose absence is measured.
const watchedAddress = "127.0.0.1:3000"

// sample is one run of a command.
type sample struct {
	Took time.Duration
	CPU  time.Duration // of the command and the children that it waited for
	// Memory is the most that the command had resident, in bytes. It is no
	// less than what this program itself has, by execve(2)'s accounting.
	Memory int64
	Away   time.Duration // from the last answer of the service to the next
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

func (s sample) megabytes() float64 { return float64(s.Memory) / (1 << 20) }

// take runs a command on the machine in one of the ways.
func take(ctx context.Context, m *machine.Machine, way string, command ...string) (sample, error) {
	out, err := m.Run(ctx, append([]string{there, onMachine, way}, command...)...)
	if err != nil {
		return sample{}, err
	}
	var s sample
	return s, json.Unmarshal([]byte(out), &s)
}

// sampleHere is what take runs on the machine.
func sampleHere(ctx context.Context, args []string, stdout io.Writer) error {
	way, command := args[0], args[1:]
	// podman's converter reads the Quadlets that ours were made from.
	if err := os.Setenv("QUADLET_UNIT_DIRS", "/etc/meshgen/current/quadlet"); err != nil {
		return err
	}
	if way == generator {
		dir, err := os.MkdirTemp("/tmp", "generator-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }() // on a tmpfs
		for _, name := range []string{"normal", "early", "late"} {
			sub := filepath.Join(dir, name)
			if err := os.Mkdir(sub, 0o755); err != nil {
				return err
			}
			command = append(command, sub)
		}
	}
	var gap func() (time.Duration, error)
	if way == watched {
		gap = watch(ctx)
	}
	s, err := runHere(ctx, command)
	if err != nil {
		return err
	}
	if gap != nil {
		if s.Away, err = gap(); err != nil {
			return err
		}
	}
	return json.NewEncoder(stdout).Encode(s)
}

func runHere(ctx context.Context, command []string) (sample, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	begin := time.Now()
	err := cmd.Run()
	s := sample{Took: time.Since(begin)}
	if err != nil {
		return s, fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, output.Bytes())
	}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		s.Memory = usage.Maxrss << 10
	}
	s.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return s, nil
}

// watch asks the service for an answer again and again. What it returns waits
// until the service answers and says what the longest time without one was.
func watch(ctx context.Context) func() (time.Duration, error) {
	stop, done := make(chan struct{}), make(chan error)
	var longest time.Duration
	go func() {
		tick := time.NewTicker(500 * time.Microsecond)
		defer tick.Stop()
		last, stopping := time.Now(), false
		for {
			select {
			case <-stop:
				stop, stopping = nil, true
			case <-ctx.Done():
				done <- ctx.Err()
				return
			case <-tick.C:
			}
			if answers() {
				longest, last = max(longest, time.Since(last)), time.Now()
				if stopping {
					done <- nil
					return
				}
			} else if time.Since(last) > 30*time.Second {
				done <- errors.New("the service does not come back")
				return
			}
		}
	}()
	return func() (time.Duration, error) {
		close(stop)
		err := <-done
		return longest, err
	}
}

func answers() bool {
	c, err := net.DialTimeout("tcp", watchedAddress, 50*time.Millisecond)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }() // read-only
	_ = c.SetDeadline(time.Now().Add(50 * time.Millisecond))
	answer, err := io.ReadAll(c)
	return err == nil && len(answer) > 0
}
