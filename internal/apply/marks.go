package apply

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"meshgen/generator"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// rebuilder gathers marks and the events that record them.
type rebuilder struct {
	node    *Node
	current state.Generation
	others  []state.Generation // on the disk, the newest first
	number  int                // of the generation that what is recorded counts as of

	loaded     map[string]host.Unit
	containers map[string]host.Object   // that bear our mark, by their units
	makers     map[string]units.Address // of volumes and networks that do, by the units that made them
	bears      map[units.Address]bool   // what has a volume or a network that does
	taken      map[units.Target]bool
	marks      Marks
}

// take records a target as ours.
func (b *rebuilder) take(m Mark, e state.Event) {
	e.Kind, e.Target, e.Resource = state.EventEmit, m.Target, m.Resource
	e.Origin = rebuilt
	e.Generation = cmp.Or(e.Generation, b.number)
	b.marks.events = append(b.marks.events, e)
	if !b.taken[m.Target] {
		b.taken[m.Target] = true
		b.marks.Marks = append(b.marks.Marks, m)
	}
}

func (b *rebuilder) add(e state.Event) { b.marks.events = append(b.marks.events, e) }

func (b *rebuilder) leave(t units.Target, why string) {
	b.marks.Marks = append(b.marks.Marks, Mark{Target: t, State: Left, Detail: why})
}

// generations reads what is on the disk.
func (b *rebuilder) generations(context.Context) error {
	l := b.node.Layout
	var err error
	if b.current, err = b.node.InForce(); err != nil {
		return err
	}
	if b.marks.Pending, _, err = state.Pending(l); err != nil {
		return err
	}
	numbers, err := state.Numbers(l)
	if err != nil {
		return err
	}
	for _, number := range slices.Backward(numbers) {
		if g, err := state.ReadGeneration(l, number); err == nil && number != b.current.Number { // one that cannot be read tells nothing
			b.others = append(b.others, g)
		}
	}
	b.marks.Generation = b.current.Number
	b.number = max(b.current.Number, b.marks.Pending, 1)
	return nil
}

// manager asks systemd what it has.
func (b *rebuilder) manager(ctx context.Context) error {
	b.loaded = map[string]host.Unit{}
	if b.node.Systemd == nil {
		return nil
	}
	loaded, err := b.node.Systemd.Loaded(ctx)
	for _, u := range loaded {
		b.loaded[u.Name] = u
	}
	return err
}

// declared takes all that the generation in force declares.
func (b *rebuilder) declared(context.Context) error {
	var all []units.Target
	for _, r := range b.current.Resources {
		all = append(all, units.Targets(r)...)
	}
	events, err := b.node.emissions(Plan{Emit: all}, b.current)
	if err != nil {
		return err
	}
	for _, e := range events {
		m := Mark{Target: e.Target, Resource: e.Resource, State: Declared}
		switch e.Target.Kind() {
		case units.TargetFile:
			if m.Detail, err = b.drift(e); err != nil {
				return err
			}
		case units.TargetUnit:
			if b.down(e.Target.Name()) && b.marks.Pending == 0 {
				m.Detail = "is down, and stays so"
			}
		}
		b.take(m, e)
	}
	return nil
}

// down reports whether a declared unit is not up that is to be from boot on.
func (b *rebuilder) down(name string) bool {
	u, ok := unitOf(b.current, name)
	return ok && u.Wanted && b.node.Systemd != nil && !b.loaded[name].Up()
}

// drift says how a declared file lies there; "" where it is as it was written.
func (b *rebuilder) drift(e state.Event) (string, error) {
	lies, there, err := fileState(b.node.Layout.Path(e.Target.Name()))
	switch {
	case err != nil:
		return "", err
	case !there:
		return "is not there: the next switch writes it", nil
	case lies != state.FileState{Digest: e.Digest, Meta: e.Definition}:
		return "is as other hands left it: the next switch puts it right, and keeps a copy of this", nil
	}
	return "", nil
}

