package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"meshgen/internal/apply"
	"meshgen/policy"
	"meshgen/state"
	"meshgen/units"
)

// explained is the JSON form of a story.
type explained struct {
	Schema   string          `json:"schema"`
	Target   units.Target    `json:"target,omitempty"`
	Resource units.Address   `json:"resource,omitzero"`
	Events   []apply.Telling `json:"events"`
	Now      []string        `json:"now"`
	Next     []string        `json:"next"`
	Damage   string          `json:"damage,omitempty"`
	failure
}

func newExplain(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "explain TARGET|ADDRESS",
		Short: "Tell all that ever happened to a name or to a resource",
		Long: "explain tells the story of a target, as container:gitea, or of a resource, by its\n" +
			"address or one that it had before, as forge/container/gitea.server: when each name was\n" +
			"recorded, started, renamed, let be, found or seen gone, and why; then what it is now, and\n" +
			"what comes of it. Names that are long gone are there too. --verbose has the facts that\n" +
			"each decision was taken on as well.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(cmd, fmt.Errorf("explain: takes one target or address, and was given %d", len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := o.open(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { _ = node.Close() }() // nothing was written
			s, err := node.Explain(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if !o.json {
				return o.writeStory(cmd.OutOrStdout(), s)
			}
			doc := explained{
				Schema: schema(cmd), Target: s.Target, Resource: s.Resource,
				Events: orEmpty(s.Events), Now: orEmpty(s.Now), Next: orEmpty(s.Next),
			}
			if s.Damage != nil {
				doc.Damage = s.Damage.Error()
			}
			return writeJSON(cmd.OutOrStdout(), doc)
		},
	}
}

// writeStory prints the events, a head for each switch and day; then what is now
// and what comes next. Facts, and events that only lead to the next, are for who asks
// for more.
func (o *options) writeStory(w io.Writer, s apply.Story) error {
	head := string(s.Target)
	if s.Target == "" {
		head = s.Resource.String()
	}
	head = policy.Line(head)
	if s.Damage != nil {
		head += "\n" + s.Damage.Error()
	}
	if err := writeText(w, head); err != nil {
		return err
	}
	events := s.Events
	if !o.verbose {
		events = withoutDue(events)
	}
	for len(events) > 0 {
		n := 1
		for n < len(events) && sameHead(events[0], events[n]) {
			n++
		}
		if err := o.writeChapter(w, s, events[:n]); err != nil {
			return err
		}
		events = events[n:]
	}
	t := table{columns: []column{{}, {by: cutWrap, min: 20}}}
	for _, line := range s.Now {
		t.add("now", line)
	}
	for _, line := range s.Next {
		t.add("next", line)
	}
	if len(t.rows) == 0 {
		return nil
	}
	if err := writeText(w, ""); err != nil {
		return err
	}
	return t.write(w)
}

// withoutDue leaves out that a unit is due where the same switch went on to do it.
func withoutDue(events []apply.Telling) []apply.Telling {
	var left []apply.Telling
	for i, e := range events {
		done := slices.ContainsFunc(events[i+1:], func(later apply.Telling) bool {
			return later.Target == e.Target && later.Generation == e.Generation &&
				(later.Event == string(state.EventStarted) || later.Event == string(state.EventRetire))
		})
		if e.Event != string(state.EventDue) || !done {
			left = append(left, e)
		}
	}
	return left
}

// sameHead reports whether an event is told under the head of another: it is of the
// same switch, or of none, and of the same day.
func sameHead(first, e apply.Telling) bool {
	of := func(e apply.Telling) int { return cmp.Or(e.Switch, e.Generation) }
	return (of(e) == 0 || of(e) == of(first)) && e.Time.Local().Format(time.DateOnly) == first.Time.Local().Format(time.DateOnly)
}

// writeChapter prints events of one switch and one day.
func (o *options) writeChapter(w io.Writer, s apply.Story, events []apply.Telling) error {
	head := events[0].Time.Local().Format(time.DateOnly)
	if g := cmp.Or(events[0].Switch, events[0].Generation); g > 0 {
		head += fmt.Sprintf(", generation %d", g)
	}
	if err := writeText(w, "\n"+head); err != nil {
		return err
	}
	t := table{columns: []column{{}, {by: cutWrap, min: 20}}}
	for _, e := range events {
		text := e.Detail
		if e.Target != "" && s.Target == "" {
			text = string(e.Target) + " " + text
		}
		t.add(e.Time.Local().Format(time.TimeOnly), text)
		if e.Policy == "" {
			continue
		}
		if o.verbose {
			t.rows[len(t.rows)-1].below = decidedBy(e.Policy, e.PolicySum, e.Facts)
			continue
		}
		by := "decided by " + policyName(e.Policy)
		if len(e.Facts) > 0 {
			by += ", on " + count(len(e.Facts), "fact")
		}
		t.add("", by)
	}
	return t.write(w)
}

// policyName returns a policy as it is told.
func policyName(policy string) string {
	switch policy {
	case "builtin":
		return "the built-in policy"
	case apply.Operator:
		return "whoever typed the command"
	}
	return policy
}

// decidedBy says which policy decided, and the facts that it read, one a line.
func decidedBy(policy, sum string, facts map[string]string) []note {
	text := "decided by " + policyName(policy)
	if sum != "" {
		text += fmt.Sprintf(", sha256 %.12s", sum)
	}
	if len(facts) > 0 {
		text += ", which read"
	}
	notes := []note{{cell{text: text}, cutWrap}}
	for _, key := range slices.Sorted(maps.Keys(facts)) {
		notes = append(notes, note{cell{"  " + key + " = " + strconv.Quote(facts[key]), toneAside}, cutWrap})
	}
	return notes
}
