package modules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue"

	"meshgen/units"
)

// A declared resource is one on its way to being complete.
type declared struct {
	units.Resource
	path  path
	value cue.Value
	// sound says that nothing was wrong with it, so that the names it holds
	// are those that the owner meant.
	sound bool
}

// declarations are all resources of a node, and how they are referred to.
type declarations struct {
	all       []*declared
	byAddress map[units.Address]*declared
	byFile    map[string]*declared // by the name of the Quadlet file
	byUnit    map[string]*declared // by the name of the unit
}

func (d *declarations) add(r *declared) {
	if d.byAddress == nil {
		d.byAddress, d.byFile, d.byUnit = map[units.Address]*declared{}, map[string]*declared{}, map[string]*declared{}
	}
	d.all = append(d.all, r)
	d.byAddress[r.Address] = r
	if file := units.QuadletFile(r.Resource); file != "" && d.byFile[file] == nil {
		d.byFile[file] = r
	}
	if unit := units.Unit(r.Resource); unit != "" && d.byUnit[unit] == nil {
		d.byUnit[unit] = r
	}
}

// declare adds what a module declares.
func (l *loader) declare(d *declarations, m field) {
	all := l.fields(m.value, m.rule, m.path)
	policy := l.modulePolicy(all)
	for _, kind := range all {
		if !isKindField(kind.name) {
			continue
		}
		for _, r := range l.fields(kind.value, kind.rule, kind.path) {
			d.add(l.resource(units.Address{Module: m.name, Kind: kindOf(kind.name), ID: r.name}, r, policy))
		}
	}
}

// isKindField reports whether a field of a module declares resources.
func isKindField(name string) bool { return name != policyField && name != wasmField }

// kindOf returns the kind that a field of a module declares.
func kindOf(plural string) units.Kind { return units.Kind(strings.TrimSuffix(plural, "s")) }

// resource completes a resource of a module that has a policy.
func (l *loader) resource(a units.Address, f field, policy policy) *declared {
	before := len(l.faults)
	d := &declared{path: f.path, value: f.value}
	d.Address = a
	d.Position = l.label(f.value, f.path)
	all := l.fields(f.value, f.rule, f.path)
	d.Wasm = policy.wasm
	d.Policy = policy.of(a.Kind, l.settings(all, policy))
	switch a.Kind {
	case units.KindFile:
		l.file(d, all)
	case units.KindDir:
		l.directory(d, all)
	case units.KindUnit:
		l.plain(d, all)
	case units.KindSecret:
		l.secret(d, all)
	case units.KindContainer, units.KindPod, units.KindVolume, units.KindNetwork:
		l.quadlet(d, all)
	}
	d.sound = len(l.faults) == before && resolved(f.value).Kind() == cue.StructKind
	return d
}

// quadlet completes a resource that becomes a Quadlet file.
func (l *loader) quadlet(d *declared, all fields) {
	d.Name = strings.ReplaceAll(d.Address.Module+"-"+d.Address.ID, ".", "-")
	if name, ok := l.text(all, "name"); ok {
		d.Name = name
	}
	own := ownSection(d.Address.Kind)
	for _, name := range quadletSections(d.Address.Kind) {
		var entries []units.Entry
		f, ok := all.get(name)
		if ok {
			entries = l.entries(f)
		}
		switch {
		case name == own:
			entries = withExitPolicy(withObjectName(entries, d), d)
			l.names(d, entries)
			l.podmanArgs(d, entries)
		case name == "Install" && !ok:
			// What is declared is there: after a boot as after a switch. An
			// Install that is written and empty says otherwise.
			entries = []units.Entry{{Key: "WantedBy", Position: d.Position, Values: []string{"multi-user.target"}}}
		}
		if name == "Install" {
			entries = l.withoutAlias(d, entries)
		}
		if len(entries) > 0 {
			d.Sections = append(d.Sections, units.Section{Name: name, Entries: entries})
		}
	}
	if d.Address.Kind == units.KindContainer {
		if resolved(d.value).IncompleteKind() == cue.StructKind {
			l.image(d, all)
		}
		d.Holds = l.holds(all)
	}
	l.lengths(d)
}

