package modules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue"

	"meshgen/units"
)

// A moveEnd is one side of an entry of moved. Of a whole module the address has
// neither kind nor id.
type moveEnd struct {
	address units.Address
	at      units.Position
	path    path
}

func (e moveEnd) String() string {
	if e.isModule() {
		return "module " + e.address.Module
	}
	return e.address.String()
}

func (e moveEnd) isModule() bool { return e.address.Kind == "" }

// A moveEntry is one entry of moved.
type moveEntry struct{ from, to moveEnd }

// moved returns what the manifest says of former addresses, held against what is
// declared.
func (l *loader) moved(top fields, d *declarations) units.Moves {
	c := &moveChecker{loader: l, top: top, declarations: d, first: map[units.Address]moveEntry{}}
	for _, e := range l.moveEntries(top) {
		c.add(e)
	}
	endless := c.circles()
	for _, e := range c.entries {
		c.declared(e)
		if !endless[e.from.address] {
			c.arrives(e)
		}
	}
	c.ambiguous()
	return c.moves
}

// moveEntries returns the entries that are right by themselves.
func (l *loader) moveEntries(top fields) []moveEntry {
	f, ok := top.get("moved")
	if !ok {
		return nil
	}
	list, err := resolved(f.value).List()
	if err != nil {
		l.accepts(f)
		return nil
	}
	var entries []moveEntry
	for i := 0; list.Next(); i++ {
		all := l.fields(list.Value(), l.schema.definition("#Move"), f.path.to(strconv.Itoa(i)))
		from, okFrom := l.moveEnd(all, "from")
		to, okTo := l.moveEnd(all, "to")
		if okFrom && okTo && l.sameSort(from, to) {
			entries = append(entries, moveEntry{from, to})
		}
	}
	return entries
}

// moveEnd reads an address, or a module's id.
func (l *loader) moveEnd(all fields, name string) (moveEnd, bool) {
	text, ok := l.text(all, name)
	if !ok {
		return moveEnd{}, false
	}
	f, _ := all.get(name)
	e := moveEnd{at: l.place(f.value, f.path), path: f.path}
	module := l.schema.shapeOf(l.schema.definition("#Modules"))
	if !strings.Contains(text, "/") && module.get(text) != nil {
		e.address.Module = text
		return e, true
	}
	a, err := units.ParseAddress(text)
	kinds := l.schema.kinds()
	switch {
	case err != nil || module.get(a.Module) == nil || !isName(a.ID):
		l.fault(e.at, e.path, fmt.Sprintf("%q is not an address", text), "want module/kind/id, or the id of a module")
	case !slices.Contains(kinds, string(a.Kind)):
		l.fault(e.at, e.path, fmt.Sprintf("%q: no kind %q", text, a.Kind), choices(string(a.Kind), kinds))
	default:
		e.address = a
		return e, true
	}
	return e, false
}

// kinds returns the kinds of resource that a module may have, sorted.
func (s *schema) kinds() []string {
	var kinds []string
	for label := range s.shapeOf(s.definition("#Module")).fields {
		if isKindField(label) {
			kinds = append(kinds, string(kindOf(label)))
		}
	}
	slices.Sort(kinds)
	return kinds
}

// sameSort faults an entry whose sides cannot be one thing.
func (l *loader) sameSort(from, to moveEnd) bool {
	switch {
	case from.isModule() != to.isModule():
		l.fault(to.at, to.path, fmt.Sprintf("%s cannot become %s", from, to), "want two addresses, or two modules")
	case from.address.Kind != to.address.Kind:
		l.fault(to.at, to.path, fmt.Sprintf("a %s cannot become a %s", from.address.Kind, to.address.Kind), "a resource keeps its kind")
	default:
		return true
	}
	return false
}

// A moveChecker gathers entries, and holds them against one another and against
// what is declared.
type moveChecker struct {
	*loader
	top          fields
	declarations *declarations
	entries      []moveEntry
	first        map[units.Address]moveEntry // by where it leads from
	moves        units.Moves
}

// add takes an entry in, one for each address.
func (c *moveChecker) add(e moveEntry) {
	if first, ok := c.first[e.from.address]; ok {
		c.fault(e.from.at, e.from.path, fmt.Sprintf("%s is moved already, at %s", e.from, first.from.at), "want one entry for each address")
		return
	}
	c.first[e.from.address] = e
	c.entries = append(c.entries, e)
	if e.from.isModule() {
		if c.moves.Modules == nil {
			c.moves.Modules = map[string]string{}
		}
		c.moves.Modules[e.from.address.Module] = e.to.address.Module
		return
	}
	if c.moves.Resources == nil {
		c.moves.Resources = map[units.Address]units.Address{}
	}
	c.moves.Resources[e.from.address] = e.to.address
}

