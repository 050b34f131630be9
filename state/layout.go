// Package state is what a node remembers: the generations, of which one is in
// force, and the ledger of every name the node was ever given.
//
// It knows nothing of systemd, podman or the manifest, and acts on nothing but
// its own files. A [Layout] says where they lie; [WriteGeneration] and
// [SetCurrent] put a set in force; [OpenLedger] reads the record, [Ledger.Append]
// adds to it and [Ledger.Compact] shortens it; [Events] tells all that ever was
// recorded; [Acquire] keeps others out meanwhile.
//
// A generation is complete or not there, and is never changed. A record is on
// the disk before [Ledger.Append] returns, and is never lost to a torn write
// or a damaged byte without a word. Only functions that say so write, so what
// reads may run without the lock and on a read-only file system.
package state

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Layout is where everything lies on a node; every path hangs on it. All are
// absolute paths on the host.
type Layout struct {
	Root    string // "/", or the directory that stands for it
	Config  string // what boot needs: the manifest and the generations
	State   string // the ledger, the lock, the backups
	Runtime string // gone with the power
}

// NewLayout returns the layout of the node whose file system begins at root.
// stateDir is a path on the host; "" is /var/lib/meshgen below root.
func NewLayout(root, stateDir string) Layout {
	root = filepath.Join("/", root)
	if stateDir == "" {
		stateDir = filepath.Join(root, "var/lib/meshgen")
	}
	return Layout{
		Root:    root,
		Config:  filepath.Join(root, "etc/meshgen"),
		State:   stateDir,
		Runtime: filepath.Join(root, "run/meshgen"),
	}
}

// Path returns where a path of the node lies on the host.
func (l Layout) Path(p string) string { return filepath.Join(l.Root, filepath.Join("/", p)) }

// Manifest returns the directory that the owner writes.
func (l Layout) Manifest() string { return filepath.Join(l.Config, "manifest") }

// Generations returns the directory of all generations.
func (l Layout) Generations() string { return filepath.Join(l.Config, "generations") }

// Generation returns the directory of generation n.
func (l Layout) Generation(n int) string {
	return filepath.Join(l.Generations(), strconv.Itoa(n))
}

// Current returns the link to the generation in force.
func (l Layout) Current() string { return filepath.Join(l.Config, "current") }

// Pending returns the link to the generation that a switch is moving to.
func (l Layout) Pending() string { return filepath.Join(l.Config, "pending") }

// Ejected returns the link to the generation that was in force when the node was
// ejected.
func (l Layout) Ejected() string { return filepath.Join(l.Config, "ejected") }

// Ledger returns the ledger's file.
func (l Layout) Ledger() string { return filepath.Join(l.State, "ledger") }

// Lock returns the lock's file.
func (l Layout) Lock() string { return filepath.Join(l.State, "lock") }

// SecretKey is the file with the key that digests of secrets are made with.
func (l Layout) SecretKey() string { return filepath.Join(l.State, "secret.key") }

// Backups returns the directory of files of ours that other hands had changed.
func (l Layout) Backups() string { return filepath.Join(l.State, "backups") }

// Policies returns the directory of what was compiled of policies.
func (l Layout) Policies() string { return filepath.Join(l.State, "policies") }

// Adopted returns the directory of the copies of what was adopted, by generation.
func (l Layout) Adopted() string { return filepath.Join(l.State, "adopted") }

// Bridge returns the directory that is there while systemd is to know two
// generations at once.
func (l Layout) Bridge() string { return filepath.Join(l.Runtime, "bridge") }

// IsOwn reports whether an entry of Config or State is meshgen's: what it writes
// there, a temporary of that, or the owner's manifest.
func (l Layout) IsOwn(path string) bool {
	name := filepath.Base(path)
	switch filepath.Dir(path) {
	case l.Config:
		return slices.Contains([]string{"manifest", "generations", "current", "pending", "ejected"}, name) || strings.HasPrefix(name, ".")
	case l.State:
		if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "ledger.") {
			return true
		}
		return slices.Contains([]string{l.Ledger(), l.Lock(), l.SecretKey(), l.Backups(), l.Policies(), l.Adopted(), l.Audited()}, path)
	}
	return false
}

// Audited is the file with what the last audit found that told of what is new.
func (l Layout) Audited() string { return filepath.Join(l.State, "audit.json") }
