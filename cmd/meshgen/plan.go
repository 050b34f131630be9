package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"meshgen/internal/apply"
	"meshgen/policy"
	"meshgen/state"
	"meshgen/units"
)

// planned is the JSON form of a plan.
type planned struct {
	Schema      string             `json:"schema"`
	Generation  fromTo             `json:"generation"`
	Of          int                `json:"of,omitempty"` // the generation that would be brought back
	Unfinished  string             `json:"unfinished,omitempty"`
	Transitions []state.Transition `json:"transitions"`
	Steps       []apply.Step       `json:"steps"`
	Rejected    []units.Fault      `json:"rejected"`
	Held        []state.Holding    `json:"held,omitempty"`
	Losses      []apply.Loss       `json:"losses,omitempty"`
	// Diff is how files, units and secrets would change; only with --diff.
	Diff []apply.Difference `json:"diff,omitempty"`
	failure
}

type fromTo struct {
	From int `json:"from"`
	To   int `json:"to"`
}

func newPlan(o *options) *cobra.Command {
	exitCode, allowEmpty := false, false
	var diff diffing
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Say what a switch would do",
		Long: "plan does all that a switch does up to the point where something would change, and\n" +
			"says what that is.\n\n" + diffHelp,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := diff.check(cmd); err != nil {
				return err
			}
			p, err := o.plan(cmd, diff, o.declared(cmd, allowEmpty))
			if err == nil && exitCode && (!p.Plan.Empty() || p.unfinished != "") {
				return exitError{code: exitChanges}
			}
			return err
		},
	}
	diff.flag(cmd)
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit 10 where there is something to do")
	cmd.Flags().BoolVar(&allowEmpty, "allow-empty", false, "take a manifest that declares nothing")
	return cmd
}

// prospect is what a switch would do, to which set, and what it would finish or
// undo before.
type prospect struct {
	apply.Prepared
	of         int // the generation that it would bring back, if any
	unfinished string
	diff       []apply.Difference
}

// plan says what a switch to a set would do. The error is also where it would be
// refused.
func (o *options) plan(cmd *cobra.Command, diff diffing, load load) (prospect, error) {
	p, err := o.foresee(cmd, diff, load)
	if err != nil {
		return p, placed(err, p.of)
	}
	if o.json {
		doc := planned{
			Schema: schema(cmd), Generation: fromTo{p.From, p.To}, Of: p.of, Unfinished: p.unfinished,
			Transitions: orEmpty(p.Transitions), Steps: orEmpty(p.Plan.Steps()), Rejected: orEmpty(p.Rejected), Held: p.Held, Losses: p.Losses, Diff: p.diff,
		}
		if len(p.Rejected) == 0 {
			return p, writeJSON(cmd.OutOrStdout(), doc)
		}
		doc.failure = failureOf(p.Rejected)
		return p, joinCode(writeJSON(cmd.OutOrStdout(), doc), exitRejected)
	}
	if err := writePlan(cmd.OutOrStdout(), p); err != nil {
		return p, err
	}
	if err := writeDifferences(cmd.OutOrStdout(), p.diff); err != nil {
		return p, err
	}
	if o.verbose {
		if err := writeDecisions(cmd.OutOrStdout(), p.Transitions); err != nil {
			return p, err
		}
	}
	if len(p.Rejected) == 0 {
		return p, nil
	}
	return p, placed(p.Rejected, p.of)
}

// foresee does what a switch does before it would touch something.
func (o *options) foresee(cmd *cobra.Command, diff diffing, load load) (p prospect, err error) {
	node, err := o.open(cmd.Context())
	if err != nil {
		return p, err
	}
	defer func() { _ = node.Close() }() // nothing was written
	if p.unfinished, err = node.Unfinished(); err != nil {
		return p, err
	}
	inForce, err := node.InForce()
	if err != nil {
		return p, err
	}
	in, err := load(node, inForce)
	if err != nil {
		return p, err
	}
	p.of = in.Of
	p.Prepared, err = node.Prepare(cmd.Context(), in)
	if err == nil && len(p.Rejected) == 0 && diff != diffNone {
		p.diff, err = node.Differences(p.Prepared, diff == diffAll)
	}
	return p, err
}

