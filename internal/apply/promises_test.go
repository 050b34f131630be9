package apply_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"meshgen/internal/simulated"
	"meshgen/state"
	"meshgen/units"
)

// started sees at each start of a container that nothing overlaps and nothing
// found is destroyed (P3, P4), and that the ledger has its names (P1).
func (p *play) started(c simulated.Container, replaced *simulated.Container, others []simulated.Container) {
	mark := c.Labels[units.MarkLabel]
	if replaced != nil && replaced.Labels[units.MarkLabel] == "" {
		if mark != "" || !p.boots {
			p.Errorf("%s is destroyed by %s", replaced, c)
		}
		delete(p.found.containers, c.Name) // the owner's own unit does that
	}
	if mark == "" {
		return
	}
	if replaced != nil && replaced.Running && replaced.Unit != c.Unit && replaced.Labels[units.MarkLabel] != "" && !p.boots {
		p.Errorf("%s takes the name of %s, which runs", c, replaced)
	}
	ledger := p.ledger()
	for _, other := range others {
		if other.Running && strings.HasPrefix(other.Name, c.Name+".adopted-") {
			p.Errorf("%s starts beside %s, whose place it has", c, other)
		}
		if !other.Running || other.Labels[units.MarkLabel] == "" {
			continue
		}
		if other.Labels[units.MarkLabel] == mark && !passed(ledger, other) {
			p.Errorf("%s starts beside %s, both are %s", c, other, mark)
		}
		for _, v := range c.Volumes {
			if slices.Contains(other.Volumes, v) {
				p.Errorf("%s starts beside %s, both on volume %s", c, other, v)
			}
		}
	}
	for _, t := range []units.Target{units.Of(units.TargetContainer, c.Name), units.Of(units.TargetUnit, c.Unit)} {
		if r, ok := ledger.Record(t); !ok || r.State != state.Live {
			p.Errorf("%s runs, and the ledger does not have %s as live", c, t)
		}
	}
}

// lost sees that no switch stops a unit that systemd knows no more how to stop.
func (p *play) lost(c simulated.Container) {
	if !p.boots {
		p.Errorf("%s is stopped without its definition", c)
	}
}

// passed reports whether a container passed to another address with all that it
// is: it runs on with the label that it has.
func passed(ledger *state.Ledger, c simulated.Container) bool {
	unit, _ := ledger.Record(units.Of(units.TargetUnit, c.Unit))
	object, _ := ledger.Record(units.Of(units.TargetContainer, c.Name))
	return unit.Resource == object.Resource && unit.Resource.String() != c.Labels[units.MarkLabel]
}

// ledger reads the ledger as it lies on the disk.
func (p *play) ledger() *state.Ledger {
	l, err := state.OpenLedger(p.host.Layout, machineID)
	p.must(err)
	return l
}

// always sees what must hold at any moment: what was found is untouched, no
// volume is lost (P4, P8), and the ledger has what is there (P1, P2).
func (p *play) always() {
	p.sortOut()
	p.letGo()
	p.untouched()
	p.keptWhole()
	there := p.ours()
	if len(there) == 0 {
		return
	}
	ledger := p.ledger()
	for _, t := range there {
		if r, ok := ledger.Record(t); !ok || r.State == state.Retired {
			p.Errorf("%s is there, and the ledger does not have it", t)
		}
	}
}

// letGo takes a file for found that came to be another's: who undoes a switch
// cannot tell a file that was written and changed from one that never was.
func (p *play) letGo() {
	if !p.died {
		return
	}
	ledger := p.ledgerOrNone()
	for _, path := range paths {
		text, err := os.ReadFile(p.host.Layout.Path(path))
		if ledger == nil || err != nil || p.found.files[path] != "" {
			continue
		}
		if r, ok := ledger.Record(units.Of(units.TargetFile, path)); ok && r.State != state.Live && strings.HasPrefix(r.Why, "never written") {
			p.found.files[path] = string(text)
		}
	}
}

