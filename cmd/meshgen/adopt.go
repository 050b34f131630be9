package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"meshgen/internal/apply"
	"meshgen/state"
	"meshgen/units"
)

func newAdopt(o *options) *cobra.Command {
	var far reach
	cmd := &cobra.Command{
		Use:   "adopt TARGET...",
		Short: "Take the place of what was found, and keep it",
		Long: "adopt is a switch in which what is in the way of a declared resource is adopted, whatever\n" +
			"a policy says: a copy of it is kept, it is stopped by the one who runs it, and what is\n" +
			"declared takes its place. meshgen release gives it back.\n\n" +
			"TARGET is kind:name, as in container:gitea; meshgen plan names what is in the way. Of a\n" +
			"resource, all that is in its way is adopted.",
		Args: targets("adopt", "takes the names of what to adopt, as in container:gitea"),
		RunE: func(cmd *cobra.Command, args []string) error {
			options, err := far.options(cmd)
			if err != nil {
				return err
			}
			return o.doSwitch(cmd, options, func(node *apply.Node, inForce state.Generation) (apply.Input, error) {
				in, err := o.input(node.Layout, inForce, false, func() { node.Foresee(cmd.Context()) })
				for _, word := range args {
					in.Adopt = append(in.Adopt, units.Target(word))
				}
				return in, err
			})
		},
	}
	far.flags(cmd)
	return cmd
}

func newRelease(o *options) *cobra.Command {
	var far reach
	cmd := &cobra.Command{
		Use:   "release TARGET...",
		Short: "Give back what was adopted",
		Long: "release is a switch that leaves the resource of TARGET out and gives back what was adopted\n" +
			"for it: files as they were, units and containers that run again if they ran. The resource\n" +
			"is held from then on, until meshgen adopt takes what is in its way again, or that is gone.\n\n" +
			"TARGET is kind:name, as in container:gitea.",
		Args: targets("release", "takes the names of what to give back, as in container:gitea"),
		RunE: func(cmd *cobra.Command, args []string) error {
			options, err := far.options(cmd)
			if err != nil {
				return err
			}
			return o.doSwitch(cmd, options, func(node *apply.Node, inForce state.Generation) (apply.Input, error) {
				in, err := o.input(node.Layout, inForce, true, func() { node.Foresee(cmd.Context()) })
				if err != nil {
					return apply.Input{}, err
				}
				if in, err = node.Releasing(in, args); err != nil {
					return apply.Input{}, exitError{exitRejected, err}
				}
				return in, nil
			})
		},
	}
	far.flags(cmd)
	return cmd
}

// targets refuses a command without a name to act on.
func targets(command, takes string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage(cmd, errors.New(command+": "+takes))
		}
		for _, word := range args {
			if t := units.Target(word); command == "adopt" && (t.Kind() == string(t) || t.Name() == "") {
				return usage(cmd, fmt.Errorf("%s: %q: want kind:name, as in container:gitea", command, word))
			}
		}
		return nil
	}
}
