package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"meshgen/internal/apply"
	"meshgen/policy"
	"meshgen/units"
)

// explained is the JSON form of a story.
type explained struct {
	Schema   string          `json:"schema"`
	Target   units.Target    `json:"target,omitempty"`
	Resource units.Address   `json:"resource,omitzero"`
	Events   []apply.Telling `json:"events"`
	Now      []string        `json:"now"`
	Next     []string        `json:"next"`
	Damage   string          `json:"damage,omitempty"`
	failure
}

func newExplain(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "explain TARGET|ADDRESS",
		Short: "Tell all that ever happened to a name or to a resource",
		Long: "explain tells the story of a target, as container:gitea, or of a resource, by its\n" +
			"address or one that it had before, as forge/container/gitea.server: when each name was\n" +
			"recorded, started, renamed, let be, found or seen gone, and why; then what it is now, and\n" +
			"what comes of it. Names that are long gone are there too.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(cmd, fmt.Errorf("explain: takes one target or address, and was given %d", len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := o.open(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { _ = node.Close() }() // nothing was written
			s, err := node.Explain(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if !o.json {
				return writeStory(cmd.OutOrStdout(), s)
			}
			doc := explained{
				Schema: schema(cmd), Target: s.Target, Resource: s.Resource,
				Events: orEmpty(s.Events), Now: orEmpty(s.Now), Next: orEmpty(s.Next),
			}
			if s.Damage != nil {
				doc.Damage = s.Damage.Error()
			}
			return writeJSON(cmd.OutOrStdout(), doc)
		},
	}
}

// writeStory prints a line for each event, then what is now and what comes next.
func writeStory(w io.Writer, s apply.Story) error {
	head := string(s.Target)
	if s.Target == "" {
		head = s.Resource.String()
	}
	head = policy.Line(head)
	if s.Damage != nil {
		head += "\n" + s.Damage.Error()
	}
	if _, err := fmt.Fprintln(w, head); err != nil {
		return err
	}
	var rows [][]string
	for _, e := range s.Events {
		generation := ""
		if e.Generation > 0 {
			generation = "generation " + strconv.Itoa(e.Generation)
		}
		text := e.Detail
		if e.Target != "" && s.Target == "" {
			text = string(e.Target) + " " + text
		}
		rows = append(rows, []string{e.Time.Local().Format(time.DateTime), generation, text})
		if e.Policy != "" {
			rows = append(rows, []string{"", "", decidedBy(e.Policy, e.PolicySum, e.Facts)})
		}
	}
	if err := writeTable(w, rows); err != nil {
		return err
	}
	rows = nil
	for _, line := range s.Now {
		rows = append(rows, []string{"now", line})
	}
	for _, line := range s.Next {
		rows = append(rows, []string{"next", line})
	}
	return writeTable(w, rows)
}

// decidedBy says which policy decided, and on what.
func decidedBy(policy, sum string, facts map[string]string) string {
	text := "    decided by " + policy
	if sum != "" {
		text += fmt.Sprintf(", sha256 %.12s", sum)
	}
	var read []string
	for _, key := range slices.Sorted(maps.Keys(facts)) {
		read = append(read, key+" "+strconv.Quote(facts[key]))
	}
	if len(read) > 0 {
		text += ", which read " + strings.Join(read, ", ")
	}
	return text
}
