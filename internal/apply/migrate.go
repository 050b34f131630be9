package apply

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// Copy is a volume whose data a switch copies to the name that it is to have.
// The old volume is only read.
type Copy struct {
	From, To units.Target
	Unit     string // makes To
	Bytes    uint64 // on the disk, when it was looked at
	Position units.Position
}

func (c Copy) step() Step {
	return Step{Op: "copy", Target: c.To, Reason: size(c.Bytes) + " of " + string(c.From)}
}

// size returns a number of bytes as it is shown.
func size(bytes uint64) string {
	if bytes < 1<<10 {
		return strconv.FormatUint(bytes, 10) + " B"
	}
	value, unit := float64(bytes)/(1<<10), 0
	for ; value >= 1000 && unit < 3; unit++ {
		value /= 1 << 10
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGT"[unit])
}

// The origins of a volume that is a copy. The definition in its record is then
// the target that it is a copy of. What a switch leaves of a partial copy is
// removed, whatever it looks like; a copy whose set was in force once holds data
// that no other volume has.
const (
	originPartial = "partial copy"
	originCopy    = "copy"
)

// permitVolume refuses the rename of a volume that would leave its data behind.
func permitVolume(t state.Transition) (decided state.Transition, hint string) {
	if t.Decision == state.Migrate {
		t.Reason = "its data is copied, and " + string(t.From) + " stays as it is, held"
		return t, ""
	}
	if t.Decision == state.Follow {
		t.Reason = "an empty volume would take its place"
	}
	t.Decision = state.Refuse
	return t, fmt.Sprintf("keep the data where it is with VolumeName: %q, or have it copied with policy: rename: \"migrate\"", t.From.Name())
}

// migrations returns where the data of each volume goes that is migrated.
func migrations(transitions []state.Transition) map[units.Target]units.Target {
	to := map[units.Target]units.Target{}
	for _, t := range transitions {
		if t.Decision == state.Migrate {
			to[t.From] = t.To
		}
	}
	return to
}

// migratable looks whether what was judged to be migrated can be: it returns the
// sizes by the old names, and what stands in the way.
func (n *Node) migratable(ctx context.Context, transitions []state.Transition, desired state.Generation) (map[units.Target]host.Tree, units.Faults, error) {
	sizes := map[units.Target]host.Tree{}
	var faults units.Faults
	now := byAddress(desired)
	var need host.Tree // all of them: one file system has podman's volumes
	for _, t := range transitions {
		if t.Decision != state.Migrate {
			continue
		}
		reason, hint, err := n.obstructed(ctx, t, now[t.Resource])
		if err == nil && reason == "" {
			sizes[t.From], reason, hint, err = n.measure(ctx, t.From, &need)
		}
		if err != nil {
			return nil, nil, err
		}
		if reason != "" {
			faults = append(faults, units.Fault{
				Position: t.Position, Message: fmt.Sprintf("%s: migration of %s to %s: %s", t.Resource, t.From, t.To, reason), Hint: hint,
			})
		}
	}
	return sizes, append(faults, n.leftOver(desired, migrations(transitions))...), nil
}

// obstructed says what in the record and the declaration forbids a migration.
func (n *Node) obstructed(ctx context.Context, t state.Transition, desired units.Resource) (reason, hint string, err error) {
	if n.Systemd == nil {
		return "below --root podman cannot be asked", "switch on the machine itself, or keep VolumeName: " + strconv.Quote(t.From.Name()), nil
	}
	to, known := n.Ledger.Record(t.To)
	_, there, err := n.object(ctx, t.To)
	switch {
	case err != nil:
		return "", "", err
	case known && to.State == state.Held && there:
		return fmt.Sprintf("%s is there, held, with data of its own (%s)", t.To, to.Why),
			"give the volume another name, or, if nothing in the held one is needed, remove it with its data by \"meshgen gc --volumes\"", nil
	case known && to.State == state.Live && (to.Origin != originPartial || to.Resource != t.Resource):
		return fmt.Sprintf("%s is that of %s", t.To, to.Resource), "give the volume another name", nil
	}
	reason = elsewhere(desired)
	return reason, copyByHand, nil
}

// elsewhere says why the data of a volume would not lie in a directory of
// podman's.
func elsewhere(desired units.Resource) string {
	for _, key := range []string{"Device", "Type", "Image"} {
		if desired.Value("Volume", key) != "" {
			return "its data does not lie in a directory of podman's: it has " + key
		}
	}
	if driver := desired.Value("Volume", "Driver"); driver != "" && driver != "local" {
		return "it is to have driver " + driver
	}
	return ""
}

const copyByHand = "declare a new volume beside it and copy the data by your own means"

// measure measures a volume that is to be copied, adds it to what the switch needs
// room for, and says why it cannot be copied.
func (n *Node) measure(ctx context.Context, t units.Target, need *host.Tree) (tree host.Tree, reason, hint string, err error) {
	o, reason, err := n.copyable(ctx, t)
	if err != nil || reason != "" {
		return tree, reason, "look at it with \"podman volume inspect " + t.Name() + "\"", err
	}
	if tree, err = host.Measure(ctx, o.Mountpoint); err != nil {
		return tree, err.Error(), "only a tree that can be read as a whole is copied", context.Cause(ctx)
	}
	need.Bytes, need.Files = need.Bytes+tree.Bytes, need.Files+tree.Files
	err = room(o.Mountpoint, *need)
	if full, ok := errors.AsType[*noRoomError](err); ok {
		return tree, full.Error(), "make room for the copy; the old volume stays until \"meshgen gc --volumes\"", nil
	}
	return tree, "", "", err
}

// copyable returns a volume of ours whose data lies in a plain directory, or says
// why it is none.
func (n *Node) copyable(ctx context.Context, t units.Target) (o host.Object, reason string, err error) {
	o, there, err := n.object(ctx, t)
	record, _ := n.Ledger.Record(t)
	switch {
	case err != nil:
	case !there:
		reason = "it is not there: there is nothing to copy"
	case !marked(o, record):
		reason = "what has its name was not made by meshgen"
	case o.Driver != "local" || o.Options["device"] != "" || o.Options["type"] != "":
		reason = "its data does not lie in a directory of podman's"
	}
	return o, reason, err
}

// noRoomError says that a file system has no room for a copy.
type noRoomError struct {
	path                string
	tree                host.Tree
	bytesLeft, numsLeft uint64
}

func (e *noRoomError) Error() string {
	return fmt.Sprintf("no room beside %s: the copy needs %s in %d files, and %s and %d files are left",
		e.path, size(e.tree.Bytes), e.tree.Files, size(e.bytesLeft), e.numsLeft)
}

// room sees that a second tree like this one fits beside a path.
func room(path string, tree host.Tree) error {
	bytesLeft, filesLeft, err := host.Room(path)
	if err == nil && (bytesLeft < tree.Bytes || filesLeft < tree.Files) {
		err = &noRoomError{path, tree, bytesLeft, filesLeft}
	}
	return err
}

// leftOver refuses a declared volume of whose name the ledger has a partial copy
// that could not be removed: it must not pass for the volume.
func (n *Node) leftOver(desired state.Generation, migrated map[units.Target]units.Target) units.Faults {
	var faults units.Faults
	for _, r := range desired.Resources {
		t := units.Object(r)
		if record, ok := n.ledgerRecord(t); !ok || record.State != state.Live || record.Origin != originPartial {
			continue
		}
		copied := false
		for _, to := range migrated {
			copied = copied || to == t
		}
		if !copied {
			faults = append(faults, units.Fault{
				Position: r.Position, Message: fmt.Sprintf("%s: %s holds a copy that was cut short and could not be removed", r.Address, t),
				Hint: "take it out of the manifest for one switch, or remove it with \"podman volume rm " + t.Name() + "\" and switch without it first",
			})
		}
	}
	return faults
}

func (n *Node) ledgerRecord(t units.Target) (state.Record, bool) {
	if n.Ledger == nil || t == "" {
		return state.Record{}, false
	}
	return n.Ledger.Record(t)
}

// copies plans the migrations: all that has the old volume is down before it is
// copied, and what has the new one starts after.
func (p *planner) copies() {
	for _, t := range p.transitions {
		if t.Decision != state.Migrate || !p.begins {
			continue
		}
		p.plan.Copy = append(p.plan.Copy, Copy{From: t.From, To: t.To, Unit: p.of[t.Resource], Position: t.Position})
		for _, r := range p.generation.Resources {
			if units.Object(r) == t.From {
				p.haltUsers(r, t)
			}
		}
	}
}

// haltUsers stops the unit of a volume, those that use it, and what would start
// one of these while the data is copied: a nightly backup, say.
func (p *planner) haltUsers(volume units.Resource, t state.Transition) {
	p.halt(units.Unit(volume), t.Resource, "its data is copied to "+string(t.To))
	for _, r := range p.generation.Resources {
		if !slices.Contains(r.Uses, volume.Address) || units.Unit(r) == "" {
			continue
		}
		p.halt(units.Unit(r), r.Address, "it uses "+string(t.From)+", which is copied")
		p.haltStarters(r)
	}
}

// haltStarters stops the timers, sockets and the like that would start a unit.
func (p *planner) haltStarters(r units.Resource) {
	for _, starter := range p.generation.Resources {
		if triggers(starter, r) {
			p.halt(units.Unit(starter), starter.Address, "it starts "+units.Unit(r))
		}
	}
}

// triggers reports whether a resource is a timer, a socket or the like that starts
// another.
func triggers(starter, r units.Resource) bool {
	name, service := units.Unit(starter), units.Unit(r)
	if name == "" || turnToStop(name) != 0 {
		return false
	}
	return slices.Contains(starter.Uses, r.Address) || strings.TrimSuffix(name, filepath.Ext(name)) == strings.TrimSuffix(service, ".service")
}

// partial reports whether a target is what a switch left of a copy.
func partial(r state.Record) bool {
	return r.Target.Kind() == units.TargetVolume && r.Origin == originPartial
}

// origin says where a target of the plan comes from, for its record.
func (p Plan) origin(t units.Target) (origin, of string) {
	for _, c := range p.Copy {
		if c.To == t {
			return originPartial, string(c.From)
		}
	}
	if p.adopts(t) {
		return state.OriginAdopted, ""
	}
	return "written", ""
}

// othersUse refuses to copy a volume that a container has which the plan does not
// stop: it might write meanwhile, and would go on with the old data.
func (n *Node) othersUse(ctx context.Context, plan Plan) (units.Faults, error) {
	var faults units.Faults
	for _, c := range plan.Copy {
		users, err := n.Podman.VolumeUsers(ctx, c.From.Name())
		if err != nil {
			return nil, err
		}
		for _, u := range users {
			f := units.Fault{Position: c.Position}
			ours, err := n.isOurs(ctx, u)
			switch {
			case err != nil:
				return nil, err
			case !ours:
				f.Message = fmt.Sprintf("%s is to be copied to %s, and container %s has it, which is not of meshgen", c.From, c.To, u.Name)
				f.Hint = "remove that container first, or keep the volume's name"
			case u.Running && !slices.Contains(plan.Stop, u.Unit):
				f.Message = fmt.Sprintf("%s is to be copied to %s, and container %s runs with it without a word of it in the manifest", c.From, c.To, u.Name)
				f.Hint = "name the volume in its Volume or Mount, or stop it first"
			default:
				continue
			}
			faults = append(faults, f)
		}
	}
	return faults, nil
}

// keepCopies records that the copies of the set in force are no longer anyone's
// to remove: from now on containers write to them. It must come after the flip
// and before anything starts.
func (n *Node) keepCopies(inForce state.Generation) error {
	declared := map[units.Target]bool{}
	for _, r := range inForce.Resources {
		declared[units.Object(r)] = true
	}
	var events []state.Event
	for _, r := range n.records() {
		if partial(r) && r.State == state.Live && declared[r.Target] {
			events = append(events, state.Event{
				Kind: state.EventEmit, Generation: inForce.Number, Target: r.Target, Resource: r.Resource,
				Origin: originCopy, Definition: r.Definition,
			})
		}
	}
	if len(events) == 0 {
		return nil
	}
	return n.Ledger.Append(events...)
}

// hold returns the events that let names be, and tells of each.
func (m *move) hold() []state.Event {
	var events []state.Event
	for _, t := range m.plan.Hold {
		why := m.whyHeld(t)
		m.progress(Event{Step: Step{Op: "hold", Target: t, Reason: why}, Ended: true})
		events = append(events, state.Event{Kind: state.EventHold, Generation: m.to.Number, Target: t, Why: why})
	}
	return events
}

func (m *move) whyHeld(t units.Target) string {
	if r := m.records[t]; r.Origin == originCopy && m.undoing {
		return "did not stay in force; it is a copy of " + r.Definition + ", with what was written since"
	}
	for _, r := range m.node.records() {
		if r.State == state.Live && r.Origin == originCopy && r.Definition == string(t) && r.Target != t {
			return "migrated to " + r.Target.Name() + "; it has the data as it was then"
		}
	}
	return "no longer declared: " + m.plan.Reason("hold", string(t))
}
