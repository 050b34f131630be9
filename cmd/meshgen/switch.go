package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"meshgen/internal/apply"
	"meshgen/internal/hint"
	"meshgen/policy"
	"meshgen/state"
	"meshgen/units"
)

// switched is the JSON form of a switch.
type switched struct {
	Schema      string             `json:"schema"`
	Generation  fromTo             `json:"generation"`
	Of          int                `json:"of,omitempty"` // the generation that was brought back
	Result      state.Result       `json:"result"`
	Transitions []state.Transition `json:"transitions"`
	Steps       []apply.Step       `json:"steps"`
	Rejected    []units.Fault      `json:"rejected"`
	Held        []state.Holding    `json:"held,omitempty"`
	Losses      []apply.Loss       `json:"losses,omitempty"`
	Failed      []string           `json:"failed"`
	failure
}

// load finds out what is to be in force, once the node is locked and nothing is
// left of a switch that was cut short.
type load func(node *apply.Node, inForce state.Generation) (apply.Input, error)

func newSwitch(o *options) *cobra.Command {
	allowEmpty := false
	var far reach
	cmd := &cobra.Command{
		Use:   "switch",
		Short: "Bring the manifest into force",
		Long: "switch compiles the manifest, and moves the machine from the set that it runs to the\n" +
			"set that it is told to run. Where a unit of the new set does not come up, the old set\n" +
			"is brought back. Where there is nothing to do it does nothing.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := far.options(cmd)
			if err != nil {
				return err
			}
			return o.doSwitch(cmd, options, o.declared(cmd, allowEmpty))
		},
	}
	far.flags(cmd)
	cmd.Flags().BoolVar(&allowEmpty, "allow-empty", false, "take a manifest that declares nothing, and remove everything")
	return cmd
}

// declared loads what the manifest says.
func (o *options) declared(cmd *cobra.Command, allowEmpty bool) load {
	return func(node *apply.Node, inForce state.Generation) (apply.Input, error) {
		return o.input(node.Layout, inForce, allowEmpty, func() { node.Foresee(cmd.Context()) })
	}
}

// reach is how far a switch goes, as its flags say.
type reach struct {
	rollback string
	keep     int
}

func (r *reach) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.rollback, "rollback", "auto", "`WHEN` the old set is brought back: auto, where a unit fails, or never")
	cmd.Flags().IntVar(&r.keep, "keep", keepGenerations, "`N` old generations stay on the disk")
}

func (r *reach) options(cmd *cobra.Command) (apply.Options, error) {
	if r.rollback != "auto" && r.rollback != "never" {
		return apply.Options{}, usage(cmd, fmt.Errorf("--rollback %q: want auto or never", r.rollback))
	}
	if r.keep < 1 {
		return apply.Options{}, usage(cmd, fmt.Errorf("--keep %d: want 1 or more", r.keep))
	}
	return apply.Options{Rollback: r.rollback == "auto", Keep: r.keep}, nil
}

// keepGenerations is how many old generations stay where nobody says otherwise.
const keepGenerations = 10

