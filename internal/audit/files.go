package audit

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"meshgen/generator"
	"meshgen/state"
	"meshgen/units"
)

// definitions tells of the units that the owner defines.
func (j *joiner) definitions() {
	for _, name := range slices.Sorted(maps.Keys(j.Definitions)) {
		path, t := j.Definitions[name], units.Of(units.TargetUnit, name)
		if _, declared := j.unit[name]; declared || j.told[t] || strings.HasPrefix(path, "/usr/") {
			continue
		}
		f := Finding{Class: Foreign, Target: t, Owner: path, Since: changed(j.Layout.Path(path)), Fix: j.undefine(name, path)}
		if j.Records[t].State == state.Found {
			f.Class, f.Fix = Found, ""
		}
		f.Detail = sentence("defined by "+path+", "+running(j.Units[name]), j.past(t))
		j.tell(f)
	}
}

// dropIns tells of the drop-ins by which other hands change a unit that is declared.
func (j *joiner) dropIns() {
	names := slices.Collect(maps.Keys(j.unit))
	for name, paths := range generator.DropIns(j.Layout.Root, names) {
		t := units.Of(units.TargetUnit, name)
		if j.told[t] {
			continue
		}
		var away []string
		for _, path := range paths {
			away = append(away, putAway(path))
		}
		j.tell(Finding{
			Class: Drifted, Target: t, Resource: j.unit[name].Resource, Owner: paths[0], Since: changed(j.Layout.Path(paths[0])),
			Detail: "changed by " + strings.Join(paths, ", "), Fix: strings.Join(away, " && ") + " && systemctl daemon-reload && systemctl restart " + quote(name),
		})
	}
}

// generated tells of the units that our generator gave systemd and that are not of
// the set in force.
func (j *joiner) generated() {
	const dir = "/run/systemd/generator"
	entries, _ := os.ReadDir(j.Layout.Path(dir)) // none where nothing was booted
	for _, e := range entries {
		t := units.Of(units.TargetUnit, e.Name())
		if _, declared := j.unit[e.Name()]; declared || j.told[t] || !e.Type().IsRegular() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(j.Layout.Path(dir), e.Name()))
		if a, ours := units.Mark(string(text)); err == nil && ours {
			j.tell(Finding{
				Class: Stale, Target: t, Resource: a, Owner: meshgen, Since: changed(j.Layout.Path(filepath.Join(dir, e.Name()))),
				Detail: "systemd has it from a set that is not in force, " + running(j.Units[e.Name()]), Fix: "systemctl daemon-reload",
			})
		}
	}
}

// files tells of what lies in the directories that meshgen made, and in its own, and
// is not of it.
func (j *joiner) files() {
	for _, t := range slices.Sorted(maps.Keys(j.Records)) {
		if j.Records[t].State == state.Live && t.Kind() == units.TargetDir {
			if _, declared := j.declared[t]; !declared {
				j.strangers(j.Layout.Path(t.Name()), j.isOurs)
			}
		}
	}
	for _, dir := range []string{j.Layout.Config, j.Layout.State} {
		j.strangers(dir, j.Layout.IsOwn)
	}
}

// isOurs reports whether a path on the host is one that the ledger has.
func (j *joiner) isOurs(path string) bool {
	for _, kind := range []string{units.TargetFile, units.TargetDir} {
		if r, ok := j.Records[units.Of(kind, j.shown(path))]; ok && (r.State == state.Live || r.State == state.Held) {
			return true
		}
	}
	return false
}

// shown returns a path on the host as it is from the node's root.
func (j *joiner) shown(path string) string {
	return strings.TrimPrefix(path, strings.TrimSuffix(j.Layout.Root, "/"))
}

// strangers tells of each entry of a directory on the host that is not ours. What lies
// below one goes with it.
func (j *joiner) strangers(dir string, ours func(path string) bool) {
	entries, _ := os.ReadDir(dir) // none where it is gone: that is drift
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		name := j.shown(path)
		t := units.Of(units.TargetFile, name)
		if ours(path) || j.told[t] {
			continue
		}
		f := Finding{Class: Foreign, Target: t, Since: changed(path), Fix: "rm " + quote(name), Detail: "lies in a directory of meshgen's"}
		if e.IsDir() {
			f.Target, f.Fix, f.Detail = units.Of(units.TargetDir, name), "rm --recursive "+quote(name), "a directory in one of meshgen's"
		}
		if r, ok := j.Records[t]; ok && r.State == state.Retired {
			f.Detail = sentence(f.Detail, j.past(t))
		}
		j.tell(f)
	}
}

// changed returns when what lies at a path was last changed; zero where nothing does.
func changed(path string) time.Time {
	info, err := os.Lstat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

func lies(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
