package main

import (
	"bytes"
	"context"
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

// keeps is where the program remembers things from step to step; containers have
// it as /watch.
const keeps = "/var/lib/scenario"

// patience is how long a state is waited for: a machine without a processor of its
// own may need it.
const patience = 3 * time.Minute

// node is the machine that the program runs on. What is not as it should be is
// noted, and the step goes on, so that all is told at once.
type node struct {
	ctx    context.Context //nolint:containedctx // of one run of the program
	faults []error
}

func (n *node) fault(format string, args ...any) {
	n.faults = append(n.faults, fmt.Errorf(format, args...))
}

// result is what a command left.
type result struct {
	stdout, stderr string
	code           int
}

// exec runs a command, whatever its exit code.
func (n *node) exec(args ...string) result {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(n.ctx, args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		n.fault("%s: %w", strings.Join(args, " "), err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// run runs a command that must exit with 0, and returns its stdout without the
// white space around it.
func (n *node) run(args ...string) string {
	r := n.exec(args...)
	if r.code != 0 {
		n.fault("%s: exit %d\n%s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	}
	return strings.TrimSpace(r.stdout)
}

// manifest makes text the machine's manifest.
func (n *node) manifest(text string) {
	n.write("/etc/meshgen/manifest/mesh.cue", "package mesh\n\n"+text)
}

// write writes a file, and the directories that it lacks.
func (n *node) write(path, text string) {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		n.fault("%w", err)
	}
}

// keep remembers a value for a later step, over a power cut too.
func (n *node) keep(name, value string) {
	n.write(filepath.Join(keeps, name), value)
	syscall.Sync()
}

// kept returns what an earlier step has remembered.
func (n *node) kept(name string) string {
	text, err := os.ReadFile(filepath.Join(keeps, name))
	if err != nil {
		n.fault("%w", err)
	}
	return string(text)
}

// show returns a property of a unit as systemctl show gives it.
func (n *node) show(unit, property string) string {
	return n.run("systemctl", "show", "--value", "--property="+property, "--", unit)
}

func (n *node) mustShow(unit, property, want string) {
	if got := n.show(unit, property); got != want {
		n.fault("%s: %s is %q, want %q", unit, property, got, want)
	}
}

// await waits until a condition holds.
func (n *node) await(what string, holds func() bool) {
	deadline := time.After(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			n.fault("%s: not within %v", what, patience)
			return
		case <-tick.C:
		}
	}
}

// awaitUp waits until units are up. One that has failed is not waited for.
func (n *node) awaitUp(units ...string) {
	for _, unit := range units {
		state := ""
		n.await(unit+" is up", func() bool {
			state = n.show(unit, "ActiveState")
			return state == "active" || state == "failed"
		})
		if state == "failed" {
			n.fault("%s has failed:\n%s", unit, n.exec("journalctl", "--boot", "--no-pager", "--lines=20", "--unit="+unit).stdout)
		}
	}
}

// awaitRecovered waits until what a boot finishes of a switch that was cut short has
// ended.
func (n *node) awaitRecovered() {
	n.await("the recovery has ended", func() bool {
		state := n.show("meshgen-confirm.service", "ActiveState")
		return (state == "inactive" || state == "failed") && !exists("/etc/meshgen/pending")
	})
}

// mustRun sees that just these containers run.
func (n *node) mustRun(names ...string) {
	if got := strings.Fields(n.run("podman", "ps", "--sort=names", "--format={{.Names}}")); !slices.Equal(got, names) {
		n.fault("the containers %q run, want %q", got, names)
	}
}

// mustBe sees of which edition of the manifest a container is.
func (n *node) mustBe(container, edition string) {
	env := n.run("podman", "inspect", "--format={{range .Config.Env}}{{println .}}{{end}}", container)
	if !slices.Contains(strings.Split(env, "\n"), "IS="+edition) {
		n.fault("the container %s is not of edition %q", container, edition)
	}
}

// mustBeGone sees that neither systemd nor podman has a trace of a container and its
// unit.
func (n *node) mustBeGone(names ...string) {
	for _, name := range names {
		n.mustShow(name+".service", "LoadState", "not-found")
		n.mustShow(name+".service", "ActiveState", "inactive")
		if n.exec("podman", "container", "exists", name).code == 0 {
			n.fault("the container %s is still there", name)
		}
	}
}

// mustHave sees that a file has this text.
func (n *node) mustHave(path, text string) {
	if got, err := os.ReadFile(path); err != nil {
		n.fault("%w", err)
	} else if string(got) != text {
		n.fault("%s: is %q, want %q", path, got, text)
	}
}

func (n *node) mustLack(paths ...string) {
	for _, path := range paths {
		if exists(path) {
			n.fault("%s: is still there", path)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// mustStand sees that a switch has nothing to do, and restarts none of the units.
func (n *node) mustStand(units ...string) {
	before := make([]string, len(units))
	for i, unit := range units {
		before[i] = n.show(unit, "InvocationID")
	}
	if out := n.run("meshgen", "switch"); !strings.Contains(out, "nothing to do") {
		n.fault("a switch finds something to do: %s", out)
	}
	for i, unit := range units {
		n.mustShow(unit, "InvocationID", before[i])
	}
	n.mustLack("/etc/meshgen/pending", "/run/meshgen/bridge")
}

// inForce returns the number of the generation in force, "" where there is none.
func (n *node) inForce() string {
	to, err := os.Readlink("/etc/meshgen/current")
	if err != nil {
		return ""
	}
	return filepath.Base(to)
}
