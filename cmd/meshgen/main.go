// meshgen makes a machine run what its manifest says and nothing else.
//
// Each command is a file of its own here; what it does is in the packages that
// it calls.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"meshgen/internal/apply"
	"meshgen/state"
	"meshgen/units"
)

// The exit codes.
const (
	exitFailed     = 1
	exitUsage      = 2
	exitRejected   = 3 // manifest, converter or decision; nothing was touched
	exitIncomplete = 4 // in force, but something failed
	exitRolledBack = 5
	exitLocked     = 6
	exitChanges    = 10 // plan --exit-code has changes
)

// exitError ends the program with its code. Its cause, if any, is printed.
type exitError struct {
	code  int
	cause error
}

func (e exitError) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.cause.Error()
}

func (e exitError) Unwrap() error { return e.cause }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	os.Exit(code)
}

// run runs one command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := newRoot()
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	code := codeOf(err)
	if exit, ok := errors.AsType[exitError](err); ok {
		err = exit.cause
	}
	if err != nil {
		writeError(stderr, err)
	}
	return code
}

// codeOf returns the exit code that an error stands for.
func codeOf(err error) int {
	if exit, ok := errors.AsType[exitError](err); ok {
		return exit.code
	}
	if _, ok := errors.AsType[units.Faults](err); ok {
		return exitRejected
	}
	if _, ok := errors.AsType[*state.LockedError](err); ok {
		return exitLocked
	}
	return exitFailed
}

// writeError prints what went wrong and what to do next.
func writeError(w io.Writer, err error) {
	text := strings.TrimRight(err.Error(), "\n")
	if _, ok := errors.AsType[units.Faults](err); !ok {
		text = "meshgen: " + text
	}
	if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		text += "\nhint: run it as root"
	}
	_, _ = fmt.Fprintln(w, text) // there is nowhere else to tell
}

// options are the flags that all commands share.
type options struct {
	root     string
	stateDir string
	manifest string
	node     string
	json     bool
	quiet    bool
	verbose  bool
}

func newRoot() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "meshgen",
		Short: "A machine runs what it was told and nothing else",
		Long: "meshgen compiles a CUE manifest into Podman Quadlet units and config files, brings\n" +
			"them into force, and remembers every name that it ever gave the machine, so that\n" +
			"what is renamed or removed leaves nothing behind.",
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&o.root, "root", "/", "work on the system below `DIR`, where nothing runs")
	flags.StringVar(&o.stateDir, "state", "", "state `DIR` (default /var/lib/meshgen)")
	flags.StringVar(&o.manifest, "manifest", "", "manifest `DIR` (default /etc/meshgen/manifest)")
	flags.StringVar(&o.node, "node", "", "`NAME` of the node (default the manifest's, else the host's)")
	flags.BoolVar(&o.json, "json", false, "print the result as JSON")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "print only results and errors")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "tell more")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usage(cmd, err) })
	cmd.AddCommand(newCheck(o), newBuild(o), newPlan(o), newSwitch(o), newRollback(o), newRecover(o), newStatus(o), newHistory(o),
		newExplain(o), newForget(o), newGC(o), newRebuild(o), newVersion(o))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usage(cmd, fmt.Errorf("unknown command %q", args[0]))
		}
		return cmd.Help()
	}
	cmd.Args = cobra.ArbitraryArgs // so that an unknown command comes to RunE
	return cmd
}

func usage(cmd *cobra.Command, err error) error {
	return exitError{exitUsage, fmt.Errorf("%w\nhint: %s --help", err, cmd.CommandPath())}
}

// noArgs refuses arguments as a fault of usage.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usage(cmd, fmt.Errorf("%s: takes no argument, and was given %q", cmd.Name(), args[0]))
}

func (o *options) layout() (state.Layout, error) {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return state.Layout{}, err
	}
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return state.Layout{}, fmt.Errorf("--root %s: no directory", o.root)
	}
	stateDir := o.stateDir
	if stateDir != "" {
		if stateDir, err = filepath.Abs(stateDir); err != nil {
			return state.Layout{}, err
		}
	}
	return state.NewLayout(root, stateDir), nil
}

// open opens the node for a command that only looks.
func (o *options) open(ctx context.Context) (*apply.Node, error) {
	l, err := o.layout()
	if err != nil {
		return nil, err
	}
	return apply.Open(ctx, l, apply.Local)
}
