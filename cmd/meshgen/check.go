package main

import (
	"github.com/spf13/cobra"

	"meshgen/internal/apply"
	"meshgen/state"
	"meshgen/units"
)

// checked is the JSON form of a check.
type checked struct {
	Schema    string        `json:"schema"`
	Node      string        `json:"node"`
	Resources int           `json:"resources"`
	Converted bool          `json:"converted"` // by this machine's quadlet
	Faults    []units.Fault `json:"faults"`
	failure
}

func newCheck(o *options) *cobra.Command {
	allowEmpty := false
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Read the manifest and say what is wrong with it",
		Long: "check reads the manifest, resolves its references and has the machine's own quadlet\n" +
			"convert it. It looks at nothing else and changes nothing.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			compiled, err := o.compile(cmd, allowEmpty)
			if err != nil {
				return err
			}
			g := compiled.Generation
			out := checked{
				Schema: schema(cmd), Node: g.Node, Resources: len(g.Resources), Converted: g.Converter != "", Faults: []units.Fault{},
			}
			if o.json {
				return writeJSON(cmd.OutOrStdout(), out)
			}
			how := "this machine's quadlet takes it all"
			if !out.Converted {
				how = "there is no quadlet here to convert it with"
			}
			what := count(len(g.Resources), "resource") + "; " + how
			if g.Node != "" {
				what = "node " + g.Node + ": " + what
			}
			return o.say(cmd, what)
		},
	}
	cmd.Flags().BoolVar(&allowEmpty, "allow-empty", false, "take a manifest that declares nothing")
	return cmd
}

// compile reads the manifest and converts it, whatever is in force.
func (o *options) compile(cmd *cobra.Command, allowEmpty bool) (apply.Compiled, error) {
	l, err := o.layout()
	if err != nil {
		return apply.Compiled{}, err
	}
	in, err := o.input(l, state.Generation{}, allowEmpty, func() {})
	if err != nil {
		return apply.Compiled{}, err
	}
	return apply.Compile(cmd.Context(), l, apply.LocalConverter(l), in, state.Generation{})
}
