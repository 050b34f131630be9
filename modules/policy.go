package modules

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"cuelang.org/go/cue"

	"meshgen/units"
)

// The fields of a module that declare nothing.
const (
	policyField = "policy"
	wasmField   = "wasm"
)

// A policy is what a module says of how changes are decided.
type policy struct {
	settings map[string]string
	wasm     *units.Wasm // nil where the module brings none, or none that is right
	own      bool        // it brings one, and may have settings of its own
}

// modulePolicy returns the policy of a module.
func (l *loader) modulePolicy(all fields) policy {
	p := policy{}
	if f, ok := all.get(wasmField); ok {
		p.wasm, p.own = l.wasm(f), true
	}
	p.settings = l.settings(all, p)
	return p
}

// of returns what counts for a resource: its own word, then the module's.
func (p policy) of(kind units.Kind, own map[string]string) map[string]string {
	settings := maps.Clone(p.settings)
	if settings["rename"] == "migrate" && kind != units.KindVolume {
		settings["rename"] = "follow" // it holds no data that would have to move
	}
	maps.Copy(settings, own)
	if len(settings) == 0 {
		return nil
	}
	return settings
}

// settings returns what a module or a resource says beside the module's policy.
// Any setting goes where that is one of the module's own.
func (l *loader) settings(all fields, p policy) map[string]string {
	settings := map[string]string{}
	f, ok := all.get(policyField)
	if !ok {
		return settings
	}
	known := l.schema.shapeOf(f.rule).fields
	for _, s := range l.fields(f.value, f.rule, f.path) {
		if _, ok := known[s.name]; !ok && !p.own {
			l.unknownSetting(s, slices.Collect(maps.Keys(known)))
			continue
		}
		if text, ok := l.scalar(s); ok {
			settings[s.name] = text
		}
	}
	return settings
}

func (l *loader) unknownSetting(f field, known []string) {
	hint := "a module with wasm may have settings of its own"
	if near := units.Nearest(f.name, known); near != "" {
		hint = "nearest: " + near + "; " + hint
	}
	l.fault(l.label(f.value, f.path), f.path, "no such setting", hint)
}

// wasm returns the policy that a module brings; nil where it is not right.
func (l *loader) wasm(f field) *units.Wasm {
	file, pin := f, field{}
	if resolved(f.value).IncompleteKind() == cue.StructKind {
		all := l.fields(f.value, l.schema.definition("#Wasm"), f.path)
		var ok bool
		if file, ok = all.get("path"); !ok {
			return nil // told as missing
		}
		pin, _ = all.get("sha256")
	}
	if !l.accepts(file) {
		return nil
	}
	name, err := resolved(file.value).String()
	if err != nil {
		return nil
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		l.fault(l.place(file.value, file.path), file.path, fmt.Sprintf("%q holds what cannot be shown", name), "give the file a plain name")
		return nil
	}
	name = l.besides(file.value, name)
	p, err := l.program(name)
	if err != nil {
		l.fault(l.place(file.value, file.path), file.path, name+": "+err.Error(),
			"want a WebAssembly file below the manifest directory, by its path from the CUE file that names it")
		return nil
	}
	if pin.rule != nil && (!l.accepts(pin) || !l.pinned(pin, name, p)) {
		return nil
	}
	return &units.Wasm{Path: name, Position: l.place(file.value, file.path), Digest: p.digest, Content: p.content}
}

// besides returns the path below the manifest directory of a file that a value
// names, which is relative to the file in which the value was written: a package
// brings its policies with it.
func (l *loader) besides(v cue.Value, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	in := v.Pos()
	const longest = 100 // chain of references
	for range longest {
		v = cue.Dereference(v)
		if pos := v.Pos(); pos == in || !l.owns(pos) {
			break
		}
		in = v.Pos()
	}
	return filepath.Join(filepath.Dir(l.position(in).File), name)
}

// A program is a policy that was read.
type program struct {
	content []byte
	digest  string // its sha256, in hexadecimal
}

// program reads a policy, once for all the modules that name it.
func (l *loader) program(name string) (program, error) {
	if p, ok := l.programs[name]; ok {
		return p, nil
	}
	const most = 16 << 20
	content, err := readBelow(l.dir, name, most+1)
	switch {
	case err != nil:
		return program{}, err
	case len(content) > most:
		return program{}, errors.New("larger than 16 MiB")
	}
	sum := sha256.Sum256(content)
	p := program{content, hex.EncodeToString(sum[:])}
	if l.programs == nil {
		l.programs = map[string]program{}
	}
	l.programs[name] = p
	return p, nil
}

// pinned reports whether a program is the one whose sha256 is written, and faults
// it if not.
func (l *loader) pinned(f field, name string, p program) bool {
	sum, err := resolved(f.value).String()
	if err != nil || sum == p.digest {
		return err == nil
	}
	l.fault(l.place(f.value, f.path), f.path, name+" has another sum, "+p.digest, "want that one, if it is the policy that was meant")
	return false
}
