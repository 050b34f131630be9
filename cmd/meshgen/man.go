package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// newMan returns the command that prints the manual page, for who installs it. It is
// made of what the commands say of themselves, and so never another than --help.
func newMan(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:    "man",
		Short:  "Print the manual page meshgen(1)",
		Hidden: true,
		Args:   noArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return writeMan(cmd.OutOrStdout(), root) },
	}
}

// writeMan writes meshgen(1) in the macros of man(7).
func writeMan(w io.Writer, root *cobra.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH MESHGEN 1 \"\" \"meshgen\" \"User Commands\"\n.SH NAME\nmeshgen \\- %s\n", roff(lowered(root.Short)))
	b.WriteString(".SH SYNOPSIS\n.B meshgen\n.I COMMAND\n[\\fIFLAG\\fR...] [\\fIARGUMENT\\fR...]\n.SH DESCRIPTION\n")
	paragraphs(&b, root.Long)
	b.WriteString(".SH COMMANDS\n")
	for _, c := range below(root) {
		if c.Hidden || c.HasSubCommands() || endings[nameOf(c)] == nil {
			continue // those of cobra say enough in their help
		}
		fmt.Fprintf(&b, ".SS %s\n", roff(c.UseLine()))
		paragraphs(&b, c.Long)
		flags(&b, c.LocalNonPersistentFlags().FlagUsages())
	}
	b.WriteString(".SH FLAGS OF ALL COMMANDS\n")
	flags(&b, root.PersistentFlags().FlagUsages())
	b.WriteString(".SH FILES\n" +
		".TP\n.I /etc/meshgen/manifest\nThe manifest, a directory of CUE.\n" +
		".TP\n.I /etc/meshgen/generations\nThe sets that were made of it.\n" +
		".TP\n.I /etc/meshgen/current\nThe set in force.\n" +
		".TP\n.I /var/lib/meshgen\nThe ledger, the lock, backups, and copies of what was adopted.\n" +
		".SH SEE ALSO\n.BR meshgen\\-generator (8),\n.BR podman\\-systemd.unit (5),\n.BR systemd.unit (5)\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func lowered(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// paragraphs writes text as it is in a help. Lines that are indented, as in a list,
// stay lines of their own.
func paragraphs(b *strings.Builder, text string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		b.WriteString(".PP\n")
		if list := strings.Contains(paragraph, "\n  ") || strings.HasPrefix(paragraph, "  "); list {
			b.WriteString(".nf\n" + roff(paragraph) + "\n.fi\n")
			continue
		}
		b.WriteString(roff(paragraph) + "\n")
	}
}

// flags writes what cobra says of flags, but for --help.
func flags(b *strings.Builder, usages string) {
	var lines []string
	for line := range strings.Lines(usages) {
		if !strings.Contains(line, " --help ") {
			lines = append(lines, strings.TrimPrefix(strings.TrimRight(line, "\n"), "  "))
		}
	}
	if len(lines) > 0 {
		b.WriteString(".PP\n.nf\n" + roff(strings.Join(lines, "\n")) + "\n.fi\n")
	}
}

// roff returns text so that it comes out of man(7) letter for letter: a backslash and
// a hyphen escaped, and no line of it a request.
func roff(s string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
