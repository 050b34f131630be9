package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"meshgen/internal/apply"
	"meshgen/internal/hint"
	"meshgen/state"
)

// recovered is the JSON form of a recovery.
type recovered struct {
	Schema     string       `json:"schema"`
	Generation fromTo       `json:"generation"`
	Result     state.Result `json:"result"` // "" where no switch was unfinished
	Failed     []string     `json:"failed"`
	failure
}

func newRecover(o *options) *cobra.Command {
	boot := false
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Finish or undo a switch that was cut short",
		Long: "recover does what each switch does first, and nothing else: a switch that was cut\n" +
			"short is finished where its set was in force already, and undone where it was not.\n" +
			"Without one there is nothing to do.\n\n" +
			"At the boot after a power cut meshgen-recover.service runs it with --boot, before any\n" +
			"unit of meshgen's starts: there it puts the config files right, retires what is gone,\n" +
			"and starts nothing. Where that fails, the units that would read a config file of the\n" +
			"other set are not started. Once all are up, meshgen-confirm.service runs it without,\n" +
			"to finish what is left.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !boot {
				return o.doRecover(cmd, apply.Local)
			}
			if o.root != "/" {
				return usage(cmd, errors.New("--boot is for the machine itself, and not for --root"))
			}
			return o.holdBack(cmd, o.doRecover(cmd, apply.AtBoot))
		},
	}
	cmd.Flags().BoolVar(&boot, "boot", false, "the machine is booting, and nothing of meshgen's runs yet")
	return cmd
}

func (o *options) doRecover(cmd *cobra.Command, connect apply.Connect) (err error) {
	l, err := o.layout()
	if err != nil {
		return err
	}
	node, err := apply.OpenLocked(cmd.Context(), l, connect)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	unfinished, err := node.Unfinished()
	if err != nil {
		return err
	}
	defer func() { notifyEnd(err) }()
	show := o.newDisplay(cmd.ErrOrStderr())
	defer show.end()
	if unfinished != "" {
		show.line(strings.Replace(unfinished, "the next switch", "this recovery", 1))
	}
	out, err := node.Recover(cmd.Context(), apply.Options{Rollback: true, Keep: keepGenerations}, show.event)
	show.end()
	return o.recoverEnded(cmd, out, unfinished != "", err)
}

// holdBack keeps down, after a recovery at boot that failed, what would read
// files of two sets.
func (o *options) holdBack(cmd *cobra.Command, failed error) error {
	if failed == nil || codeOf(failed) == exitLocked {
		return failed
	}
	l, err := o.layout()
	if err != nil {
		return errors.Join(failed, err)
	}
	held, err := apply.HoldBack(cmd.Context(), l)
	if len(held) > 0 {
		err = errors.Join(fmt.Errorf("%s: not started: a config file is not of the generation in force", strings.Join(held, ", ")), err)
	}
	return exitError{codeOf(failed), hint.Add(errors.Join(causeOf(failed), err), "mend what is said above, then run meshgen recover")}
}

func causeOf(err error) error {
	if exit, ok := errors.AsType[exitError](err); ok {
		return exit.cause
	}
	return err
}

func (o *options) recoverEnded(cmd *cobra.Command, out apply.Outcome, was bool, err error) error {
	code := 0
	switch {
	case err != nil || out.Result == state.RolledBack || out.Result == state.Failed:
		code = exitOf(out, err)
	case out.Incomplete:
		code = exitIncomplete
	}
	if o.json {
		doc := recovered{
			Schema: "meshgen.recover/v1", Generation: fromTo{out.From, out.To}, Result: out.Result, Failed: orEmpty(out.Failed),
		}
		if err != nil {
			doc.Error = textOf(err)
		}
		return joinCode(writeJSON(cmd.OutOrStdout(), doc), code)
	}
	switch {
	case code != 0:
		return exitError{code, explain(out, err)}
	case !was:
		return o.say(cmd, "no switch is unfinished: nothing to do")
	case out.Result == "":
		return o.say(cmd, fmt.Sprintf("generation %d boots: its files are in place, and its units are confirmed once they are up", out.To))
	case out.Result == state.Undone:
		return o.say(cmd, "undone: "+inForce(out.To))
	}
	return o.say(cmd, fmt.Sprintf("finished: generation %d is in force", out.To))
}
