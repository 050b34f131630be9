package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"meshgen/internal/apply"
	"meshgen/units"
)

// built is the JSON form of a build.
type built struct {
	Schema    string `json:"schema"`
	Directory string `json:"directory"`
	Resources int    `json:"resources"`
	// Rejected are the faults of the manifest, where there are.
	Rejected []units.Fault `json:"rejected"`
	failure
}

func newBuild(o *options) *cobra.Command {
	out, allowEmpty := "", false
	cmd := &cobra.Command{
		Use:   "build -o DIR",
		Short: "Write the Quadlets and files of the manifest into a directory",
		Long: "build writes what the manifest compiles to: Quadlet files in DIR/quadlet, units of\n" +
			"systemd's own in DIR/units, and config files below DIR/files at their paths. It\n" +
			"touches no machine. DIR must not exist, or be empty.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return usage(cmd, errors.New("build: -o is missing: the directory to write to"))
			}
			compiled, err := o.compile(cmd, allowEmpty)
			if err != nil {
				return err
			}
			if err := apply.Export(compiled, out); err != nil {
				return err
			}
			if o.json {
				return writeJSON(cmd.OutOrStdout(), built{
					Schema: "meshgen.build/v1", Directory: out, Resources: len(compiled.Generation.Resources), Rejected: []units.Fault{},
				})
			}
			return o.say(cmd, fmt.Sprintf("%s in %s", count(len(compiled.Generation.Resources), "resource"), out))
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "`DIR` to write to")
	cmd.Flags().BoolVar(&allowEmpty, "allow-empty", false, "take a manifest that declares nothing")
	_ = cmd.MarkFlagDirname("output") // a hint for completion
	return cmd
}
