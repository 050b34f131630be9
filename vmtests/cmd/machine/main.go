// Command machine boots a throw-away machine with meshgen installed and runs
// one thing on it, on this terminal.
//
//	go run ./vmtests/cmd/machine                    a shell
//	go run ./vmtests/cmd/machine SCRIPT [ARG...]    a script of this host
//	go run ./vmtests/cmd/machine -- COMMAND...      a command of the machine
//	go run ./vmtests/cmd/machine -check             nothing: says what this host lacks for one
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"syscall"

	"meshgen/vmtests/machine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "machine:", err)
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context, args []string) (code int, err error) {
	if err := machine.Check(); err != nil {
		return 0, fmt.Errorf("this host boots no machine: %w", err)
	}
	if len(args) == 1 && args[0] == "-check" {
		return 0, nil
	}
	parts, err := machine.Prepare(ctx)
	if err != nil {
		return 0, err
	}
	m, err := machine.New(parts)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := m.Boot(ctx); err != nil {
		return 0, err
	}
	command, err := onMachine(ctx, m, args)
	if err != nil {
		return 0, err
	}
	cmd := m.Command(ctx, command...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(cmd.Env, "TERM="+os.Getenv("TERM"))
	err = cmd.Run()
	if exited, ok := errors.AsType[*exec.ExitError](err); ok {
		return exited.ExitCode(), nil
	}
	return 0, err
}

// onMachine returns what the arguments ask to run, with the script among them
// laid on the machine.
func onMachine(ctx context.Context, m *machine.Machine, args []string) ([]string, error) {
	switch {
	case len(args) == 0:
		return []string{"bash"}, nil
	case args[0] == "--" && len(args) > 1:
		return args[1:], nil
	}
	script, err := os.ReadFile(args[0])
	if err != nil {
		return nil, err
	}
	there := path.Join("/root", filepath.Base(args[0]))
	return append([]string{there}, args[1:]...), m.WriteFile(ctx, there, script, 0o755)
}
