package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"meshgen/internal/apply"
)

// collected is the JSON form of what gc finds, and whether it removed it.
type collected struct {
	Schema      string             `json:"schema"`
	Removed     bool               `json:"removed"`
	Generations []int              `json:"generations"`
	Backups     []apply.Backup     `json:"backups"`
	Copies      []apply.Backup     `json:"copies"`
	Aside       []apply.KeptAside  `json:"aside"`
	Volumes     []apply.HeldVolume `json:"volumes"`
	Kept        []apply.KeptVolume `json:"kept"`
	Log         bool               `json:"log"`
	failure
}

func newGC(o *options) *cobra.Command {
	keep, backups, volumes, adopted := keepGenerations, "", false, false
	var c consent
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove what is kept and not needed",
		Long: "gc removes old generations, and shortens the ledger's log where that pays; what the\n" +
			"log had stays beside it. With --backups the copies go that were made of files as other\n" +
			"hands had left them, and of what was adopted and given back since; with --volumes the\n" +
			"volumes that are no longer declared, and their data with them. With --adopted all goes\n" +
			"for good that was put aside when its place was adopted, and meshgen release cannot give\n" +
			"it back any more. It says first what would go, each volume with its size, and removes\n" +
			"it when it is told to: on the terminal, or by --yes.\n\n" +
			"A volume stays that a container has, or that a Quadlet names, and one that was\n" +
			"adopted where it does not say --adopted as well. Of one that an older generation on the\n" +
			"disk declares, which a rollback would want, gc says so.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if keep < 1 {
				return usage(cmd, fmt.Errorf("--keep %d: want 1 or more", keep))
			}
			age, err := parseAge(backups)
			if err != nil {
				return usage(cmd, fmt.Errorf("--backups %q: want an age like 90d or 12h", backups))
			}
			return o.collect(cmd, apply.Limits{Generations: keep, Backups: age, Volumes: volumes, Adopted: adopted}, c)
		},
	}
	cmd.Flags().IntVar(&keep, "keep", keep, "`N` generations stay on the disk")
	cmd.Flags().StringVar(&backups, "backups", "", "remove backups that are older than `AGE`, as 90d")
	cmd.Flags().BoolVar(&volumes, "volumes", false, "remove volumes that are no longer declared, with their data")
	cmd.Flags().BoolVar(&adopted, "adopted", false, "remove what was put aside when its place was adopted")
	c.flag(cmd, "remove it without asking")
	return cmd
}

// parseAge reads a duration, in days too; "" is none.
func parseAge(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 1 {
			return 0, fmt.Errorf("%q is no number of days", days)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	age, err := time.ParseDuration(s)
	if err == nil && age <= 0 {
		err = errors.New("is not ahead of now")
	}
	return age, err
}

func (o *options) collect(cmd *cobra.Command, limits apply.Limits, c consent) (err error) {
	l, err := o.layout()
	if err != nil {
		return err
	}
	node, err := apply.OpenLocked(cmd.Context(), l, apply.Local)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	s, err := node.Surplus(cmd.Context(), limits)
	if err != nil {
		return err
	}
	if !o.json {
		if err := writeSurplus(cmd.OutOrStdout(), s); err != nil || s.Empty() {
			return err
		}
	}
	sure, asked, err := c.given(cmd, o, question(s))
	if err != nil {
		return err
	}
	if sure {
		show := o.newDisplay(cmd.ErrOrStderr())
		defer show.end()
		err = node.Discard(cmd.Context(), s, show.event)
	}
	if o.json {
		doc := collected{
			Schema: schema(cmd), Removed: sure, Generations: orEmpty(s.Generations), Backups: orEmpty(s.Backups),
			Copies: orEmpty(s.Copies), Aside: orEmpty(s.Aside),
			Volumes: orEmpty(s.Volumes), Kept: orEmpty(s.Kept), Log: s.Log,
		}
		if err == nil {
			return writeJSON(cmd.OutOrStdout(), doc)
		}
		doc.failure = failureOf(err)
		return joinCode(writeJSON(cmd.OutOrStdout(), doc), exitFailed)
	}
	switch {
	case err != nil:
		return err
	case sure:
		return o.say(cmd, "removed")
	case asked:
		return o.say(cmd, "nothing was removed")
	}
	return o.say(cmd, "nothing was removed: --yes removes it")
}

// question asks for consent to remove the surplus. It names the generations whose
// data goes with it.
func question(s apply.Surplus) string {
	var named []int
	for _, v := range s.Volumes {
		named = append(named, v.Named...)
	}
	slices.Sort(named)
	ask := "remove it?"
	if len(s.Aside) > 0 {
		ask = "what was put aside could not be given back any more; remove it?"
	}
	if named = slices.Compact(named); len(named) == 0 {
		return ask
	}
	return fmt.Sprintf("a rollback to %s would not find its data again; %s", numbered(named), ask)
}

// numbered names generations, as of a choice.
func numbered(generations []int) string {
	words := make([]string, len(generations))
	for i, n := range generations {
		words[i] = strconv.Itoa(n)
	}
	if last := len(words) - 1; last > 0 {
		return "generation " + strings.Join(words[:last], ", ") + " or " + words[last]
	}
	return "generation " + words[0]
}

func writeSurplus(w io.Writer, s apply.Surplus) error {
	var rows [][]string
	for _, n := range s.Generations {
		rows = append(rows, []string{"generation", strconv.Itoa(n), ""})
	}
	for _, b := range s.Backups {
		rows = append(rows, []string{"backup", filepath.Base(b.Path), "of " + b.Time.Local().Format(time.DateTime)})
	}
	for _, c := range s.Copies {
		rows = append(rows, []string{"copy", filepath.Base(c.Path), "of " + c.Time.Local().Format(time.DateTime) + ", which nothing needs to give it back"})
	}
	for _, a := range s.Aside {
		what := fmt.Sprintf("of generation %d, with %d copies", a.Generation, len(a.Copies))
		if a.Aside != "" {
			what += "; container " + a.Aside + " goes with it"
		}
		rows = append(rows, []string{"adopted", string(a.Target), what})
	}
	for _, v := range s.Volumes {
		what := fmt.Sprintf("%s, was of %s", v.Takes(), v.Resource)
		if v.Why != "" {
			what += "; " + v.Why
		}
		if len(v.Named) > 0 {
			what += fmt.Sprintf("; a rollback to %s needs it", numbered(v.Named))
		}
		rows = append(rows, []string{"volume", v.Target.Name(), what})
	}
	for _, t := range s.Gone {
		rows = append(rows, []string{"record", string(t), "is gone already"})
	}
	if s.Log {
		rows = append(rows, []string{"log", "ledger", "is set aside, and begun anew with what it comes to"})
	}
	head := "to be removed:"
	if s.Empty() {
		head = "nothing to remove"
	}
	if _, err := fmt.Fprintln(w, head); err != nil {
		return err
	}
	if err := writeTable(w, rows); err != nil || len(s.Kept) == 0 {
		return err
	}
	rows = nil
	for _, k := range s.Kept {
		rows = append(rows, []string{k.Target.Kind(), k.Target.Name(), k.Reason})
	}
	if _, err := fmt.Fprintln(w, "held, and to stay:"); err != nil {
		return err
	}
	return writeTable(w, rows)
}
