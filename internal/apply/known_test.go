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

// known reports whether a switch would meet a fault that is known and not
// mended.
func (p *play) known() bool { return p.maskedIsDue() }

// maskedIsDue: what is masked while it is due is judged by the confirmation,
// which it cannot pass.
func (p *play) maskedIsDue() bool {
	ledger := p.ledgerOrNone()
	if ledger == nil {
		return false
	}
	for _, r := range ledger.Live() {
		if r.Due && p.isMasked(r.Target) {
			return true
		}
	}
	return false
}

// knownHand is known for what comes by hand: after a boot the owner's definition
// comes before ours while our container runs. The ledger has not got the id of
// the container that boot started, and takes it for the owner's.
//
// What is deaf to SIGTERM and masked while it runs does not stop, and the switch
// takes it for stopped.
func (p *play) knownHand(kind, name string) bool {
	if kind == "mask" {
		return slices.ContainsFunc(p.host.Containers(), func(c simulated.Container) bool { return c.Deaf && c.Unit == name })
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
