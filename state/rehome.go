package state

import (
	"slices"

	"meshgen/units"
)

// Rehome returns what a node had, a generation and records, under the addresses
// to which the moves of what is desired lead, so that one resource has one
// address in all that is compared. A move that leads to nothing declared is not
// followed, nor is one from an address that is declared. What it is given stays
// as it is.
func Rehome(desired Generation, before Generation, records []Record) (Generation, []Record) {
	if len(desired.Moved.Resources)+len(desired.Moved.Modules) == 0 {
		return before, records
	}
	declared := make(map[units.Address]bool, len(desired.Resources))
	for _, r := range desired.Resources {
		declared[r.Address] = true
	}
	now := func(a units.Address) units.Address {
		if declared[a] {
			return a
		}
		if to, ok := desired.Moved.Until(a, func(a units.Address) bool { return declared[a] }); ok {
			return to
		}
		return a
	}
	before.Resources = slices.Clone(before.Resources)
	for i, r := range before.Resources {
		before.Resources[i].Address = now(r.Address)
		before.Resources[i].Uses = slices.Clone(r.Uses)
		for j, a := range r.Uses {
			before.Resources[i].Uses[j] = now(a)
		}
	}
	before.Units = slices.Clone(before.Units)
	for i, u := range before.Units {
		before.Units[i].Resource = now(u.Resource)
	}
	records = slices.Clone(records)
	for i, r := range records {
		if to := now(r.Resource); to != r.Resource {
			records[i].Recorded, records[i].Resource = r.Resource, to
			records[i].Earlier = append(slices.Clone(r.Earlier), r.Resource)
		}
	}
	return before, records
}
