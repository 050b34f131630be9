package apply

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"meshgen/generator"
	"meshgen/internal/hint"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// starters returns the owner's units that have podman start or run a container, by
// what they say. Of a template they are the instances that are enabled or loaded.
func (a *adoption) starters(ctx context.Context, o host.Object) ([]string, error) {
	paths, err := ownUnits(a.node.Layout)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, path := range paths {
		name := filepath.Base(path)
		instances := []string{name}
		if isTemplate(name) {
			if instances, err = a.instances(ctx, name); err != nil {
				return nil, err
			}
		}
		for _, unit := range instances {
			if startsContainer(a.commands(unit), o) {
				names = appendNew(names, unit)
			}
		}
	}
	return names, nil
}

func isTemplate(name string) bool {
	return strings.HasSuffix(strings.TrimSuffix(name, filepath.Ext(name)), "@")
}

// templateOf returns the template of an instance; "" where a unit is none.
func templateOf(unit string) string {
	prefix, instance, ok := strings.Cut(strings.TrimSuffix(unit, filepath.Ext(unit)), "@")
	if !ok || instance == "" {
		return ""
	}
	return prefix + "@" + filepath.Ext(unit)
}

// instances returns what there is of a template: what is enabled, defined or loaded.
func (a *adoption) instances(ctx context.Context, template string) ([]string, error) {
	loaded, err := a.node.Systemd.Loaded(ctx)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, u := range loaded {
		names[u.Name] = true
	}
	for _, dir := range ownerDirs {
		for _, pattern := range []string{"/*", "/*/*"} {
			found, _ := filepath.Glob(a.node.Layout.Path(dir) + pattern) // the pattern is sound
			for _, path := range found {
				names[filepath.Base(path)] = true
			}
		}
	}
	maps.DeleteFunc(names, func(name string, _ bool) bool { return templateOf(name) != template })
	return slices.Sorted(maps.Keys(names)), nil
}

// commands returns what a unit executes as it starts.
func (a *adoption) commands(unit string) [][]string {
	return commandsOf(a.node.Layout, unit, "ExecStartPre", "ExecStart", "ExecStartPost")
}

// commandsOf returns what a unit executes by some of its keys, with its own names
// filled in, as words. What a shell is to do is words too.
func commandsOf(l state.Layout, unit string, keys ...string) [][]string {
	names := []string{unit}
	if template := templateOf(unit); template != "" {
		names = append(names, template)
	}
	var paths []string
	for _, name := range names {
		paths = append(paths, generator.Definers(l.Root, name)...)
		for _, dir := range ownerDirs {
			for _, path := range within(l, filepath.Join(dir, name+".d")) {
				paths = append(paths, l.Path(path))
			}
		}
	}
	var commands [][]string
	for _, path := range paths {
		text, _ := os.ReadFile(path) //nolint:gosec // a unit file of the machine; one that cannot be read says nothing to systemd either
		for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
			key, command, ok := strings.Cut(strings.TrimSpace(line), "=")
			if key = strings.TrimSpace(key); !ok || !slices.Contains(keys, key) {
				continue
			}
			commands = append(commands, strings.FieldsFunc(separated.Replace(specifiers(unit).Replace(command)), func(r rune) bool {
				return strings.ContainsRune(" \t\"'()", r)
			}))
		}
	}
	return commands
}

// separated sets what ends a command of a shell apart, as a word.
//
//nolint:gochecknoglobals // a constant
var separated = strings.NewReplacer(";", " ; ", "&", " ; ", "|", " ; ")

// specifiers fills in what a unit says of its own name: systemd.unit(5).
func specifiers(unit string) *strings.Replacer {
	name := strings.TrimSuffix(unit, filepath.Ext(unit))
	prefix, instance, _ := strings.Cut(name, "@")
	plain := func(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "-", "/"), `\x2d`, "-") }
	return strings.NewReplacer("%%", "%", "%n", unit, "%N", name, "%p", prefix, "%P", plain(prefix), "%i", instance, "%I", plain(instance),
		"%j", prefix[strings.LastIndex(prefix, "-")+1:])
}

// startsContainer reports whether one of the commands has podman start a container.
func startsContainer(commands [][]string, o host.Object) bool {
	return slices.ContainsFunc(commands, func(words []string) bool {
		return podmanDoes(words, "start", "run", "restart") && namesContainer(words, o)
	})
}

// makesContainer reports whether one of the commands has podman make a container for
// one run.
func makesContainer(commands [][]string, o host.Object) bool {
	for _, words := range commands {
		for len(words) > 0 {
			end := slices.Index(append(slices.Clone(words), ";"), ";")
			one := words[:end]
			if podmanDoes(one, "run") && slices.Contains(one, "--rm") && namesContainer(one, o) {
				return true
			}
			words = words[min(end+1, len(words)):]
		}
	}
	return false
}

func podmanDoes(words []string, verbs ...string) bool {
	at := slices.IndexFunc(words, func(w string) bool { return filepath.Base(strings.TrimLeft(w, "-@:+!")) == "podman" })
	return at >= 0 && slices.ContainsFunc(words[at:], func(w string) bool { return slices.Contains(verbs, w) })
}

