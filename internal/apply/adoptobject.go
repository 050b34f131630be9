package apply

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"meshgen/generator"
	"meshgen/internal/hint"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

func (a *adoption) object(ctx context.Context, t state.Transition, by state.Occupant) error {
	o, there, err := a.node.object(ctx, t.To)
	if err != nil {
		return err
	}
	if !there {
		return hint.Add(fmt.Errorf("%s: gone since it was looked at", t.To), "switch again")
	}
	made := madeWith(a.text(t.Resource))
	switch {
	case by.What == wasContainer:
		return a.container(ctx, t, o)
	case by.What == wasPod:
		return a.podItself(ctx, t, o)
	case by.What == wasSecret:
		return a.secret(ctx, t, o)
	case by.What == wasVolume && !made.fitsVolume(o):
		a.fault(t, "its driver or options are otherwise than declared, and podman cannot change a volume that exists",
			"declare it as it is, "+holdIt)
	case by.What == wasNetwork && !made.fitsNetwork(o):
		a.fault(t, "its driver, subnet or options are otherwise than declared, and it is used as it is",
			"declare it as it is, "+holdIt)
	default:
		a.add(t, state.Adoption{What: by.What, ID: born(o)}, true)
	}
	return nil
}

// born tells a volume or a network from a later one of its name. A network's id is
// a digest of its name, and a volume has none.
func born(o host.Object) string { return o.Created.UTC().Format("2006-01-02T15:04:05.999999999Z") }

// text returns the service that makes the object of a resource.
func (a *adoption) text(r units.Address) string {
	path := filepath.Join(generator.NormalDir, units.Unit(a.resource[r]))
	if text, fresh := a.compiled.Tree.Files[path]; fresh {
		return string(text)
	}
	text, _ := os.ReadFile(filepath.Join(a.node.Layout.Current(), path)) //nolint:gosec // of a generation; without it nothing fits
	return string(text)
}

// objectOptions are what a service tells podman of a volume or a network that it
// makes.
type objectOptions struct {
	driver   string
	options  map[string]string
	subnets  []string
	internal bool
}

// madeWith reads the command of a service that makes an object.
func madeWith(service string) objectOptions {
	m := objectOptions{options: map[string]string{}}
	for line := range strings.Lines(service) {
		command, ok := strings.CutPrefix(line, "ExecStart=")
		if !ok {
			continue
		}
		words := strings.Fields(strings.ReplaceAll(command, `"`, ""))
		for i, word := range words {
			key, value, given := strings.Cut(word, "=")
			if !given && i+1 < len(words) {
				value = words[i+1]
			}
			switch key {
			case "--driver":
				m.driver = value
			case "--subnet":
				m.subnets = append(m.subnets, value)
			case "--internal":
				m.internal = true
			case "--opt", "-o":
				if name, v, ok := strings.Cut(value, "="); ok {
					m.options[name] = v
				}
			}
		}
	}
	return m
}

func (m objectOptions) fitsVolume(o host.Object) bool {
	return cmp.Or(m.driver, "local") == cmp.Or(o.Driver, "local") && maps.Equal(m.options, o.Options)
}

func (m objectOptions) fitsNetwork(o host.Object) bool {
	has := func(subnet string) bool { return slices.Contains(o.Subnets, subnet) }
	return cmp.Or(m.driver, "bridge") == cmp.Or(o.Driver, "bridge") && m.internal == o.Internal && maps.Equal(m.options, o.Options) &&
		!slices.ContainsFunc(m.subnets, func(s string) bool { return !has(s) })
}

func (a *adoption) container(ctx context.Context, t state.Transition, o host.Object) error {
	pod, podFiles, err := a.podOf(ctx, t, o)
	if err != nil {
		return err
	}
	if o.Infra && pod != nil && pod.Unit != "" { // it comes and goes with that
		a.add(t, state.Adoption{What: wasContainer, ID: o.ID, Unit: pod.Unit, Running: o.Running, Pod: pod, Files: podFiles}, false)
		return nil
	}
	known, err := a.node.Podman.InspectContainer(ctx, o.ID)
	if err != nil {
		return err
	}
	if o.Frozen {
		a.fault(t, "it is paused, and would lose what it holds as it is stopped", "podman unpause "+o.Name+", or stop it, by hand, "+holdIt)
	}
	was := state.Adoption{What: wasContainer, ID: o.ID, Running: o.Running, Pod: pod}
	if known.Restart != "no" {
		was.Restart = known.Restart
	}
	if err := a.canUpdate(ctx, t, was.Restart); err != nil {
		return err
	}
	if was.Unit, was.Files, err = a.runner(ctx, t, o); err != nil {
		return err
	}
	was.Files = append(was.Files, podFiles...)
	switch {
	case known.Remove && a.makes(was.Unit, o): // its unit makes another each time
	case pod != nil && pod.Unit != "":
		a.fault(t, fmt.Sprintf("it would be destroyed with the pod %s, which %s removes as it stops, and no unit makes it anew, by its definition", pod.Name, pod.Unit),
			"stop it by hand if nothing in it is needed, "+holdIt)
		return nil
	case known.Remove && o.Running:
		a.fault(t, "podman removes it as it stops, and no unit makes it anew, by its definition", "stop it by hand if nothing in it is needed, "+holdIt)
		return nil
	default:
		if was.Aside, err = a.aside(ctx, o.Name); err != nil {
			return err
		}
	}
	a.byID[o.ID] = t
	a.add(t, was, false)
	return nil
}