// files looks for files of other generations. They were removed when they were no
// longer declared, and what is there is somebody's, unless a switch was cut short.
func (b *rebuilder) files(context.Context) error {
	for _, g := range b.others {
		for _, r := range g.Resources {
			if r.File == nil {
				continue
			}
			t := units.Of(units.TargetFile, r.File.Path)
			lies, there, err := fileState(b.node.Layout.Path(r.File.Path))
			if err != nil {
				return err
			}
			want := state.FileState{Digest: r.File.Digest, Meta: state.FileMeta(*r.File)}
			if b.taken[t] || !there || lies != want {
				continue
			}
			if b.marks.Pending == 0 {
				b.leave(t, fmt.Sprintf("is just what generation %d wrote; if it is stale, remove it", g.Number))
				b.taken[t] = true // and is told of once
				continue
			}
			b.take(Mark{Target: t, Resource: r.Address, State: Stale, Detail: fmt.Sprintf("of generation %d", g.Number)},
				state.Event{Digest: want.Digest, Definition: want.Meta})
		}
	}
	return nil
}

// objects takes the podman objects that bear our mark.
func (b *rebuilder) objects(ctx context.Context) error {
	b.containers, b.makers, b.bears = map[string]host.Object{}, map[string]units.Address{}, map[units.Address]bool{}
	if b.node.Podman == nil {
		return nil
	}
	for _, kind := range []string{units.TargetContainer, units.TargetPod, units.TargetNetwork, units.TargetVolume, units.TargetSecret} {
		objects, err := b.node.objectsOf(ctx, kind)
		if err != nil {
			return err
		}
		for _, o := range objects {
			b.object(units.Of(kind, o.Name), o)
		}
	}
	return nil
}

func (b *rebuilder) object(t units.Target, o host.Object) {
	mark := o.Labels[units.MarkLabel]
	if mark == "" {
		return
	}
	if o.Unit != "" {
		b.containers[o.Unit] = o
	}
	a, err := units.ParseAddress(mark)
	if err == nil && t.Kind() != units.TargetContainer {
		b.makers[o.Name+"-"+t.Kind()+".service"] = a // as Quadlet names it where nobody else does
		b.bears[a] = true
	}
	switch {
	case b.taken[t]:
		b.earlier(t, a)
	case err != nil:
		b.leave(t, "bears a mark that is no address: "+mark)
	case t.Kind() == units.TargetVolume && b.copyOf(t) != "":
		// A set on its way into force looks like one on its way out, whose
		// containers have written to the copy.
		detail := "a copy of " + string(b.copyOf(t)) + ", which may not be whole"
		b.take(Mark{Target: t, Resource: a, State: string(state.Held), Detail: detail}, state.Event{})
		b.add(state.Event{Kind: state.EventHold, Target: t, Why: detail})
	case t.Kind() == units.TargetVolume:
		b.take(Mark{Target: t, Resource: a, State: string(state.Held)}, state.Event{})
		b.add(state.Event{Kind: state.EventHold, Target: t, Why: "no longer declared; it holds data"})
	case t.Kind() == units.TargetNetwork && !b.isMade(o, a):
		detail := "no unit of meshgen makes it: it may have been let go"
		b.take(Mark{Target: t, Resource: a, State: string(state.Held), Detail: detail}, state.Event{})
		b.add(state.Event{Kind: state.EventHold, Target: t, Why: detail})
	default:
		b.take(Mark{Target: t, Resource: a, State: Stale}, state.Event{})
	}
}

// isMade reports whether a network that is not declared has a unit of ours that makes
// it, or a switch that was cut short may have left it without.
func (b *rebuilder) isMade(network host.Object, a units.Address) bool {
	if b.marks.Pending != 0 {
		return true
	}
	for name, u := range b.loaded {
		if _, by := b.markedText(name); by == a {
			return true
		}
		if !u.Stranded() {
			continue
		}
		if name == network.Name+"-network.service" {
			return true
		}
		for _, g := range b.others {
			if was, ok := unitOf(g, name); ok && was.Resource == a {
				return true
			}
		}
	}
	return false
}

