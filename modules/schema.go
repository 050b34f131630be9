package modules

import (
	"embed"
	"regexp"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/parser"
)

//go:embed schema/*.cue
var schemaFiles embed.FS

// schemaNames are the files of the schema, in the order of their names.
func schemaNames() []string {
	return []string{"schema/manifest.cue", "schema/quadlet.cue", "schema/systemd.cue", "schema/unit.cue"}
}

// A schema is the embedded one, compiled. The manifest is unified with it
// field by field where the two meet, not as a whole: a closed struct of all
// that systemd knows in [Service], unified with each service, costs a hundred
// times what the services themselves do. TestUnifiedAsAWhole holds the two
// ways together.
type schema struct {
	context     *cue.Context
	root        cue.Value
	definitions map[string]*rule
}

func newSchema(c *cue.Context) *schema {
	instance := build.NewContext().NewInstance("", nil)
	for _, name := range schemaNames() {
		text, err := schemaFiles.ReadFile(name)
		if err != nil {
			panic(err) // embedded
		}
		file, err := parser.ParseFile(name, text)
		if err != nil {
			panic(err) // embedded, and every test compiles it
		}
		if err := instance.AddSyntax(file); err != nil {
			panic(err)
		}
	}
	return &schema{
		context:     c,
		root:        c.BuildInstance(instance),
		definitions: map[string]*rule{},
	}
}

// A rule is what the schema says of one field.
type rule struct {
	name  string // of its definition; "" where it has none
	value cue.Value
	want  string // what is right, in words
	since string // the podman version that brought the key
	// kinds are what the field may be; open are those of them of which any
	// value will do.
	kinds, open cue.Kind
	required    bool
	// shape is that of a struct, once it was asked for.
	shape *shape
}

// A shape is what the schema says of a struct: its fields, and the pattern of
// other labels that it lets in.
type shape struct {
	fields   map[string]*rule
	required []string
	label    *rule // nil where no other label is let in
	match    *regexp.Regexp
	other    *rule
}

// definition returns the rule of that name, which begins with "#".
func (s *schema) definition(name string) *rule {
	r, ok := s.definitions[name]
	if !ok {
		v := s.root.LookupPath(cue.ParsePath(name))
		r = &rule{name: name, value: v, want: attribute(v, "want"), kinds: v.IncompleteKind()}
		r.open = s.open(r)
		s.definitions[name] = r
	}
	return r
}

// open returns the kinds of which the rule lets in any value.
func (s *schema) open(r *rule) cue.Kind {
	open := cue.BottomKind
	for kind, text := range map[cue.Kind]string{
		cue.BoolKind: "bool", cue.StringKind: "string", cue.BytesKind: "bytes", cue.NumberKind: "number",
	} {
		if r.kinds&kind == kind && r.value.Subsume(s.context.CompileString(text)) == nil {
			open |= kind
		}
	}
	return open
}

// rule returns the rule for a field of the schema: its definition's, with
// what the field itself adds.
func (s *schema) rule(v cue.Value, selector cue.Selector) *rule {
	r := &rule{value: v, kinds: v.IncompleteKind()}
	if name := definitionOf(v); name != "" {
		*r = *s.definition(name)
	} else {
		r.open = s.open(r)
	}
	if want := attribute(v, "want"); want != "" {
		r.want = want
	}
	r.since = attribute(v, "since")
	r.required = selector.ConstraintType() == cue.RequiredConstraint
	return r
}

func definitionOf(v cue.Value) string {
	if _, p := v.ReferencePath(); len(p.Selectors()) == 1 && p.Selectors()[0].IsDefinition() {
		return p.String()
	}
	return ""
}

func attribute(v cue.Value, name string) string {
	a := v.Attribute(name)
	if a.Err() != nil {
		return ""
	}
	text, err := a.String(0)
	if err != nil {
		return ""
	}
	return text
}

// shapeOf returns the shape of a struct's rule.
func (s *schema) shapeOf(r *rule) *shape {
	if r.name != "" {
		r = s.definition(r.name)
	}
	if r.shape != nil {
		return r.shape
	}
	r.shape = &shape{fields: map[string]*rule{}}
	fields, err := r.value.Fields(cue.Optional(true), cue.Patterns(true))
	if err != nil {
		return r.shape // not a struct: no field is right
	}
	for fields.Next() {
		selector := fields.Selector()
		f := s.rule(fields.Value(), selector)
		if selector.ConstraintType() != cue.PatternConstraint {
			r.shape.fields[selector.Unquoted()] = f
			if f.required {
				r.shape.required = append(r.shape.required, selector.Unquoted())
			}
			continue
		}
		r.shape.label, r.shape.other = s.rule(selector.Pattern(), selector), f
		r.shape.match = s.expression(r.shape.label)
	}
	return r.shape
}

// expression returns the regular expression that a label's rule is, nil for
// any string.
func (s *schema) expression(label *rule) *regexp.Regexp {
	if label.open&cue.StringKind != 0 {
		return nil
	}
	v := label.value
	if label.name != "" {
		v = s.definition(label.name).value
	}
	op, args := v.Expr()
	if op != cue.RegexMatchOp {
		panic("a label of the schema is no regular expression") // embedded
	}
	text, err := args[len(args)-1].String()
	if err != nil {
		panic(err) // embedded
	}
	return regexp.MustCompile(text)
}

// get returns the rule for a label, nil where the schema has none.
func (h *shape) get(label string) *rule {
	if r, ok := h.fields[label]; ok {
		return r
	}
	if h.match == nil || h.match.MatchString(label) {
		return h.other
	}
	return nil
}
