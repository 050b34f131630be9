package apply

import (
	"context"
	"slices"
	"strings"
	"time"

	"meshgen/state"
	"meshgen/units"
)

// Standing is how one resource does.
type Standing struct {
	Address units.Address  `json:"address"`
	Kind    units.Kind     `json:"kind"`
	Targets []units.Target `json:"targets"`
	// State is that of its targets: live, held, or stale where it is no longer
	// declared and still there. One that is declared and held has no targets.
	State string `json:"state"`
	// Why says what a declared resource waits for that is held, or that is held as
	// it was, and of which name something was put aside; else "".
	Why string `json:"why,omitempty"`
	// Unit and Active are empty for what systemd does not run.
	Unit   string `json:"unit,omitempty"`
	Active string `json:"active,omitempty"`
	// Since is when the unit's state last changed; of what has no unit, when it
	// was last written.
	Since time.Time `json:"since,omitzero"`
	// Adopted are those of the targets that were adopted, and can be given back.
	Adopted []units.Target `json:"adopted,omitempty"`
	// Drift says what other hands did to it; "" where that is nothing.
	Drift string `json:"drift,omitempty"`
	// Health is what is wrong with it; "" where that is nothing.
	Health Health `json:"health,omitempty"`
	// Result is how a unit failed, in systemd's word, as exit-code or timeout.
	Result string `json:"result,omitempty"`
	// Log is what a failed unit logged last, of its last run, oldest first. Where
	// very many failed, some have none.
	Log []string `json:"log,omitempty"`
	// Command is what is typed for one that is held to come; "" where that is not
	// known.
	Command string `json:"command,omitempty"`
}

// Switches returns the switches that the ledger has, oldest first.
func (n *Node) Switches() []state.Switch {
	if n.Ledger == nil {
		return nil
	}
	return n.Ledger.Switches()
}

// Since returns when a generation came into force, the last time; zero where the
// ledger does not tell.
func (n *Node) Since(generation int) time.Time {
	for _, s := range slices.Backward(n.Switches()) {
		if s.Generation == generation && s.Result != state.Undone && s.Result != state.RolledBack {
			return s.End
		}
	}
	return time.Time{}
}

// Status returns the generation in force and how each resource does: first what
// is in force, then what is declared and held, then what is stale, then what is no
// longer declared and held.
func (n *Node) Status(ctx context.Context) (int, []Standing, error) {
	g, err := n.InForce()
	if err != nil {
		return 0, nil, err
	}
	records := n.records()
	declared := map[units.Target]bool{}
	var standings []Standing
	for _, r := range g.Resources {
		s := Standing{Address: r.Address, Kind: r.Address.Kind, Targets: units.Targets(r), State: "live", Unit: units.Unit(r)}
		for _, t := range s.Targets {
			declared[t] = true
			if record, ok := n.ledgerRecord(t); ok && record.Adoption != nil {
				s.Adopted = append(s.Adopted, t)
			}
		}
		if h, held := holding(g, r.Address); held {
			s.Why, s.Command = "held as it was: "+comesBy(h), h.Command()
		}
		if n.Ledger != nil {
			if record, ok := n.Ledger.Record(s.Targets[0]); ok {
				s.Since = record.Last.Time
			}
		}
		standings = append(standings, s)
	}
	if err := n.drift(ctx, g, standings); err != nil {
		return 0, nil, err
	}
	there := byAddress(g)
	for _, h := range g.Held {
		if _, asItWas := there[h.Resource]; !asItWas {
			standings = append(standings, Standing{
				Address: h.Resource, Kind: h.Resource.Kind, Targets: []units.Target{}, State: string(state.Held), Why: comesBy(h), Command: h.Command(),
			})
		}
	}
	standings = append(standings, leftovers(records, declared, state.Live)...)
	standings = append(standings, n.asOf(leftovers(records, declared, state.Held))...)
	standings = append(standings, n.leftBehind()...)
	if err := n.asidesStand(ctx, standings); err != nil {
		return 0, nil, err
	}
	return g.Number, standings, n.activity(ctx, g, standings)
}

// asOf says of what was put aside of which name it is kept, or why it stays.
func (n *Node) asOf(standings []Standing) []Standing {
	for _, r := range n.orphans() {
		for i, s := range standings {
			if s.Targets[0] == r.Target {
				standings[i].Why = r.Why
			}
		}
	}
	for _, r := range n.adopted() {
		for i, s := range standings {
			if r.Adoption.Aside != "" && s.Targets[0] == units.Of(units.TargetContainer, r.Adoption.Aside) {
				standings[i].Why = "put aside, of " + string(r.Target)
			}
		}
	}
	return standings
}

// comesBy says what a resource waits for, and what is typed for it to come.
func comesBy(h state.Holding) string {
	if h.Instead != "" {
		return h.Why() + "; " + h.Instead
	}
	if command := h.Command(); command != "" {
		return h.Why() + "; `" + command + "` takes its place"
	}
	return h.Why()
}

// holding returns why a resource is held in a generation, if it is.
func holding(g state.Generation, a units.Address) (state.Holding, bool) {
	i := slices.IndexFunc(g.Held, func(h state.Holding) bool { return h.Resource == a })
	if i < 0 {
		return state.Holding{}, false
	}
	return g.Held[i], true
}

// drift tells of each declared resource what other hands did to it.
func (n *Node) drift(ctx context.Context, g state.Generation, standings []Standing) error {
	damaged, err := n.damaged(g)
	if err != nil || g.Number == 0 {
		return err
	}
	b, err := n.lookBefore(ctx, g, g, &whole{damaged})
	for i, s := range standings {
		for _, t := range b.transitions {
			if t.Kind == state.Drift && t.Resource == s.Address {
				standings[i].Drift = strings.TrimPrefix(standings[i].Drift+"; "+t.Why(), "; ")
			}
		}
	}
	return err
}

// leftovers returns the standings of names that are no longer declared.
func leftovers(records []state.Record, declared map[units.Target]bool, in state.TargetState) []Standing {
	var found []Standing
	for _, r := range records {
		if declared[r.Target] || r.State != in || r.Target.Kind() == units.TargetPort || r.OnTheWay() {
			continue
		}
		s := Standing{Address: r.Resource, Kind: r.Resource.Kind, Targets: []units.Target{r.Target}, State: "stale", Since: r.Last.Time}
		if in == state.Held {
			s.State = string(in)
		}
		if r.Target.Kind() == units.TargetUnit {
			s.Unit = r.Target.Name()
		}
		found = append(found, s)
	}
	return found
}
