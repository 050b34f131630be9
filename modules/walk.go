package modules

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/errors"

	"meshgen/units"
)

// A path is where a field stands: modules, forge, containers, server.
type path []string

// to returns the path of a field below.
func (p path) to(labels ...string) path { return slices.Concat(p, labels) }

// String writes the path as one would in CUE; an index counts from 0.
func (p path) String() string {
	var b strings.Builder
	for i, label := range p {
		if _, err := strconv.Atoi(label); err == nil && i > 0 {
			b.WriteString("[" + label + "]")
			continue
		}
		if i > 0 {
			b.WriteByte('.')
		}
		if strings.HasPrefix(label, "#") || strings.HasPrefix(label, "_") {
			b.WriteString(label)
			continue
		}
		b.WriteString(cue.Str(label).String())
	}
	return b.String()
}

// A field is one that the owner wrote and the schema knows.
type field struct {
	name  string
	value cue.Value
	rule  *rule
	path  path
}

type fields []field

func (f fields) get(name string) (field, bool) {
	i := slices.IndexFunc(f, func(f field) bool { return f.name == name })
	if i < 0 {
		return field{}, false
	}
	return f[i], true
}

// fields returns the fields of a struct at p that the schema knows, and faults
// the others. What CUE itself found wrong was reported when it was evaluated,
// so that a value with an error is silently passed over.
func (l *loader) fields(v cue.Value, r *rule, p path) fields {
	v = resolved(v)
	sound := v.Kind() == cue.StructKind
	if !sound && v.Err() == nil {
		l.fault(l.place(v, p), p, "want a struct"+p.describe(v), "")
		return nil
	}
	all, err := v.Fields(cue.Optional(true))
	if err != nil && sound {
		l.evaluation(err)
	}
	h := l.schema.shapeOf(r)
	var found fields
	for all.Next() {
		selector := all.Selector()
		if selector.ConstraintType() == cue.OptionalConstraint {
			continue
		}
		f := field{name: selector.Unquoted(), value: all.Value()}
		f.path = p.to(f.name)
		switch f.rule = h.get(f.name); {
		case f.rule == nil:
			l.unknown(f, r, h)
		case selector.ConstraintType() == cue.RequiredConstraint:
			l.fault(l.label(f.value, f.path), f.path, "missing", "")
		default:
			found = append(found, f)
		}
	}
	for _, name := range h.required {
		if _, ok := found.get(name); !ok && sound {
			l.fault(l.label(v, p), p.to(name), "missing", "want "+h.fields[name].want)
		}
	}
	return found
}

// unknown faults a field that the schema does not have.
func (l *loader) unknown(f field, r *rule, h *shape) {
	if h.label != nil && len(h.fields) == 0 {
		l.fault(l.label(f.value, f.path), f.path, fmt.Sprintf("%q is not a name for this", f.name), "want "+h.label.want)
		return
	}
	hint := ""
	if f.name == wasmField && l.isResource(r.name) {
		hint = "belongs to the module: a policy decides for all that it declares"
	} else if section := l.sectionOf(f, r); section != "" {
		hint = "belongs to [" + section + "]"
	} else if key := units.Nearest(f.name, slices.Collect(maps.Keys(h.fields))); key != "" {
		hint = "nearest: " + key
	} else if r.name == "#Manifest" {
		hint = `a field of your own begins with "_" or "#"`
	} else if h.label != nil && h.label.name == "#SettingName" {
		hint = "want " + h.label.want
	}
	l.fault(l.label(f.value, f.path), f.path, "no such key", hint)
}

// sectionOf returns the section of a unit that has the key, where the one it
// was written to does not; r is the rule of the struct that it was written to.
func (l *loader) sectionOf(f field, r *rule) string {
	// modules, forge, containers, server, KEY; or with the section before KEY
	at := len(f.path) - 3
	if !l.isResource(r.name) {
		at--
		if at < 0 || !isSection(f.path[len(f.path)-2]) {
			return ""
		}
	}
	kind, sections, definition := kindOf(f.path[at]), []string(nil), ""
	switch kind {
	case units.KindContainer, units.KindPod, units.KindVolume, units.KindNetwork:
		definition, sections = "#"+ownSection(kind), quadletSections(kind)
	case units.KindUnit:
		definition, sections = "#PlainUnit", plainSections(f.path[at+1])
	case units.KindFile, units.KindDir, units.KindSecret:
	}
	rules := l.schema.shapeOf(l.schema.definition(definition)).fields
	for _, section := range sections {
		if _, ok := l.schema.shapeOf(rules[section]).fields[f.name]; ok {
			return section
		}
	}
	return ""
}

// isResource reports whether a definition of the schema is that of a resource.
func (l *loader) isResource(definition string) bool {
	switch definition {
	case "#Container", "#Pod", "#Volume", "#Network", "#PlainUnit", "#File", "#Dir", "#Secret":
		return true
	}
	return false
}

// accepts reports whether a value is concrete and what the rule wants, and
// faults it if not.
func (l *loader) accepts(f field) bool {
	v := resolved(f.value)
	kind := v.Kind()
	if kind == cue.BottomKind {
		return l.incomplete(v, f.path)
	}
	if kind&f.rule.open != 0 {
		return true
	}
	if kind&f.rule.kinds != 0 && f.value.Unify(f.rule.value).Err() == nil {
		return true
	}
	l.fault(l.place(f.value, f.path), f.path, "want "+f.rule.want+f.path.describe(v), "")
	return false
}

// text returns the string of a field, if it is there and right.
func (l *loader) text(all fields, name string) (string, bool) {
	f, ok := all.get(name)
	if !ok || !l.accepts(f) {
		return "", false
	}
	s, err := resolved(f.value).String()
	return s, err == nil
}

// incomplete faults a value that CUE cannot decide; always false.
func (l *loader) incomplete(v cue.Value, p path) bool {
	if err := v.Err(); err != nil {
		var e errors.Error
		if errors.As(err, &e) && len(e.InputPositions()) == 0 && !e.Position().IsValid() {
			l.fault(l.place(v, p), p, text(e), "")
			return false
		}
		l.evaluation(err)
		return false
	}
	is := "not decided: " + excerpt(fmt.Sprint(v))
	if p.isSecret() || v.Validate() != nil { // it would show an error that is told already
		is = "not decided"
	}
	l.fault(l.place(v, p), p, is, "want one concrete value")
	return false
}

// resolved returns a value's default, where it has one.
func resolved(v cue.Value) cue.Value {
	if v.Kind() != cue.BottomKind {
		return v
	}
	if d, ok := v.Default(); ok {
		return d
	}
	return v
}

// describe says in words what a value is.
func describe(v cue.Value) string {
	words := map[cue.Kind]string{cue.ListKind: "a list", cue.StructKind: "a struct", cue.BytesKind: "bytes"}
	if word, ok := words[v.IncompleteKind()]; ok {
		return word
	}
	return excerpt(fmt.Sprint(v))
}

// excerpt returns the beginning of a text that may be long.
func excerpt(s string) string {
	const most = 60
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most]) + "…"
}
