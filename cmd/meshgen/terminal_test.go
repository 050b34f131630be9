package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// terminal runs meshgen below root on a terminal of so many columns and 24 lines:
// terminal COLUMNS ARGUMENT... What it showed is in the file out, with [steady]'s
// words in it, and with ^[ for each escape.
func terminal(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: terminal columns argument...")
	}
	columns, err := strconv.ParseUint(args[0], 10, 16)
	ts.Check(err)
	ours, theirs, err := openTerminal(uint16(columns))
	ts.Check(err)
	cmd := exec.CommandContext(context.Background(), "meshgen", append([]string{"--root", "root"}, args[1:]...)...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = []string{"TZ=UTC", "TERM=" + ts.Getenv("TERM"), "NO_COLOR=" + ts.Getenv("NO_COLOR"), "COLUMNS=" + ts.Getenv("COLUMNS"), "PATH=" + ts.Getenv("PATH")}
	cmd.Stdout, cmd.Stderr = theirs, theirs
	ts.Check(cmd.Start())
	ts.Check(theirs.Close())
	var shown bytes.Buffer
	_, err = shown.ReadFrom(ours)
	if !errors.Is(err, unix.EIO) { // which is how a terminal says that nobody has it any more
		ts.Check(err)
	}
	ts.Check(cmd.Wait())
	ts.Check(ours.Close())
	write(ts, "out", strings.NewReplacer("\r\n", "\n", "\x1b", "^[").Replace(shown.String()))
}

// openTerminal returns the two ends of a pseudo-terminal, pts(4).
func openTerminal(columns uint16) (ours, theirs *os.File, err error) {
	if ours, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	fd := int(ours.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, err
	}
	if theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	return ours, theirs, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns})
}
