package main

import (
	"fmt"
	"slices"
	"strings"
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
			"came after which, how that ended, and what it changed; whether it was a\n" +
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
	t := table{columns: []column{{}, {}, {}, {by: cutWrap, min: 24}}}
	for _, p := range list {
		var what []string
		if p.InForce {
			what = append(what, "in force")
		}
		if p.Of > 0 {
			what = append(what, fmt.Sprintf("rollback to %d", p.Of))
		}
		what = append(what, changes(p))
		t.rows = append(t.rows, row{cells: []cell{
			{text: fmt.Sprintf("%d → %d", p.From, p.Number)},
			{text: p.Time.Local().Format(time.DateTime)},
			{p.Result, resultTone(p.Result)},
			{text: strings.Join(what, "; ")},
		}})
	}
	if !o.verbose {
		return t.write(cmd.OutOrStdout())
	}
	for i, p := range list {
		one := table{columns: t.columns, rows: t.rows[i : i+1]}
		if err := one.write(cmd.OutOrStdout()); err != nil {
			return err
		}
		if err := writeTransitions(cmd.OutOrStdout(), p.Transitions); err != nil {
			return err
		}
	}
	return nil
}

func resultTone(result string) tone {
	switch result {
	case string(state.Done):
		return toneNone
	case string(state.Failed), string(state.RolledBack):
		return toneBad
	}
	return toneLook
}

// changes says what a switch changed: each where that is short, else how many of
// each kind.
func changes(p past) string {
	var each, kinds []string
	n := map[string]int{}
	for _, t := range p.Transitions {
		one := fmt.Sprintf("%s %s", t.Kind, t.Resource)
		if slices.Contains(each, one) { // of a rename's several names
			continue
		}
		each = append(each, one)
		if n[string(t.Kind)]++; n[string(t.Kind)] == 1 {
			kinds = append(kinds, string(t.Kind))
		}
	}
	switch {
	case p.Changes == 0:
		return "no transition"
	case len(each) == 0: // the ledger was compacted since
		return count(p.Changes, "transition")
	case len(each) <= 2:
		return strings.Join(each, ", ")
	}
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d %s", n[kind], kind)
	}
	return strings.Join(kinds, ", ")
}