// circles faults each circle once, at its first entry, and returns the entries
// that come to no end, by where they lead from.
func (c *moveChecker) circles() map[units.Address]bool {
	endless, told := map[units.Address]bool{}, map[units.Address]bool{}
	for _, e := range c.entries {
		way := []units.Address{e.from.address}
		next, ok := c.moves.Next(e.from.address)
		for ; ok && !slices.Contains(way, next); next, ok = c.moves.Next(next) {
			way = append(way, next)
		}
		endless[e.from.address] = ok
		if !ok || next != e.from.address || told[next] {
			continue
		}
		names := make([]string, 0, len(way)+1)
		for _, a := range append(way, next) {
			told[a] = true
			names = append(names, moveEnd{address: a}.String())
		}
		c.fault(e.from.at, e.from.path, "moves in a circle: "+strings.Join(names, " -> "), "want an end that is declared")
	}
	return endless
}

// declared faults an entry whose former address is in use.
func (c *moveChecker) declared(e moveEntry) {
	const hint = "an entry is for what is no longer declared: take one of the two away"
	for _, d := range c.declarations.all {
		if d.Address == e.from.address || e.from.isModule() && d.Address.Module == e.from.address.Module {
			c.fault(e.from.at, e.from.path, fmt.Sprintf("%s is still declared, at %s", e.from, d.Position), hint)
			return
		}
	}
}

// arrives faults an entry that leads to nothing. Of a chain it is the last one
// that does.
func (c *moveChecker) arrives(e moveEntry) {
	end := e.to.address
	for {
		if _, further := c.first[end]; further {
			return
		}
		next, ok := c.moves.Next(end)
		if !ok {
			break
		}
		end = next
	}
	if c.somewhere(end) {
		return
	}
	var known []string
	for _, d := range c.declarations.all {
		name := d.Address.String()
		if e.to.isModule() {
			name = d.Address.Module
		}
		known = append(known, name)
	}
	c.fault(e.to.at, e.to.path, fmt.Sprintf("no %s is declared", moveEnd{address: end}), choices(moveEnd{address: end}.name(), slices.Compact(known)))
}

func (e moveEnd) name() string {
	if e.isModule() {
		return e.address.Module
	}
	return e.address.String()
}

// somewhere reports whether the address is declared, for this node or another.
func (c *moveChecker) somewhere(a units.Address) bool {
	if slices.ContainsFunc(c.declarations.all, func(d *declared) bool {
		return d.Address == a || a.Kind == "" && d.Address.Module == a.Module
	}) {
		return true
	}
	nodes, ok := c.top.get("nodes")
	if !ok {
		return false
	}
	place := []cue.Selector{cue.Str("modules"), cue.Str(a.Module)}
	if a.Kind != "" {
		place = append(place, cue.Str(string(a.Kind)+"s"), cue.Str(a.ID))
	}
	all, err := resolved(nodes.value).Fields()
	if err != nil {
		return false // told when the manifest was evaluated
	}
	for all.Next() {
		if all.Value().LookupPath(cue.MakePath(place...)).Exists() {
			return true
		}
	}
	return false
}

// ambiguous faults two former addresses of one. Of what a module had, the
// manifest knows only the addresses that it names.
func (c *moveChecker) ambiguous() {
	var known []units.Address
	for _, e := range c.entries {
		known = append(known, e.from.address, e.to.address)
	}
	slices.SortFunc(known, units.Address.Compare)
	before := map[units.Address]units.Address{}
	for _, a := range slices.Compact(known) {
		next, ok := c.moves.Next(a)
		if !ok {
			continue
		}
		other, taken := before[next]
		before[next] = a
		if !taken {
			continue
		}
		e, ok := c.first[a]
		if first, both := c.first[other]; !ok || both && first.from.at.Compare(e.from.at) > 0 {
			e, ok = first, both
		}
		if !ok {
			continue // by two modules, which is told of them
		}
		c.fault(e.to.at, e.to.path, fmt.Sprintf("%s and %s both lead to %s", moveEnd{address: other}, moveEnd{address: a}, moveEnd{address: next}),
			"want one former address for each")
	}
}
