package modules

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"meshgen/units"
)

// plain completes a unit that is written for systemd itself.
func (l *loader) plain(d *declared, all fields) {
	kind := unitType(d.Address.ID)
	if strings.Contains(d.Address.ID, "@") {
		l.fault(d.Position, d.path, fmt.Sprintf("%q is a template or an instance of one", d.Address.ID),
			"templates cannot be declared yet: want a unit for each instance")
	}
	for _, f := range all {
		if isSection(f.name) && !slices.Contains(plainSections(d.Address.ID), f.name) {
			l.misplaced(f, kind)
		}
	}
	for _, name := range plainSections(d.Address.ID) {
		f, ok := all.get(name)
		if !ok {
			continue
		}
		entries := l.entries(f)
		if name == "Install" {
			entries = l.withoutOtherNames(d, entries)
			l.enablers(d, entries)
		}
		if len(entries) > 0 {
			d.Sections = append(d.Sections, units.Section{Name: name, Entries: entries})
		}
	}
	l.needs(d, all)
	l.plainName(d, all)
	d.Holds = l.holds(all)
	l.lengths(d)
}

// unitType returns the type of a unit, which is the end of its name: timer of
// backup.timer.
func unitType(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// isUnitType reports whether systemd has units of the type.
func isUnitType(kind string) bool {
	switch kind {
	case "service", "timer", "socket", "path", "target", "mount", "automount", "swap", "slice", "device", "scope":
		return true
	}
	return false
}

// isSection reports whether a field of a resource is a section of its unit, by
// the letter that it begins with.
func isSection(name string) bool { return name != "" && name[0] >= 'A' && name[0] <= 'Z' }

// plainSections returns the sections that systemd reads in a unit of that name,
// in the order in which they are written.
func plainSections(name string) []string {
	kind := unitType(name)
	if kind == "target" {
		return []string{"Unit", "Install"}
	}
	return []string{"Unit", strings.ToUpper(kind[:1]) + kind[1:], "Install"}
}

// misplaced faults a section that a unit of the type does not have.
func (l *loader) misplaced(f field, kind string) {
	owner := strings.ToLower(f.name)
	l.fault(l.label(f.value, f.path), f.path, fmt.Sprintf("a %s has no such section", kind),
		fmt.Sprintf("it belongs to a unit of its own, with an id that ends in %q", "."+owner))
}

// withoutOtherNames faults what would enable other units, or this one by another name.
func (l *loader) withoutOtherNames(d *declared, entries []units.Entry) []units.Entry {
	instead := map[string]string{
		"Also":            "want an Install of its own in the other unit",
		"DefaultInstance": "templates cannot be declared yet",
	}
	entries = l.withoutAlias(d, entries)
	return slices.DeleteFunc(entries, func(e units.Entry) bool {
		hint, refused := instead[e.Key]
		if refused {
			at, p := l.valuePlace(d, "Install", e.Key, 0)
			l.fault(at, p, "is not for a unit of a manifest", hint)
		}
		return refused
	})
}

// enablers faults what cannot be the name of a unit that wants this one: the
// links that enable it are made of it. An address is for the resolver.
func (l *loader) enablers(d *declared, entries []units.Entry) {
	for _, e := range entries {
		if strings.HasPrefix(e.Key, "X-") {
			continue
		}
		for i, value := range e.Values {
			for word := range strings.FieldsSeq(value) {
				if !isUnitType(unitType(word)) || strings.Contains(word, "%") || strings.HasPrefix(word, "/") {
					at, p := l.valuePlace(d, "Install", e.Key, i)
					l.fault(at, p, fmt.Sprintf("%q is not the name of a unit", word), `want one as in "multi-user.target"`)
				}
			}
		}
	}
}

// needs faults a unit that systemd would refuse for what is not in it.
func (l *loader) needs(d *declared, all fields) {
	own := plainSections(d.Address.ID)[1]
	needed := map[string][][]string{
		"Service": {{"ExecStart", "ExecStop", "Unit.SuccessAction"}},
		"Timer": {{
			"OnCalendar", "OnActiveSec", "OnBootSec", "OnStartupSec", "OnUnitActiveSec", "OnUnitInactiveSec",
			"OnClockChange", "OnTimezoneChange",
		}},
		"Socket": {{
			"ListenStream", "ListenDatagram", "ListenSequentialPacket", "ListenFIFO", "ListenNetlink",
			"ListenSpecial", "ListenMessageQueue", "ListenUSBFunction",
		}},
		"Path":      {{"PathExists", "PathExistsGlob", "PathChanged", "PathModified", "DirectoryNotEmpty"}},
		"Mount":     {{"What"}, {"Where"}},
		"Automount": {{"Where"}},
		"Swap":      {{"What"}},
	}
	section, ok := all.get(own)
	at := d.Position
	if ok {
		at = l.label(section.value, section.path)
	}
	for _, keys := range needed[own] {
		if !d.says(own, keys) && (d.empties(own, keys) || !l.meant(section, keys...)) {
			l.fault(at, d.path.to(own, keys[0]), "missing", anyOf(keys[1:]))
		}
	}
}

// says reports whether one of the keys of a section has a value. One of another
// section is written with it.
func (d *declared) says(section string, keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool {
		in := section
		if other, name, ok := strings.Cut(key, "."); ok {
			in, key = other, name
		}
		return slices.ContainsFunc(d.Values(in, key), func(v string) bool { return v != "" })
	})
}

