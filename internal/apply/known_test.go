package apply_test

import (
	"os"
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

// knownHand is known for what comes by hand: after a boot the owner's definition
// comes before ours while our container runs. The ledger has not got the id of
// the container that boot started, and takes it for the owner's.
//
// What is masked while it runs keeps its network from going, and if it is deaf to
// SIGTERM it outlives a stop, which the next switch does not see.
func (p *play) knownHand(kind, name string) bool {
	if kind == "mask" {
		return slices.ContainsFunc(p.host.Containers(), func(c simulated.Container) bool {
			return c.Unit == name && (c.Deaf || len(c.Networks) > 0)
		})
	}
	_, active := p.host.UnitState(strings.TrimSuffix(name, ".service") + ".service")
	return p.booted && (kind == "unit" || kind == "quadlet") && active == "active"
}

// knownDeath: a switch that died after it took its links from /run/systemd/system
// and before it had systemd read its units again left units whose definition is
// not there any more, which the next takes for somebody else's.
func (p *play) knownDeath() {
	if links, err := os.ReadDir(p.host.Layout.Path("run/systemd/system")); err == nil && len(links) == 0 {
		p.must(p.host.Reload())
	}
}
