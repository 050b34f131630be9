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
// which wrote the file at path, and those of then that are gone. A file that is
// missing, or cannot be understood, has told of nothing.
func News(path string, r Report) (fresh []Finding, gone []units.Target, err error) {
	text, err := os.ReadFile(path) //nolint:gosec // of the layout's
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("what was found before: %w", err)
	}
	var before []known
	_ = json.Unmarshal(text, &before)
	now := remembered(r)
	for i, f := range r.Findings {
		if !slices.Contains(before, now[i]) {
			fresh = append(fresh, f)
		}
	}
	for _, k := range before {
		if !slices.Contains(now, k) {
			gone = append(gone, k.Target)
		}
	}
	return fresh, gone, nil
}

// Remember keeps what was found in the file at path, for [News].
func Remember(path string, r Report) error {
	text, err := json.Marshal(remembered(r))
	if err != nil {
		return err
	}
	return durable.WriteFile(path, append(text, '\n'), 0o600)
}

func remembered(r Report) []known {
	all := make([]known, len(r.Findings))
	for i, f := range r.Findings {
		all[i] = known{f.Class, f.Target}
	}
	return all
}
