package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"meshgen/policy"
	"meshgen/units"
)

func newPolicy(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Look at the programs that decide, and try them",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(cmd, fmt.Errorf("unknown command %q", args[0]))
			}
			return cmd.Help()
		},
		Args: cobra.ArbitraryArgs, // so that an unknown command comes to RunE
	}
	cmd.AddCommand(newPolicyShow(o), newPolicyTest(o))
	return cmd
}

// shownPolicy is the JSON form of what is shown of a policy.
type shownPolicy struct {
	Schema  string      `json:"schema"`
	Policy  string      `json:"policy"`
	SHA256  string      `json:"sha256"`
	Size    int         `json:"size"`
	Memory  shownMemory `json:"memory"`
	Imports []string    `json:"imports"`
	Exports []string    `json:"exports"`
	Faults  []string    `json:"faults"`
	Facts   []shownFact `json:"facts"`
	failure
}

type shownMemory struct {
	Least int64 `json:"least"`
	Most  int64 `json:"most,omitempty"`
}

type shownFact struct {
	Key         string   `json:"key"`
	Transitions []string `json:"transitions"` // those in which it may be known
	Meaning     string   `json:"meaning"`
	Example     string   `json:"example"`
}

func newPolicyShow(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "show FILE.wasm|builtin",
		Short: "Say what a policy asks for and offers, and what it may be told",
		Long: "show looks at a policy without running it: its sha256, size and memory, what it imports\n" +
			"and exports, and why it would not be asked, if so. Then come all facts that a policy\n" +
			"can be given. `builtin` is the one that decides where a module brings none.",
		Args: exactArgs("one policy", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := readPolicy(args[0])
			if err != nil {
				return err
			}
			i := policy.Inspect(cmd.Context(), m)
			if len(i.Faults) > 0 {
				err = fmt.Errorf("%s: is no policy that can be asked", m.Name)
			}
			if !o.json {
				return cmp.Or(writePolicy(cmd.OutOrStdout(), m.Name, i), err)
			}
			doc := shownPolicy{
				Schema: schema(cmd), Policy: m.Name, SHA256: i.SHA256, Size: i.Size,
				Memory:  shownMemory{Least: i.Memory.Least, Most: i.Memory.Most},
				Imports: orEmpty(i.Imports), Exports: orEmpty(i.Exports), Faults: orEmpty(i.Faults), Facts: shownFacts(),
				failure: failureOf(err),
			}
			return endDocument(writeJSON(cmd.OutOrStdout(), doc), err)
		},
	}
}

// endDocument ends a command whose document was printed, and tells what went
// wrong.
func endDocument(output, err error) error {
	if err == nil {
		return output
	}
	return joinCode(output, codeOf(err))
}

func shownFacts() []shownFact {
	var facts []shownFact
	for _, f := range policy.FactTable() {
		in := f.Transitions
		if in == nil {
			in = policy.Transitions()
		}
		facts = append(facts, shownFact{Key: f.Key, Transitions: in, Meaning: f.Meaning, Example: f.Example})
	}
	return facts
}

// writePolicy prints what was found, then the facts.
func writePolicy(w io.Writer, name string, i policy.Inspection) error {
	rows := [][]string{{"sha256", i.SHA256}, {"size", count(i.Size, "byte")}}
	if i.Memory != (policy.Memory{}) {
		memory := strconv.FormatInt(i.Memory.Least, 10) + " bytes to begin with"
		if i.Memory.Most > 0 {
			memory += ", " + strconv.FormatInt(i.Memory.Most, 10) + " at most"
		}
		rows = append(rows, []string{"memory", memory})
	}
	for _, part := range []struct {
		word  string
		lines []string
	}{{"imports", i.Imports}, {"exports", i.Exports}, {"fault", i.Faults}} {
		for _, line := range part.lines {
			rows = append(rows, []string{part.word, line})
			if part.word != "fault" {
				part.word = ""
			}
		}
	}
	if _, err := fmt.Fprintln(w, name); err != nil {
		return err
	}
	if err := writeTable(w, rows); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w, "facts that it may be told"); err != nil {
		return err
	}
	rows = nil
	for _, f := range policy.FactTable() {
		rows = append(rows, []string{f.Key, f.Meaning})
	}
	return writeTable(w, rows)
}

// triedPolicy is the JSON form of a policy's answers to cases.
type triedPolicy struct {
	Schema string        `json:"schema"`
	Policy string        `json:"policy"`
	SHA256 string        `json:"sha256"`
	Cases  []triedCase   `json:"cases"`
	Faults []units.Fault `json:"faults"` // of the file of cases
	failure
}