func writePlan(w io.Writer, p prospect) error {
	if p.unfinished != "" {
		if _, err := fmt.Fprintln(w, p.unfinished); err != nil {
			return err
		}
	}
	if len(p.Rejected) > 0 {
		return nil
	}
	for _, l := range p.Losses {
		if _, err := fmt.Fprintln(w, toldLoss(l)); err != nil {
			return err
		}
	}
	if p.Plan.Empty() {
		if _, err := fmt.Fprintln(w, "nothing to do"); err != nil || len(p.Transitions)+len(p.Held) == 0 {
			return err
		}
		return writeChanges(w, p.Prepared)
	}
	with := ""
	if p.of > 0 {
		with = fmt.Sprintf(", with what generation %d had", p.of)
	}
	if _, err := fmt.Fprintf(w, "generation %d → %d%s\n\n", p.From, p.To, with); err != nil {
		return err
	}
	if err := writeChanges(w, p.Prepared); err != nil {
		return err
	}
	return writeSteps(w, p.Plan.Steps())
}

// writeChanges prints the transitions, then what is held, with what to do about
// it.
func writeChanges(w io.Writer, p apply.Prepared) error {
	heldBelow := func(t state.Transition) bool { return t.Kind == state.Takeover && t.Decision == state.Hold }
	told := slices.DeleteFunc(slices.Clone(p.Transitions), heldBelow)
	if err := writeTransitions(w, told); err != nil {
		return err
	}
	for i, h := range p.Held {
		if i == 0 && len(told) > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := writeText(w, toldHeld(h)); err != nil {
			return err
		}
	}
	return nil
}

// toldLoss says what became of something that was put aside, and what to do next.
func toldLoss(l apply.Loss) string {
	return policy.Line(string(l.Target)+", which was put aside, "+l.Detail) + "\nhint: " + policy.Line(l.Hint)
}

// toldHeld says why a resource is held, and what to do next.
func toldHeld(h state.Holding) string {
	text := policy.Line(fmt.Sprintf("%s: held: %s", h.Resource, h.Why()))
	if hint := h.Hint(); hint != "" {
		text += "\nhint: " + policy.Line(hint)
	}
	return text
}

// writeTransitions prints a row each; the names of a rename stand below, a line
// for each pair.
func writeTransitions(w io.Writer, transitions []state.Transition) error {
	t := transitionTable()
	var last state.Transition
	for _, tr := range transitions {
		first := last.Kind != state.Rename || last.Resource != tr.Resource // of the names of a rename
		last = tr
		why := string(tr.Decision)
		if words := tr.Why(); words != "" {
			why += ": " + words
		}
		why = strings.TrimPrefix(why, ": ")
		if tr.Kind != state.Rename {
			t.add(string(tr.Kind), tr.Resource.String(), cmp.Or(shown(tr.To), shown(tr.From)), why)
			continue
		}
		if first {
			row := []string{string(tr.Kind), tr.Resource.String()}
			if tr.Decision != state.Migrate {
				row = append(row, why)
			}
			t.add(row...)
		}
		row := []string{"", shown(tr.From) + " → " + tr.To.Name()}
		if tr.Decision == state.Migrate { // for this name alone
			row = append(row, why)
		}
		t.add(row...)
	}
	return t.write(w)
}

func transitionTable() table {
	return table{columns: []column{
		{},
		{by: cutMiddle, weight: 1, min: 14},
		{by: cutMiddle, weight: 2, min: 14},
		{by: cutWrap, min: 16},
	}}
}

// writeDecisions prints which policy decided what, and on which facts.
func writeDecisions(w io.Writer, transitions []state.Transition) error {
	t := table{columns: []column{{by: cutWrap}}}
	for _, tr := range transitions {
		if tr.Policy != "" {
			t.add(fmt.Sprintf("%s %s %s: %s", tr.Kind, tr.Resource, shown(cmp.Or(tr.To, tr.From)), tr.Decision))
			t.rows[len(t.rows)-1].below = decidedBy(tr.Policy, tr.PolicySum, tr.Facts)
		}
	}
	if len(t.rows) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w, "\ndecided:"); err != nil {
		return err
	}
	return t.write(w)
}

// shown returns a target as it is shown: a unit or a file by its name, which
// tells what it is.
func shown(t units.Target) string {
	if t.Kind() == units.TargetUnit || t.Kind() == units.TargetFile {
		return t.Name()
	}
	return string(t)
}

// writeSteps prints what will be done, where that is anything: a resource may get
// another address, or be held, with no step.
func writeSteps(w io.Writer, steps []apply.Step) error {
	if len(steps) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w, "\nin this order:"); err != nil {
		return err
	}
	var rows [][]string
	for _, s := range steps {
		rows = append(rows, []string{string(s.Op), shown(s.Target), s.Reason})
	}
	return writeTable(w, rows)
}
