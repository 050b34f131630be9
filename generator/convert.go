package generator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"meshgen/units"
)

// Converter is a machine's Quadlet converter, the program that podman installs
// as a systemd generator.
type Converter struct {
	Path        string
	fingerprint string
}

// Fingerprint returns a text that changes when the program does.
func (c Converter) Fingerprint() string { return c.fingerprint }

// Maker returns a text that changes with what is made of a Quadlet: it has the
// fingerprint of a converter, and what is added to its input.
func Maker(fingerprint string) string {
	return fingerprint + " " + GuardProgram + " " + units.GuardEdition
}

// FindConverter returns the converter of the machine below root.
func FindConverter(root string) (Converter, bool) {
	for _, path := range []string{
		"run/systemd/system-generators/podman-system-generator",
		"etc/systemd/system-generators/podman-system-generator",
		"usr/local/lib/systemd/system-generators/podman-system-generator",
		"usr/lib/systemd/system-generators/podman-system-generator",
		"usr/libexec/podman/quadlet",
		"usr/lib/podman/quadlet",
	} {
		resolved, err := filepath.EvalSymlinks(filepath.Join(root, path))
		if err != nil || !below(root, resolved) {
			continue
		}
		info, err := os.Stat(resolved)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		return Converter{
			Path:        resolved,
			fingerprint: fmt.Sprintf("%s %d %d", inside(root, resolved), info.Size(), info.ModTime().UnixNano()),
		}, true
	}
	return Converter{}, false
}

// below reports whether a path that holds no links lies below root, which may.
func below(root, path string) bool { return inside(root, path) != "" }

// inside returns a path that holds no links as it is seen below root; "" where it
// lies elsewhere.
func inside(root, path string) string {
	top, err := filepath.EvalSymlinks(root)
	if err != nil {
		return ""
	}
	rel, err := filepath.Rel(top, path)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return filepath.Join("/", rel)
}

// Version returns the version of podman that the converter is of.
func (c Converter) Version(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, c.Path, "-version").Output()
	if err != nil {
		return "", fmt.Errorf("%s -version: %w", c.Path, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Output is what a converter made of a set of Quadlets: each service's text by
// its name, and the enablement links, by their path, with what they point to.
type Output struct {
	Units map[string]string
	Links map[string]string
}

// Refusal is a Quadlet that the converter did not take.
type Refusal struct {
	File    string // name of the Quadlet file; "" where the converter named none
	Message string // in the converter's words
}

// memory is a file system that a sync costs nothing on: the converter syncs each
// file that it writes.
const memory = "/dev/shm"

// conversion begins the name of a directory of a conversion; the process that runs
// it follows.
const conversion = "meshgen-quadlet-"

// SweepConversions removes what conversions that were killed left in memory, as far
// as it can.
func SweepConversions() {
	left, _ := filepath.Glob(filepath.Join(memory, conversion+"*"))
	for _, dir := range left {
		text, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), conversion), "-")
		if pid, err := strconv.Atoi(text); err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir) // litter
		}
	}
}

// Convert runs the converter over the Quadlets, given by file name, and returns
// the services. Those that it refused are returned beside; the error is for a
// converter that did not run or gave no answer by the deadline of ctx.
//
// source is the directory in which the Quadlets will lie: it is what the
// services name as their SourcePath.
func (c Converter) Convert(ctx context.Context, quadlets map[string]string, source string) (Output, []Refusal, error) {
	dir, err := os.MkdirTemp(memory, conversion+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		dir, err = os.MkdirTemp("", conversion)
	}
	if err != nil {
		return Output{}, nil, err
	}
	defer func() {
		if os.RemoveAll(dir) != nil {
			_ = os.RemoveAll(dir) // of a temporary directory; a later switch sweeps it
		}
	}()
	in := filepath.Join(dir, "in")
	dirs := Dirs{Normal: filepath.Join(dir, "normal"), Early: filepath.Join(dir, "early"), Late: filepath.Join(dir, "late")}
	for _, d := range []string{in, dirs.Normal, dirs.Early, dirs.Late} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return Output{}, nil, err
		}
	}
	for name, text := range quadlets {
		if err := writeFile(filepath.Join(in, name), text); err != nil {
			return Output{}, nil, err
		}
	}
	var refused refusalError
	if err := c.run(ctx, in, dirs); err != nil && !errors.As(err, &refused) {
		return Output{}, nil, err
	}
	out, err := readOutput(dirs.Normal, in, source)
	return out, refused.refusals, err
}

func writeFile(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // in a temporary directory of our own
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// refusalError is a converter's exit 1 with what it said.
type refusalError struct{ refusals []Refusal }

func (e refusalError) Error() string {
	lines := make([]string, len(e.refusals))
	for i, r := range e.refusals {
		lines[i] = r.Message
	}
	return strings.Join(lines, "\n")
}

// run has the converter read the Quadlets in dir and write below d.
func (c Converter) run(ctx context.Context, dir string, d Dirs) error {
	cmd := exec.CommandContext(ctx, c.Path, "-no-kmsg-log", d.Normal, d.Early, d.Late)
	cmd.Env = append(os.Environ(), "QUADLET_UNIT_DIRS="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a key on the terminal is for the switch
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // what has left its group may hold its output open
	var stderr words
	cmd.Stderr = &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return fmt.Errorf("%s: no answer: %w", c.Path, ctx.Err())
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		if refusals := parseRefusals(stderr.String()); len(refusals) > 0 {
			return refusalError{refusals}
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", c.Path, err, strings.TrimSpace(stderr.String()))
	}
	return nil
}

// words keeps the first megabyte of what is written to it: a converter may have no
// end.
type words struct{ bytes.Buffer }

func (w *words) Write(p []byte) (int, error) {
	_, err := w.Buffer.Write(p[:min(len(p), 1<<20-min(w.Len(), 1<<20))])
	return len(p), err
}

// A line of the converter's is "quadlet-generator[PID]: text"; what it says of
// one file is `converting "x.container": reason`.
var (
	logPrefix  = regexp.MustCompile(`^[\w-]+\[\d+\]: `)
	convertMsg = regexp.MustCompile(`converting "([^"]+)": ([^\n]+)`)
	inDir      = regexp.MustCompile(` in /[^ ]*/meshgen-quadlet-\S+$`)
)

func parseRefusals(stderr string) []Refusal {
	var refusals []Refusal
	for line := range strings.Lines(stderr) {
		line = logPrefix.ReplaceAllString(strings.TrimSpace(line), "")
		if line == "" || strings.HasPrefix(line, "Loading source unit file") || strings.HasPrefix(line, "Starting quadlet-generator") {
			continue
		}
		if m := convertMsg.FindStringSubmatch(line); m != nil {
			refusals = append(refusals, Refusal{File: m[1], Message: inDir.ReplaceAllString(m[2], "")})
			continue
		}
		refusals = append(refusals, Refusal{Message: line})
	}
	return refusals
}

func readOutput(normal, in, source string) (Output, error) {
	out := Output{Units: map[string]string{}, Links: map[string]string{}}
	err := filepath.WalkDir(normal, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(normal, path)
		if err != nil {
			return err
		}
		if e.Type()&fs.ModeSymlink != 0 {
			out.Links[name], err = os.Readlink(path)
			return err
		}
		text, err := readFile(path, mostOfUnits)
		if err != nil {
			return err
		}
		out.Units[name] = strings.ReplaceAll(string(text), "SourcePath="+in+"/", "SourcePath="+source+"/")
		return nil
	})
	return out, err
}
