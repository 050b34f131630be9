package generator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"meshgen/units"
)

// The deadlines of a conversion at boot: systemd gives all generators together 90
// seconds. Where there is no other result the boot has to wait; where there is, it
// loses no more than a moment to a converter that hangs. Podman's takes 0.1 s for
// 1,000 units.
const (
	convertDeadline = 20 * time.Second
	renewDeadline   = 3 * time.Second
)

// converted returns what made the units of a generation of its Quadlets: a
// [Maker]; ok is false where nothing has, yet.
func (r *replay) converted(n int) (maker string, ok bool) {
	text, err := readFile(filepath.Join(r.layout.Generation(n), ConvertedFile), 4096)
	if errors.Is(err, os.ErrNotExist) {
		_, gone := os.Stat(r.layout.Generation(n))
		return "", gone != nil
	}
	r.warn(err) // what is stored is as good as ever
	return strings.TrimSpace(string(text)), true
}

// convert runs the machine's converter, for a generation that was made where
// there was none.
func (r *replay) convert(n int) []Given {
	dir := r.layout.Generation(n)
	quadlets := r.quadlets(n)
	if len(quadlets) == 0 {
		return nil
	}
	c, ok := FindConverter(r.layout.Root)
	if !ok {
		r.fault(fmt.Errorf("%s: not converted, and there is no quadlet on this machine", dir))
		return nil
	}
	out, refused, err := r.run(c, n, quadlets, convertDeadline)
	r.fault(err)
	for _, refusal := range refused {
		r.fault(fmt.Errorf("%s: %s", filepath.Join(dir, "quadlet", refusal.File), refusal.Message))
	}
	var made []Given
	for _, name := range slices.Sorted(maps.Keys(out.Units)) {
		if !isService(out.Units[name]) {
			r.fault(fmt.Errorf("%s: what %s made of it is no service", name, c.Path))
			continue
		}
		made = append(made, out.given(name))
	}
	return made
}

// renewed returns the units of a generation with the texts that the machine's
// converter makes of its Quadlets, where that is another than the one that made
// those that are stored: a podman wants to be run by the units of its own version.
// What it does not make, or not as it should, is given as it is stored.
func (r *replay) renewed(n int, stored []Given, maker string) []Given {
	c, ok := FindConverter(r.layout.Root)
	if !ok || maker == "" || maker == Maker(c.Fingerprint()) {
		return stored
	}
	quadlets := r.quadlets(n)
	if len(quadlets) == 0 {
		return stored
	}
	out, refused, err := r.run(c, n, quadlets, renewDeadline)
	if err != nil {
		r.warn(fmt.Errorf("generation %d: given as it is stored: %w", n, err))
		return stored
	}
	for _, refusal := range refused {
		r.warn(fmt.Errorf("%s: given as it is stored: %s", filepath.Join(r.layout.Generation(n), "quadlet", refusal.File), refusal.Message))
	}
	now := slices.Clone(stored)
	for i, u := range now {
		if !strings.Contains(u.Text, "\nSourcePath=") {
			continue // a plain unit
		}
		switch text, ok := out.Units[u.Name]; {
		case !ok:
			r.warn(fmt.Errorf("%s: given as it is stored: %s made nothing of it", u.Name, c.Path))
		case !isService(text):
			r.warn(fmt.Errorf("%s: given as it is stored: what %s made of it is no service", u.Name, c.Path))
		default:
			now[i] = out.given(u.Name)
		}
		delete(out.Units, u.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(out.Units)) {
		r.warn(fmt.Errorf("%s: made by %s, and not in generation %d: left out", name, c.Path, n))
	}
	return now
}

// quadlets returns the Quadlets of a generation, by their file names, as a converter
// is to have them.
func (r *replay) quadlets(n int) map[string]string {
	paths, _ := filepath.Glob(filepath.Join(r.layout.Generation(n), "quadlet", "*")) // the pattern is sound
	quadlets := map[string]string{}
	for _, path := range paths {
		text, err := readFile(path, mostOfQuadlet)
		if err != nil {
			r.fault(err)
			continue
		}
		quadlets[filepath.Base(path)] = units.Guarded(string(text), GuardProgram)
	}
	return quadlets
}

func (r *replay) run(c Converter, n int, quadlets map[string]string, deadline time.Duration) (Output, []Refusal, error) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	source := strings.TrimPrefix(filepath.Join(r.layout.Generation(n), "quadlet"), strings.TrimSuffix(r.layout.Root, "/"))
	return c.Convert(ctx, quadlets, source)
}

// given returns a unit of an output with its enablement.
func (o Output) given(name string) Given {
	u := Given{Name: name, Text: o.Units[name]}
	if a, ok := units.Mark(u.Text); ok && a.Kind == units.KindContainer {
		u.Text = units.WithFragment(u.Text)
	}
	for _, link := range slices.Sorted(maps.Keys(o.Links)) {
		if filepath.Base(link) == name {
			u.Links = append(u.Links, link)
		}
	}
	return u
}

// isService reports whether systemd would take a text for a service of ours. An
// empty file would be a mask.
func isService(text string) bool {
	_, marked := units.Mark(text)
	return marked && strings.Contains(text, "\n[Service]\n") && strings.Contains(text, "\nExecStart=")
}
