package modules

import (
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/token"

	"meshgen/units"
)

// A veil is where a manifest writes what its secrets hold, or what that is made of:
// CUE's faults show values, and one of such a place is told without them. It goes by
// the syntax, since what is at fault has no value, and rather veils too much.
type veil struct {
	spans []span
	// above are the paths of the fields in which such a place lies: CUE shows a whole
	// struct where it fits nothing.
	above []path
	names map[string]bool // of what the contents refer to
	seen  map[ast.Node]bool
	grown bool // names has more than when the files were last gone through
}

// span is a part of a file.
type span struct {
	file       string
	begin, end int // offsets
}

// newVeil reads the files of a manifest, those of imported packages too.
func newVeil(files []*ast.File) *veil {
	v := &veil{names: map[string]bool{}, seen: map[ast.Node]bool{}, grown: true}
	for v.grown {
		v.grown = false
		for _, f := range files {
			v.decls(f.Decls, nil, nil)
		}
	}
	return v
}

// decls goes through declarations at a path, below comprehensions.
func (v *veil) decls(decls []ast.Decl, at path, clauses []ast.Clause) {
	for _, d := range decls {
		switch d := d.(type) {
		case *ast.Field:
			here := at.to(labelOf(d))
			if v.isSource(here, d) {
				v.cover(d, here, clauses)
			}
			v.expr(d.Value, here, clauses)
		case *ast.LetClause:
			if v.names[d.Ident.Name] {
				v.cover(d, at, clauses)
			}
			v.expr(d.Expr, at, clauses)
		case *ast.EmbedDecl:
			v.expr(d.Expr, at, clauses)
		case *ast.Comprehension:
			v.expr(d.Value, at, append(slices.Clone(clauses), d.Clauses...))
		}
	}
}

// expr goes through the structs in an expression.
func (v *veil) expr(e ast.Node, at path, clauses []ast.Clause) {
	if e == nil { // in a file that cannot be parsed
		return
	}
	ast.Walk(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StructLit:
			v.decls(n.Elts, at, clauses)
			return false
		case *ast.Comprehension:
			v.expr(n.Value, at, append(slices.Clone(clauses), n.Clauses...))
			return false
		}
		return true
	}, nil)
}

// anyLabel stands for a label that is not written out.
const anyLabel = "*"

// labelOf returns the label of a field as an error's path has it.
func labelOf(f *ast.Field) string {
	label := f.Label
	if alias, ok := label.(*ast.Alias); ok {
		if l, ok := alias.Expr.(ast.Label); ok {
			label = l
		}
	}
	if name, _, err := ast.LabelName(label); err == nil {
		return name
	}
	return anyLabel
}

// isSource reports whether a field has secrets, or something that one refers to.
func (v *veil) isSource(p path, f *ast.Field) bool {
	name := p[len(p)-1]
	if alias, ok := f.Value.(*ast.Alias); ok && v.names[alias.Ident.Name] {
		return true
	}
	if alias, ok := f.Label.(*ast.Alias); ok && v.names[alias.Ident.Name] {
		return true
	}
	if name == "secrets" {
		return len(p) < 2 || !isKinds(p[len(p)-2])
	}
	// The schema knows all labels but these; and a package has its own.
	return v.names[name] && (strings.HasPrefix(name, "_") || strings.HasPrefix(name, "#") || (len(p) == 1 && !isTop(name)))
}

// isKinds reports whether a label has resources of one kind below it, by their ids.
func isKinds(label string) bool {
	switch kindOf(label) {
	case units.KindContainer, units.KindPod, units.KindVolume, units.KindNetwork, units.KindUnit, units.KindFile, units.KindDir, units.KindSecret:
		return strings.HasSuffix(label, "s")
	}
	return false
}

// isTop reports whether a label is one of a manifest's own.
func isTop(name string) bool {
	return slices.Contains([]string{"modules", "nodes", "node", "moved"}, name)
}

// cover veils a declaration, and what it refers to.
func (v *veil) cover(n ast.Node, at path, clauses []ast.Clause) {
	if v.seen[n] {
		return
	}
	v.seen[n] = true
	begin, end := n.Pos().Position(), n.End().Position()
	v.spans = append(v.spans, span{begin.Filename, begin.Offset, end.Offset})
	for i := range at {
		v.above = append(v.above, slices.Clone(at[:i]))
	}
	v.refer(n)
	for _, c := range clauses {
		clause := c.Pos().Position()
		v.spans = append(v.spans, span{clause.Filename, clause.Offset, c.End().Position().Offset})
		v.refer(c)
	}
}

// refer notes what an expression refers to, and of a package what it takes of it.
func (v *veil) refer(n ast.Node) {
	note := func(name string) {
		if !v.names[name] && !isTop(name) {
			v.names[name], v.grown = true, true
		}
	}
	ast.Walk(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			note(n.Name)
		case *ast.SelectorExpr:
			if name, _, err := ast.LabelName(n.Sel); err == nil {
				note(name)
			}
		}
		return true
	}, nil)
}

// covers reports whether a position lies in a veiled place.
func (v *veil) covers(pos token.Pos) bool {
	if !pos.IsValid() {
		return false
	}
	p := pos.Position()
	return slices.ContainsFunc(v.spans, func(s span) bool {
		return s.file == p.Filename && s.begin <= p.Offset && p.Offset < s.end
	})
}

// isAbove reports whether a veiled place may lie below a path.
func (v *veil) isAbove(p path) bool {
	return slices.ContainsFunc(v.above, func(above path) bool {
		return slices.EqualFunc(p, above, func(a, b string) bool { return a == b || b == anyLabel })
	})
}

// veils reports whether errors of one path may show what a secret holds.
func (l *loader) veils(all []errors.Error, p path) bool {
	if below, ok := p.belowSecrets(); ok {
		return len(below) < 2 || !isOpen(below[1])
	}
	if l.veil == nil {
		l.veil = newVeil(l.files)
	}
	above := l.veil.isAbove(p)
	for _, e := range all {
		if slices.ContainsFunc(append(e.InputPositions(), e.Position()), l.veil.covers) {
			return true
		}
		if above && strings.Contains(text(e), "{") { // a struct that is printed
			return true
		}
	}
	return false
}
