// meshgen makes a machine run what its manifest says and nothing else.
//
// Each command is a file of its own here; what it does is in the packages that
// it calls.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"meshgen/internal/apply"
	"meshgen/internal/hint"
	"meshgen/state"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	os.Exit(code)
}

// run runs one command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := &options{}
	root := newRoot(o)
	root.AddCommand(newMan(root)) // what is made of the commands is none of them, as cobra's help and completion
	out := &output{Writer: stdout, o: o}
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[exitError](err); ok && exit.cause == nil {
		return exit.code // all is told
	}
	// With --json there is one document on stdout, or none.
	if !o.json || out.told || !writeFailure(out, cmd, err) {
		writeError(stderr, err)
	}
	return codeOf(err)
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

func newRoot(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "meshgen",
		Short: "A machine runs what it was told and nothing else",
		Long: "meshgen compiles a CUE manifest into Podman Quadlet units and config files, brings\n" +
			"them into force, and remembers every name that it ever gave the machine, so that\n" +
			"what is renamed or removed leaves nothing behind.",
		SilenceUsage:  true,
		SilenceErrors: true,
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
	cmd.AddCommand(newCheck(o), newBuild(o), newPlan(o), newSwitch(o), newRollback(o), newRecover(o), newStatus(o), newAudit(o), newHistory(o),
		newExplain(o), newAdopt(o), newRelease(o), newForget(o), newGC(o), newEject(o), newRebuild(o), newPolicy(o), newVersion(o))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usage(cmd, fmt.Errorf("unknown command %q", args[0]))
		}
		return cmd.Help()
	}
	for _, c := range append(below(cmd), cmd) {
		c.Long = cmp.Or(c.Long, c.Short+".") + "\n\n" + exitHelp(nameOf(c))
	}
	cmd.Args = cobra.ArbitraryArgs // so that an unknown command comes to RunE
	return cmd
}

// below returns the commands of a command, and theirs.
func below(cmd *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, c := range cmd.Commands() {
		all = append(append(all, c), below(c)...)
	}
	return all
}

// nameOf returns what is typed for a command, as "policy show".
func nameOf(cmd *cobra.Command) string { return strings.TrimPrefix(cmd.CommandPath(), "meshgen ") }

func usage(cmd *cobra.Command, err error) error {
	return exitError{exitUsage, hint.Add(err, cmd.CommandPath()+" --help")}
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
