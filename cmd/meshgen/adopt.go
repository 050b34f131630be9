package main

import (
	"errors"

	"github.com/spf13/cobra"

	"meshgen/internal/apply"
	"meshgen/state"
)

func newAdopt(o *options) *cobra.Command {
	var far reach
	cmd := &cobra.Command{
		Use:   "adopt TARGET|ADDRESS...",
		Short: "Take the place of what was found, and keep it",
		Long: "adopt is a switch in which what is in the way of a declared resource is adopted, whatever\n" +
			"a policy says: a copy of it is kept, it is stopped by the one who runs it, and what is\n" +
			"declared takes its place. meshgen release gives it back.\n\n" +
			"TARGET is kind:name, as in container:gitea, or the name alone where that is clear; meshgen\n" +
			"plan names what is in the way. ADDRESS is that of a resource, as in app/container/web. Of\n" +
			"a resource, all that is in its way is adopted.",
		Args: targets("adopt", "takes the names of what to adopt, as in container:gitea, or of a resource, as in app/container/web"),
		RunE: func(cmd *cobra.Command, args []string) error {
			options, err := far.options(cmd)
			if err != nil {
				return err
			}
			return o.doSwitch(cmd, options, func(node *apply.Node, inForce state.Generation) (apply.Input, error) {
				in, err := o.input(node.Layout, inForce, false, func() { node.Foresee(cmd.Context()) })
				in.Adopt = args
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
		Use:   "release TARGET|ADDRESS...",
		Short: "Give back what was adopted",
		Long: "release is a switch that leaves the resource of TARGET out and gives back what was adopted\n" +
			"for it: files as they were, units and containers that run again if they ran. The resource\n" +
			"is held from then on, until meshgen adopt takes what is in its way again, or that is gone.\n" +
			"One that has another name by now stays.\n\n" +
			"TARGET is kind:name, as in container:gitea, or the name alone where that is clear; ADDRESS is\n" +
			"that of a resource, as in app/container/web.",
		Args: targets("release", "takes the names of what to give back, as in container:gitea, or of a resource, as in app/container/web"),
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
				if in, err = node.Releasing(cmd.Context(), in, args); err != nil {
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
		return nil
	}
}