// copyOf returns the volume that a switch which was cut short copied, or was to copy,
// to this one; "" where there is none.
func (b *rebuilder) copyOf(t units.Target) units.Target {
	for _, g := range b.others {
		if g.Number != b.marks.Pending {
			continue
		}
		for _, d := range g.Decisions {
			if d.Decision == state.Migrate && d.To == t {
				return d.From
			}
		}
	}
	return ""
}

// earlier records that what is declared was made for another resource: its mark
// stays until it is made anew.
func (b *rebuilder) earlier(t units.Target, was units.Address) {
	for i, e := range b.marks.events {
		if e.Kind == state.EventEmit && e.Target == t && e.Resource != was && was != (units.Address{}) {
			before := e
			before.Resource = was
			b.marks.events = slices.Insert(b.marks.events, i, before)
			return
		}
	}
}

// units takes the units of ours that systemd has and that are not declared, and
// says with what each unit was started last, as far as that can be known.
func (b *rebuilder) units(context.Context) error {
	var names []string
	for name := range b.loaded {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if t := units.Of(units.TargetUnit, name); !b.taken[t] {
			b.unit(t, b.loaded[name])
		}
	}
	for _, u := range b.current.Units {
		if !b.changing(u) {
			b.started(u.Name, u.Digest)
		}
	}
	return nil
}

func (b *rebuilder) unit(t units.Target, u host.Unit) {
	text, a := b.markedText(u.Name)
	detail := ""
	switch {
	case u.Load == "loaded" && text != "":
	case u.Stranded():
		if text, a, detail = b.lostText(u.Name); text == "" {
			b.stranger(t)
		}
	}
	if text == "" {
		return
	}
	digest := units.RunDigest(text)
	b.take(Mark{Target: t, Resource: a, State: Stale, Detail: detail}, state.Event{Digest: digest, Definition: text})
	b.started(u.Name, digest)
}

func (b *rebuilder) started(unit, digest string) {
	b.add(state.Event{
		Kind: state.EventStarted, Generation: b.number, Target: units.Of(units.TargetUnit, unit), Digest: digest, Container: b.containers[unit].ID,
	})
}

// markedText returns the definition that our generator, or a switch on its way,
// has given systemd of a unit, by the mark in it.
func (b *rebuilder) markedText(name string) (text string, a units.Address) {
	for _, dir := range []string{generatedBy, "/" + runtimeUnits} {
		data, err := os.ReadFile(filepath.Join(b.node.Layout.Path(dir), name)) //nolint:gosec // of systemd's directories
		if err != nil {
			continue
		}
		if a, ok := units.Mark(string(data)); ok {
			return string(data), a
		}
	}
	return "", units.Address{}
}

// lostText returns a definition by which a unit can be stopped that systemd has
// lost: one that a generation on the disk has, or one that is good for that alone.
// A unit counts as ours by what it made that bears our mark.
func (b *rebuilder) lostText(name string) (text string, a units.Address, detail string) {
	container, running := b.containers[name]
	a, made := b.makers[name]
	if mark, err := units.ParseAddress(container.Labels[units.MarkLabel]); running && err == nil {
		a, made = mark, true
	}
	for _, g := range b.others {
		u, ok := unitOf(g, name)
		if !ok || (!made && !b.bears[u.Resource]) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(b.node.Layout.Generation(g.Number), generator.NormalDir, name)) //nolint:gosec // a path of the layout's
		if err == nil {
			return string(data), u.Resource, fmt.Sprintf("systemd has lost its definition; that of generation %d stops it", g.Number)
		}
	}
	if !made {
		return "", a, ""
	}
	return stopping(a, container), a, "systemd has lost its definition, and no generation has it; its mark tells how to stop it"
}

