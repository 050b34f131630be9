package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"meshgen/internal/apply"
	"meshgen/units"
)

// ejection is the JSON form of an ejection, and whether it was done.
type ejection struct {
	Schema string `json:"schema"`
	apply.Ejection
	Ejected  bool         `json:"ejected"`
	Rejected units.Faults `json:"rejected"`
	failure
}

func newEject(o *options) *cobra.Command {
	var c consent
	cmd := &cobra.Command{
		Use:   "eject",
		Short: "Have the machine run on without meshgen",
		Long: "eject writes what is in force as plain files: Quadlets to /etc/containers/systemd, and\n" +
			"units of systemd's own to /etc/systemd/system, with the links that enable them. Config\n" +
			"files stay as they are. Nothing is started, stopped or removed. From then on podman's own\n" +
			"generator gives systemd the services, all of it is yours, and meshgen can be removed.\n\n" +
			"It says first what it would write, and what stays that no file makes anew, and does it\n" +
			"when it is told to: on the terminal, or by --yes. It is refused where a file of that name\n" +
			"is there, or something else defines such a unit. An ejection that was cut short is\n" +
			"finished by the next one. The ledger and the generations stay; a switch later finds the\n" +
			"names taken, and meshgen adopt takes them back.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.eject(cmd, c) },
	}
	c.flag(cmd, "do it without asking")
	return cmd
}

func (o *options) eject(cmd *cobra.Command, c consent) (err error) {
	l, err := o.layout()
	if err != nil {
		return err
	}
	node, err := apply.OpenLocked(cmd.Context(), l, apply.Local)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	e, err := node.Ejection(cmd.Context())
	if err != nil {
		return err
	}
	doc := ejection{Schema: schema(cmd), Ejection: e, Ejected: e.Done}
	doc.Files, doc.Stays, doc.Rejected = orEmpty(e.Files), orEmpty(e.Stays), units.Faults{}
	switch {
	case e.Done && o.json:
		return writeJSON(cmd.OutOrStdout(), doc)
	case e.Done:
		return o.say(cmd, fmt.Sprintf("nothing to do: the node was ejected from generation %d", e.Generation))
	case !o.json:
		if err := writeEjection(cmd.OutOrStdout(), e); err != nil {
			return err
		}
	}
	sure, asked, err := c.given(cmd, o, "eject the node?")
	if err != nil {
		return err
	}
	if sure {
		show := o.newDisplay(cmd.ErrOrStderr())
		defer show.end()
		if err := node.Eject(cmd.Context(), e, show.event); err != nil {
			return err
		}
	}
	doc.Ejected = sure
	switch {
	case o.json:
		return writeJSON(cmd.OutOrStdout(), doc)
	case sure:
		return o.say(cmd, fmt.Sprintf("ejected: what generation %d had is yours, and runs on without meshgen", e.Generation))
	case asked:
		return o.say(cmd, "nothing was written")
	}
	return o.say(cmd, "nothing was written: --yes does it")
}

func writeEjection(w io.Writer, e apply.Ejection) error {
	var rows [][]string
	for _, f := range e.Files {
		rows = append(rows, []string{"write", f.Path, f.Resource.String()})
		for _, link := range f.Links {
			rows = append(rows, []string{"link", link, f.Resource.String()})
		}
	}
	if _, err := fmt.Fprintf(w, "generation %d, as plain files:\n", e.Generation); err != nil {
		return err
	}
	if err := writeTable(w, rows); err != nil || len(e.Stays) == 0 {
		return err
	}
	rows = nil
	for _, s := range e.Stays {
		rows = append(rows, []string{string(s.Target), s.What})
	}
	if _, err := fmt.Fprintln(w, "what no file makes anew:"); err != nil {
		return err
	}
	return writeTable(w, rows)
}
