package modules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"cuelang.org/go/cue"

	"meshgen/units"
)

// entries returns the keys of a section in the order of their names, so that
// a manifest may be reordered and nothing restarts.
func (l *loader) entries(section field) []units.Entry {
	var entries []units.Entry
	for _, f := range l.fields(section.value, section.rule, section.path) {
		if e, ok := l.entry(f); ok {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b units.Entry) int { return strings.Compare(a.Key, b.Key) })
	return entries
}

// entry returns a key and what it was given; false where that is nothing.
func (l *loader) entry(f field) (units.Entry, bool) {
	e := units.Entry{Key: f.name, Since: f.rule.since}
	e.Position = l.place(f.value, f.path)
	v := resolved(f.value)
	kind := v.IncompleteKind()
	switch {
	case kind == cue.ListKind && f.rule.kinds&cue.ListKind != 0:
		e.Values = l.values(v, f)
	case kind == cue.StructKind && f.rule.kinds&cue.StructKind != 0:
		e.Pairs = l.pairs(v, f)
	default:
		text, ok := l.scalar(f)
		if ok && l.writable(f, text) {
			e.Values = []string{text}
		}
	}
	return e, len(e.Values)+len(e.Pairs) > 0
}

func (l *loader) values(v cue.Value, f field) []string {
	list, err := v.List()
	if err != nil {
		l.evaluation(err)
		return nil
	}
	var values []string
	for i := 0; list.Next(); i++ {
		element := field{value: list.Value(), rule: l.schema.definition("#Scalar"), path: f.path.to(strconv.Itoa(i))}
		if text, ok := l.scalar(element); ok && l.writable(element, text) {
			values = append(values, text)
		}
	}
	return values
}

// pairs returns the fields of a struct in the order of their names.
func (l *loader) pairs(v cue.Value, f field) []units.Pair {
	var pairs []units.Pair
	for _, p := range l.fields(v, l.schema.definition("#Names"), f.path) {
		text, ok := l.scalar(p)
		switch {
		case !ok:
		case p.name == "" || strings.ContainsFunc(p.name, func(r rune) bool { return r == '=' || unicode.IsControl(r) }):
			l.fault(l.label(p.value, p.path), p.path, fmt.Sprintf("%q is not a name", p.name), `want one without "="`)
		case strings.ContainsRune(text, 0):
			l.fault(l.place(p.value, p.path), p.path, "holds a NUL character", "")
		default:
			pairs = append(pairs, units.Pair{Name: p.name, Value: text})
		}
	}
	slices.SortFunc(pairs, func(a, b units.Pair) int { return strings.Compare(a.Name, b.Name) })
	return pairs
}

// scalar returns a string, number or boolean as it is written into a unit.
func (l *loader) scalar(f field) (string, bool) {
	if !l.accepts(f) {
		return "", false
	}
	v := resolved(f.value)
	kind := v.Kind()
	switch {
	case kind == cue.StringKind:
		text, err := v.String()
		return text, err == nil
	case kind == cue.BoolKind:
		b, err := v.Bool()
		return strconv.FormatBool(b), err == nil
	case kind&cue.NumberKind != 0:
		text, err := decimal(v)
		return text, err == nil
	}
	return "", false
}

// decimal returns a number without an exponent: systemd reads none.
func decimal(v cue.Value) (string, error) {
	if i, err := v.Int(nil); err == nil {
		return i.String(), nil
	}
	const digits = 34 // what CUE computes with
	text, err := v.AppendFloat(nil, 'f', digits)
	if err != nil {
		return "", err
	}
	if strings.ContainsRune(string(text), '.') {
		return strings.TrimRight(strings.TrimRight(string(text), "0"), "."), nil
	}
	return string(text), nil
}

// writable faults a text that would not come back from a unit file as one
// value, which systemd.syntax(7) ends at the line.
func (l *loader) writable(f field, text string) bool {
	message, hint := "", ""
	switch {
	case strings.ContainsAny(text, "\n\r"):
		message, hint = "holds a line break", "want one line"
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
		message = "holds a control character"
	case strings.HasSuffix(text, `\`):
		message, hint = "ends in a backslash", "it would take in the next line"
	default:
		return true
	}
	l.fault(l.place(f.value, f.path), f.path, message, hint)
	return false
}

// valuePlace returns where the value of that index of a key was written.
func (l *loader) valuePlace(d *declared, section, key string, i int) (units.Position, path) {
	p := d.path.to(section, key)
	v := d.value.LookupPath(cue.MakePath(cue.Str(section), cue.Str(key)))
	if list, err := resolved(v).List(); err == nil {
		for n := 0; list.Next(); n++ {
			if n == i {
				p = p.to(strconv.Itoa(i))
				return l.place(list.Value(), p), p
			}
		}
	}
	if !v.Exists() {
		return d.Position, d.path
	}
	return l.place(v, p), p
}
