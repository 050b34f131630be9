package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"meshgen/internal/apply"
)

// states is how a unit may do that is not wrong, in the order in which they are
// told, with what has no unit.
//
//nolint:gochecknoglobals // a constant list
var states = []string{"active", "activating", "reloading", "deactivating", "inactive", inPlace, kept}

const (
	inPlace = "in place"
	kept    = "kept" // no longer declared, and left where it is
)

// stateOf returns the word for how a resource does.
func stateOf(s apply.Standing) string {
	switch {
	case s.Health != apply.IsWell:
		return string(s.Health)
	case s.State == "held":
		return kept
	}
	return cmp.Or(s.Active, inPlace)
}

func counts(all []apply.Standing) map[string]int {
	n := map[string]int{}
	for _, s := range all {
		n[stateOf(s)]++
	}
	return n
}

// toneOf returns the colour of a state.
func toneOf(h apply.Health) tone {
	switch h {
	case apply.IsFailed, apply.IsRestarting:
		return toneBad
	case apply.IsStopped, apply.IsDrifted, apply.IsHeld, apply.IsStale:
		return toneLook
	case apply.IsWell:
	}
	return toneNone
}

// tally returns how many are in which state, what is wrong first.
func tally(n map[string]int) []cell {
	var words []cell
	for _, h := range apply.Healths() {
		if n[string(h)] > 0 {
			words = append(words, cell{fmt.Sprintf("%d %s", n[string(h)], h), toneOf(h)})
		}
	}
	known := states
	for _, state := range slices.Sorted(maps.Keys(n)) { // and what systemd may come to say
		if !slices.Contains(known, state) && !slices.Contains(apply.Healths(), apply.Health(state)) {
			known = append(slices.Clip(known), state)
		}
	}
	for _, state := range known {
		if n[state] > 0 {
			words = append(words, cell{text: fmt.Sprintf("%d %s", n[state], state)})
		}
	}
	return words
}

// writeStatus prints how all does, on one screen where that is one.
func (o *options) writeStatus(w io.Writer, doc status) error {
	s := screenOf(w)
	var head strings.Builder
	if doc.Generation == 0 {
		head.WriteString("nothing is in force\n")
	} else {
		fmt.Fprintf(&head, "generation %d", doc.Generation)
		if doc.Node != "" {
			head.WriteString(" on " + doc.Node)
		}
		if !doc.Time.IsZero() {
			head.WriteString(", in force since " + since(doc.Time))
		}
		head.WriteString("\n")
	}
	for _, line := range []string{doc.Unfinished, doc.Manifest} {
		if line != "" {
			head.WriteString(line + "\n")
		}
	}
	if err := writeText(w, strings.TrimSuffix(head.String(), "\n")); err != nil || len(doc.Resources) == 0 {
		return err
	}
	ill, well := standingTables(doc.Resources)
	text := s.list(count(len(doc.Resources), "resource")+": ", tally(doc.Counts)) + "\n"
	if len(ill.rows) > 0 {
		text += "\n" + ill.lay(s)
	}
	if len(well.rows) > 0 {
		below := "\n" + well.lay(s)
		if lines := strings.Count(head.String()+text+below, "\n"); s.width > 0 && lines >= s.height && !o.verbose {
			below = "\n" + byModule(doc.Resources).lay(s) + "\n`meshgen status -v` lists each\n"
		}
		text += below
	}
	return emit(w, text)
}

// standingTables returns a row for each resource: those with which something is
// wrong, the worst first, and the others.
func standingTables(all []apply.Standing) (ill, well table) {
	columns := []column{
		{},
		{by: cutMiddle, weight: 3, min: 20},
		{by: cutMiddle, weight: 2, min: 14},
		{by: cutDrop, weight: 1},
		{by: cutWrap, min: 12},
	}
	ill, well = table{columns: columns}, table{columns: columns}
	all = slices.Clone(all)
	rank := func(s apply.Standing) int { return slices.Index(apply.Healths(), s.Health) }
	slices.SortStableFunc(all, func(a, b apply.Standing) int { return cmp.Compare(rank(a), rank(b)) })
	for _, s := range all {
		if s.Health == apply.IsWell {
			well.rows = append(well.rows, standingRow(s))
		} else {
			ill.rows = append(ill.rows, standingRow(s))
		}
	}
	return ill, well
}

// standingRow returns the row of a resource. What is wrong with it stands below:
// that is read as a text, and leaves the names their room.
func standingRow(s apply.Standing) row {
	name := s.Unit
	if name == "" && len(s.Targets) > 0 {
		name = s.Targets[0].Name()
	}
	var said string
	switch {
	case s.Result != "" && s.Result != "success":
		said = s.Result
	case s.Health == apply.IsStale:
		said = s.Active
	case len(s.Adopted) > 0:
		said = "adopted"
	}
	r := row{cells: []cell{{stateOf(s), toneOf(s.Health)}, {text: s.Address.String()}, {text: name}, {text: since(s.Since)}, {text: said}}}
	why := s.Why
	if s.Command != "" {
		why = strings.TrimSuffix(why, "; `"+s.Command+"` takes its place")
	}
	for _, text := range []string{why, s.Drift} {
		if text != "" {
			r.below = append(r.below, note{cell{text: text}, cutWrap})
		}
	}
	for _, line := range s.Log {
		r.below = append(r.below, note{cell{line, toneAside}, cutEnd})
	}
	if s.Command != "" {
		r.below = append(r.below, note{cell{text: s.Command}, cutNot})
	}
	return r
}

// byModule returns a row for each module: how many of its resources are well, and
// how they do.
func byModule(all []apply.Standing) *table {
	of := map[string]map[string]int{}
	for _, s := range all {
		if s.Health != apply.IsWell {
			continue
		}
		if of[s.Address.Module] == nil {
			of[s.Address.Module] = map[string]int{}
		}
		of[s.Address.Module][stateOf(s)]++
	}
	t := &table{columns: []column{{by: cutMiddle, weight: 1, min: 16}, {by: cutWrap, min: 12}}}
	for _, module := range slices.Sorted(maps.Keys(of)) {
		t.add(module, screen{}.list("", tally(of[module])))
	}
	return t
}

// since returns a moment as it is short and cannot be taken for another: the time
// of today, else the date with it.
func since(t time.Time) string {
	t = t.Local()
	switch {
	case t.IsZero():
		return ""
	case t.Format(time.DateOnly) == time.Now().Format(time.DateOnly):
		return t.Format(time.TimeOnly)
	}
	return t.Format("2006-01-02 15:04")
}
