// Command scenario plays what meshgen promises on the machine that it runs on, step
// by step. It knows no kind of machine: whoever drives it plays the steps of a
// scenario in their order, and does between two of them what the list says.
//
//	scenario list [--json]    the scenarios, and what comes after each step
//	scenario NAME STEP        one step, the first is 1
//	scenario hold FILE        a command of a unit: the first time it never ends
//
// A step exits with 0 where all is as it should be, and else with 1 and a line for
// each thing that is not. The machine has meshgen installed and no manifest, and the
// image localhost/probe:1 in podman; the program keeps what it has to remember in
// /var/lib/scenario, and is given a machine for each scenario.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
)

// between is what comes after a step.
type between string

const (
	nothing  between = "nothing"
	reboot   between = "reboot"    // in order, and until the machine is up again
	powerCut between = "power cut" // and on again, until the machine is up
)

// step is what is done, and asserted, with no break.
type step struct {
	does string
	run  func(*node)
	then between
}

// scenario is a story that a machine has to go by.
type scenario struct {
	name  string
	tells string
	steps []step
}

func scenarios() []scenario {
	return []scenario{rename(), takeover(), crash(), generator(), firstBoot()}
}

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	switch {
	case len(args) == 1 && args[0] == "list":
		return list(stdout)
	case len(args) == 2 && args[0] == "list" && args[1] == "--json":
		return listJSON(stdout)
	case len(args) == 2 && args[0] == "hold":
		return hold(args[1])
	case len(args) == 2:
		return play(ctx, args[0], args[1], stdout)
	}
	return errors.New("usage: scenario list [--json] | scenario NAME STEP | scenario hold FILE")
}

func list(w io.Writer) error {
	for _, s := range scenarios() {
		if _, err := fmt.Fprintf(w, "%s: %s\n", s.name, s.tells); err != nil {
			return err
		}
		for i, step := range s.steps {
			if _, err := fmt.Fprintf(w, "  %d  %s; then %s\n", i+1, step.does, step.then); err != nil {
				return err
			}
		}
	}
	return nil
}

// listed is the JSON form of a scenario; Then has an element for each step.
type listed struct {
	Name string    `json:"name"`
	Then []between `json:"then"`
}

func listJSON(w io.Writer) error {
	all := []listed{}
	for _, s := range scenarios() {
		l := listed{Name: s.name}
		for _, step := range s.steps {
			l.Then = append(l.Then, step.then)
		}
		all = append(all, l)
	}
	return json.NewEncoder(w).Encode(all)
}

func play(ctx context.Context, name, number string, stdout io.Writer) error {
	all := scenarios()
	i := slices.IndexFunc(all, func(s scenario) bool { return s.name == name })
	if i < 0 {
		return fmt.Errorf("%s: no such scenario", name)
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > len(all[i].steps) {
		return fmt.Errorf("%s has the steps 1 to %d, and not %s", name, len(all[i].steps), number)
	}
	machine := &node{ctx: ctx}
	if err := os.MkdirAll(keeps, 0o755); err != nil {
		return err
	}
	s := all[i].steps[n-1]
	s.run(machine)
	machine.mustBeAlone()
	if n == len(all[i].steps) {
		machine.run("meshgen", "audit") // has no word on what a system of any kind comes with
	}
	if err := errors.Join(machine.faults...); err != nil {
		return fmt.Errorf("%s %d: %s:\n%w", name, n, s.does, err)
	}
	_, err = fmt.Fprintf(stdout, "%s %d: %s: as it should be\n", name, n, s.does)
	return err
}