// empties reports whether one of the keys was given an empty value, which takes
// all of them back.
func (d *declared) empties(section string, keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return slices.Contains(d.Values(section, key), "") })
}

// anyOf returns a hint that names what would do as well.
func anyOf(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	return "or " + strings.Join(keys, ", ")
}

// plainName gives a unit its name, with its type. That of a unit for a path is
// the path's.
func (l *loader) plainName(d *declared, all fields) {
	kind := unitType(d.Address.ID)
	base := strings.TrimSuffix(d.Address.ID, "."+kind)
	d.Name = strings.ReplaceAll(d.Address.Module+"-"+base, ".", "-") + "." + kind
	name, given := l.text(all, "name")
	switch kind {
	case "mount", "automount":
		l.pathName(d, all, plainSections(d.Address.ID)[1], "Where")
		return
	case "swap":
		l.pathName(d, all, "Swap", "What")
		return
	}
	at := d.Position
	if given {
		f, _ := all.get("name")
		at, d.Name = l.place(f.value, f.path), name
	}
	base, whole := strings.CutSuffix(d.Name, "."+kind)
	switch {
	case !whole:
		if isUnitType(unitType(base)) {
			base = strings.TrimSuffix(base, "."+unitType(base))
		}
		l.fault(at, d.path.to("name"), fmt.Sprintf("%q is not the name of a %s", d.Name, kind), fmt.Sprintf("want %q", base+"."+kind))
	case given && !isName(base):
		l.fault(at, d.path.to("name"), fmt.Sprintf("%q is not a name", d.Name), "want "+l.schema.definition("#Name").want)
	case kind == "slice" && (strings.Contains(base, "--") || strings.HasSuffix(base, "-")):
		l.fault(at, d.path.to("name"), fmt.Sprintf("%q is not the name of a slice", d.Name),
			`each "-" in it stands between a slice and one within: systemd.slice(5)`)
	}
}

// pathName gives a unit the name that systemd wants for its path.
func (l *loader) pathName(d *declared, all fields, section, key string) {
	where := d.Value(section, key)
	if where == "" {
		return // told as missing
	}
	at, p := l.valuePlace(d, section, key, len(d.Values(section, key))-1)
	if !strings.HasPrefix(where, "/") || filepath.Clean(where) != where || strings.Contains(where, "%") {
		l.fault(at, p, fmt.Sprintf("%q is not a plain path", where), `want an absolute one without a final slash, double slashes, "%", . and ..`)
		return
	}
	d.Name = escapePath(where) + "." + unitType(d.Address.ID)
	if name, given := l.text(all, "name"); given && name != d.Name {
		f, _ := all.get("name")
		l.fault(l.place(f.value, f.path), f.path, fmt.Sprintf("the unit for %s is called %s by systemd", where, d.Name), "want that, or no name")
	}
}

// escapePath returns the name that systemd has for a clean, absolute path: what
// systemd-escape --path prints.
func escapePath(path string) string {
	if path == "/" {
		return "-"
	}
	var b strings.Builder
	for i, c := range []byte(path[1:]) {
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == ':' || c == '_' || c == '.' && i > 0
		switch {
		case c == '/':
			b.WriteByte('-')
		case plain:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}

// triggers notes the unit that a timer, a socket or a path starts, where it is
// declared: the one that it names or, failing that, the one of its own name.
func (x *resolver) triggers() {
	if x.from.Address.Kind != units.KindUnit {
		return
	}
	kind := unitType(x.from.Address.ID)
	base := strings.TrimSuffix(x.from.Name, kind)
	var triggered string
	switch kind {
	case "timer":
		triggered = x.from.Value("Timer", "Unit")
	case "path":
		triggered = x.from.Value("Path", "Unit")
	case "socket":
		triggered = x.from.Value("Socket", "Service")
	case "automount":
		triggered = base + "mount"
	default:
		return
	}
	if triggered == "" {
		triggered = base + "service"
	}
	if r, ok := x.declarations.byUnit[triggered]; ok && r != x.from {
		x.use(r)
	}
}
