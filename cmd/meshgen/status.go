package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"meshgen/internal/apply"
)

// status is the JSON form of a node's status.
type status struct {
	Schema     string           `json:"schema"`
	Generation int              `json:"generation"`
	Unfinished string           `json:"unfinished,omitempty"`
	Resources  []apply.Standing `json:"resources"`
}

func newStatus(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show what is declared and how it does",
		Args:  noArgs,
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
	if doc.Unfinished != "" {
		head += "\n" + doc.Unfinished
	}
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), head); err != nil {
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
		rows = append(rows, row)
	}
	return writeTable(cmd.OutOrStdout(), rows)
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
