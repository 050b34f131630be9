package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
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
	failure
}

func newStatus(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show what is declared and how it does",
		Long: "status shows what is in force: each resource, its unit or name, how the unit does and\n" +
			"since when, and what other hands did to it: a unit that is masked or defined by others,\n" +
			"a file that was changed. It says where a rollback is in force, or another manifest is on\n" +
			"the disk. What is no longer declared and still there stands last.",
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
			if o.json {
				doc.Resources = orEmpty(doc.Resources)
				return writeJSON(cmd.OutOrStdout(), doc)
			}
			return writeStatus(cmd, doc)
		},
	}
}

func writeStatus(cmd *cobra.Command, doc status) error {
	head := fmt.Sprintf("generation %d", doc.Generation)
	if doc.Generation == 0 {
		head = "nothing is in force"
	}
	for _, line := range []string{doc.Unfinished, doc.Manifest} {
		if line != "" {
			head += "\n" + line
		}
	}
	if err := writeText(cmd.OutOrStdout(), head); err != nil {
		return err
	}
	var rows [][]string
	for _, s := range doc.Resources {
		name := s.Unit
		if name == "" && len(s.Targets) > 0 {
			name = s.Targets[0].Name()
		}
		does := s.Active
		if s.State != "live" {
			does = strings.TrimSpace(s.State + " " + does)
		}
		row := []string{s.Address.String(), name, does, since(s.Since)}
		if s.Why != "" {
			row = append(row, s.Why)
		}
		if len(s.Adopted) > 0 {
			row = append(row, "adopted")
		}
		if s.Drift != "" {
			row = append(row, "drift: "+s.Drift)
		}
		rows = append(rows, row)
	}
	return writeTable(cmd.OutOrStdout(), rows)
}

// astray says how what is in force is not what the manifest says, and what to do;
// "" where it is that.
func (o *options) astray(l state.Layout, g state.Generation) string {
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

// since returns a moment as it is short and clear: the time of today, else the
// date.
func since(t time.Time) string {
	t = t.Local()
	switch {
	case t.IsZero():
		return ""
	case t.Format(time.DateOnly) == time.Now().Format(time.DateOnly):
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateOnly)
}
