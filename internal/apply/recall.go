package apply

import (
	"meshgen/generator"
	"meshgen/state"
	"meshgen/units"
)

// Recall names again in the ledger what a boot has brought back that was retired:
// where the generation in force is broken, the generator gives an earlier one in its
// place. What is live and not declared is then taken down by the switch, as anything is.
func (n *Node) Recall() error {
	if n.Ledger == nil || n.Systemd == nil {
		return nil
	}
	number, given, ok := generator.InPlace(n.Layout)
	if !ok {
		return nil
	}
	g, err := state.ReadGeneration(n.Layout, number)
	if err != nil {
		return err
	}
	text := map[string]string{}
	for _, u := range given {
		text[u.Name] = u.Text
	}
	var events []state.Event
	for _, r := range g.Resources {
		if units.Unit(r) == "" {
			continue // nothing starts it
		}
		for _, t := range units.Targets(r) {
			if record, known := n.Ledger.Record(t); !known || record.State != state.Retired {
				continue
			}
			e := state.Event{Kind: state.EventEmit, Generation: number, Target: t, Resource: r.Address, Origin: "written"}
			if t.Kind() == units.TargetUnit {
				e.Definition = text[t.Name()]
				e.Digest = units.RunDigest(e.Definition)
			}
			events = append(events, e)
		}
	}
	if len(events) == 0 {
		return nil
	}
	return n.Ledger.Append(events...)
}