// ownSection returns the section that Quadlet reads for a kind.
func ownSection(k units.Kind) string { return strings.ToUpper(string(k[:1])) + string(k[1:]) }

// quadletSections returns the sections of a Quadlet file of that kind, in the
// order in which they are written.
func quadletSections(k units.Kind) []string {
	return []string{"Unit", ownSection(k), "Quadlet", "Service", "Install"}
}

// withObjectName sees to it that podman's object has the resource's name,
// where the owner gave it none; Quadlet would call it systemd-NAME.
func withObjectName(entries []units.Entry, d *declared) []units.Entry {
	key := ownSection(d.Address.Kind) + "Name"
	i, found := slices.BinarySearchFunc(entries, key, func(e units.Entry, key string) int {
		return strings.Compare(e.Key, key)
	})
	if found {
		return entries
	}
	return slices.Insert(entries, i, units.Entry{Key: key, Position: d.Position, Values: []string{d.Name}})
}

// withExitPolicy has a pod stay when its last container stops: by podman's default
// for Quadlet it ends, under the container that is about to take the other's place.
func withExitPolicy(entries []units.Entry, d *declared) []units.Entry {
	const flag = "--exit-policy"
	says := func(e units.Entry) bool {
		return e.Key == "ExitPolicy" || e.Key == "PodmanArgs" && slices.ContainsFunc(e.Values, func(v string) bool { return strings.Contains(v, flag) })
	}
	if d.Address.Kind != units.KindPod || slices.ContainsFunc(entries, says) {
		return entries
	}
	i, found := slices.BinarySearchFunc(entries, "PodmanArgs", func(e units.Entry, key string) int { return strings.Compare(e.Key, key) })
	if !found {
		entries = slices.Insert(entries, i, units.Entry{Key: "PodmanArgs", Position: d.Position})
	}
	entries[i].Values = append(entries[i].Values, flag+"=continue") // ExitPolicy came with podman 5.6
	return entries
}

// withoutAlias faults a second name for a unit: it could stand before a unit that
// was found, of the distribution's, and nothing would tell.
func (l *loader) withoutAlias(d *declared, entries []units.Entry) []units.Entry {
	return slices.DeleteFunc(entries, func(e units.Entry) bool {
		if e.Key != "Alias" {
			return false
		}
		at, p := l.valuePlace(d, "Install", e.Key, 0)
		l.fault(at, p, "a unit has one name here", "give the resource that name")
		return true
	})
}

// names faults names that are not known before systemd or podman expand them:
// what a name on the machine belongs to must be known from the manifest.
func (l *loader) names(d *declared, entries []units.Entry) {
	own := ownSection(d.Address.Kind)
	for _, e := range entries {
		if e.Key != own+"Name" && e.Key != "ServiceName" {
			continue
		}
		for i, name := range e.Values {
			if !isName(name) {
				at, p := l.valuePlace(d, own, e.Key, i)
				l.fault(at, p, fmt.Sprintf("%q is not a name", name), "want "+l.schema.definition("#Name").want)
			}
			if (e.Key == "ContainerName" || e.Key == "PodName") && isHexadecimal(name) {
				at, p := l.valuePlace(d, own, e.Key, i)
				makes := "podman run"
				if d.Address.Kind == units.KindPod {
					makes = "podman pod create"
				}
				l.fault(at, p, fmt.Sprintf("%q reads as the start of a %s's id", name, d.Address.Kind),
					fmt.Sprintf("%s --replace would destroy the %s whose id starts so; want a letter after f, a dot or a dash in it", makes, d.Address.Kind))
			}
		}
	}
}

