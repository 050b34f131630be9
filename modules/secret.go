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
	below, ok := p.belowSecrets()
	return ok && (len(below) < 2 || !isOpen(below[1]))
}

// belowSecrets returns what a path has below the secrets of a module; false where it
// does not lead there.
func (p path) belowSecrets() (path, bool) {
	for i := 2; i < len(p); i++ {
		if p[i] == "secrets" && p[i-2] == "modules" {
			return p[i+1:], true
		}
	}
	return nil, false
}

// isOpen reports whether a key of a secret may be shown.
func isOpen(key string) bool { return key == "name" || key == "policy" || key == "source" }

// describe says in words what a value at a path is, with ", not" before it; nothing
// of what a secret holds.
func (p path) describe(v cue.Value) string {
	if p.isSecret() || v.Validate() != nil { // whose error is told already
		return ""
	}
	return ", not " + describe(v)
}