// doSwitch brings a set into force, whichever it is.
func (o *options) doSwitch(cmd *cobra.Command, options apply.Options, load load) (err error) {
	notifyBegin()
	defer func() { notifyEnd(err) }()
	l, err := o.layout()
	if err != nil {
		return err
	}
	node, err := apply.OpenLocked(cmd.Context(), l, apply.Local)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	show := o.newDisplay(cmd.ErrOrStderr())
	defer show.end()
	unfinished, err := o.recover(cmd, node, options, show)
	if err != nil {
		return err
	}
	if err := node.Recall(); err != nil {
		return err
	}
	inForce, err := node.InForce()
	if err != nil {
		return err
	}
	in, err := load(node, inForce)
	if err != nil {
		return o.switchRejected(cmd, inForce.Number, in.Of, beside(err, unfinished))
	}
	p, err := node.Prepare(cmd.Context(), in)
	if err == nil && len(p.Rejected) > 0 {
		err = p.Rejected
	}
	if err != nil {
		return o.switchRejected(cmd, inForce.Number, in.Of, beside(err, unfinished))
	}
	for _, t := range p.Transitions {
		if why := t.Why(); why != "" && (t.Kind == state.Create || (t.Kind == state.Drift && t.Decision == state.Keep)) {
			show.line(policy.Line(t.Resource.String() + ": " + why))
		}
	}
	o.showHeld(show, p.Held, inForce.Held)
	for _, l := range p.Losses {
		show.line(toldLoss(l))
	}
	told := context.AfterFunc(cmd.Context(), func() {
		show.line("interrupted: what was begun is finished first; once more ends it at once")
	})
	out, err := node.Switch(cmd.Context(), p, options, show.event)
	told()
	show.end()
	if len(faultsOf(err)) > 0 && out.Result == "" { // by what came to be while an image was pulled
		return o.switchRejected(cmd, inForce.Number, in.Of, refusal{err, untouched + ", but images were pulled"})
	}
	return o.switchEnded(cmd, in.Of, p, out, unfinished, err)
}

// showHeld says why resources are held where that is new since the set in force,
// and counts the others.
func (o *options) showHeld(show *display, held, before []state.Holding) {
	known := 0
	for _, h := range held {
		same := func(b state.Holding) bool { return b.Resource == h.Resource && b.Why() == h.Why() }
		if !o.verbose && slices.ContainsFunc(before, same) {
			known++
			continue
		}
		show.line(toldHeld(h))
	}
	if known == 1 {
		show.line("1 resource is held, as before; meshgen status says why")
	} else if known > 1 {
		show.line(fmt.Sprintf("%d resources are held, as before; meshgen status says why", known))
	}
}

// recover finishes or undoes what a switch that was cut short has left, and
// returns what there was of one, in words.
func (o *options) recover(cmd *cobra.Command, node *apply.Node, options apply.Options, show *display) (unfinished string, err error) {
	if unfinished, err = node.Unfinished(); err != nil {
		return "", err
	}
	if unfinished != "" {
		show.line(strings.Replace(unfinished, "the next switch", "this switch", 1))
	}
	out, err := node.Recover(cmd.Context(), options, show.event)
	if err != nil {
		return "", exitError{exitFailed, fmt.Errorf("recover: %w", err)}
	}
	if len(out.Failed) > 0 {
		show.line(strings.Join(out.Failed, "\n"))
	}
	return unfinished, nil
}

// beside has a refusal say what was done before it: the switch that was cut short
// is finished or undone.
func beside(err error, unfinished string) error {
	if unfinished == "" || codeOf(err) != exitRejected {
		return err
	}
	return exitError{exitRejected, refusal{err, untouched + " but what the earlier switch had left"}}
}

// switchRejected ends a switch that came to a halt before anything was touched.
func (o *options) switchRejected(cmd *cobra.Command, inForce int, of int, err error) error {
	if cmd.Context().Err() != nil {
		err = errors.New("interrupted; nothing was touched")
	}
	if !o.json {
		return placed(err, of)
	}
	doc := switched{
		Schema: schema(cmd), Generation: fromTo{inForce, inForce}, Of: of, Transitions: []state.Transition{}, Steps: []apply.Step{},
		Rejected: orEmpty(faultsOf(err)), Failed: []string{}, failure: failureOf(err),
	}
	return joinCode(writeJSON(cmd.OutOrStdout(), doc), codeOf(err))
}

// placed says of faults in a generation that is to be brought back what their
// places are.
func placed(err error, of int) error {
	if of == 0 || len(faultsOf(err)) == 0 {
		return err
	}
	return hint.Add(err, fmt.Sprintf("the places are those of the manifest that generation %d was made from", of))
}

