package modules

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/token"

	"meshgen/units"
)

// A fault is one of units.Fault, its path apart from what is said of it.
type fault struct {
	at            units.Position
	path          string
	message, hint string
}

// fault notes what is wrong with the field at p.
func (l *loader) fault(at units.Position, p path, message, hint string) {
	l.faults = append(l.faults, fault{at, p.String(), message, hint})
}

// sorted returns the faults in the order of their positions. What a template
// does wrong to each of many resources is one fault.
func sorted(all []fault) units.Faults {
	slices.SortStableFunc(all, func(a, b fault) int {
		return cmp.Or(a.at.Compare(b.at), strings.Compare(a.message, b.message), strings.Compare(a.path, b.path))
	})
	all = slices.Compact(all)
	var faults units.Faults
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].at == all[0].at && all[n].message == all[0].message {
			n++
		}
		faults = append(faults, all[0].times(n))
		all = all[n:]
	}
	return faults
}

// times returns the fault as the owner is told of it, n of its kind together.
func (f fault) times(n int) units.Fault {
	message := f.message
	if f.path != "" {
		message = f.path + ": " + message
	}
	if n > 1 {
		message += fmt.Sprintf(" (and %d more from the same place)", n-1)
	}
	return units.Fault{Position: f.at, Message: message, Hint: f.hint}
}

// evaluation notes each error that CUE found. Those of one disjunction, which
// has one for each of its alternatives, are one fault.
func (l *loader) evaluation(err error) {
	all := errors.Errors(err)
	for len(all) > 0 {
		n := 1
		for n < len(all) && len(all[0].Path()) > 0 && slices.Equal(all[n].Path(), all[0].Path()) {
			n++
		}
		l.evaluationAt(all[:n])
		all = all[n:]
	}
}

// evaluationAt notes the errors of one path.
func (l *loader) evaluationAt(all []errors.Error) {
	p := path{}
	for _, label := range all[0].Path() {
		p = append(p, strings.Trim(label, `"`))
	}
	at := l.inside(all, p)
	if p.isSecret() {
		l.fault(at, p, "not one string", "CUE says more, and shows the content: cue vet")
		return
	}
	if l.veils(all, p) {
		l.fault(at, p, "not one value, or none that fits", "CUE says more, and shows what a secret holds: cue vet")
		return
	}
	if len(all) == 1 {
		l.fault(at, p, text(all[0]), "")
		return
	}
	var reasons []string
	for _, e := range all {
		if len(e.InputPositions()) > 0 { // the summary has none
			reasons = append(reasons, text(e))
		}
	}
	l.fault(at, p, "none of the alternatives fits", strings.Join(reasons, "; "))
}

// inside returns the first position of the errors that lies in the manifest.
func (l *loader) inside(all []errors.Error, p path) units.Position {
	for _, e := range all {
		for _, pos := range append(e.InputPositions(), e.Position()) {
			if l.owns(pos) {
				return l.position(pos)
			}
		}
	}
	return l.enclosing(p)
}

func text(e errors.Error) string {
	format, args := e.Msg()
	if format == "" {
		return e.Error() // not one of CUE's own
	}
	message := fmt.Sprintf(format, unread(args)...)
	if inner, ok := errors.Unwrap(e).(errors.Error); ok { //nolint:errorlint // the chain is what is printed
		message += ": " + text(inner)
	}
	return message
}

// unread returns what CUE's parser says that it met without the text of literals: one
// may be what a secret holds.
func unread(args []any) []any {
	args = slices.Clone(args)
	for i, a := range args {
		if t, ok := a.(token.Token); ok && t.IsLiteral() && i+1 < len(args) {
			args[i+1] = "…"
		}
	}
	return args
}

// owns reports whether a position lies in a file of the manifest.
func (l *loader) owns(pos token.Pos) bool {
	return pos.IsValid() && !strings.HasPrefix(pos.Filename(), "schema/")
}

func (l *loader) position(pos token.Pos) units.Position {
	p := pos.Position()
	return units.Position{File: l.relative(p.Filename), Line: p.Line, Column: p.Column}
}

