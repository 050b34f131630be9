package apply

import (
	"fmt"
	"path/filepath"
	"strings"

	"meshgen/generator"
	"meshgen/state"
	"meshgen/units"
)

// keptOptions refuses to take up again a volume or a network that was let be, with
// other options than it was made with: it would go on as it is, and nobody would
// be told.
func (n *Node) keptOptions(b before, compiled Compiled) units.Faults {
	var faults units.Faults
	held := map[units.Target]state.Record{}
	for _, r := range b.records {
		if r.State == state.Held {
			held[r.Target] = r
		}
	}
	for _, r := range compiled.Generation.Resources {
		record, kept := held[units.Object(r)]
		if !kept {
			continue
		}
		text := string(compiled.Tree.Files[filepath.Join(generator.NormalDir, units.Unit(r))])
		was, known := n.lastMade(record)
		if !known || text == "" || making(was) == making(text) {
			continue // a rebuilt ledger has it from a mark, and knows no options
		}
		faults = append(faults, units.Fault{
			Position: r.Position,
			Message:  fmt.Sprintf("%s: %s was kept, with other options: podman cannot change a %s that exists", r.Address, record.Target, record.Target.Kind()),
			Hint:     "give it back its former options, or remove it first if nothing in it is needed",
		})
	}
	return faults
}

// lastMade returns the definition that the unit had last which made a kept object.
func (n *Node) lastMade(object state.Record) (definition string, known bool) {
	var last state.Moment
	for _, r := range n.Ledger.Of(object.Resource) {
		if r.Target.Kind() == units.TargetUnit && !r.Last.Time.Before(last.Time) && makes(r.Definition, object.Target.Name()) {
			definition, known, last = r.Definition, true, r.Last
		}
	}
	return definition, known
}

// makes reports whether a unit makes the object of that name, which ends what it
// runs: podman-volume-create(1), podman-network-create(1).
func makes(definition, name string) bool {
	return strings.HasSuffix(strings.TrimSpace(making(definition)), " "+name)
}

// making returns what a unit runs to make its object, without our mark.
func making(definition string) string {
	var lines []string
	for line := range strings.Lines(definition) {
		if strings.HasPrefix(line, "ExecStart=") {
			before, after, _ := strings.Cut(line, " --label "+units.MarkLabel+"=")
			_, rest, _ := strings.Cut(after, " ")
			lines = append(lines, before+" "+rest)
		}
	}
	return strings.Join(lines, "")
}
