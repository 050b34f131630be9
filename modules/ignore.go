package modules

import (
	"strconv"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"

	"meshgen/units"
)

// Pattern says which findings of an audit are let be: those whose target it fits. A
// "*" stands for any characters, a "?" for one.
type Pattern struct {
	Text     string
	Position units.Position
}

// Ignored reads what the manifest in dir has an audit let be, and no more of it: a
// manifest that declares what cannot be may have it all the same. A pattern that would
// let everything be is among the faults instead.
func Ignored(dir string) ([]Pattern, error) {
	l := &loader{dir: dir, context: cuecontext.New()}
	l.schema = newSchema(l.context)
	root, err := l.read()
	if err != nil {
		return nil, err
	}
	var patterns []Pattern
	if v := root.LookupPath(cue.ParsePath("audit")); v.Exists() && len(l.faults) == 0 {
		l.evaluation(v.Validate())
		audit, _ := l.schema.shapeOf(l.schema.definition("#Manifest")).fields["audit"]
		patterns = l.patterns(field{name: "audit", value: v, rule: audit, path: path{"audit"}})
	}
	if len(l.faults) > 0 {
		return patterns, sorted(l.faults)
	}
	return patterns, nil
}

// patterns returns those of a field audit that are right.
func (l *loader) patterns(audit field) []Pattern {
	f, ok := l.fields(audit.value, audit.rule, audit.path).get("ignore")
	if !ok {
		return nil
	}
	list, err := resolved(f.value).List()
	if err != nil {
		l.accepts(f)
		return nil
	}
	var patterns []Pattern
	for i := 0; list.Next(); i++ {
		at := f.path.to(strconv.Itoa(i))
		text, err := resolved(list.Value()).String()
		switch {
		case err != nil || text == "":
			l.fault(l.place(list.Value(), at), at, "want a pattern as a string, such as \"container:ci-*\"", "")
		case strings.Trim(text, "*?:") == "":
			l.fault(l.place(list.Value(), at), at, strconv.Quote(text)+" fits everything, and an audit would find nothing",
				"begin with the kind of what is let be, such as \"container:ci-*\"")
		default:
			patterns = append(patterns, Pattern{Text: text, Position: l.place(list.Value(), at)})
		}
	}
	return patterns
}
