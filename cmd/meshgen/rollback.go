package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"meshgen/internal/apply"
	"meshgen/internal/hint"
	"meshgen/state"
)

func newRollback(o *options) *cobra.Command {
	allowEmpty, dryRun := false, false
	var diff diffing
	var far reach
	cmd := &cobra.Command{
		Use:   "rollback [N]",
		Short: "Bring an earlier generation back into force",
		Long: "rollback brings back what generation N had: its units, its names and the contents of\n" +
			"its config files. Without N it is what was in force before the present generation;\n" +
			"again, it goes forth again. It is a switch like any other, with the same refusals, and\n" +
			"makes a new generation. The manifest stays as it is, and the next switch goes by it\n" +
			"again.\n\n" + diffHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(cmd, fmt.Errorf("rollback: takes one generation, and was given %d", len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			options, err := far.options(cmd)
			if err != nil {
				return err
			}
			if err := diff.check(cmd); err != nil {
				return err
			}
			if diff != diffNone && !dryRun {
				return usage(cmd, errors.New("--diff is of --dry-run"))
			}
			number := 0
			if len(args) == 1 {
				if number, err = strconv.Atoi(args[0]); err != nil || number < 1 {
					return usage(cmd, fmt.Errorf("rollback %q: want the number of a generation, as meshgen history has them", args[0]))
				}
			}
			load := func(node *apply.Node, _ state.Generation) (apply.Input, error) {
				in, err := node.Earlier(number)
				if err == nil && len(in.Resources) == 0 && !allowEmpty {
					err = hint.Add(fmt.Errorf("generation %d: declares nothing, and to bring it back is to remove everything", in.Of), "--allow-empty does that")
				}
				if err != nil {
					return apply.Input{}, exitError{exitRejected, err}
				}
				return in, nil
			}
			if dryRun {
				_, err := o.plan(cmd, diff, load)
				return err
			}
			return o.doSwitch(cmd, options, load)
		},
	}
	far.flags(cmd)
	diff.flag(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what it would do, as plan does, and do nothing")
	cmd.Flags().BoolVar(&allowEmpty, "allow-empty", false, "take a generation that declares nothing, and remove everything")
	return cmd
}
