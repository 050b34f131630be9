package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"meshgen/internal/apply"
	"meshgen/units"
)

// forgotten is the JSON form of what was let go.
type forgotten struct {
	Schema  string   `json:"schema"`
	Targets []holder `json:"targets"`
	failure
}

// holder is a target and the resource that has or had it.
type holder struct {
	Target   units.Target  `json:"target"`
	Resource units.Address `json:"resource"`
}

func newForget(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "forget TARGET...",
		Short: "Let a name go: what is there is yours from now on",
		Long: "forget lets a name of meshgen's go that is no longer declared and is still there: a\n" +
			"volume that is held, or what could not be removed. Nothing is removed. From then on\n" +
			"meshgen neither touches what has the name nor gives the name to something else, and the\n" +
			"ledger remembers that it was once meshgen's.\n\n" +
			"TARGET is kind:name, as in volume:forge-data.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(cmd, errors.New("forget: takes the names to let go, as in volume:forge-data"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			l, err := o.layout()
			if err != nil {
				return err
			}
			node, err := apply.OpenLocked(cmd.Context(), l, apply.Local)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, node.Close()) }()
			records, err := node.Forget(args)
			if err != nil && len(records) > 0 {
				return err // it could not be recorded
			}
			if err != nil {
				return exitError{exitRejected, err}
			}
			doc := forgotten{Schema: schema(cmd)}
			for _, r := range records {
				doc.Targets = append(doc.Targets, holder{r.Target, r.Resource})
				if o.json {
					continue
				}
				if err := o.say(cmd, fmt.Sprintf("%s is no longer meshgen's: it was of %s, and stays as it is", r.Target, r.Resource)); err != nil {
					return err
				}
			}
			if o.json {
				return writeJSON(cmd.OutOrStdout(), doc)
			}
			return nil
		},
	}
}
