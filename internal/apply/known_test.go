package apply_test

import (
	"slices"

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
// What is masked while it runs keeps its network from going, and every switch says
// so.
func (p *play) known(kind, name string) bool {
	if kind == "mask" {
		return slices.ContainsFunc(p.host.Containers(), func(c simulated.Container) bool {
			return c.Unit == name && len(c.Networks) > 0
		})
	}
	return false
}
