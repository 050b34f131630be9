package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"meshgen/state"
)

// history is the JSON form of all switches.
type history struct {
	Schema      string `json:"schema"`
	Generations []past `json:"generations"`
	failure
}

// past is one switch in it.
type past struct {
	Number      int                `json:"number"`
	From        int                `json:"from"`
	Time        time.Time          `json:"time"`
	Manifest    string             `json:"manifest"`
	Transitions []state.Transition `json:"transitions"` // none where the ledger was compacted since
	Changes     int                `json:"changes"`     // how many there were
	Result      string             `json:"result"`
}

func newHistory(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "history",
		Short: "List the switches that this node went through",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			node, err := o.open(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { _ = node.Close() }() // nothing was written
			list := []past{}
			for _, s := range node.Switches() {
				p := past{Number: s.Generation, From: s.From, Time: s.Begin, Manifest: s.Manifest, Transitions: orEmpty(s.Transitions), Changes: s.Changes, Result: string(s.Result)}
				if s.End.IsZero() {
					p.Result = "unfinished"
				}
				list = append(list, p)
			}
			if o.json {
				return writeJSON(cmd.OutOrStdout(), history{Schema: "meshgen.history/v1", Generations: list})
			}
			return o.writeHistory(cmd, list)
		},
	}
}

func (o *options) writeHistory(cmd *cobra.Command, list []past) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "no switch yet")
		return err
	}
	for _, p := range list {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "generation %d → %d  %s  %s  %s\n",
			p.From, p.Number, p.Time.Local().Format(time.DateTime), p.Result, count(p.Changes, "transition"))
		if err != nil {
			return err
		}
		if !o.verbose {
			continue
		}
		if err := writeTransitions(cmd.OutOrStdout(), p.Transitions); err != nil {
			return err
		}
	}
	return nil
}
