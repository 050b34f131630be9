package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker; a plain go build has that of its module.
var version string //nolint:gochecknoglobals // the linker sets a global or nothing

func newVersion(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := version
			if info, ok := debug.ReadBuildInfo(); ok && v == "" {
				v = info.Main.Version
			}
			if o.json {
				return printJSON(cmd.OutOrStdout(), map[string]string{"schema": "meshgen.version/v1", "version": v, "go": runtime.Version()})
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "meshgen %s (%s)\n", v, runtime.Version())
			return err
		},
	}
}
