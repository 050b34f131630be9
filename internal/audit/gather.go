package audit

import (
	"fmt"
	"path/filepath"
	"strings"

	"meshgen/units"
)

// mostFiles is how many files and directories that lie in one directory, and are not
// of meshgen, are told of one by one.
const mostFiles = 20

// Gather has one finding stand for all foreign files and directories of a directory
// where they are many. It comes after [Report.Ignore], whose patterns are for each.
func (r *Report) Gather() {
	in := map[string][]Finding{}
	for _, f := range r.Findings {
		if lies, dir := inDir(f); lies {
			in[dir] = append(in[dir], f)
		}
	}
	var left []Finding
	for _, f := range r.Findings {
		lies, dir := inDir(f)
		all := in[dir]
		switch {
		case !lies || len(all) <= mostFiles:
			left = append(left, f)
		case f.Target == all[0].Target:
			left = append(left, gathered(dir, all))
		}
	}
	r.Findings = left
	r.sort()
}

// inDir returns the directory that a foreign file or directory lies in.
func inDir(f Finding) (lies bool, dir string) {
	kind := f.Target.Kind()
	if f.Class != Foreign || (kind != units.TargetFile && kind != units.TargetDir) {
		return false, ""
	}
	return true, filepath.Dir(f.Target.Name())
}

func gathered(dir string, all []Finding) Finding {
	one := Finding{Class: Foreign, Target: units.Of(units.TargetDir, dir), Owner: all[0].Owner, Listens: []Listener{}}
	var names []string
	for i, f := range all {
		if i < 3 {
			names = append(names, filepath.Base(f.Target.Name()))
		}
		if one.Since.IsZero() || f.Since.Before(one.Since) {
			one.Since, one.Generation = f.Since, f.Generation
		}
	}
	one.Detail = fmt.Sprintf("%d files and directories lie in it that are not meshgen's: %s …", len(all), strings.Join(names, ", "))
	return one
}
