package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"meshgen/internal/apply"
	"meshgen/internal/hint"
	"meshgen/modules"
	"meshgen/state"
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
	if again, err := modules.Digest(dir, from); err != nil || again != digest {
		err = errors.Join(err, hint.Add(fmt.Errorf("manifest %s: changed while it was read", dir), "run it again"))
		return apply.Input{}, exitError{exitRejected, err}
	}
	return apply.Input{Node: m.Node.Name, Adopted: m.Node.Adopted, Digest: digest, Resources: m.Resources, Moved: m.Moved}, nil
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
