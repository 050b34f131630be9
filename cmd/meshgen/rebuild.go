package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"meshgen/internal/apply"
	"meshgen/internal/hint"
	"meshgen/units"
)

// remade is the JSON form of what a rebuild finds, and whether it was written.
type remade struct {
	Schema     string         `json:"schema"`
	Why        string         `json:"why"`
	Generation int            `json:"generation"`
	Pending    int            `json:"pending,omitempty"`
	Written    bool           `json:"written"`
	Aside      string         `json:"aside,omitempty"`
	Marks      []apply.Mark   `json:"marks"`
	Found      []units.Target `json:"found"`
	failure
}

func newRebuild(o *options) *cobra.Command {
	var c consent
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Make a ledger anew from the marks on this machine",
		Long: "rebuild is for a node whose ledger is lost, damaged or another machine's, and cannot be\n" +
			"brought back from a backup. It looks for what is meshgen's: what the generation in force\n" +
			"declares, units and podman objects that bear meshgen's mark, and what is left of a switch\n" +
			"that was cut short. It shows that, and writes a ledger of it when it is told to: on the\n" +
			"terminal, or by --yes. A ledger that is in the way is set aside. Nothing else is touched;\n" +
			"the next switch goes on from there, and removes what is stale.\n\n" +
			"What bears no mark is not known again: directories that were made for files, the\n" +
			"history, what was forgotten.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.rebuild(cmd, c) },
	}
	c.flag(cmd, "write it without asking")
	return cmd
}

func (o *options) rebuild(cmd *cobra.Command, c consent) (err error) {
	l, err := o.layout()
	if err != nil {
		return err
	}
	node, err := apply.OpenLost(cmd.Context(), l, apply.Local)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	m, err := node.Marks(cmd.Context())
	if err != nil {
		return err
	}
	if len(m.Marks) == 0 {
		return hint.Add(fmt.Errorf("%w, and nothing here bears meshgen's mark", m.Why), "meshgen switch begins a ledger where there was none")
	}
	if !o.json {
		if err := o.writeMarks(cmd.OutOrStdout(), m); err != nil {
			return err
		}
	}
	sure, asked, err := c.given(cmd, o, "write a ledger of it?")
	if err != nil {
		return err
	}
	doc := remade{
		Schema: schema(cmd), Why: m.Why.Error(), Generation: m.Generation, Pending: m.Pending, Written: sure,
		Marks: m.Marks, Found: orEmpty(m.Found),
	}
	if sure {
		if doc.Aside, err = node.Rebuild(m); err != nil {
			return err
		}
	}
	switch {
	case o.json:
		return writeJSON(cmd.OutOrStdout(), doc)
	case sure && doc.Aside != "":
		return o.say(cmd, "the ledger is made anew; what was there is "+doc.Aside+"\nhint: meshgen plan says what the next switch does")
	case sure:
		return o.say(cmd, "the ledger is made anew\nhint: meshgen plan says what the next switch does")
	case asked:
		return o.say(cmd, "nothing was written")
	}
	return o.say(cmd, "nothing was written: --yes writes it")
}

func (o *options) writeMarks(w io.Writer, m apply.Marks) error {
	head := m.Why.Error() + "\nnothing is in force"
	if m.Generation > 0 {
		head = fmt.Sprintf("%s\ngeneration %d is in force", m.Why, m.Generation)
	}
	if m.Pending > 0 {
		head += fmt.Sprintf("; a switch to generation %d was cut short, which the next switch finishes or undoes", m.Pending)
	}
	if _, err := fmt.Fprintln(w, head); err != nil {
		return err
	}
	var rows [][]string
	for _, mark := range m.Marks {
		resource := ""
		if mark.State != apply.Left {
			resource = mark.Resource.String()
		}
		rows = append(rows, []string{mark.State, string(mark.Target), resource, mark.Detail})
	}
	if err := writeTable(w, rows); err != nil || len(m.Found) == 0 {
		return err
	}
	if !o.verbose {
		_, err := fmt.Fprintf(w, "found, and not meshgen's: %s; -v names them\n", count(len(m.Found), "name"))
		return err
	}
	rows = nil
	for _, t := range m.Found {
		rows = append(rows, []string{string(t)})
	}
	if _, err := fmt.Fprintln(w, "found, and not meshgen's:"); err != nil {
		return err
	}
	return writeTable(w, rows)
}
