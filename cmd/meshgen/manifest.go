package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"meshgen/internal/apply"
	"meshgen/internal/hint"
	"meshgen/modules"
	"meshgen/policy"
	"meshgen/state"
	"meshgen/units"
)

// input reads the manifest. One that is just as it was when the generation in
// force was compiled is not compiled again.
func (o *options) input(l state.Layout, inForce state.Generation, allowEmpty bool, changed func()) (apply.Input, error) {
	dir := o.manifestDir(l)
	from := modules.Options{Node: o.node, Hostname: hostname(l), AllowEmpty: allowEmpty}
	digest, err := modules.Digest(dir, from)
	if errors.Is(err, fs.ErrNotExist) {
		err = hint.Add(fmt.Errorf("manifest %s: not there", dir), "write one, or name another with --manifest")
	}
	if err != nil {
		return apply.Input{}, exitError{exitRejected, err}
	}
	if digest == inForce.Manifest && inForce.Number > 0 && len(inForce.Held) == 0 {
		return apply.Input{Node: inForce.Node, Adopted: inForce.Adopted, Digest: digest, Resources: inForce.Resources, Moved: inForce.Moved}, nil
	}
	changed()
	m, err := modules.Load(dir, from)
	if err != nil {
		return apply.Input{}, exitError{exitRejected, err}
	}
	if faults := unaskable(m.Resources); len(faults) > 0 {
		return apply.Input{}, faults
	}
	if again, err := modules.Digest(dir, from); err != nil || again != digest {
		err = errors.Join(err, hint.Add(fmt.Errorf("manifest %s: changed while it was read", dir), "run it again"))
		return apply.Input{}, exitError{exitRejected, err}
	}
	return apply.Input{Node: m.Node.Name, Adopted: m.Node.Adopted, Digest: digest, Resources: m.Resources, Moved: m.Moved}, nil
}

// unaskable faults the policies that could not be asked, where they are named: what
// they are to decide may come up when nobody looks.
func unaskable(resources []units.Resource) units.Faults {
	said := map[units.Position]bool{}
	var faults units.Faults
	for _, r := range resources {
		if r.Wasm == nil || said[r.Wasm.Position] {
			continue
		}
		said[r.Wasm.Position] = true
		found := policy.Inspect(context.Background(), policy.Module{Name: r.Wasm.Path, Code: r.Wasm.Content})
		for _, fault := range found.Faults {
			faults = append(faults, units.Fault{
				Position: r.Wasm.Position, Message: fmt.Sprintf("modules.%s.wasm: %s: %s", r.Address.Module, r.Wasm.Path, fault),
				Hint: "it could not be asked; meshgen policy show says all that it offers and lacks",
			})
		}
	}
	slices.SortStableFunc(faults, func(a, b units.Fault) int { return a.Position.Compare(b.Position) })
	return faults
}

func (o *options) manifestDir(l state.Layout) string {
	return cmp.Or(o.manifest, l.Manifest())
}

// madeOf reports whether a generation was made from the manifest as it is now,
// with whichever options it was read.
func (o *options) madeOf(l state.Layout, g state.Generation) (bool, error) {
	for _, node := range []string{o.node, g.Node} {
		for _, allowEmpty := range []bool{false, true} {
			digest, err := modules.Digest(o.manifestDir(l), modules.Options{Node: node, Hostname: hostname(l), AllowEmpty: allowEmpty})
			if err != nil || digest == g.Manifest {
				return err == nil, err
			}
		}
	}
	return false, nil
}

// hostname returns the name of the host, hostname(5); that of an image is in
// its /etc/hostname.
func hostname(l state.Layout) string {
	if l.Root == "/" {
		if name, err := os.Hostname(); err == nil {
			return name
		}
	}
	text, err := os.ReadFile(l.Path("/etc/hostname"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
