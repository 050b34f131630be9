package apply

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"meshgen/generator"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// View is what a node remembers, and what one look at its machine saw: all that an
// audit goes by. What could not be had is told in Unseen, and is missing here.
type View struct {
	Layout     state.Layout
	At         time.Time
	Generation state.Generation // in force; Number 0 where there is none
	// Unfinished is the switch that was cut short, and has not been finished or undone.
	Unfinished *state.Switch
	Switches   []state.Switch
	// Records are of every target that the ledger ever named, by target.
	Records map[units.Target]state.Record
	// Drift is what other hands did to what is declared and ours, with what would be
	// done about it.
	Drift []Drift
	// Objects are podman's, by the kind of their target, then by name. A kind that
	// could not be listed is not among them.
	Objects map[string]map[string]host.Object
	// Unused are the volumes that no container has, where there are any whose names
	// podman made up.
	Unused map[string]bool
	// Units are those that systemd has in memory, and those that are declared, by name.
	Units map[string]host.Unit
	// Details are of the units that are not as they should be, and of those that the
	// owner defines.
	Details map[string]host.Details
	// Definitions are the owner's: unit files, and the services of Quadlets, by unit,
	// with the path of each.
	Definitions map[string]string
	Unseen      []error
}

// Drift is what other hands did to one thing, with what is to be done where a policy
// refuses to put it right; "" where it does not.
type Drift struct {
	state.Transition
	Hint string
}

// Look returns the view of the node of a layout. It looks at what it can: a ledger
// that is damaged, a bus that is gone, or a podman that has given no answer when
// patience is over, is told in the view. Nothing is written, and no lock is taken.
func Look(ctx context.Context, l state.Layout, connect Connect, patience time.Duration) View {
	v := View{Layout: l, At: time.Now(), Records: map[units.Target]state.Record{}, Units: map[string]host.Unit{}}
	n := &Node{Layout: l}
	if err := n.open(ctx, connect); err != nil {
		v.unseen(err)
	}
	if n.Podman == nil && n.Systemd == nil && l.Root == "/" {
		n.Machine, _ = connect(ctx, l) // the ledger was what could not be opened
		n.forget()
	}
	defer func() { _ = n.Close() }() // nothing was written
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %s", patience))
	defer cancel()
	v.remembered(n)
	v.objects(ctx, n)
	v.units(ctx, n)
	v.drift(ctx, n)
	return v
}

func (v *View) unseen(err error) {
	if err != nil {
		v.Unseen = append(v.Unseen, err)
	}
}

// remembered takes what the ledger has, and the generation in force.
func (v *View) remembered(n *Node) {
	var err error
	v.Generation, err = n.InForce()
	v.unseen(err)
	if n.Ledger == nil {
		return
	}
	for _, r := range n.Ledger.Records() {
		v.Records[r.Target] = r
	}
	v.Switches = n.Ledger.Switches()
	if s, ok := n.Ledger.Unfinished(); ok {
		v.Unfinished = &s
	}
}

// objects has podman list all that it has, all kinds side by side.
func (v *View) objects(ctx context.Context, n *Node) {
	if n.objects == nil {
		return
	}
	v.Objects = map[string]map[string]host.Object{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, kind := range []string{units.TargetContainer, units.TargetPod, units.TargetVolume, units.TargetNetwork, units.TargetSecret} {
		all.Go(func() {
			objects, err := n.objects.get(ctx, kind)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				v.unseen(fmt.Errorf("list of %ss: %w", kind, err))
				return
			}
			v.Objects[kind] = objects
		})
	}
	all.Wait()
	for _, o := range v.Objects[units.TargetVolume] {
		if o.Anonymous {
			var err error
			v.Unused, err = n.Podman.Unused(ctx)
			v.unseen(err)
			break
		}
	}
	if len(v.Objects) < 5 {
		n.Podman, n.Store, n.objects = nil, nil, nil // what drift it would tell of cannot be told
	}
}

// units takes what systemd has in memory, and the definitions of the owner's.
func (v *View) units(ctx context.Context, n *Node) {
	v.Definitions = map[string]string{}
	for name, path := range generator.Quadlets(n.Layout.Root) {
		v.Definitions[name] = relative(n.Layout, path)
	}
	own, err := ownUnits(n.Layout)
	v.unseen(err)
	for _, path := range own {
		v.Definitions[filepath.Base(path)] = relative(n.Layout, path)
	}
	if n.Systemd == nil {
		return
	}
	if err := v.loaded(ctx, n); err != nil {
		v.unseen(err)
		n.Systemd.Close()
		n.Systemd, n.Store = nil, nil
	}
}

func (v *View) loaded(ctx context.Context, n *Node) error {
	loaded, err := n.Systemd.Loaded(ctx)
	if err != nil {
		return err
	}
	for _, u := range loaded {
		v.Units[u.Name] = u
	}
	var names []string // that are not in memory
	for _, u := range v.Generation.Units {
		if _, ok := v.Units[u.Name]; !ok {
			names = append(names, u.Name)
		}
	}
	more, err := n.Systemd.Units(ctx, names)
	if err != nil {
		return err
	}
	maps.Copy(v.Units, more)
	v.Details, err = n.Systemd.Details(ctx, v.closer())
	return err
}

// closer returns the units that are worth a closer look.
func (v *View) closer() []string {
	declared := map[string]bool{}
	for _, u := range v.Generation.Units {
		declared[u.Name] = true
	}
	var names []string
	for name, u := range v.Units {
		_, recorded := v.Records[units.Of(units.TargetUnit, name)]
		_, own := v.Definitions[name]
		switch {
		case declared[name] && u.Active == "active" && u.Load == "loaded":
		case declared[name] || recorded || own || u.Stranded() || (u.Load == "not-found" && u.Active == "failed"):
			names = append(names, name)
		}
	}
	return names
}

// drift finds what other hands did, and what would be decided about it.
func (v *View) drift(ctx context.Context, n *Node) {
	g := v.Generation
	if g.Number == 0 || n.Ledger == nil {
		return
	}
	damaged, err := n.damaged(g)
	if err == nil {
		var b before
		if b, err = n.lookBefore(ctx, g, g, &whole{damaged}); err == nil {
			v.Drift = drifted(ctx, b, g, n.asker(g.Number))
		}
	}
	v.unseen(err)
}

func drifted(ctx context.Context, b before, g state.Generation, ask asker) []Drift {
	var drift []Drift
	for _, t := range b.transitions {
		if t.Kind != state.Drift {
			continue
		}
		b.transitions = []state.Transition{t}
		judged, refused := judge(ctx, b, g, ask)
		d := Drift{Transition: judged[0]}
		if len(refused) > 0 {
			d.Hint = refused[0].Hint
		}
		drift = append(drift, d)
	}
	return drift
}
