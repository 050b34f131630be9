package apply_test

import (
	"slices"
	"strings"

	"meshgen/internal/simulated"
	"meshgen/units"
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
// The owner's definition comes before ours while our container runs, and the ledger
// has not got the id of that, since boot started it, or a switch that died: it is
// taken for the owner's.
//
// What is masked while it runs keeps its network from going, and every switch says
// so.
func (p *play) known(kind, name string) bool {
	if kind == "mask" {
		return slices.ContainsFunc(p.host.Containers(), func(c simulated.Container) bool {
			return c.Unit == name && len(c.Networks) > 0
		})
	}
	if ledger := p.ledgerOrNone(); ledger != nil && (kind == "unit" || kind == "quadlet") {
		unit := strings.TrimSuffix(name, ".service") + ".service"
		record, _ := ledger.Record(units.Of(units.TargetUnit, unit))
		return slices.ContainsFunc(p.host.Containers(), func(c simulated.Container) bool {
			return c.Unit == unit && c.ID != record.Container
		})
	}
	return false
}
