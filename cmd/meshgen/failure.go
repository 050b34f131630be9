package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"meshgen/internal/apply"
	"meshgen/internal/audit"
	"meshgen/internal/hint"
	"meshgen/state"
	"meshgen/units"
)

// exitError ends the program with its code. Its cause, if any, is printed.
type exitError struct {
	code  int
	cause error
}

func (e exitError) Error() string {
	if e.cause == nil {
		return "exit without a word"
	}
	return e.cause.Error()
}

func (e exitError) Unwrap() error { return e.cause }

// refusal is the cause of an exit with which not just nothing was touched.
type refusal struct {
	error
	verdict string
}

func (r refusal) Unwrap() error { return r.error }

// untouched is the last word of a command that was refused.
const untouched = "refused: nothing was touched"

// failure is what a document says besides where its command failed.
type failure struct {
	Error   string `json:"error,omitempty"`   // what has no position in the manifest
	Verdict string `json:"verdict,omitempty"` // where it was refused: that nothing was touched
}

// codeOf returns the exit code that an error stands for.
func codeOf(err error) int {
	if exit, ok := errors.AsType[exitError](err); ok {
		return exit.code
	}
	if _, ok := errors.AsType[units.Faults](err); ok {
		return exitRejected
	}
	if _, ok := errors.AsType[*state.LockedError](err); ok {
		return exitLocked
	}
	return exitFailed
}

// verdictOf returns the last word on an error, where it is a refusal.
func verdictOf(err error) string {
	if r, ok := errors.AsType[refusal](err); ok {
		return r.verdict
	}
	if codeOf(err) == exitRejected {
		return untouched
	}
	return ""
}

// failureOf returns what a document says of an error.
func failureOf(err error) failure {
	f := failure{Verdict: verdictOf(err)}
	if err != nil && len(faultsOf(err)) == 0 {
		f.Error = textOf(err)
	}
	return f
}

// textOf returns what went wrong and what to do next.
func textOf(err error) string {
	if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		err = hint.Add(err, "run it as root")
	}
	return strings.TrimRight(err.Error(), "\n")
}

// writeError prints what went wrong, what to do next, and the last word.
func writeError(w io.Writer, err error) {
	text := textOf(err)
	if len(faultsOf(err)) == 0 {
		text = "meshgen: " + text
	}
	if verdict := verdictOf(err); verdict != "" {
		text += "\n" + verdict
	}
	_, _ = io.WriteString(w, lines(text+"\n")) // there is nowhere else to tell
}

// writeFailure prints the document of a command that failed before it had one to
// print: all lists are there, and empty. It reports whether it did: a command line
// that is not understood has none.
func writeFailure(w io.Writer, cmd *cobra.Command, err error) bool {
	if codeOf(err) == exitUsage {
		return false
	}
	doc := failed(cmd, failureOf(err), orEmpty(faultsOf(err)))
	return doc != nil && writeJSON(w, doc) == nil
}

// failed returns the document of a command that failed, nil where it has none.
func failed(cmd *cobra.Command, f failure, faults []units.Fault) any {
	s := schema(cmd)
	switch s {
	case "meshgen.audit/v1":
		none := []audit.Finding{}
		return auditDoc{Schema: s, failure: f, Report: audit.Report{
			Findings: none, Held: none, Found: none, Retained: none, Ignored: none, Unseen: []string{}, Notes: []string{},
		}}
	case "meshgen.build/v1":
		return built{Schema: s, Rejected: faults, failure: f}
	case "meshgen.check/v1":
		return checked{Schema: s, Faults: faults, failure: f}
	case "meshgen.eject/v1":
		none := apply.Ejection{Files: []apply.PlainFile{}, Stays: []apply.Remainder{}}
		return ejection{Schema: s, Ejection: none, Rejected: faults, failure: f}
	case "meshgen.explain/v1":
		return explained{Schema: s, Events: []apply.Telling{}, Now: []string{}, Next: []string{}, failure: f}
	case "meshgen.forget/v1":
		return forgotten{Schema: s, Targets: []holder{}, failure: f}
	case "meshgen.gc/v1":
		return collected{
			Schema: s, Generations: []int{}, Backups: []apply.Backup{}, Copies: []apply.Backup{}, Aside: []apply.KeptAside{},
			Volumes: []apply.HeldVolume{}, Kept: []apply.KeptVolume{}, failure: f,
		}
	case "meshgen.history/v1":
		return history{Schema: s, Generations: []past{}, failure: f}
	case "meshgen.plan/v1":
		return planned{Schema: s, Transitions: []state.Transition{}, Steps: []apply.Step{}, Rejected: faults, failure: f}
	case "meshgen.policy-show/v1":
		return shownPolicy{Schema: s, Imports: []string{}, Exports: []string{}, Faults: []string{}, Facts: []shownFact{}, failure: f}
	case "meshgen.policy-test/v1":
		return triedPolicy{Schema: s, Cases: []triedCase{}, Faults: faults, failure: f}
	case "meshgen.rebuild/v1":
		return remade{Schema: s, Marks: []apply.Mark{}, Found: []units.Target{}, failure: f}
	case "meshgen.recover/v1":
		return recovered{Schema: s, Failed: []string{}, failure: f}
	case "meshgen.adopt/v1", "meshgen.release/v1", "meshgen.rollback/v1", "meshgen.switch/v1":
		return switched{Schema: s, Transitions: []state.Transition{}, Steps: []apply.Step{}, Rejected: faults, Failed: []string{}, failure: f}
	case "meshgen.status/v1":
		return status{Schema: s, Resources: []apply.Standing{}, Counts: map[string]int{}, failure: f}
	case "meshgen.version/v1":
		return versioned{Schema: s, failure: f}
	}
	return nil
}

// output is the standard output. It knows whether anything was written to it, and
// has nothing reach a terminal that is no text. A document of JSON is left as it is.
type output struct {
	io.Writer
	o    *options
	told bool
}

func (t *output) Write(p []byte) (int, error) {
	t.told = true
	if t.o.json {
		return t.Writer.Write(p)
	}
	if _, err := io.WriteString(t.Writer, lines(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
