package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"meshgen/internal/durable"
	"meshgen/units"
)

// known is a finding as it is remembered between audits.
type known struct {
	Class  Class        `json:"class"`
	Target units.Target `json:"target"`
}

// News returns the findings that were not among those of the last call of [Remember],
// which wrote the file at path, and those of then that are gone: none where the report
// is partial, since what was not seen is not gone. A file that is missing, or cannot
// be understood, has told of nothing.
func News(path string, r Report) (fresh []Finding, gone []units.Target, err error) {
	before, err := recall(path)
	if err != nil {
		return nil, nil, err
	}
	then, now := map[known]bool{}, map[known]bool{}
	for _, k := range before {
		then[k] = true
	}
	for _, f := range r.Findings {
		k := known{f.Class, f.Target}
		if now[k] = true; !then[k] {
			fresh = append(fresh, f)
		}
	}
	for _, k := range before {
		if !now[k] && !r.Partial() {
			gone = append(gone, k.Target)
		}
	}
	return fresh, gone, nil
}

// Remember keeps what was found in the file at path, for [News]; where the report is
// partial, what was found before too.
func Remember(path string, r Report) error {
	var all []known
	if r.Partial() {
		before, err := recall(path)
		if err != nil {
			return err
		}
		all = before
	}
	for _, f := range r.Findings {
		if k := (known{f.Class, f.Target}); !r.Partial() || !slices.Contains(all, k) {
			all = append(all, k)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return durable.WriteFile(path, append(text, '\n'), 0o600)
}

func recall(path string) (all []known, err error) {
	text, err := os.ReadFile(path) //nolint:gosec // of the layout's
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("what was found before: %w", err)
	}
	if json.Unmarshal(text, &all) != nil {
		all = nil
	}
	return all, nil
}
