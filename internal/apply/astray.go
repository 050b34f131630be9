package apply

import (
	"context"
	"maps"
	"slices"
	"time"

	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// made is an object of podman's that is declared and ours, with the unit that
// makes it.
type made struct {
	resource     units.Resource
	unit, object state.Record
	seen         host.Unit
	container    string // id of the one that the unit has put in its file
}

func (m made) name() string { return m.object.Target.Name() }

// up reports whether the object is to be there: a container runs, a volume or a
// network was made. What is on its way is neither up nor down.
func (m made) up() bool {
	return m.seen.Active == "active" && (m.resource.Address.Kind != units.KindContainer || m.seen.Sub == "running")
}

// down reports whether nothing of the unit's is to be there. A one-shot container
// that has done its work has left nothing.
func (m made) down() bool {
	return !m.seen.Up() || (m.seen.Active == "active" && !m.up())
}

// lookForAstray finds the podman objects of ours that other hands renamed, removed
// or made anew. The store says what may be so, and costs no run of podman; podman
// says what is.
func (n *Node) lookForAstray(ctx context.Context, desired state.Generation, b *before) error {
	if n.Store == nil || n.Systemd == nil || n.Booting {
		return nil
	}
	doubted := n.doubted(madeObjects(desired, b))
	found := &b.seen.observed
	found.Missing, found.Foreign, found.Astray = map[units.Target]string{}, map[units.Target]string{}, map[units.Target]state.Change{}
	for _, m := range doubted {
		var err error
		switch m.object.Target.Kind() {
		case units.TargetContainer:
			err = n.containerAstray(ctx, m, found)
		case units.TargetVolume:
			err = n.volumeAstray(ctx, m, found)
		case units.TargetNetwork:
			err = n.networkAstray(ctx, m, &b.seen)
		}
		if err != nil {
			return err
		}
	}
	return n.stillAstray(ctx, doubted, found)
}

// madeObjects returns what is declared, and live under the name that it had, be it at
// an address that it is to have from now on.
func madeObjects(desired state.Generation, b *before) []made {
	record := map[units.Target]state.Record{}
	for _, r := range b.records {
		record[r.Target] = r
	}
	was, now := byAddress(b.generation), byAddress(desired)
	var found []made
	for _, r := range desired.Resources {
		unit, object := record[units.Of(units.TargetUnit, units.Unit(r))], record[units.Object(r)]
		if unit.State != state.Live || object.State != state.Live || unit.Resource != object.Resource {
			continue
		}
		_, stays := now[unit.Resource]
		_, had := was[r.Address]
		if passes := !stays && !had; unit.Resource != r.Address && !passes {
			continue
		}
		if former := was[unit.Resource]; units.Object(former) != object.Target || units.Unit(former) != unit.Target.Name() {
			continue
		}
		if b.seen.observed.Overridden[unit.Target] != "" {
			continue // a mask, or the owner's unit, has the say
		}
		found = append(found, made{resource: r, unit: unit, object: object, seen: b.seen.units[unit.Target.Name()]})
	}
	return found
}

// doubted returns those of which the store does not say that they are as they
// were made.
func (n *Node) doubted(all []made) []made {
	var ids map[string]string
	known, read := false, false
	var found []made
	for _, m := range all {
		doubt := false
		switch m.object.Target.Kind() {
		case units.TargetContainer:
			if !read {
				ids, known = n.Store.Containers()
				read = true
			}
			id, taken := ids[m.name()]
			if taken && id == m.unit.Container {
				continue // or what is left of it, which is ended before the next start
			}
			m.container = containerOf(n.Layout, m.unit.Target.Name()) // since the last switch
			switch {
			case m.up():
				doubt = !known || m.container == "" || id != m.container
			case m.down():
				doubt = taken && id != m.container
			}
		case units.TargetVolume:
			when, there := n.Store.VolumeMade(m.name())
			doubt = (!there && m.up()) || (there && when.After(n.brought(m.object)))
		case units.TargetNetwork:
			o, there := n.Store.Network(m.name())
			doubt = (!there && m.up()) || (there && !marked(o, m.object))
		}
		if doubt {
			found = append(found, m)
		}
	}
	return found
}

// brought returns when the switch ended that emitted a target: what it brought was
// there by then. Zero where it has not.
func (n *Node) brought(r state.Record) time.Time {
	for _, s := range n.Ledger.Switches() {
		if !s.End.IsZero() && !s.End.Before(r.Last.Time) {
			return s.End
		}
	}
	return time.Time{}
}

func (n *Node) containerAstray(ctx context.Context, m made, found *state.Observed) error {
	containers, err := n.objects.get(ctx, units.TargetContainer)
	if err != nil {
		return err
	}
	isOurs := func(o host.Object) bool {
		return (m.container != "" && o.ID == m.container) || slices.Contains(ids(madeBy(m.unit, containers)), o.ID)
	}
	t := m.object.Target
	holder, there := containers[m.name()]
	switch {
	case there && (isOurs(holder) || (m.down() && holder.Labels[units.MarkLabel] != "")):
		return nil
	case there:
		found.Foreign[t] = objectHolder(t, holder) + " under its name, and is not of meshgen"
		return nil
	case m.down():
		return nil
	}
	found.Missing[t] = "is gone"
	for _, name := range slices.Sorted(maps.Keys(containers)) {
		if o := containers[name]; o.Running && isOurs(o) {
			found.Missing[t], found.Astray[t] = "goes by the name "+name, state.Renamed
		}
	}
	return nil
}

func ids(objects []host.Object) []string {
	found := make([]string, len(objects))
	for i, o := range objects {
		found[i] = o.ID
	}
	return found
}

// goneEmpty is said of a volume: what is restored of it is its name.
const goneEmpty = "is gone with its data, and made anew it is EMPTY"

const madeAnew = "was made anew by other hands"

func (n *Node) volumeAstray(ctx context.Context, m made, found *state.Observed) error {
	o, there, err := n.object(ctx, m.object.Target)
	switch {
	case err != nil:
		return err
	case there && !marked(o, m.object):
		found.Foreign[m.object.Target] = madeAnew + ", and may hold data"
	case !there && m.up():
		found.Missing[m.object.Target] = goneEmpty
	}
	return nil
}

func (n *Node) networkAstray(ctx context.Context, m made, seen *sight) error {
	t := m.object.Target
	o, there, err := n.object(ctx, t)
	switch {
	case err != nil:
		return err
	case !there && m.up():
		seen.observed.Missing[t] = "is gone"
		return nil
	case !there || marked(o, m.object):
		return nil
	}
	seen.observed.Foreign[t] = madeAnew + "; to have meshgen make it, remove it: podman network rm " + t.Name()
	return nil
}

// stillAstray takes back what is missing of a unit that has gone down, or runs
// another container, since it was looked at: podman rm --force ends the unit a
// moment later.
func (n *Node) stillAstray(ctx context.Context, doubted []made, found *state.Observed) error {
	if len(found.Missing) == 0 {
		return nil
	}
	var names []string
	for _, m := range doubted {
		names = append(names, m.unit.Target.Name())
	}
	now, err := n.Systemd.Units(ctx, names)
	for _, m := range doubted {
		unit := m.unit.Target.Name()
		if m.up() && (now[unit].Active != "active" || (m.container != "" && containerOf(n.Layout, unit) != m.container)) {
			delete(found.Missing, m.object.Target)
		}
	}
	return err
}

// restore plans for the podman objects that are to be put right: what uses them
// stops, and they are made by their own units.
func (p *planner) restore() {
	for _, r := range p.desired.Resources {
		t := units.Object(r)
		how := p.restores[t]
		if how == "" {
			continue
		}
		reason := string(t) + " " + how
		switch t.Kind() {
		case units.TargetContainer:
			p.halt(units.Unit(r), r.Address, reason)
			p.plan.Astray = append(p.plan.Astray, units.Unit(r))
		case units.TargetVolume:
			p.haltNetwork(p.former(r), reason)
			p.plan.Emit = append(p.plan.Emit, t) // so that the ledger has when it was made
		case units.TargetNetwork:
			p.haltNetwork(p.former(r), reason)
		}
	}
}

// former returns a resource as it was, at its address or at the one from which it
// passes to that.
func (p *planner) former(r units.Resource) units.Resource {
	if was, there := p.old[r.Address]; there {
		return was
	}
	return p.old[p.record[units.Object(r)].Resource]
}
