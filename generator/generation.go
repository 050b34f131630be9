package generator

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"meshgen/state"
)

// whole hands over a generation with its enablement, and returns which it was: n,
// or, where that is broken, the last one before that is not. n is 0 where it cannot
// be told what is in force.
func (r *replay) whole(n int) int {
	units, err := r.generation(n)
	if err != nil || n == 0 {
		r.fault(err)
		if before, instead, ok := r.before(n); ok {
			r.fault(fmt.Errorf("generation %d: in its place: %s is broken", before, r.broken(n)))
			n, units = before, instead
		}
	}
	converted, is := r.converted(n)
	var now []Given
	if is {
		now = r.hand(r.renewed(n, units, converted))
	} else {
		now = append(r.hand(units), r.hand(r.convert(n))...)
	}
	r.enablement(now)
	return n
}

func (r *replay) broken(n int) string {
	if n == 0 {
		return r.layout.Current()
	}
	return "generation " + strconv.Itoa(n)
}

// names hands over the units of a generation that systemd was not given yet.
func (r *replay) names(n int) {
	units, err := r.generation(n)
	r.fault(err)
	r.hand(units)
}

// generation returns the units of a generation; where it is broken, with an error,
// what there is left of them.
func (r *replay) generation(n int) ([]Given, error) {
	if n == 0 {
		return nil, nil
	}
	units, err := ReadUnits(filepath.Join(r.layout.Generation(n), UnitsFile))
	if err == nil {
		return units, nil
	}
	apart, apartErr := readApart(r.layout, n)
	if apartErr == nil {
		r.warn(fmt.Errorf("%w: its units are given from %s", err, NormalDir))
		return apart, nil
	}
	return units, errors.Join(err, apartErr)
}

// readApart reads the units of a generation from the files that each has of its own.
// There is no error where each is as it was written.
func readApart(l state.Layout, n int) ([]Given, error) {
	if err := regular(filepath.Join(l.Generation(n), "desired.json"), mostOfUnits); err != nil {
		return nil, err
	}
	g, err := state.ReadGeneration(l, n)
	if err != nil {
		return nil, err
	}
	var units []Given
	for _, u := range g.Units {
		if u.Text == "" {
			continue // no converter has made it yet
		}
		path := filepath.Join(l.Generation(n), NormalDir, u.Name)
		text, err := readFile(path, mostOfUnits)
		if err != nil {
			return nil, err
		}
		if state.TextDigest(string(text)) != u.Text {
			return nil, fmt.Errorf("%s: %w: it is not as it was written", path, ErrUnits)
		}
		units = append(units, Given{Name: u.Name, Links: u.Links, Text: string(text)})
	}
	return units, nil
}

// before returns the generation that was in force before n, and its units; where
// that is broken or not there, the newest before n that is not.
func (r *replay) before(n int) (int, []Given, bool) {
	numbers, err := state.Numbers(r.layout)
	r.fault(err)
	pending, _, _ := state.Pending(r.layout) // the recovery tells
	slices.Reverse(numbers)
	if text, err := readFile(filepath.Join(r.layout.Generation(n), BeforeFile), 32); err == nil {
		if before, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			numbers = slices.Insert(numbers, 0, before)
		}
	}
	limit := n
	if n == 0 {
		limit = math.MaxInt
	}
	for _, before := range numbers {
		if before < 1 || before >= limit || before == pending {
			continue
		}
		if units, err := r.generation(before); err == nil {
			return before, units, true
		}
	}
	return 0, nil, false
}

// InPlace returns the generation, and its units, that [Replay] gives in place of the
// one in force; ok is false where that one is not broken, or nothing is in its place.
func InPlace(l state.Layout) (n int, units []Given, ok bool) {
	current, inForce, err := state.Current(l)
	if err == nil && !inForce {
		return 0, nil, false
	}
	r := replay{layout: l}
	if _, err := r.generation(current); err == nil && current > 0 {
		return 0, nil, false
	}
	return r.before(current)
}