// stranger tells of a unit that systemd has lost and that bears no mark, where one
// of that name was ours.
func (b *rebuilder) stranger(t units.Target) {
	for _, g := range b.others {
		if _, ok := unitOf(g, t.Name()); ok {
			b.leave(t, fmt.Sprintf("is up, and systemd has lost its definition; generation %d had one of that name: if it is stale, stop it", g.Number))
			return
		}
	}
}

// stopping returns a definition that is good for one thing: to have systemd stop a
// unit, with the container that it runs, if any.
func stopping(a units.Address, container host.Object) string {
	lines := []string{
		"# Made by meshgen from the mark of what the unit made.",
		"[" + units.MarkSection + "]", units.MarkKey + "=" + a.String(), "", "[Service]",
	}
	remove := "podman rm --volumes --force --ignore " + container.ID
	if a.Kind == units.KindPod {
		remove = "podman pod rm --force --ignore " + container.Pod // its own container goes with it
	}
	if container.ID == "" {
		lines = append(lines, "Type=oneshot", "RemainAfterExit=yes", "ExecStart=true", "")
	} else {
		lines = append(lines, "Type=notify", "NotifyAccess=all", "Delegate=yes", "KillMode=mixed",
			"ExecStart=false", "ExecStop="+remove, "")
	}
	return strings.Join(lines, "\n")
}

// unfinished records a switch that was cut short as one, so that the next switch
// finishes or undoes it as any other.
func (b *rebuilder) unfinished(context.Context) error {
	if b.marks.Pending == 0 {
		return nil
	}
	aim, err := b.node.generation(b.marks.Pending)
	if err != nil {
		return err
	}
	begin := state.Event{Kind: state.EventBegin, Generation: aim.Number, From: b.current.Number, Manifest: aim.Manifest, Transitions: aim.Decisions}
	if b.current.Number == aim.Number {
		begin.From = 0
		if len(b.others) > 0 {
			begin.From = b.others[0].Number
		}
	}
	var former []state.Event
	for _, u := range b.current.Units {
		t := units.Of(units.TargetUnit, u.Name)
		if e, ok := b.former(u); ok {
			former = append(former, e)
		}
		if b.changing(u) || b.down(u.Name) {
			b.add(state.Event{Kind: state.EventDue, Target: t})
		}
	}
	b.marks.events = slices.Concat([]state.Event{begin}, former, b.marks.events)
	return nil
}

// changing reports whether a switch that was cut short may have been on its way to
// start a unit by another definition.
func (b *rebuilder) changing(u state.Unit) bool {
	if b.marks.Pending == 0 || b.marks.Pending != b.current.Number || len(b.others) == 0 {
		return false
	}
	was, ok := unitOf(b.others[0], u.Name)
	return !ok || was.Digest != u.Digest
}

// former returns the event that records a unit that is changing as it was before.
func (b *rebuilder) former(u state.Unit) (state.Event, bool) {
	if !b.changing(u) {
		return state.Event{}, false
	}
	was, ok := unitOf(b.others[0], u.Name)
	return state.Event{
		Kind: state.EventEmit, Generation: b.others[0].Number, Target: units.Of(units.TargetUnit, was.Name),
		Resource: was.Resource, Digest: was.Digest, Origin: rebuilt,
	}, ok
}

func unitOf(g state.Generation, name string) (state.Unit, bool) {
	for _, u := range g.Units {
		if u.Name == name {
			return u, true
		}
	}
	return state.Unit{}, false
}

// survey records what is there and is not ours.
func (b *rebuilder) survey(ctx context.Context) error {
	found, err := b.node.survey(ctx)
	if err != nil {
		return err
	}
	for _, e := range found {
		if !b.taken[e.Target] {
			b.add(e)
			b.marks.Found = append(b.marks.Found, e.Target)
		}
	}
	return nil
}
