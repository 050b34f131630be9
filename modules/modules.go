// Package modules reads a manifest: a directory of CUE files that say what a
// node is to have. [Load] turns it into plain resources, with names, defaults
// and references resolved; [Digest] tells whether it would answer the same as
// last time, without reading any CUE.
//
// It knows the schema and nothing of the machine: whether podman, systemd or
// the disk agree is for others to find out. No value of CUE leaves it; what a
// later step needs of the manifest, above all positions, is in the resources.
// It never touches the network.
package modules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/cuecontext"

	"meshgen/units"
)

// Options say which node a manifest is read for.
type Options struct {
	// Node is the node's name; "" stands for node.name of the manifest and,
	// where there is none, for Hostname.
	Node     string
	Hostname string
	// AllowEmpty lets a manifest declare nothing. Without it that is a fault:
	// a checkout that went wrong is not an order to remove everything.
	AllowEmpty bool
}

// Manifest is what one node is told to have.
type Manifest struct {
	Node      Node
	Resources []units.Resource // by address
	// Moved leads from former addresses to those of today.
	Moved units.Moves
}

// Node is what the manifest says of the node itself.
type Node struct {
	Name    string
	Adopted bool
}

// Load reads the manifest directory and returns what one node is told to have,
// or everything that is wrong with it, never both. What the owner can set
// right comes as [units.Faults], in the order of the positions; a directory
// or file that cannot be read is another error, which names it.
//
// What stands in modules is for every node. What stands in nodes is for the
// node of that name, in addition: the one that [Options] name or, failing
// that, the host's, with or without its domain. A manifest with nodes, none
// of which is this one, is a fault: it would take away all that the node has.
//
// Every .cue file below the directory counts, whatever its package clause,
// except packages that another file imports by way of cue.mod, files whose
// name begins with "_" or ".", *_test.cue and *_tool.cue, those that an @if
// leaves out, and directories that are modules of their own. Symbolic links
// to directories are not followed. An import must lie below the directory:
// nothing is fetched.
func Load(dir string, o Options) (Manifest, error) {
	l := &loader{dir: dir, context: cuecontext.New()}
	l.schema = newSchema(l.context)
	root, err := l.read()
	if err != nil {
		return Manifest{}, err
	}
	manifest := Manifest{}
	if len(l.faults) == 0 {
		manifest = l.manifest(root, o)
	}
	if len(manifest.Resources) == 0 && len(l.faults) == 0 && !o.AllowEmpty {
		l.empty()
	}
	if len(l.faults) > 0 {
		return Manifest{}, sorted(l.faults)
	}
	return manifest, nil
}

// A loader is one call of Load: what was read, and what is wrong with it.
type loader struct {
	dir     string
	context *cue.Context
	schema  *schema
	sources []source
	files   []*ast.File // of sources, and of what they import
	veil    *veil       // over files, once it was asked for
	written index       // of the fields in sources, once it was asked for
	// programs are the policies that were read, by their paths.
	programs map[string]program
	faults   []fault
}

func (l *loader) empty() {
	const hint = "with --allow-empty it counts, and everything is removed"
	if len(l.sources) == 0 {
		l.fault(units.Position{}, nil, l.dir+": no .cue file", hint)
		return
	}
	l.fault(units.Position{File: l.sources[0].name, Line: 1, Column: 1}, path{"modules"},
		"nothing is declared", hint)
}

func (l *loader) manifest(root cue.Value, o Options) Manifest {
	l.evaluation(root.Validate())
	top := l.fields(root, l.schema.definition("#Manifest"), nil)
	if f, ok := top.get("audit"); ok {
		l.patterns(f) // for their faults: an audit reads them itself
	}
	node := l.node(top, o)
	d := declarations{}
	for _, m := range l.modules(l.selected(top, &node, o)) {
		l.declare(&d, m)
	}
	slices.SortFunc(d.all, func(a, b *declared) int { return a.Address.Compare(b.Address) })
	l.resolve(&d)
	l.owners(d.all)
	moved := l.moved(top, &d)
	resources := make([]units.Resource, len(d.all))
	for i, r := range d.all {
		resources[i] = r.Resource
	}
	return Manifest{Node: node, Resources: resources, Moved: moved}
}

// node returns the node that the manifest is read for.
func (l *loader) node(top fields, o Options) Node {
	node := Node{Name: o.Node}
	if f, ok := top.get("node"); ok {
		sub := l.fields(f.value, f.rule, f.path)
		if name, ok := l.text(sub, "name"); ok && node.Name == "" {
			node.Name = name
		}
		if adopted, ok := sub.get("adopted"); ok && l.accepts(adopted) {
			node.Adopted, _ = resolved(adopted.value).Bool()
		}
	}
	node.Name = cmp.Or(node.Name, o.Hostname)
	return node
}

// selected returns the fields that hold modules for the node, and completes
// what is known of the node. Both may be there: modules for every node, and
// modules for this one.
func (l *loader) selected(top fields, node *Node, o Options) []field {
	var selected []field
	common, ok := top.get("modules")
	if ok {
		selected = append(selected, common)
	}
	nodes, ok := top.get("nodes")
	if !ok {
		return selected
	}
	all := l.fields(nodes.value, nodes.rule, nodes.path)
	one, ok := all.get(node.Name)
	if short, _, _ := strings.Cut(node.Name, "."); !ok && o.Node == "" {
		one, ok = all.get(short)
	}
	if !ok {
		l.unknownNode(nodes, all, node.Name)
		return selected
	}
	node.Name = one.name
	inner := l.fields(one.value, one.rule, one.path)
	if f, ok := inner.get("node"); ok {
		sub := l.fields(f.value, f.rule, f.path)
		if adopted, ok := sub.get("adopted"); ok && l.accepts(adopted) {
			node.Adopted, _ = resolved(adopted.value).Bool()
		}
	}
	if own, ok := inner.get("modules"); ok {
		selected = append(selected, own)
	}
	return selected
}

// modules returns the modules in the fields, one that stands in both as what
// the two say together.
func (l *loader) modules(selected []field) fields {
	var all fields
	for _, s := range selected {
		for _, m := range l.fields(s.value, s.rule, s.path) {
			i := slices.IndexFunc(all, func(f field) bool { return f.name == m.name })
			if i < 0 {
				all = append(all, m)
				continue
			}
			m.value = m.value.Unify(all[i].value)
			l.evaluation(m.value.Validate())
			all[i] = m
		}
	}
	return all
}

func (l *loader) unknownNode(nodes field, all fields, name string) {
	known := make([]string, len(all))
	for i, f := range all {
		known[i] = f.name
	}
	l.fault(l.label(nodes.value, nodes.path), nodes.path,
		fmt.Sprintf("node %q is not among them", name), "known: "+strings.Join(known, ", "))
}

// relative returns a file's name as positions show it.
func (l *loader) relative(file string) string {
	return strings.TrimPrefix(file, l.dir+"/")
}
