package main

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"meshgen/internal/apply"
	"meshgen/state"
)

// status is the JSON form of a node's status.
type status struct {
	Schema     string           `json:"schema"`
	Generation int              `json:"generation"`
	Of         int              `json:"of,omitempty"` // the generation that it brings back
	Unfinished string           `json:"unfinished,omitempty"`
	Manifest   string           `json:"manifest,omitempty"` // what is to be said of it
	Resources  []apply.Standing `json:"resources"`
	// Node is the name that the generation in force was made for, Time when it came
	// into force.
	Node string    `json:"node,omitempty"`
	Time time.Time `json:"time,omitzero"`
	// Counts says how many of the resources are in which state: what is wrong, else
	// the state of the unit, else in place.
	Counts map[string]int `json:"counts"`
	failure
}

func newStatus(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show what is declared and how it does",
		Long: "status shows what is in force and how it does. What is wrong comes first: a unit that\n" +
			"failed, with what it logged last, one that is started again and again, or is down though\n" +
			"what wants it is up; what other hands changed, masked or define; what is held, and why;\n" +
			"what is no longer declared and still there. Then comes what is well, on a terminal that\n" +
			"it does not fit by the number in each module, unless --verbose is given. It says where a\n" +
			"rollback is in force, or another manifest is on the disk.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			node, err := o.open(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { _ = node.Close() }() // nothing was written
			doc := status{Schema: "meshgen.status/v1"}
			if doc.Unfinished, err = node.Unfinished(); err != nil {
				return err
			}
			if doc.Generation, doc.Resources, err = node.Status(cmd.Context()); err != nil {
				return err
			}
			inForce, err := node.InForce()
			if err != nil {
				return err
			}
			doc.Of, doc.Manifest = inForce.Of, o.astray(node.Layout, inForce)
			doc.Node, doc.Time, doc.Counts = inForce.Node, node.Since(doc.Generation), counts(doc.Resources)
			if o.json {
				doc.Resources = orEmpty(doc.Resources)
				return writeJSON(cmd.OutOrStdout(), doc)
			}
			return o.writeStatus(cmd.OutOrStdout(), doc)
		},
	}
}

// astray says how what is in force is not what the manifest says, and what to do;
// "" where it is that.
func (o *options) astray(l state.Layout, g state.Generation) string {
	if n, ejected, err := state.Ejected(l); err == nil && ejected && g.Number == 0 {
		return fmt.Sprintf("the node was ejected: what generation %d had is its owner's; meshgen adopt takes it back", n)
	}
	same, err := o.madeOf(l, g)
	switch {
	case g.Number == 0 || same:
		return ""
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("manifest %s: not there; meshgen switch needs one", o.manifestDir(l))
	case err != nil:
		return fmt.Sprintf("manifest %s: %v", o.manifestDir(l), err)
	case g.Of > 0:
		return fmt.Sprintf("a rollback is in force, with what generation %d had: meshgen switch goes by the manifest again", g.Of)
	}
	return fmt.Sprintf("the manifest is another than that of generation %d: meshgen plan says what a switch would do", g.Number)
}
