package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	// Blind says that it could not be read: what is declared is not known.
	Blind bool
	// Unfinished is the switch that is under way, or was cut short and has not been
	// finished or undone. Busy says that somebody holds the node's lock.
	Unfinished *state.Switch
	Busy       bool
	Switches   []state.Switch
	// Records are of every target that the ledger ever named, by target.
	Records map[units.Target]state.Record
	// Lost says that there is a ledger, or ought to be, and that it cannot be used.
	Lost bool
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
	// Downs are of the units that are declared and do not run.
	Downs map[string]host.Down
	// Left are the processes that services left which have ended, and of which systemd
	// has no definition: with KillMode=process, or where something could not be killed.
	Left map[string][]host.Process
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
//
// What a switch did while it was looked is not seen half: it is looked anew then.
func Look(ctx context.Context, l state.Layout, connect Connect, patience time.Duration) View {
	for tries := 1; ; tries++ {
		begin := pulseOf(l)
		v := look(ctx, l, connect, patience)
		end := pulseOf(l)
		v.Busy = begin.held || end.held
		if v.Busy || begin == end || len(v.Unseen) > 0 || tries == 3 {
			return v
		}
	}
}

// pulse differs from that of before where a switch was under way in between.
type pulse struct {
	held  bool
	size  int64 // of the ledger
	wrote time.Time
}

func pulseOf(l state.Layout) (p pulse) {
	_, p.held = state.Holder(l)
	if info, err := os.Stat(l.Ledger()); err == nil {
		p.size, p.wrote = info.Size(), info.ModTime()
	}
	return p
}

func look(ctx context.Context, l state.Layout, connect Connect, patience time.Duration) View {
	v := View{Layout: l, At: time.Now(), Records: map[units.Target]state.Record{}, Units: map[string]host.Unit{}}
	n := &Node{Layout: l}
	reached := false
	reach := func(ctx context.Context, l state.Layout) (Machine, error) {
		reached = true
		ctx, cancel := timed(ctx, patience)
		defer cancel()
		return connect(ctx, l)
	}
	err := n.open(ctx, reach)
	v.unseen(err)
	if !reached { // the ledger was what could not be opened
		v.Lost = true
		n.Machine, err = reach(ctx, l)
		v.unseen(err)
		n.forget()
	}
	defer func() { _ = n.Close() }() // nothing was written
	asking, cancel := timed(ctx, patience)
	defer cancel()
	v.remembered(n)
	listed := make(chan podmans, 1)
	go func() { listed <- n.listAll(asking) }()
	v.units(asking, n)
	v.objects(n, <-listed)
	if n.Systemd == nil {
		n.Store = nil
	}
	judging, cancel := timed(ctx, patience) // podman may have used up what there was
	defer cancel()
	v.drift(judging, n)
	return v
}

func timed(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %s", patience))
}

// tooLate returns the error of a call with, where its time was over, that as the cause.
func tooLate(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return fmt.Errorf("systemd: %w", context.Cause(ctx))
	}
	return err
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
	v.Blind = err != nil
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

// podmans is all that podman has: [View.Objects] and [View.Unused].
type podmans struct {
	objects map[string]map[string]host.Object
	unused  map[string]bool
	unseen  []error
}

// listAll has podman list what it has, all kinds side by side.
func (n *Node) listAll(ctx context.Context) (p podmans) {
	if n.objects == nil {
		return p
	}
	p.objects = map[string]map[string]host.Object{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, kind := range objectKinds {
		all.Go(func() {
			objects, err := n.objects.get(ctx, kind)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				p.unseen = append(p.unseen, fmt.Errorf("list of %ss: %w", kind, err))
				return
			}
			p.objects[kind] = objects
		})
	}
	all.Wait()
	for _, o := range p.objects[units.TargetVolume] {
		if o.Anonymous {
			var err error
			if p.unused, err = n.Podman.Unused(ctx); err != nil {
				p.unseen = append(p.unseen, err)
			}
			break
		}
	}
	slices.SortFunc(p.unseen, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return p
}

var objectKinds = [...]string{ //nolint:gochecknoglobals // a constant list
	units.TargetContainer, units.TargetPod, units.TargetVolume, units.TargetNetwork, units.TargetSecret,
}

// objects takes what podman has. What drift could be told of by all of it alone, can
// not be where some is missing.
func (v *View) objects(n *Node, p podmans) {
	v.Objects, v.Unused, v.Unseen = p.objects, p.unused, append(v.Unseen, p.unseen...)
	if n.objects != nil && len(p.objects) < len(objectKinds) {
		n.Podman, n.Store, n.objects = nil, nil, nil
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
		v.unseen(tooLate(ctx, err))
		n.Systemd.Close()
		n.Systemd = nil
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
	if v.Details, err = n.Systemd.Details(ctx, v.closer()); err != nil {
		return err
	}
	v.Left = map[string][]host.Process{}
	for name, d := range v.Details {
		if u := v.Units[name]; u.Load == "not-found" && !u.Up() {
			if left := host.ProcessesIn(d.ControlGroup); len(left) > 0 {
				v.Left[name] = left
			}
		}
	}
	v.Downs, err = n.Systemd.Downs(ctx, v.down())
	return err
}

// down returns the units that are declared and do not run.
func (v *View) down() []string {
	var names []string
	for _, u := range v.Generation.Units {
		seen := v.Units[u.Name]
		if seen.Load == "loaded" && (!seen.Up() || seen.Sub == "auto-restart") {
			names = append(names, u.Name)
		}
	}
	return names
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
		case declared[name] || recorded || own || u.Stranded() || (u.Load == "not-found" && strings.HasSuffix(name, ".service")):
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