// podmanArgs faults arguments by which a container would get a name or a port
// that the ledger does not have: podman would replace what was found there.
func (l *loader) podmanArgs(d *declared, entries []units.Entry) {
	instead := map[string]string{"--name": "name", "--replace": "", "--publish": "PublishPort", "-p": "PublishPort", "--cidfile": ""}
	switch d.Address.Kind {
	case units.KindContainer:
	case units.KindPod:
		maps.Copy(instead, map[string]string{"--infra-name": "", "--pod-id-file": "", "--infra": ""})
	case units.KindVolume, units.KindNetwork, units.KindUnit, units.KindFile, units.KindDir, units.KindSecret:
		return
	}
	for _, e := range entries {
		if e.Key != "PodmanArgs" {
			continue
		}
		for i, value := range e.Values {
			for word := range strings.FieldsSeq(value) {
				flag, _, _ := strings.Cut(strings.Trim(word, `"'`), "=")
				key, refused := instead[flag]
				if !refused {
					continue
				}
				hint := "podman is given it as Quadlet does"
				if key != "" {
					hint = "want it in " + key
				}
				at, p := l.valuePlace(d, ownSection(d.Address.Kind), e.Key, i)
				l.fault(at, p, flag+" would get past what meshgen knows", hint)
			}
		}
	}
}

// isHexadecimal reports whether a name could be the start of a container's id.
// podman run --replace, by which Quadlet starts a container, looks the name up
// as that too, and removes what it finds.
func isHexadecimal(name string) bool {
	return len(name) <= 64 && strings.Trim(name, "0123456789abcdef") == ""
}

// isName is #Name of the schema.
func isName(s string) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && (i == 0 || !strings.ContainsRune("_.-", r)) {
			return false
		}
	}
	return s != ""
}

// lengths faults a name that makes a file or unit name longer than the 255
// bytes that file systems and systemd take.
func (l *loader) lengths(d *declared) {
	const most = 255
	for _, name := range []string{units.QuadletFile(d.Resource), units.Unit(d.Resource)} {
		if len(name) > most {
			l.fault(d.Position, d.path, fmt.Sprintf("the unit's name has %d characters", len(name)),
				fmt.Sprintf("want %d at most, with its suffix", most))
			return
		}
	}
}

// image faults a container that has nothing to run.
func (l *loader) image(d *declared, all fields) {
	p, at := d.path.to("Container"), d.Position
	section, ok := all.get("Container")
	if ok {
		at = l.label(section.value, section.path)
	}
	image, rootfs := d.Values("Container", "Image"), d.Values("Container", "Rootfs")
	switch {
	case slices.Contains(image, "") || len(image)+len(rootfs) == 0 && !l.meant(section, "Image", "Rootfs"):
		l.fault(at, p.to("Image"), "missing", `want an image, as in "docker.io/library/nginx:1.29", or Rootfs`)
	case len(image) > 0 && len(rootfs) > 0:
		l.fault(l.placeBelow(d, p[len(p)-1], "Rootfs"), p.to("Rootfs"), "excludes Image", "want one of the two")
	}
}

// meant reports whether one of the keys was written, if only misspelt, or the
// section is not one: then the fault is told already.
func (l *loader) meant(section field, keys ...string) bool {
	if section.rule == nil {
		return false
	}
	all, err := resolved(section.value).Fields(cue.Optional(true))
	if err != nil && resolved(section.value).IncompleteKind() != cue.StructKind {
		return true
	}
	h := l.schema.shapeOf(section.rule)
	for all.Next() {
		label := all.Selector().Unquoted()
		if slices.Contains(keys, label) || h.get(label) == nil && units.Nearest(label, keys) != "" {
			return true
		}
	}
	return false
}

func (l *loader) holds(all fields) []units.Port {
	f, ok := all.get("holds")
	if !ok {
		return nil
	}
	v := resolved(f.value)
	list, err := v.List()
	if err != nil {
		l.accepts(f)
		return nil
	}
	var ports []units.Port
	for i := 0; list.Next(); i++ {
		at := f.path.to(fmt.Sprint(i))
		text, ok := l.scalar(field{value: list.Value(), rule: l.schema.definition("#Port"), path: at})
		if !ok {
			continue
		}
		port, err := units.ParsePort(text)
		if err != nil {
			l.fault(l.place(list.Value(), at), at, err.Error(), `want a port, as in 2222, "udp/53" or "tcp/127.0.0.1:53"`)
			continue
		}
		ports = append(ports, port)
	}
	return ports
}
