package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"meshgen/state"
)

var update = flag.Bool("update", false, "write what the commands print into the scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"meshgen": main, "locked": locked})
}

// TestScripts runs the real program below a root of its own, where nothing
// runs. What needs systemd, podman or its quadlet is in vmtests.
func TestScripts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a switch gives files to their owners, which needs root")
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("TZ", "UTC")
			return os.MkdirAll(filepath.Join(env.WorkDir, "root/etc/meshgen/manifest"), 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exit": exit, "steady": steady, "tree": tree, "mode": mode, "terminal": terminal,
		},
	})
}

// locked runs a command while the lock of the node below a directory is taken:
// locked ROOT COMMAND...
func locked() {
	root, err := filepath.Abs(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lock, err := state.Acquire(state.NewLayout(root, ""))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cmd := exec.CommandContext(context.Background(), os.Args[2], os.Args[3:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	_ = cmd.Run() // its exit code tells
	_ = lock.Close()
	os.Exit(cmd.ProcessState.ExitCode())
}

// exit runs meshgen below root and wants an exit code: exit CODE ARGUMENT...
// What it printed is in the files out and err, with [steady]'s words in it.
func exit(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exit code argument...")
	}
	cmd := exec.CommandContext(context.Background(), "meshgen", append([]string{"--root", "root"}, args[1:]...)...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "TZ=UTC", "PATH="+ts.Getenv("PATH"))
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, ran := errors.AsType[*exec.ExitError](err); err != nil && !ran {
		ts.Check(err)
	}
	write(ts, "out", stdout.String())
	write(ts, "err", stderr.String())
	if got := fmt.Sprint(cmd.ProcessState.ExitCode()); got != args[0] {
		ts.Fatalf("meshgen %s: exit %s, want %s\n%s%s", strings.Join(args[1:], " "), got, args[0], &stdout, &stderr)
	}
}

// steady writes a file anew with words for what differs from run to run:
// steady FILE RESULT.
func steady(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: steady file result")
	}
	write(ts, args[1], ts.ReadFile(args[0]))
}

var (
	digests = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	moments = regexp.MustCompile(`\b\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d+)?Z| \d\d:\d\d:\d\d)|\b\d\d:\d\d:\d\d\b|\b\d{4}-\d\d-\d\d( \d\d:\d\d)?\b|\b\d{8}T\d{6}Z`)
	sums    = regexp.MustCompile(`(?m)^[0-9a-f]{8} `)
	process = regexp.MustCompile(`process \d+`)
)

func write(ts *testscript.TestScript, file, text string) {
	text = strings.ReplaceAll(text, ts.Getenv("WORK"), "WORK")
	text = digests.ReplaceAllString(text, "DIGEST")
	text = moments.ReplaceAllString(text, "TIME")
	text = sums.ReplaceAllString(text, "SUM ")
	text = process.ReplaceAllString(text, "process PID")
	ts.Check(os.WriteFile(ts.MkAbs(file), []byte(text), 0o644))
}

// tree writes what lies below a directory into the file out, one path a line,
// with mode, owner, inode and time of change, so that what a switch touched
// shows: tree DIR OUT. The lock is left out.
func tree(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: tree dir result")
	}
	out, err := exec.CommandContext(context.Background(), "find", ts.MkAbs(args[0]), "!", "-path", "*/var/lib/meshgen/lock",
		"-printf", "%P %y %m %U:%G %i %C@ %l\n").Output()
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), out, 0o644))
}

// mode wants a file to have a mode and an owner: mode FILE MODE UID:GID.
func mode(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: mode file mode uid:gid")
	}
	info, err := os.Lstat(ts.MkAbs(args[0]))
	ts.Check(err)
	if info.Mode()&fs.ModeSymlink != 0 {
		ts.Fatalf("%s is a symbolic link", args[0])
	}
	if got, want := state.MetaOf(info), args[1]+" "+args[2]; got != want {
		ts.Fatalf("%s is %s, want %s", args[0], got, want)
	}
}
