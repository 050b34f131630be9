package audit

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"meshgen/generator"
	"meshgen/internal/hint"
	"meshgen/state"
	"meshgen/units"
)

// definitions tells of the units that the owner defines.
func (j *joiner) definitions() {
	for _, name := range slices.Sorted(maps.Keys(j.Definitions)) {
		path, t := j.Definitions[name], units.Of(units.TargetUnit, name)
		shipped := strings.HasPrefix(path, "/usr/") && !strings.HasPrefix(path, "/usr/local/")
		if _, declared := j.unit[name]; declared || j.told[t] || shipped {
			continue
		}
		f := Finding{Class: j.strange(j.Records[t]), Target: t, Owner: path, Since: changed(j.Layout.Path(path)), Fix: j.undefine(name, path)}
		if f.Class == Found {
			f.Fix = ""
		}
		f.Detail = sentence("defined by "+path, j.running(name), j.past(t))
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
			Detail: "changed by " + strings.Join(paths, ", "), Fix: strings.Join(away, " && ") + " && systemctl daemon-reload && systemctl restart " + operand(name),
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
				Detail: sentence("systemd has it from a set that is not in force", j.running(e.Name())), Fix: "systemctl daemon-reload",
			})
		}
	}
}

// files tells of what lies in the directories that meshgen made, and in its own, and
// is not of it. What a container writes into a directory that it has from the host is
// not told: that it may is declared.
func (j *joiner) files() {
	written := j.written()
	for _, t := range slices.Sorted(maps.Keys(j.Records)) {
		if j.Records[t].State != state.Live || t.Kind() != units.TargetDir {
			continue
		}
		_, declared := j.declared[t]
		if !declared && !slices.ContainsFunc(written, func(dir string) bool { return isAtOrBelow(t.Name(), dir) }) {
			j.strangers(j.Layout.Path(t.Name()), j.isOurs)
		}
	}
	for _, dir := range []string{j.Layout.Config, j.Layout.State} {
		j.strangers(dir, j.Layout.IsOwn)
	}
}

// written returns the paths of the host that containers which are declared may write.
func (j *joiner) written() []string {
	var paths []string
	for _, r := range j.Generation.Resources {
		for _, section := range []string{"Container", "Pod"} {
			for _, v := range r.Values(section, "Volume") {
				parts := strings.Split(v, ":") // podman-run(1): from, to, options
				if len(parts) == 2 || len(parts) == 3 && !slices.Contains(strings.Split(parts[2], ","), "ro") {
					paths = append(paths, parts[0])
				}
			}
			for _, v := range r.Values(section, "Mount") {
				if from, ok := bound(v); ok {
					paths = append(paths, from)
				}
			}
		}
	}
	return slices.DeleteFunc(paths, func(path string) bool { return !filepath.IsAbs(path) })
}

// bound returns what a value of Mount= binds from the host to be written.
func bound(mount string) (from string, ok bool) {
	for part := range strings.SplitSeq(mount, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch {
		case key == "type" && value == "bind":
			ok = true
		case key == "src" || key == "source":
			from = value
		case (key == "ro" || key == "readonly") && value != "false":
			return "", false
		}
	}
	return from, ok
}

// isAtOrBelow reports whether a path is a directory, or lies below it.
func isAtOrBelow(path, dir string) bool {
	rest, below := strings.CutPrefix(path, filepath.Clean(dir))
	return below && (rest == "" || rest[0] == '/' || dir == "/")
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
		f := Finding{Class: Foreign, Target: t, Since: changed(path), Fix: "rm " + hint.Quote(name), Detail: "lies in a directory of meshgen's"}
		if e.IsDir() {
			f.Target, f.Fix, f.Detail = units.Of(units.TargetDir, name), "rm --recursive "+hint.Quote(name), "a directory in one of meshgen's"
		}
		if strings.HasSuffix(name, "\n") {
			f.Fix = "" // a shell drops it: what it had would be another
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
