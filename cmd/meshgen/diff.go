package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"meshgen/internal/apply"
	"meshgen/policy"
)

// diffing says what is shown of how files, units and secrets would change.
type diffing string

const (
	diffNone diffing = ""
	diffOpen diffing = "open" // what everybody on the machine may read
	diffAll  diffing = "all"
)

const diffHelp = "With --diff it shows line by line how Quadlets, units and config files would change,\n" +
	"these against what lies on the disk. Of files that not everybody may read, and of\n" +
	"variables that are called like a password, it says only that they change; --diff=all\n" +
	"shows them, and what is long as well. The content of a secret it never shows."

func (d *diffing) flag(cmd *cobra.Command) {
	cmd.Flags().StringVar((*string)(d), "diff", "", "show how files and units change; `WHAT` is open, or all for what is not for everybody")
	cmd.Flags().Lookup("diff").NoOptDefVal = string(diffOpen)
}

func (d *diffing) check(cmd *cobra.Command) error {
	if *d != diffNone && *d != diffOpen && *d != diffAll {
		return usage(cmd, fmt.Errorf("--diff=%s: want open or all", *d))
	}
	return nil
}

// writeDifferences prints each with a head. The lines of a difference stay whole,
// so that they can be taken from the screen.
func writeDifferences(w io.Writer, all []apply.Difference) error {
	s := screenOf(w)
	var b strings.Builder
	for _, x := range all {
		b.WriteString("\n" + policy.Line(headOf(x)) + "\n")
		if x.Was != "" {
			b.WriteString(s.paint("-mode and owner "+x.Was, toneBad) + "\n")
		}
		if x.Is != "" {
			b.WriteString(s.paint("+mode and owner "+x.Is, toneNew) + "\n")
		}
		if x.Withheld != "" {
			for _, line := range s.give(policy.Line(" "+x.Withheld), s.width, cutWrap) {
				b.WriteString(line + "\n")
			}
		}
		for line := range strings.Lines(x.Diff) {
			b.WriteString(s.paint(diffLine(line), lineTone(line)) + "\n")
		}
	}
	return emit(w, b.String())
}

// headOf says what changes, and of what it is.
func headOf(x apply.Difference) string {
	of := ""
	if x.Resource.ID != "" {
		of = "  (" + x.Resource.String() + ")"
	}
	switch {
	case x.From == "":
		return "new " + x.To + of
	case x.To == "":
		return "gone " + x.From + of
	case x.From != x.To:
		return "changed " + x.From + " → " + x.To + of
	}
	return "changed " + x.To + of
}

// diffLine returns a line as it can be shown, its tabs with it.
func diffLine(line string) string {
	parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
	for i, part := range parts {
		parts[i] = policy.Line(part)
	}
	return strings.Join(parts, "\t")
}

func lineTone(line string) tone {
	switch line[0] {
	case '+':
		return toneNew
	case '-':
		return toneBad
	case '@':
		return toneAside
	}
	return toneNone
}
