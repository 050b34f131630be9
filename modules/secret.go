package modules

import (
	"fmt"
	"strings"

	"cuelang.org/go/cue"

	"meshgen/units"
)

// mostSecret is how many bytes podman takes for a secret.
const mostSecret = 512_000 - 1

// secret completes a secret. What it holds is in no fault.
func (l *loader) secret(d *declared, all fields) {
	d.Name = strings.ReplaceAll(d.Address.Module+"-"+d.Address.ID, ".", "-")
	if name, ok := l.text(all, "name"); ok {
		d.Name = name
	}
	before := len(l.faults)
	d.Secret = &units.Secret{Content: l.content(d, all)}
	if n := len(d.Secret.Content); len(l.faults) == before && (n == 0 || n > mostSecret) {
		l.fault(d.Position, d.path, fmt.Sprintf("the secret has %d bytes", n), fmt.Sprintf("podman takes 1 to %d", mostSecret))
	}
}

// isSecret reports whether a path leads to what a secret holds, or to where that was
// written by mistake.
func (p path) isSecret() bool {
	for i := 2; i < len(p); i++ {
		if p[i] != "secrets" || p[i-2] != "modules" {
			continue
		}
		return len(p) < i+3 || (p[i+2] != "name" && p[i+2] != "policy" && p[i+2] != "source")
	}
	return false
}

// describe says in words what a value at a path is, with ", not" before it; nothing
// of what a secret holds.
func (p path) describe(v cue.Value) string {
	if p.isSecret() {
		return ""
	}
	return ", not " + describe(v)
}
