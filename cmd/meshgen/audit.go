package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/spf13/cobra"

	"meshgen/internal/apply"
	"meshgen/internal/audit"
	"meshgen/internal/durable"
	"meshgen/modules"
	"meshgen/state"
	"meshgen/units"
)

// auditDoc is the JSON form of an audit.
type auditDoc struct {
	Schema string `json:"schema"`
	audit.Report
	Partial bool `json:"partial"`
	failure
}

// auditFlags are the flags that audit alone has.
type auditFlags struct {
	prometheus string
	journal    bool
	since      int
	patience   time.Duration
}

func newAudit(o *options) *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show what is here that nobody asked for",
		Long: "audit looks at the machine once and tells what runs, listens or lies on it that the\n" +
			"manifest did not ask for, and what is not as it asks for: since when, whose it is, and\n" +
			"the command that would settle it. Nothing is changed.\n\n" +
			"  stale     meshgen's, no longer declared, still there\n" +
			"  foreign   not meshgen's, and came up since the first switch\n" +
			"  missing   declared, and not there\n" +
			"  stopped   declared to run, and does not\n" +
			"  shadowed  another definition of that unit wins\n" +
			"  drifted   meshgen's, changed by other hands\n\n" +
			"What is held, was found at the first switch, or is kept for its data is listed and does\n" +
			"not count. audit: ignore: [\"container:ci-*\"] in the manifest has findings ignored; they\n" +
			"are counted as such. Where something could not be looked at the rest is told all the\n" +
			"same, and the exit code is 1.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runAudit(cmd, o, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.prometheus, "prometheus", "", "write the counts to `FILE` too, for the textfile collector of Prometheus' node_exporter")
	flags.BoolVar(&f.journal, "journal", false, "log what is new since the last audit that did, and nothing else")
	flags.IntVar(&f.since, "since", 0, "leave out what began before generation `N`")
	flags.DurationVar(&f.patience, "timeout", 10*time.Second, "how long systemd and podman may take")
	return cmd
}

func runAudit(cmd *cobra.Command, o *options, f auditFlags) error {
	l, err := o.layout()
	if err != nil {
		return err
	}
	switch {
	case f.since < 0:
		return usage(cmd, fmt.Errorf("--since %d: no generation", f.since))
	case f.since > 0 && f.journal:
		return usage(cmd, errors.New("--since and --journal: what is left out would be new the next time"))
	case f.patience <= 0:
		return usage(cmd, fmt.Errorf("--timeout %s: want more than 0", f.patience))
	}
	r := o.audit(cmd, l, f)
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	doc := auditDoc{Schema: schema(cmd), Report: r, Partial: r.Partial()}
	var end error
	switch {
	case r.Partial():
		doc.Error = "not all could be looked at: what could not is said first"
		end = exitError{exitFailed, errors.New(doc.Error)}
	case len(r.Findings) > 0:
		end = exitError{code: exitChanges}
	}
	switch {
	case f.journal:
		err = logNews(l, r)
	case o.json:
		err = writeJSON(cmd.OutOrStdout(), doc)
	default:
		err = o.writeAudit(cmd, r)
	}
	if f.prometheus != "" {
		err = errors.Join(err, writePrometheus(f.prometheus, r))
	}
	if err != nil {
		return err
	}
	return end
}

// writePrometheus replaces the file at a path, so that who reads it has all of one
// audit.
func writePrometheus(path string, r audit.Report) error {
	var text bytes.Buffer
	if err := audit.WritePrometheus(&text, r); err != nil {
		return err
	}
	return durable.WriteFile(path, text.Bytes(), 0o644)
}

// audit looks and joins.
func (o *options) audit(cmd *cobra.Command, l state.Layout, f auditFlags) audit.Report {
	v := apply.Look(cmd.Context(), l, apply.Local, f.patience)
	r := audit.Join(v)
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), f.patience, fmt.Errorf("no answer within %s", f.patience))
	defer cancel()
	r.Hear(ctx, v)
	if os.Geteuid() != 0 && l.Root == "/" {
		r.Unseen = append([]string{"not root: the ledger, podman's objects and the processes of others are root's to see"}, r.Unseen...)
	}
	patterns, err := modules.Ignored(o.manifestDir(l))
	if faults := faultsOf(err); len(faults) > 0 {
		for _, f := range faults {
			r.Unseen = append(r.Unseen, "what is to be ignored: "+f.Error())
		}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.Unseen = append(r.Unseen, "what is to be ignored: "+err.Error())
	}
	texts := make([]string, len(patterns))
	for i, p := range patterns {
		texts[i] = p.Text
	}
	r.Ignore(texts)
	r.Gather()
	if l.Root != "/" {
		r.Unfix()
	}
	if words := o.astray(l, v.Generation); words != "" {
		r.Notes = append(r.Notes, words)
	}
	if f.since > 0 {
		r = r.Since(f.since)
	}
	return r
}

// logNews logs what is new, an entry each, and remembers what there is: to the
// journal with fields where stderr leads to it, else to stderr.
func logNews(l state.Layout, r audit.Report) error {
	fresh, gone, err := audit.News(l.Audited(), r)
	if err != nil {
		return err
	}
	entry := func(line string, _ journal.Priority, _ map[string]string) error {
		_, err := fmt.Fprintln(os.Stderr, line)
		return err
	}
	if isJournal, _ := journal.StderrIsJournalStream(); isJournal { // where that is not known, it is not
		entry = journal.Send
	}
	for _, f := range fresh {
		line := strings.TrimRight(fmt.Sprintf("%s %s: %s", f.Class, f.Target, f.Detail), ": ")
		if err := entry(visible(line), journal.PriWarning, fieldsOf(f)); err != nil {
			return err
		}
	}
	for _, words := range r.Unseen {
		if err := entry(visible("partial: "+words), journal.PriErr, nil); err != nil {
			return err
		}
	}
	for _, t := range gone {
		if err := entry(visible(fmt.Sprintf("settled %s", t)), journal.PriNotice, fieldsOf(audit.Finding{Target: t})); err != nil {
			return err
		}
	}
	if len(fresh) == 0 && len(gone) == 0 {
		return nil
	}
	return audit.Remember(l.Audited(), r)
}

// fieldsOf returns the fields of a finding's entry in the journal.
func fieldsOf(f audit.Finding) map[string]string {
	fields := map[string]string{
		"MESHGEN_CLASS": string(f.Class), "MESHGEN_TARGET": string(f.Target), "MESHGEN_FIX": f.Fix, "MESHGEN_OWNER": f.Owner,
	}
	if f.Resource.Module != "" {
		fields["MESHGEN_RESOURCE"] = f.Resource.String()
	}
	if f.Target.Kind() == units.TargetUnit {
		fields["OBJECT_SYSTEMD_UNIT"] = f.Target.Name() // so that systemctl status shows it
	}
	var listens []string
	for _, l := range f.Listens {
		listens = append(listens, l.String())
	}
	fields["MESHGEN_LISTENS"] = strings.Join(listens, ", ")
	maps.DeleteFunc(fields, func(_, value string) bool { return value == "" })
	return fields
}