// aside returns a name that no container has, for one that is put aside.
func (a *adoption) aside(ctx context.Context, name string) (string, error) {
	containers, err := a.node.objects.get(ctx, units.TargetContainer)
	base := fmt.Sprintf("%s.adopted-%d", name, a.number)
	aside := base
	for n := 2; containers[aside].ID != ""; n++ {
		aside = base + "-" + strconv.Itoa(n)
	}
	return aside, err
}

// canUpdate refuses a container whose start at boot podman cannot take away.
func (a *adoption) canUpdate(ctx context.Context, t state.Transition, restart string) error {
	if restart == "" || a.node.Converter == nil {
		return nil
	}
	version, err := a.node.Converter.Version(ctx)
	var major, minor int
	if _, scanErr := fmt.Sscanf(version, "%d.%d", &major, &minor); err == nil && scanErr == nil && (major < 5 || (major == 5 && minor < 1)) {
		a.fault(t, "podman "+version+" cannot take its restart policy away", "podman can from 5.1 on; stop and rename it by hand, "+holdIt)
	}
	return err
}

// runner returns the unit that runs a container, or is to start it, and what
// defines that; nothing where it is a unit that is adopted itself.
func (a *adoption) runner(ctx context.Context, t state.Transition, o host.Object) (unit string, files []state.AdoptedFile, err error) {
	if unit, err = a.runs(ctx, t, o); unit == "" || err != nil {
		return "", nil, err
	}
	now, err := a.node.Systemd.Units(ctx, []string{unit})
	if err != nil {
		return "", nil, err
	}
	up := now[unit].Up()
	if len(a.byUnit[unit]) > 0 { // whose adoption has the files
		a.byUnit[unit] = append(a.byUnit[unit], t)
		if !up {
			unit = ""
		}
		return unit, nil, nil
	}
	d, err := a.definition(t, unit)
	switch {
	case err != nil || d.barred:
		return "", nil, err
	case len(d.files) == 0 && up:
		a.fault(t, unit+" runs it, and its definition is gone", "stop it by hand, "+holdIt)
		return "", nil, nil
	}
	if err := a.othersWant(ctx, t, unit); err != nil {
		return "", nil, err
	}
	a.byUnit[unit] = append(a.byUnit[unit], t)
	if !up {
		unit = ""
	}
	return unit, d.files, nil
}

// runs returns the unit that runs a container, or is to start it: the one that podman
// was told of, if there is any such, else by what the owner's units say. It refuses
// what is not clear.
func (a *adoption) runs(ctx context.Context, t state.Transition, o host.Object) (string, error) {
	names, err := a.starters(ctx, o)
	if err != nil {
		return "", err
	}
	if o.Unit != "" && !slices.Contains(names, o.Unit) {
		now, err := a.node.Systemd.Units(ctx, []string{o.Unit})
		if err != nil {
			return "", err
		}
		if now[o.Unit].Up() || len(generator.Definers(a.node.Layout.Root, o.Unit)) > 0 {
			names = append(names, o.Unit)
		}
	}
	ties, err := a.node.Podman.Ties(ctx, []string{o.ID})
	if err != nil {
		return "", err
	}
	if in := ties[o.ID].Unit; in != "" && !slices.Contains(names, in) && a.isOwners(in) {
		a.fault(t, "podman was told to run it by "+in+", whose definition does not say so", "stop it by hand, "+holdIt)
		return "", nil
	}
	switch {
	case len(names) == 0:
		return "", nil
	case len(names) > 1:
		a.fault(t, strings.Join(names, " and ")+" each start it", "leave it to one of them, "+holdIt)
		return "", nil
	case templateOf(names[0]) != "":
		a.fault(t, names[0]+" starts it, one of a template's units, which share a definition",
			"systemctl disable --now "+names[0]+" by hand, "+holdIt)
		return "", nil
	}
	return names[0], nil
}

// isOwners reports whether a unit is defined where an owner defines units.
func (a *adoption) isOwners(unit string) bool {
	names := []string{unit, templateOf(unit)}
	return slices.ContainsFunc(names, func(name string) bool {
		return name != "" && slices.ContainsFunc(generator.Definers(a.node.Layout.Root, name), func(path string) bool {
			path = relative(a.node.Layout, path)
			return isQuadlet(path) || slices.Contains(ownerDirs, filepath.Dir(path))
		})
	})
}

// othersWant refuses to take away a unit that another unit cannot be without.
func (a *adoption) othersWant(ctx context.Context, t state.Transition, unit string) error {
	names, err := a.node.Systemd.Dependents(ctx, []string{unit})
	if err != nil {
		return err
	}
	found, err := a.node.Systemd.Units(ctx, names)
	for _, name := range names {
		if found[name].Up() {
			a.fault(t, fmt.Sprintf("%s runs it, and %s needs that", unit, name), "stop "+name+" by hand, "+holdIt)
		}
	}
	return err
}
