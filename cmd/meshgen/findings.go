package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"meshgen/internal/audit"
)

// writeAudit prints a report: what could not be seen, then the findings, each with
// the command that settles it, then what is listed.
func (o *options) writeAudit(cmd *cobra.Command, r audit.Report) error {
	w := cmd.OutOrStdout()
	if err := writeText(w, auditHead(r)); err != nil {
		return err
	}
	t := o.auditTable(r)
	return t.write(w)
}

// auditHead is what is to be known first, and the answer in a line.
func auditHead(r audit.Report) string {
	var head []string
	for _, words := range r.Unseen {
		head = append(head, "partial: "+strings.ReplaceAll(words, "\n", " "))
	}
	for _, words := range append(slices.Clone(r.Notes), verdict(r)) {
		head = append(head, strings.ReplaceAll(words, "\n", " "))
	}
	return strings.Join(head, "\n")
}

func (o *options) auditTable(r audit.Report) table {
	t := table{columns: []column{{}, {by: cutMiddle, weight: 2, min: 48}, {by: cutWrap, weight: 1, min: 48}}}
	for _, f := range r.Findings {
		t.rows = append(t.rows, findingRow(f))
	}
	listed := [][]audit.Finding{r.Held, r.Retained, r.Found}
	if o.verbose {
		listed = append(listed, r.Ignored)
	}
	if o.quiet {
		listed = nil
	}
	for _, list := range listed {
		for _, f := range list {
			t.rows = append(t.rows, o.listedRow(f))
		}
	}
	return t
}

// verdict is the answer in a line.
func verdict(r audit.Report) string {
	var parts []string
	counts := r.Counts()
	for _, c := range audit.Counted() {
		if counts[c] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[c], c))
		}
	}
	head := "nothing is here that was not asked for"
	if len(parts) > 0 {
		head = count(len(r.Findings), "finding") + ": " + strings.Join(parts, ", ")
	} else if r.Partial() {
		head = "nothing was found in what could be seen"
	}
	var listed []string
	for _, l := range []struct {
		n    int
		word string
	}{{len(r.Held), "held"}, {len(r.Retained), "retained"}, {len(r.Found), "found"}, {len(r.Ignored), "ignored"}} {
		if l.n > 0 {
			listed = append(listed, fmt.Sprintf("%d %s", l.n, l.word))
		}
	}
	if len(listed) > 0 {
		head += "; besides " + strings.Join(listed, ", ")
	}
	if r.Generation == 0 {
		return head + "; no generation is in force"
	}
	return fmt.Sprintf("%s (generation %d)", head, r.Generation)
}

func findingRow(f audit.Finding) row {
	t := toneLook
	if f.Class == audit.Stale || f.Class == audit.Foreign {
		t = toneBad
	}
	out := row{cells: []cell{{string(f.Class), t}, {string(f.Target), toneNone}, {began(f), toneAside}}}
	out.heard(f)
	out.said(f.Detail)
	if f.Resource.Module != "" && f.Class != audit.Foreign {
		out.said("of " + f.Resource.String())
	} else if f.Owner != "" && !strings.Contains(f.Detail, f.Owner) {
		out.said("from " + f.Owner)
	}
	out.typed(f.Fix)
	return out
}

func (o *options) listedRow(f audit.Finding) row {
	out := row{cells: []cell{{string(f.Class), toneAside}, {string(f.Target), toneNone}, {began(f), toneAside}}}
	if o.verbose || f.Class == audit.Held {
		out.said(f.Detail)
	}
	if o.verbose {
		out.heard(f)
	}
	out.typed(f.Fix)
	return out
}

// said adds a line to what stands below a row, further in than what is to be typed:
// whatever it says, and wherever it is wrapped, it is not taken for that.
func (r *row) said(text string) {
	if text != "" {
		r.below = append(r.below, note{cell{"  " + text, toneNone}, cutWrap})
	}
}

// typed adds a command, whole.
func (r *row) typed(command string) {
	if command != "" {
		r.below = append(r.below, note{cell{"$ " + command, toneNone}, cutNot})
	}
}

// heard adds what listens and is connected.
func (r *row) heard(f audit.Finding) {
	for _, ports := range f.Ports() {
		r.said("listens on " + ports)
	}
	for _, peer := range f.Peers() {
		r.said("connected to " + peer)
	}
}

// began says since when it is so, and which generation was in force then.
func began(f audit.Finding) string {
	if f.Since.IsZero() {
		return ""
	}
	words := since(f.Since)
	if f.Generation > 0 {
		words += fmt.Sprintf(", generation %d", f.Generation)
	}
	return words
}
