package apply_test

import (
	"slices"
	"strings"

	"meshgen/internal/simulated"
)

// aside says whether what is known to go wrong is left out.
type aside bool

const (
	setAside aside = true
	whole    aside = false
)

// known reports whether what comes by hand would meet a fault that is known and
// not mended.
//
// After a boot the owner's definition comes before ours while our container runs.
// The ledger has not got the id of the container that boot started, and takes it
// for the owner's.
//
// What is masked while it runs keeps its network from going, and every switch says
// so.
func (p *play) known(kind, name string) bool {
	if kind == "mask" {
		return slices.ContainsFunc(p.host.Containers(), func(c simulated.Container) bool {
			return c.Unit == name && len(c.Networks) > 0
		})
	}
	_, active := p.host.UnitState(strings.TrimSuffix(name, ".service") + ".service")
	return p.booted && (kind == "unit" || kind == "quadlet") && active == "active"
}
