package apply_test

import "strings"

// aside says whether what is known to go wrong is left out.
type aside bool

const (
	setAside aside = true
	whole    aside = false
)

// known reports whether what comes by hand would meet a fault that is known and
// not mended: after a boot the owner's definition comes before ours while our
// container runs. The ledger has not got the id of the container that boot
// started, and takes it for the owner's.
func (p *play) known(kind, name string) bool {
	_, active := p.host.UnitState(strings.TrimSuffix(name, ".service") + ".service")
	return p.booted && (kind == "unit" || kind == "quadlet") && active == "active"
}