func (o *options) switchEnded(cmd *cobra.Command, of int, p apply.Prepared, out apply.Outcome, unfinished string, err error) error {
	code := exitOf(out, err)
	if o.json {
		doc := switched{
			Schema: schema(cmd), Generation: fromTo{out.From, out.To}, Of: of, Result: out.Result,
			Transitions: orEmpty(p.Transitions), Steps: orEmpty(p.Plan.Steps()), Rejected: []units.Fault{}, Held: p.Held, Losses: p.Losses, Failed: orEmpty(out.Failed),
		}
		if err != nil {
			doc.Error = textOf(err)
		}
		return joinCode(writeJSON(cmd.OutOrStdout(), doc), code)
	}
	if code == 0 {
		return o.say(cmd, outcome(of, p, out, unfinished))
	}
	return exitError{code, explain(out, err)}
}

// exitOf returns the exit code that tells how a switch ended.
func exitOf(out apply.Outcome, err error) int {
	switch out.Result {
	case state.RolledBack:
		return exitRolledBack
	case state.Failed:
		return exitIncomplete
	case state.Done, state.Undone:
	}
	if err != nil || out.Result != state.Done {
		return exitFailed
	}
	return 0
}

func outcome(of int, p apply.Prepared, out apply.Outcome, unfinished string) string {
	text := fmt.Sprintf("generation %d is in force", out.To)
	switch {
	case p.Plan.Empty() && unfinished == "" && (of == 0 || of == out.To):
		return text + ": nothing to do"
	case p.Plan.Empty() && unfinished == "":
		text = fmt.Sprintf("%s, and what generation %d had is so by now: nothing to do", text, of)
		if byHand := givenBack(p.Held); byHand != "" {
			text = fmt.Sprintf("generation %d is in force: nothing to do: what generation %d had of %s was given back by hand; `%s` takes its place again", out.To, of, byHand, adoptAgain(p.Held))
		}
		return text
	case of > 0:
		return fmt.Sprintf("%s, with what generation %d had; the next switch goes by the manifest again", text, of)
	}
	return text
}

// givenBack returns the resources that are held since meshgen release gave back
// what had been adopted for them, in words.
func givenBack(held []state.Holding) string {
	var names []string
	for _, h := range released(held) {
		names = append(names, h.Resource.String())
	}
	return strings.Join(names, ", ")
}

// adoptAgain returns the command that takes back what was given back.
func adoptAgain(held []state.Holding) string {
	var names []string
	for _, h := range released(held) {
		for _, t := range h.Adopts() {
			names = append(names, string(t))
		}
	}
	slices.Sort(names)
	return hint.Command(append([]string{"meshgen", "adopt"}, slices.Compact(names)...)...)
}

func released(held []state.Holding) []state.Holding {
	return slices.DeleteFunc(slices.Clone(held), func(h state.Holding) bool {
		return !slices.ContainsFunc(h.Taken, func(t state.Transition) bool { return t.Policy == apply.Operator })
	})
}

// explain says what failed, where the machine stands, and what comes next.
func explain(out apply.Outcome, err error) error {
	var lines []string
	lines = append(lines, out.Failed...)
	if err != nil {
		lines = append(lines, err.Error())
	}
	next := ""
	switch out.Result {
	case state.RolledBack:
		back := "rolled back: " + inForce(out.To)
		if out.Incomplete {
			back = fmt.Sprintf("rolled back: generation %d is in force again, and not all of its units came up", out.To)
		}
		lines, next = append(lines, back), "mend the manifest or what it needs, then switch again"
	case state.Failed:
		lines, next = append(lines, fmt.Sprintf("generation %d is in force, with what is said above", out.To)), "the next switch tries again what is left"
	case state.Undone:
		lines, next = append(lines, "undone: "+inForce(out.To)), "mend what is said above, then switch again"
	case state.Done:
	}
	told := errors.New(strings.Join(lines, "\n"))
	if next == "" || hint.Of(err) != "" {
		return told
	}
	return hint.Add(told, next)
}

func inForce(generation int) string {
	if generation == 0 {
		return "nothing is in force, as before"
	}
	return fmt.Sprintf("generation %d is in force, as before", generation)
}
