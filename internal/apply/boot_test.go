package apply

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// A unit that was due at a boot is confirmed where the boot, or somebody since,
// has started it; it is started where nobody has; and one that its owner has
// stopped since stays stopped.
func TestPlanAfterARecoveryAtBoot(t *testing.T) {
	const name = "x.service"
	for says, c := range map[string]struct {
		unit       host.Unit
		invocation string // of this boot, "" where it has not run
		edited     bool
		confirm    bool
		start      bool
		restart    bool
	}{
		"up":                   {unit: host.Unit{Active: "active"}, invocation: "1", confirm: true},
		"on its way up":        {unit: host.Unit{Active: "activating", Sub: "start"}, invocation: "1"},
		"up and down again":    {unit: host.Unit{Active: "activating", Sub: "auto-restart"}, invocation: "1", confirm: true},
		"stopped by its owner": {unit: host.Unit{Active: "inactive"}, invocation: "1", confirm: true},
		"not started":          {unit: host.Unit{Active: "inactive"}, start: true},
		"failed":               {unit: host.Unit{Active: "failed"}, invocation: "1", start: true},
		"masked":               {unit: host.Unit{Active: "inactive", Load: "masked"}},
		"up, and edited":       {unit: host.Unit{Active: "active"}, invocation: "1", edited: true, restart: true},
		"down, and edited":     {unit: host.Unit{Active: "inactive"}, invocation: "1", edited: true, start: true},
	} {
		t.Run(says, func(t *testing.T) {
			g := generation(1, container("x", "x"))
			b := running(g)
			r := b.record(units.Of(units.TargetUnit, name))
			r.Due, r.DueWhy, r.Started = true, state.Boot, "what ran before"
			c.unit.Name = name
			if c.unit.Load == "" {
				c.unit.Load = "loaded"
			}
			b.seen.units[name] = c.unit
			b.seen.invocations = map[string]string{name: c.invocation}
			if c.edited {
				g = generation(2, container("x", "x", "Image=another"))
			}
			p := makePlan(b, g)
			for what, list := range map[string]struct {
				names []string
				want  bool
			}{"confirmed": {p.Confirm, c.confirm}, "started": {p.Start, c.start}, "restarted": {p.Restart, c.restart}} {
				if slices.Contains(list.names, name) != list.want {
					t.Errorf("%s is %v, want %v", what, !list.want, list.want)
				}
			}
			if !c.edited && p.Empty() == (c.confirm || c.start) {
				t.Errorf("the plan is empty: %v", p.Empty())
			}
		})
	}
}

// After a recovery that failed, what may read a file of the other set is held
// back, and nothing else.
func TestWhatReadsFilesOfTheOtherSet(t *testing.T) {
	l := state.NewLayout(t.TempDir(), "")
	lie := func(path, content string) {
		t.Helper()
		path = l.Path(path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	owned := func(r units.Resource) units.Resource { // by whoever runs the test
		r.File.Owner, r.File.Group = strconv.Itoa(os.Getuid()), strconv.Itoa(os.Getgid())
		return r
	}
	files := func(content string, more ...units.Resource) []units.Resource {
		return append(more,
			owned(file("told", "/etc/a/told", content, "told=restart")),
			owned(file("mounted", "/etc/b/mounted", content)),
			owned(file("below", "/etc/c/deep/below", content)),
			owned(file("drifted", "/etc/d/drifted", content)),
			owned(file("old", "/etc/e/old", content)),
			owned(file("same", "/etc/f/same", "same")))
	}
	old := generation(1, files("old",
		container("told", "told"),
		container("mounted", "mounted", "Volume=/etc/b/mounted:/conf:ro"),
		container("below", "below", "Mount=type=bind,src=/etc/c/,dst=/conf"),
		container("drifted", "drifted", "Volume=/etc/d:/conf"),
		container("old", "old", "Volume=/etc/e:/conf"),
		container("same", "same", "Volume=/etc/f:/conf"),
		container("near", "near", "Volume=/etc/b/mount:/conf"),
		container("added", "added", "EnvironmentFile=/etc/g/added"),
	)...)
	now := generation(2, files("new", owned(file("added", "/etc/g/added", "new")))...)
	for _, path := range []string{"/etc/a/told", "/etc/b/mounted", "/etc/c/deep/below", "/etc/g/added"} {
		lie(path, "new")
	}
	lie("/etc/d/drifted", "by hand")
	lie("/etc/e/old", "old")
	lie("/etc/f/same", "same")
	paths, err := astray(l, now, old)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"added.service", "below.service", "mounted.service", "told.service"}
	if got := readers(old, paths); !slices.Equal(got, want) {
		t.Errorf("held back are %q for %q, want %q", got, paths, want)
	}
}
