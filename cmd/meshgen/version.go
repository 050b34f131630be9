package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker; a plain go build has that of its module.
var version string

// versioned is the JSON form of the version.
type versioned struct {
	Schema  string `json:"schema"`
	Version string `json:"version"`
	Go      string `json:"go"`
	failure
}

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
				return writeJSON(cmd.OutOrStdout(), versioned{Schema: "meshgen.version/v1", Version: v, Go: runtime.Version()})
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "meshgen %s (%s)\n", v, runtime.Version())
			return err
		},
	}
}
