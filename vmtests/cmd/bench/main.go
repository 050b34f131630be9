// Command bench measures meshgen on real machines and prints one table, each
// figure beside its yardstick, which is measured in the same run, in turn with
// it, and beside the budget of the design. The figures are medians, with the
// quartiles behind them.
//
//	go run ./vmtests/cmd/bench [-sizes 10,100,1000] [-runs 11] [-renames 5]
//
// It exits 0 where a figure is over its budget: a measurement informs. Where
// one could not be taken it exits 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"meshgen/vmtests/machine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is what all measurements share.
type bench struct {
	parts   machine.Parts
	runs    int // of what takes milliseconds
	renames int
	log     io.Writer // says what is being measured
	rows    []row
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == onMachine {
		return sampleHere(ctx, args[1:], stdout)
	}
	b := &bench{log: stderr}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	sizes := flags.String("sizes", "10,100,1000", "`N,…` containers that are declared, their podman a stub")
	running := flags.String("running", "10,100", "`N,…` containers that run, for the renames")
	flags.IntVar(&b.runs, "runs", 11, "`N` runs of a short command")
	flags.IntVar(&b.renames, "renames", 5, "`N` renames of each way")
	if err := flags.Parse(args); err != nil {
		return err
	}
	declared, err := counts(*sizes)
	if err != nil {
		return err
	}
	run, err := counts(*running)
	if err != nil {
		return err
	}
	if err := machine.Check(); err != nil {
		return fmt.Errorf("this host boots no machine: %w", err)
	}
	if b.parts, err = machine.Prepare(ctx); err != nil {
		return err
	}
	err = b.policies(ctx)
	for _, n := range declared {
		err = errors.Join(err, b.still(ctx, n))
	}
	for _, n := range run {
		err = errors.Join(err, b.moving(ctx, n))
	}
	return errors.Join(err, writeTable(stdout, b.rows))
}

func counts(list string) ([]int, error) {
	var sizes []int
	for word := range strings.SplitSeq(list, ",") {
		if word == "" {
			continue
		}
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a number of containers", word)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}