func namesContainer(words []string, o host.Object) bool {
	return slices.ContainsFunc(words, func(w string) bool {
		return w == o.Name || w == o.ID || w == "--name="+o.Name || (len(w) >= 12 && strings.HasPrefix(o.ID, w))
	})
}

// makes reports whether the unit that runs a container makes it anew each time, by
// the unit's own definition: a label says no such thing.
func (a *adoption) makes(unit string, o host.Object) bool {
	if unit == "" {
		return false
	}
	if makesContainer(a.commands(unit), o) {
		return true
	}
	for _, path := range generator.Definers(a.node.Layout.Root, unit) {
		if filepath.Ext(path) != ".container" {
			continue
		}
		name := cmp.Or(quadletValue(a.node.Layout, path, "ContainerName"), "systemd-%N")
		return specifiers(unit).Replace(name) == o.Name // the strongest alone is in force
	}
	return false
}

// quadletValue returns what a Quadlet says last of a key, with its drop-ins; "" where
// that is nothing.
func quadletValue(l state.Layout, path, key string) (value string) {
	paths := []string{path}
	for _, dropIn := range within(l, relative(l, path)+".d") {
		paths = append(paths, l.Path(dropIn))
	}
	for _, p := range paths {
		text, _ := os.ReadFile(p) //nolint:gosec // as in commandsOf
		for line := range strings.Lines(string(text)) {
			if is, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && strings.TrimSpace(is) == key {
				value = strings.TrimSpace(v)
			}
		}
	}
	return value
}

// together refuses to take away what runs or carries a container that stays, and
// says of each adoption with which others it goes back.
func (a *adoption) together(ctx context.Context) error {
	if len(a.byUnit)+len(a.byID) == 0 || a.node.objects == nil { // below --root no podman runs anything
		return nil
	}
	containers, err := a.node.objects.get(ctx, units.TargetContainer)
	if err != nil {
		return err
	}
	var others []host.Object
	var ids []string
	for _, name := range slices.Sorted(maps.Keys(containers)) {
		if o := containers[name]; !o.External {
			others, ids = append(others, o), append(ids, o.ID)
		}
	}
	ties, err := a.node.Podman.Ties(ctx, ids)
	if err != nil {
		return err
	}
	kept := map[string]bool{}
	for _, r := range a.node.adopted() {
		kept[r.Adoption.ID] = true
	}
	for _, unit := range slices.Sorted(maps.Keys(a.byUnit)) {
		group, commands := a.byUnit[unit], a.commands(unit)
		a.goTogether(group, "by "+unit+", which would be taken away, podman runs", others, func(o host.Object) bool {
			ours := o.Labels[units.MarkLabel] == group[0].Resource.String()
			own := a.makes(unit, o) && !makesContainer(commands, o) // a Quadlet's, which goes and comes with it
			return !ours && !own && !o.Infra && !kept[o.ID] && (o.Unit == unit || ties[o.ID].Unit == unit || startsContainer(commands, o))
		})
	}
	for _, id := range slices.Sorted(maps.Keys(a.byID)) {
		carrier := host.Object{ID: id, Name: a.byID[id].To.Name()}
		a.goTogether([]state.Transition{a.byID[id]}, "podman has others depend on it:", others, func(o host.Object) bool {
			return namesContainer(ties[o.ID].Needs, carrier)
		})
	}
	return nil
}

// goTogether ties a group to the containers of a kind, or refuses where one stays.
func (a *adoption) goTogether(group []state.Transition, why string, containers []host.Object, is func(host.Object) bool) {
	var targets []units.Target
	for _, t := range group {
		targets = append(targets, t.To)
	}
	var stay []string
	for _, o := range containers {
		t := units.Of(units.TargetContainer, o.Name)
		switch {
		case slices.Contains(targets, t) || !is(o):
		case a.takes[t]:
			targets = append(targets, t)
		default:
			stay = append(stay, o.Name)
		}
	}
	if len(stay) > 0 {
		a.fault(group[0], why+" "+strings.Join(stay, ", "), "adopt all of them in one switch, "+holdIt)
		return
	}
	for i, x := range a.adopted {
		if !slices.Contains(targets, x.Target) {
			continue
		}
		for _, t := range targets {
			if t != x.Target && !slices.Contains(x.Was.With, t) {
				a.adopted[i].Was.With = append(a.adopted[i].Was.With, t)
			}
		}
	}
}

// partedFrom refuses to give back one of those that one unit runs, or that podman
// starts with one another, without the others.
func (n *Node) partedFrom(back map[units.Target]state.Record) []error {
	var errs []error
	for _, r := range n.adopted() {
		if _, goes := back[r.Target]; !goes {
			continue
		}
		for _, t := range r.Adoption.With {
			with, ok := n.ledgerRecord(t)
			if _, goes := back[t]; ok && with.Adoption != nil && with.Adoption.Generation == r.Adoption.Generation && !goes {
				errs = append(errs, hint.Add(fmt.Errorf("%s: cannot be given back without %s: what ran one ran both", r.Target, t),
					fmt.Sprintf("give back both: meshgen release %s %s", r.Target, t)))
			}
		}
	}
	return errs
}