// ours lists what is on the machine and of meshgen.
func (p *play) ours() []units.Target {
	var there []units.Target
	for _, c := range p.host.Containers() {
		if c.Labels[units.MarkLabel] != "" {
			there = append(there, units.Of(units.TargetContainer, strings.TrimSuffix(c.Name, astray)))
		}
	}
	for _, n := range p.host.Networks() {
		if n.Labels[units.MarkLabel] != "" {
			there = append(there, units.Of(units.TargetNetwork, n.Name))
		}
	}
	for _, path := range paths {
		if _, err := os.Lstat(p.host.Layout.Path(path)); err == nil && p.found.files[path] == "" {
			there = append(there, units.Of(units.TargetFile, path))
		}
	}
	for _, name := range p.host.Units() {
		if !p.found.units[name] {
			there = append(there, units.Of(units.TargetUnit, name))
		}
	}
	return there
}

// bootsOneSet sees that a boot runs wholly one set (P6): the one that current
// points to.
func (p *play) bootsOneSet() {
	m := p.inForce()
	p.runsWhole(m, func(declaration) bool { return true })
	if !p.heldBack {
		p.filesAre(m)
	}
}

// runsWhole sees that exactly the containers of a manifest run which are to be
// up, each as declared.
func (p *play) runsWhole(m manifest, up func(declaration) bool) {
	now := map[string]simulated.Container{}
	for _, c := range p.host.Containers() {
		if c.Labels[units.MarkLabel] != "" {
			now[c.Name] = c
		}
	}
	for _, d := range m.sorted() {
		if d.address.Kind != units.KindContainer {
			continue
		}
		if p.shadowed(d) {
			delete(now, d.object())
			delete(now, d.object()+astray) // nor does it get its name back
			continue
		}
		c, there := now[d.object()]
		delete(now, d.object())
		switch {
		case (up(d) && !d.fails()) != (there && c.Running):
			p.Errorf("%s: runs %t", d, there && c.Running)
		case there && c.Running:
			p.runsAs(m, d, c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if p.died && !now[name].Running {
			continue // what a power cut left of it goes with the next switch
		}
		p.Errorf("%s is there, and nothing declares it", now[name])
	}
}

// shadowed reports whether a definition of the owner's stands before a unit of
// ours, or a container of theirs has the name: then it is theirs to say.
func (p *play) shadowed(d declaration) bool {
	return p.holds(units.Of(units.TargetUnit, d.base()+".service")) != "" || p.holds(units.Of(units.TargetContainer, d.object())) != ""
}

func (p *play) runsAs(m manifest, d declaration, c simulated.Container) {
	var env, networks, volumes []string
	if e := d.get("env"); e != "" {
		env = []string{strings.Replace(e, ":", "=", 1)}
	}
	if id := d.get("network"); id != "" {
		networks = []string{m[d.with(units.KindNetwork, id)].object()}
	}
	if id := d.get("volume"); id != "" {
		volumes = []string{m[d.with(units.KindVolume, id)].object()}
	}
	if !slices.Equal(env, c.Environment) || !slices.Equal(networks, c.Networks) || !slices.Equal(volumes, c.Volumes) {
		p.Errorf("%s runs with %v, %v, %v", d, c.Environment, c.Networks, c.Volumes)
	}
	if c.Unit != d.base()+".service" {
		p.Errorf("%s runs by %s", d, c.Unit)
	}
	for _, name := range networks {
		p.networkIs(m[d.with(units.KindNetwork, d.get("network"))], name)
	}
}

func (p *play) networkIs(d declaration, name string) {
	if p.holds(units.Of(units.TargetNetwork, name)) != "" {
		return
	}
	for _, n := range p.host.Networks() {
		if n.Name != name {
			continue
		}
		want := d.subnet()
		is := ""
		if n.Subnet.IsValid() {
			is = n.Subnet.String()
		}
		if is != want {
			p.Errorf("%s has subnet %q", d, is)
		}
		return
	}
	p.Errorf("%s is not there", d)
}

// filesAre sees that the files of a manifest are there as declared, and no other
// of ours.
func (p *play) filesAre(m manifest) {
	declared := map[string]declaration{}
	for _, d := range m {
		if d.address.Kind == units.KindFile {
			declared[d.get("path")] = d
		}
	}
	for _, path := range paths {
		text, err := os.ReadFile(p.host.Layout.Path(path))
		d, ok := declared[path]
		switch {
		case ok && (err != nil || string(text) != string(file(d).Content)):
			p.Errorf("%s holds %q (%v)", d, text, err)
		case !ok && err == nil && p.found.files[path] == "":
			p.Errorf("%s is there, and nothing declares it", path)
		}
	}
	for _, dir := range []string{"/etc/x", "/etc/y"} {
		litter, _ := filepath.Glob(p.host.Layout.Path(dir) + "/.meshgen-*") // the pattern is sound
		if len(litter) > 0 {
			p.Errorf("%v lies about", litter)
		}
	}
}

// refused sees that a switch was refused with reason, and did nothing.
func (p *play) refused(r run) {
	p.always()
	if r.before == "" {
		p.Errorf("refused without reason: %v", r.prepared.Rejected)
	} else if after := p.tree(); after != r.before {
		p.Errorf("refused, and something changed:\n%s", changes(r.before, after))
	}
	if r.late {
		for unit := range p.down {
			p.down[unit] = ""
		}
	}
}

// held returns what a switch to a manifest holds: what wants a name that is new and
// somebody else's, where it says so, what has the place of something that is still to be
// given back, and what refers to either.
func (p *play) held(m manifest, act act, live map[units.Target]bool) map[units.Address]bool {
	held := map[units.Address]bool{}
	for a, d := range m {
		holds := d.get("takeover") == "hold" || p.returned(d, m, live)
		held[a] = holds && !p.adopts(d, m, act, live) && slices.ContainsFunc(units.Targets(resource(d, m)), func(t units.Target) bool {
			return p.inTheWay(t, live)
		})
		held[a] = held[a] || p.owes(d, m)
	}
	for range m { // as many steps as there can be
		for a, d := range m {
			held[a] = held[a] || slices.ContainsFunc(resource(d, m).Uses, func(used units.Address) bool { return held[used] })
		}
	}
	maps.DeleteFunc(held, func(_ units.Address, is bool) bool { return !is })
	return held
}

// without returns a manifest without what is held, but for what is in force in
// another form: that stays.
func (p *play) without(m manifest, held map[units.Address]bool) (set, stays manifest) {
	was := p.inForce()
	set, stays = manifest{}, manifest{}
	for a, d := range m {
		before, there := was[a]
		switch {
		case !held[a]:
			set[a] = d
		case there:
			stays[a] = before
		default:
			first := units.Targets(resource(d, m))[0]
			for former, before := range was { // it would pass from there
				if _, declared := m[former]; !declared && slices.Contains(units.Targets(resource(before, was)), first) {
					stays[former] = before
				}
			}
		}
	}
	maps.Copy(set, stays)
	return set, stays
}

// holdsJust sees that a switch says of just these that they are held.
func (p *play) holdsJust(want map[units.Address]bool, held []state.Holding) {
	said := map[units.Address]bool{}
	for _, h := range held {
		said[h.Resource] = true
		if !want[h.Resource] {
			p.Errorf("%s is held: %s", h.Resource, h.Why())
		}
		if len(h.Taken) == 0 && !want[h.Needs] {
			p.Errorf("%s is held for %s, which is not", h.Resource, h.Needs)
		}
	}
	for a := range want {
		if !said[a] {
			p.Errorf("%s is not held", a)
		}
	}
}

// clashes reports whether what is held as it was does not go with the rest of a
// set: a name or the volume of it is to be another's, or what it refers to is not as
// it was.
func (p *play) clashes(set, stays manifest) bool {
	was, taken := p.inForce(), map[units.Target]bool{}
	for a, d := range set {
		for _, t := range units.Targets(resource(d, set)) {
			if taken[t] {
				return true
			}
			taken[t] = true
		}
		if id := d.get("volume"); id != "" {
			data := units.Of("data of", d.with(units.KindVolume, id).String())
			if taken[data] {
				return true // two would be at it
			}
			taken[data] = true
		}
		if _, ok := stays[a]; !ok {
			continue
		}
		for _, used := range resource(was[a], was).Uses {
			if now, declared := set[used]; !declared || now.base() != was[used].base() {
				return true
			}
		}
	}
	return false
}

// mustRefuse reports whether a name that is new is somebody else's, a volume is to get
// another name, or what is to be adopted by hand is in nobody's way.
func (p *play) mustRefuse(m manifest, act act, live map[units.Target]bool) bool {
	was := p.inForce()
	if act.verb == "adopt" && !p.inTheWayOf(m, act.target, live) {
		return true
	}
	for _, d := range m {
		for _, t := range units.Targets(resource(d, m)) {
			if adopted := p.adopts(d, m, act, live) && fits(d) && !p.keptFor(t) && !p.upMasked(t); p.inTheWay(t, live) && !adopted {
				return true
			}
		}
		if before, ok := was[d.address]; ok && d.address.Kind == units.KindVolume && before.object() != d.object() {
			return true
		}
	}
	return false
}

// mayRefuse reports of what is declared, and of that without what is held, whether
// something found has the name of something that is ours, a new address has names
// of two that go, a volume goes on or comes back under another name, a network
// is to have the subnet of one that stays, a network that was adopted is to have
// another subnet, or a container is to get another volume.
func (p *play) mayRefuse(declared, m manifest, act act, live map[units.Target]bool) bool {
	was := p.inForce()
	if ambiguous(was, declared) || succeeds(was, declared) || p.leftAnother(m) || p.crowded(m) || p.remakesFound(was, m) {
		return true
	}
	for _, of := range []manifest{m, was} {
		for _, d := range of {
			for _, t := range units.Targets(resource(d, of)) {
				if makesRoom := p.inTheWay(t, live) && p.adopts(d, of, act, live); p.holds(t) != "" && !makesRoom {
					return true
				}
			}
		}
	}
	for _, d := range m {
		if d.address.Kind == units.KindContainer && d.get("volume") != "" {
			for _, before := range was {
				if before.address.Kind == units.KindContainer && before.get("volume") != "" &&
					was[before.with(units.KindVolume, before.get("volume"))].object() != m[d.with(units.KindVolume, d.get("volume"))].object() {
					return true
				}
			}
		}
	}
	return false
}

// remakesFound reports whether a network that was adopted is to have another subnet.
func (p *play) remakesFound(was, m manifest) bool {
	for _, d := range m {
		for _, before := range was {
			if p.asFound(d) && p.asFound(before) && before.object() == d.object() && before.get("subnet") != d.get("subnet") {
				return true
			}
		}
	}
	return false
}

// leftAnother reports whether a volume comes back under another name than the one
// by which it was kept.
func (p *play) leftAnother(m manifest) bool {
	ledger := p.ledgerOrNone()
	if ledger == nil {
		return false
	}
	return slices.ContainsFunc(ledger.Live(), func(r state.Record) bool {
		d, declared := m[r.Resource]
		return declared && r.State == state.Held && r.Target.Kind() == units.TargetVolume && units.Object(resource(d, m)) != r.Target
	})
}

// crowded reports whether a network is to have the subnet of one that stays for what
// is masked.
func (p *play) crowded(m manifest) bool {
	has := map[string]bool{} // one that is held as it was has its former subnet
	for _, d := range m {
		if d.address.Kind == units.KindNetwork && d.subnet() != "" && has[d.subnet()] {
			return true
		}
		has[d.subnet()] = true
	}
	for _, n := range p.host.Networks() {
		if !p.maskedUses(units.Of(units.TargetNetwork, n.Name)) {
			continue
		}
		for _, d := range m {
			if d.address.Kind == units.KindNetwork && d.object() != n.Name && n.Subnet.IsValid() && d.subnet() == n.Subnet.String() {
				return true
			}
		}
	}
	return false
}

// succeeds reports whether a volume at a new address has the unit of one that is no
// longer declared, and another name.
func succeeds(was, m manifest) bool {
	for a, d := range m {
		if _, stays := was[a]; stays || a.Kind != units.KindVolume {
			continue
		}
		for former, before := range was {
			if _, stays := m[former]; !stays && former.Kind == a.Kind && before.base() == d.base() && before.object() != d.object() {
				return true
			}
		}
	}
	return false
}

// ambiguous reports whether a resource at a new address has the names of more than
// one that is no longer declared.
func ambiguous(was, m manifest) bool {
	for a, d := range m {
		if _, stays := was[a]; stays {
			continue
		}
		formers := 0
		for former, before := range was {
			has := units.Targets(resource(before, was))
			taken := slices.ContainsFunc(units.Targets(resource(d, m)), func(t units.Target) bool { return slices.Contains(has, t) })
			if _, stays := m[former]; taken && !stays {
				formers++
			}
		}
		if formers > 1 {
			return true
		}
	}
	return false
}

// reached sees that a switch left exactly what the manifest says.
func (p *play) reached(r run) {
	p.died = false
	if r.must && !r.prepared.Plan.Empty() {
		p.Errorf("not refused")
	}
	if r.outcome.Result != state.Done || len(r.outcome.Failed) > 0 {
		p.Errorf("ended %q, with %v", r.outcome.Result, r.outcome.Failed)
	}
	p.stands(r.set, r)
}

// rolledBack sees that a switch to a set with a container that does not come up
// left what was in force before.
func (p *play) rolledBack(r run) {
	for unit := range p.down {
		p.down[unit] = "" // what its declaration changed for may be up
	}
	if m := p.inForce(); m.fails() {
		p.always() // a boot brought it into force, and it does not stand either
	} else {
		p.stands(m, r)
	}
}

// stands sees that the machine is wholly what a manifest says, and that nothing is
// left to do.
func (p *play) stands(m manifest, r run) {
	p.always()
	p.runsWhole(m, func(d declaration) bool {
		if down, sure := p.isDown(m, d); sure {
			return !down
		}
		return p.isUp(d)
	})
	p.filesAre(m)
	p.made(m)
	p.ledgerIs(m, r)
	p.systemdHas(m)
	clear(p.down)
	p.noteDown(func(d declaration) bool { return !p.waits(d) })
}

// waits reports whether a container is down for what is its owner's, and due to be
// started once that is out of the way.
func (p *play) waits(d declaration) bool {
	ledger := p.ledgerOrNone()
	if ledger == nil || !p.shadowed(d) {
		return false
	}
	unit, _ := ledger.Record(units.Of(units.TargetUnit, d.base()+".service"))
	return unit.State == state.Live && unit.Due
}

// made sees that the units of networks and volumes that are up have made what is
// declared now.
func (p *play) made(m manifest) {
	there := map[units.Target]bool{}
	for _, n := range p.host.Networks() {
		there[units.Of(units.TargetNetwork, n.Name)] = true
	}
	for _, v := range p.host.Volumes() {
		there[units.Of(units.TargetVolume, v.Name)] = true
	}
	for _, d := range m.sorted() {
		if d.address.Kind != units.KindNetwork && d.address.Kind != units.KindVolume {
			continue
		}
		r := resource(d, m)
		if _, active := p.host.UnitState(units.Unit(r)); active == "active" && p.holds(units.Of(units.TargetUnit, units.Unit(r))) == "" && !there[units.Object(r)] {
			p.Errorf("%s is not there, and %s is up", d, units.Unit(r))
		}
	}
}

// ledgerIs sees that the ledger has as live what is declared, holds nothing but
// volumes, and that no switch is open.
func (p *play) ledgerIs(m manifest, r run) {
	ledger := p.ledgerOrNone()
	want := map[units.Target]bool{}
	for _, res := range m.resources() {
		for _, t := range units.Targets(res) {
			want[t] = true
		}
	}
	if ledger != nil {
		for _, record := range ledger.Live() {
			t := record.Target
			switch {
			case record.State == state.Held && (isAside(t) || record.Adoption != nil):
			case record.State == state.Held && t.Kind() != units.TargetVolume:
				p.Errorf("%s is held", t)
			case record.State == state.Held || t.Kind() == units.TargetDir:
			case !want[t] && p.owed(t): // until it can be given back
			case !want[t] && p.maskedUses(t): // its owner wants nothing taken from it
			case !want[t]:
				p.Errorf("the ledger has %s as live, and nothing declares it", t)
			}
			delete(want, t)
			if record.Due && !p.isMasked(t) && !p.barred(m, record) {
				p.Errorf("%s is still due", t)
			}
		}
		if s, open := ledger.Unfinished(); open {
			p.Errorf("the switch to generation %d is unfinished", s.Generation)
		}
	}
	for t := range want {
		p.Errorf("the ledger does not have %s as live", t)
	}
	current, _, err := state.Current(p.host.Layout)
	p.must(err)
	if _, pending, _ := state.Pending(p.host.Layout); pending || current != r.outcome.To {
		p.Errorf("current is %d, not %d, or a switch is pending", current, r.outcome.To)
	}
}

// barred reports whether what is its owner's keeps a unit from being started.
func (p *play) barred(m manifest, unit state.Record) bool {
	d, declared := m[unit.Resource]
	return p.holds(unit.Target) != "" || (declared && p.shadowed(d))
}

// maskedUses reports whether a container runs with a network whose unit is masked.
func (p *play) maskedUses(t units.Target) bool {
	return t.Kind() == units.TargetNetwork && slices.ContainsFunc(p.host.Containers(), func(c simulated.Container) bool {
		return c.Running && slices.Contains(c.Networks, t.Name()) && p.isMasked(units.Of(units.TargetUnit, c.Unit))
	})
}

func (p *play) isMasked(t units.Target) bool {
	load, _ := p.host.UnitState(t.Name())
	return t.Kind() == units.TargetUnit && load == "masked"
}

func (p *play) ledgerOrNone() *state.Ledger {
	if _, err := os.Lstat(p.host.Layout.Ledger()); err != nil {
		return nil
	}
	return p.ledger()
}

// systemdHas sees that systemd has been given the units that are declared, that
// no other of ours is up, and that nothing is left in /run.
func (p *play) systemdHas(m manifest) {
	declared := map[string]bool{}
	for _, res := range m.resources() {
		declared[units.Unit(res)] = true
	}
	for _, name := range p.host.Units() {
		if !declared[name] && !p.found.units[name] {
			p.Errorf("%s is up, and nothing declares it", name)
		}
	}
	for name := range declared {
		if load, active := p.host.UnitState(name); name != "" && p.holds(units.Of(units.TargetUnit, name)) == "" && load != "loaded" {
			p.Errorf("%s is %s and %s", name, load, active)
		}
	}
	for _, dir := range []string{"run/systemd/system", "run/meshgen/bridge", "run/meshgen/rescue"} {
		entries, _ := os.ReadDir(p.host.Layout.Path(dir)) // it need not be there
		for _, e := range entries {
			p.Errorf("%s/%s is left", dir, e.Name())
		}
	}
	given, _ := filepath.Glob(p.host.Layout.Path("run/systemd/generator/*.service")) // the pattern is sound
	for _, path := range given {
		if name := filepath.Base(path); !declared[name] && !p.found.units[name] {
			p.Errorf("systemd has %s, and nothing declares it", name)
		}
	}
}

// again sees that a second switch has nothing to do, and does nothing (P11).
func (p *play) again(m manifest) {
	before, acts := p.tree(), p.host.Acts()
	r := p.run(m, act{verb: "switch"})
	if len(r.prepared.Rejected) > 0 {
		p.Errorf("the second switch is refused: %v", r.prepared.Rejected)
	}
	if !r.prepared.Plan.Empty() {
		p.Errorf("the second switch has a plan: %+v", r.prepared.Plan.Steps())
	}
	if after := p.tree(); after != before || p.host.Acts() != acts {
		p.Errorf("the second switch did something:\n%s", changes(before, after))
	}
}