type triedCase struct {
	Name     string       `json:"name"`
	Line     int          `json:"line"`
	Decision string       `json:"decision"`
	Reason   string       `json:"reason,omitempty"`
	Fault    string       `json:"fault,omitempty"` // of the policy
	Read     policy.Facts `json:"read"`
	Differs  string       `json:"differs,omitempty"`
}

func newPolicyTest(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "test FILE.wasm|builtin CASES.txtar",
		Short: "Ask a policy with the facts of cases, and say where it answers otherwise",
		Long: "test asks a policy once for each section of a txtar file:\n\n" +
			"    -- the predecessor --\n" +
			"    transition = takeover\n" +
			"    observed.image = docker.io/gitea/gitea:1.23\n" +
			"    => adopt: it is the predecessor\n\n" +
			"The reason may be left out. With --verbose it tells each answer, and what was read for\n" +
			"it. No machine is looked at.",
		Args: exactArgs("a policy and a file of cases", 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := readPolicy(args[0])
			if err != nil {
				return err
			}
			file, err := os.ReadFile(args[1])
			if err != nil {
				return err
			}
			cases, faults := policy.ParseCases(file)
			if len(faults) > 0 {
				return exitError{exitFailed, faultsIn(args[1], faults)}
			}
			out := triedPolicy{Schema: schema(cmd), Policy: m.Name, SHA256: m.SHA256(), Cases: []triedCase{}, Faults: []units.Fault{}}
			r := policy.NewRuntime("", policy.DefaultLimits())
			defer func() { _ = r.Close() }() // it has nothing but memory
			differ := 0
			for _, c := range cases {
				a := r.Decide(cmd.Context(), m, c.Facts)
				tried := triedCase{
					Name: c.Name, Line: c.Line, Decision: a.Decision.String(), Reason: a.Reason, Fault: a.Fault, Read: a.Read, Differs: c.Differs(a),
				}
				if tried.Differs != "" {
					differ++
				}
				out.Cases = append(out.Cases, tried)
			}
			if differ > 0 {
				err = fmt.Errorf("%s: %d of %s answered otherwise", m.Name, differ, count(len(cases), "case"))
				out.failure = failureOf(err)
			}
			if o.json {
				return endDocument(writeJSON(cmd.OutOrStdout(), out), err)
			}
			return cmp.Or(o.writeTried(cmd, args[1], out), err)
		},
	}
}

// faultsIn returns the faults of a file of cases with their places.
func faultsIn(file string, faults []policy.CaseFault) units.Faults {
	var placed units.Faults
	for _, f := range faults {
		placed = append(placed, units.Fault{Position: lineOf(file, f.Line), Message: f.Message, Hint: f.Hint})
	}
	return placed
}

// writeTried prints what differs; with --verbose each answer, and what was read
// for it.
func (o *options) writeTried(cmd *cobra.Command, file string, out triedPolicy) error {
	w, differ := cmd.OutOrStdout(), false
	for _, c := range out.Cases {
		if c.Differs != "" {
			differ = true
			fault := units.Fault{Position: lineOf(file, c.Line), Message: c.Name + ": " + c.Differs}
			if _, err := fmt.Fprintln(w, fault.Error()); err != nil {
				return err
			}
		}
		if !o.verbose {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s: %s: %s\n", c.Name, c.Decision, c.Reason); err != nil {
			return err
		}
		if err := writeTable(w, factRows(c.Read)); err != nil {
			return err
		}
	}
	if differ {
		return nil
	}
	return o.say(cmd, count(len(out.Cases), "case")+", all answered as expected")
}

func factRows(f policy.Facts) [][]string {
	var rows [][]string
	for _, key := range slices.Sorted(maps.Keys(f)) {
		rows = append(rows, []string{key, f[key]})
	}
	return rows
}

func lineOf(file string, line int) units.Position {
	return units.Position{File: file, Line: line, Column: 1}
}

// readPolicy reads a policy; `builtin` is the built-in one.
func readPolicy(name string) (policy.Module, error) {
	if name == policy.BuiltinName {
		return policy.Builtin(), nil
	}
	f, err := os.Open(name) //nolint:gosec // as the command line says
	if err != nil {
		return policy.Module{}, err
	}
	defer func() { _ = f.Close() }() // read-only
	// One byte more than there may be tells that it is too large.
	code, err := io.ReadAll(io.LimitReader(f, int64(policy.DefaultLimits().Size)+1))
	if err != nil {
		return policy.Module{}, err
	}
	return policy.Module{Name: name, Code: code}, nil
}

// exactArgs wants a number of arguments.
func exactArgs(what string, n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return usage(cmd, fmt.Errorf("%s: takes %s, and was given %s", cmd.Name(), what, count(len(args), "argument")))
	}
}
