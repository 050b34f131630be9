package policy

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tetratelabs/wazero"
)

// Inspection is what can be said of a program without running it, all of it in
// lines of printable text.
type Inspection struct {
	SHA256  string
	Size    int      // bytes
	Imports []string // each function as "module.name (i32) -> i32"
	Exports []string // each function as "name () -> i32", and "memory"
	Memory  Memory
	Faults  []string // why it would not be asked; none where it would
}

// Memory is the memory that a program exports, in bytes.
type Memory struct {
	Least int64 // what it begins with
	Most  int64 // what it may grow to; 0 where it says nothing of it
}

// Inspect looks at a program, with the default limits.
func Inspect(ctx context.Context, m Module) Inspection {
	i := Inspection{SHA256: m.SHA256(), Size: len(m.Code)}
	l := DefaultLimits()
	if err := l.fits(m); err != nil {
		i.Faults = []string{oneLine([]byte(err.Error()))}
		return i
	}
	vetted, err := vet(m.Code)
	if err != nil {
		i.Faults = []string{oneLine([]byte(err.Error()))}
		return i
	}
	p := &program{}
	defer func() { _ = p.close() }() // nothing runs in it
	host, err := p.decode(ctx, vetted, wazero.NewRuntimeConfigInterpreter().WithMemoryLimitPages(l.pages()))
	if err != nil {
		i.Faults = []string{oneLine([]byte(err.Error()))}
		return i
	}
	for _, f := range p.compiled.ImportedFunctions() {
		module, name, _ := f.Import()
		i.Imports = append(i.Imports, Line(fmt.Sprintf("%s.%s %s", module, name, typeOf(f))))
	}
	exports := p.compiled.ExportedFunctions()
	for _, name := range slices.Sorted(maps.Keys(exports)) {
		i.Exports = append(i.Exports, Line(name+" "+typeOf(exports[name])))
	}
	for name, memory := range p.compiled.ExportedMemories() {
		i.Exports = append(i.Exports, Line(name))
		i.Memory.Least = int64(memory.Min()) * pageSize
		if most, said := memory.Max(); said {
			i.Memory.Most = int64(most) * pageSize
		}
	}
	slices.Sort(i.Imports)
	slices.Sort(i.Exports)
	for _, fault := range misfits(p.compiled, host) {
		i.Faults = append(i.Faults, oneLine([]byte(fault.Error())))
	}
	return i
}