// label returns where the field of a value was written, its label.
func (l *loader) label(v cue.Value, p path) units.Position {
	if f, ok := v.Source().(*ast.Field); ok {
		return l.position(f.Pos())
	}
	if f := l.search(p); f != nil {
		return l.position(f.Pos())
	}
	return l.near(v, p)
}

// place returns where a value was written.
func (l *loader) place(v cue.Value, p path) units.Position {
	switch n := v.Source().(type) {
	case *ast.Field:
		return l.position(n.Value.Pos())
	case ast.Expr:
		if n.Pos().IsValid() {
			return l.position(n.Pos())
		}
	}
	if f := l.search(p); f != nil {
		return l.position(f.Value.Pos())
	}
	return l.near(v, p)
}

// near returns where CUE says that a value comes from and, failing that, the
// nearest enclosing field.
func (l *loader) near(v cue.Value, p path) units.Position {
	if pos := v.Pos(); l.owns(pos) {
		return l.position(pos)
	}
	return l.enclosing(p)
}

// enclosing returns the label of the innermost field along p that the owner
// wrote out, or the top of the manifest.
func (l *loader) enclosing(p path) units.Position {
	for ; len(p) > 0; p = p[:len(p)-1] {
		if f := l.search(p); f != nil {
			return l.position(f.Pos())
		}
	}
	if len(l.sources) == 0 {
		return units.Position{}
	}
	return units.Position{File: l.sources[0].name, Line: 1, Column: 1}
}

// placeBelow returns where the value at a field below a resource was written,
// or where the resource is declared.
func (l *loader) placeBelow(d *declared, labels ...string) units.Position {
	selectors := make([]cue.Selector, len(labels))
	for i, label := range labels {
		selectors[i] = cue.Str(label)
		if n, err := strconv.Atoi(label); err == nil {
			selectors[i] = cue.Index(n)
		}
	}
	v := d.value.LookupPath(cue.MakePath(selectors...))
	if !v.Exists() {
		return d.Position
	}
	return l.place(v, d.path.to(labels...))
}

// search returns the field at p as it is written out in the manifest; nil
// where it comes from a pattern or a reference. CUE gives a position only for
// a field that is written once.
func (l *loader) search(p path) *ast.Field {
	if len(p) == 0 {
		return nil
	}
	if l.written == nil {
		l.written = index{}
		for _, s := range l.sources {
			if s.syntax != nil {
				l.written.add("", s.syntax.Decls)
			}
		}
	}
	if f, ok := l.written[indexKey("", p...)]; ok {
		return f
	}
	return l.written[indexKey(indexKey("", p[:len(p)-1]...), computed)]
}

// An index holds the fields of the manifest by their paths, the first of each.
type index map[string]*ast.Field

// computed stands for a label that is computed in a comprehension.
const computed = "\x00"

func indexKey(prefix string, labels ...string) string {
	for _, label := range labels {
		prefix += "\n" + label
	}
	return prefix
}

func (x index) add(prefix string, decls []ast.Decl) {
	for _, d := range decls {
		switch d := d.(type) {
		case *ast.Field:
			name, _, err := ast.LabelName(d.Label)
			if _, isPattern := d.Label.(*ast.ListLit); isPattern {
				continue
			}
			if err != nil {
				name = computed
			}
			key := indexKey(prefix, name)
			if _, ok := x[key]; !ok {
				x[key] = d
			}
			x.addWithin(key, d.Value)
		case *ast.Comprehension:
			x.addWithin(prefix, d.Value)
		}
	}
}

// addWithin looks into a struct, and into both sides of a unification.
func (x index) addWithin(prefix string, e ast.Expr) {
	switch e := e.(type) {
	case *ast.StructLit:
		x.add(prefix, e.Elts)
	case *ast.BinaryExpr:
		if e.Op == token.AND {
			x.addWithin(prefix, e.X)
			x.addWithin(prefix, e.Y)
		}
	}
}
