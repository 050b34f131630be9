package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"meshgen/policy"
	"meshgen/units"
)

func writeJSON(w io.Writer, doc any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(doc)
}

// schema returns the name of the documents that a command prints: a dry run's are
// plans.
func schema(cmd *cobra.Command) string {
	name := strings.ReplaceAll(nameOf(cmd), " ", "-")
	if dry, err := cmd.Flags().GetBool("dry-run"); err == nil && dry {
		name = "plan"
	}
	return "meshgen." + name + "/v1"
}

// orEmpty has a list print as [] where it is nil.
func orEmpty[T any, S ~[]T](list S) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// joinCode ends the program with a code, after what was printed.
func joinCode(err error, code int) error {
	if err != nil || code == 0 {
		return err
	}
	return exitError{code: code}
}

// faultsOf returns the faults that an error is made of, if it is.
func faultsOf(err error) units.Faults {
	faults, _ := errors.AsType[units.Faults](err)
	return faults
}

// say prints a line of success, which --quiet leaves out.
func (o *options) say(cmd *cobra.Command, line string) error {
	if o.quiet {
		return nil
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), line)
	return err
}

// lines returns text as it can be shown in as many lines as it has.
func lines(text string) string {
	all := strings.Split(text, "\n")
	for i, line := range all {
		all[i] = policy.Line(line)
	}
	return strings.Join(all, "\n")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// writeTable prints rows in columns of which the last is text that runs on, and
// the others are names.
func writeTable(w io.Writer, rows [][]string) error {
	var t table
	for _, r := range rows {
		for len(t.columns) < len(r) {
			t.columns = append(t.columns, column{by: cutMiddle, weight: len(r), min: 12})
		}
		t.add(r...)
	}
	if len(rows) == 0 {
		return nil
	}
	t.columns[len(t.columns)-1] = column{by: cutWrap, min: 24}
	return t.write(w)
}
