// meshgen-generator gives systemd the units of the generation in force. systemd
// runs it at boot and at each daemon-reload: systemd.generator(7).
//
// It exits 0 whatever it meets, so that the boot goes on; what it could not do
// is in the kernel log, and what it made up for.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"syscall"

	"meshgen/generator"
	"meshgen/state"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: meshgen-generator NORMAL EARLY LATE\n"+
			"systemd runs this program; see systemd.generator(7)")
		os.Exit(2)
	}
	dirs := generator.Dirs{Normal: os.Args[1], Early: os.Args[2], Late: os.Args[3]}
	if err := replay(dirs); err != nil {
		log, end := kernelLog()
		report(log, err)
		end()
	}
}

// memory is what the program tries to get by with, in bytes: a collector that never
// ran would have it hold all that it ever read.
const memory = 64 << 20

// replay runs the generator. A fault in it costs what was not given yet, and no more.
func replay(dirs generator.Dirs) (err error) {
	debug.SetMemoryLimit(memory)
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("a fault of meshgen's own: %v: %s", fault, strings.Join(strings.Split(string(debug.Stack()), "\n"), "; "))
		}
	}()
	return generator.Replay(state.NewLayout("/", ""), dirs)
}

// kernelLog opens the kernel log, which is there before the journal is; stderr where
// there is none. Nobody may read from what lies there.
func kernelLog() (log io.Writer, end func()) {
	f, err := os.OpenFile("/dev/kmsg", os.O_WRONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return os.Stderr, func() {}
	}
	return f, func() { _ = f.Close() } // nothing is buffered
}

// Priorities of syslog(3), of the facility of daemons: the kernel's own is taken for
// the kernel's word.
const (
	facility = 3 << 3
	failed   = facility | 3
	warning  = facility | 4
)

// What the kernel takes as one message, /dev/kmsg, and how many it is told: a disk that
// takes nothing fails for every unit.
const (
	mostOfLine = 900
	mostLines  = 40
)

// report writes a line for each error, each by one write(2).
func report(log io.Writer, err error) {
	lines := messages(err)
	for i, line := range lines {
		if i == mostLines {
			line = message(failed, fmt.Sprintf("and %d more like these", len(lines)-i))
		}
		_, _ = io.WriteString(log, line) // there is nowhere else to tell
		if i == mostLines {
			return
		}
	}
}

// messages are the lines of what was joined.
func messages(err error) []string {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var lines []string
		for _, e := range joined.Unwrap() {
			lines = append(lines, messages(e)...)
		}
		return lines
	}
	priority := failed
	if _, ok := errors.AsType[generator.Warning](err); ok {
		priority = warning
	}
	return []string{message(priority, strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; "))}
}

func message(priority int, text string) string {
	if len(text) > mostOfLine {
		text = text[:mostOfLine] + "…"
	}
	return fmt.Sprintf("<%d>meshgen-generator[%d]: %s\n", priority, os.Getpid(), text)
}
