package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// row is one line of the table.
type row struct {
	what      string
	size      int
	ours      series
	yardstick string // what theirs is
	theirs    series
	budget    float64 // 0 for none
}

// series are the figures of several runs.
type series struct {
	unit   string
	values []float64
	// cpu has the time that the processors worked in each run, where values
	// are times: on a busy host it says more than they do.
	cpu []float64
}

// count is a figure that is the same in each run.
func count(n float64) series { return series{values: []float64{n}} }

func (s *series) add(v float64) { s.values = append(s.values, v) }

func (s *series) addTime(run sample) {
	s.add(milliseconds(run.Took))
	s.cpu = append(s.cpu, milliseconds(run.CPU))
}

// at returns the figure below which the given part of the series lies.
func (s series) at(part float64) float64 { return quantile(s.values, part) }

func quantile(values []float64, part float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	place := part * float64(len(sorted)-1)
	below := int(place)
	if below+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[below] + (place-float64(below))*(sorted[below+1]-sorted[below])
}

func (s series) median() float64 { return s.at(0.5) }

// String returns the median with the quartiles and the best; "" for no figures.
func (s series) String() string {
	switch {
	case len(s.values) == 0:
		return ""
	case len(s.values) == 1:
		return strings.TrimSpace(number(s.values[0]) + " " + s.unit)
	case len(s.cpu) > 0:
		return fmt.Sprintf("%s %s (%s–%s, best %s, cpu %s)", number(s.median()), s.unit,
			number(s.at(0.25)), number(s.at(0.75)), number(s.at(0)), number(quantile(s.cpu, 0.5)))
	}
	return fmt.Sprintf("%s %s (%s–%s, best %s)", number(s.median()), s.unit, number(s.at(0.25)), number(s.at(0.75)), number(s.at(0)))
}

// number writes a figure to three digits at most.
func number(v float64) string {
	switch {
	case v >= 10 || v == 0:
		return fmt.Sprintf("%.0f", v)
	case v >= 1:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func writeTable(w io.Writer, rows []row) error {
	slices.SortStableFunc(rows, func(a, b row) int { return strings.Compare(group(a), group(b)) })
	slow := slowness(rows)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "what\tn\tmeshgen\tyardstick\t\tratio\tbudget\t") // Flush tells
	for _, r := range rows {
		ratio, budget, verdict := "", "", ""
		if len(r.ours.values) > 0 && len(r.theirs.values) > 0 && r.theirs.median() > 0 {
			ratio = fmt.Sprintf("%.2f", r.ours.median()/r.theirs.median())
		}
		if r.budget > 0 {
			budget, verdict = number(r.budget)+" "+r.ours.unit, r.verdict(slow)
		}
		_, _ = fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", r.what, r.size, r.ours, r.theirs, r.yardstick, ratio, budget, verdict) // likewise
	}
	if err := t.Flush(); err != nil || slow == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "\nPodman's generator takes %s times as long here and now as where the budgets were set.\n", number(slow))
	return err
}

// verdict says how a figure stands to its budget. A time that is over it only
// because the host is slower than the one where the budgets were set is told
// from one that would be over there too; a budget that is a share of the
// yardstick has the host's pace in it.
func (r row) verdict(slow float64) string {
	switch {
	case r.ours.median() <= r.budget:
		return "under"
	case r.ours.unit == "ms" && r.what != bootGeneratorTenth && slow > 1 && r.ours.median() <= r.budget*slow:
		return "over, as the host is slow"
	}
	return "OVER"
}

// slowness returns how many times as long podman's generator takes as it did where
// the budgets were set, at the largest size of both; 0 where it was not measured.
func slowness(rows []row) (times float64) {
	reference := map[int]float64{10: 4, 100: 15, 1000: 88}
	for _, r := range rows {
		if before := reference[r.size]; r.what == bootGenerator && before > 0 {
			times = r.theirs.median() / before
		}
	}
	return times
}

// group keeps the sizes of one figure together, in the order of the figures.
func group(r row) string { return fmt.Sprintf("%02d", slices.Index(figures(), r.what)) }
