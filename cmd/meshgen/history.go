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
	// Of is the generation that the switch brought back; 0 where it went by the
	// manifest, and where its own generation is no longer on the disk.
	Of      int  `json:"of,omitempty"`
	InForce bool `json:"in_force,omitempty"`
}

func newHistory(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "history",
		Short: "List the switches that this node went through",
		Long: "history lists the switches that this node went through, oldest first: which generation\n" +
			"came after which, how that ended, and how many transitions it had; whether it was a\n" +
			"rollback, for as long as its generation is on the disk; and which one is in force.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			node, err := o.open(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { _ = node.Close() }() // nothing was written
			current, _, err := state.Current(node.Layout)
			if err != nil {
				return err
			}
			list := []past{}
			brought := -1 // what is in force, last
			for i, s := range node.Switches() {
				p := past{
					Number: s.Generation, From: s.From, Time: s.Begin, Manifest: s.Manifest, Transitions: orEmpty(s.Transitions),
					Changes: s.Changes, Result: string(s.Result), Of: node.Of(s.Generation),
				}
				if s.End.IsZero() {
					p.Result = "unfinished"
				}
				if s.Generation == current && s.Result != state.Undone && s.Result != state.RolledBack {
					brought = i
				}
				list = append(list, p)
			}
			if brought >= 0 {
				list[brought].InForce = true
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
		line := fmt.Sprintf("generation %d → %d  %s  %s  %s",
			p.From, p.Number, p.Time.Local().Format(time.DateTime), p.Result, count(p.Changes, "transition"))
		if p.Of > 0 {
			line += fmt.Sprintf("  rollback to %d", p.Of)
		}
		if p.InForce {
			line += "  in force"
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), line)
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
