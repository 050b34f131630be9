package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

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

// writeTable prints rows with their columns aligned, two spaces in. The last
// cell of a row does not widen its column: it is text that runs on. A cell never
// makes a second line.
func writeTable(w io.Writer, rows [][]string) error {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			cell = policy.Line(cell)
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if i < len(row)-1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	for _, row := range rows {
		var line strings.Builder
		line.WriteString(" ")
		for i, cell := range row {
			cell = policy.Line(cell)
			line.WriteString(" " + cell + strings.Repeat(" ", max(widths[i]-utf8.RuneCountInString(cell), 0)+1))
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}
