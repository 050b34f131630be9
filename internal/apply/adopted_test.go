package apply_test

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"meshgen/internal/simulated"
	"meshgen/state"
	"meshgen/units"
)

// former is what was found and adopted, as it was then.
type former struct {
	target    units.Target
	was       state.Adoption
	container simulated.Container
	network   string // id
	volume    int
	files     map[string]string // contents, by path
	// cut tells that the power went since, and what ran may not.
	cut bool
	// over tells that its place was adopted from another since: it is kept, and
	// nothing gives it back by itself.
	over bool
}

// sortOut takes from what was found what the ledger has as adopted, and takes back
// what it has not any more.
func (p *play) sortOut() {
	ledger := p.ledgerOrNone()
	if ledger == nil {
		return
	}
	p.cameAndWent(ledger)
	for _, r := range ledger.Adopted() {
		if !slices.ContainsFunc(p.kept, func(k *former) bool {
			return k.target == r.Target && k.was.Generation == r.Adoption.Generation && !k.over
		}) {
			p.takeFound(r)
		}
	}
	p.kept = slices.DeleteFunc(p.kept, func(k *former) bool {
		r, _ := ledger.Record(k.target)
		switch {
		case k.over || (r.Adoption != nil && r.Adoption.Generation == k.was.Generation):
			return false
		case r.Adoption != nil || p.anew(k):
			k.over = true
			return false
		}
		p.takeBack(k, r.Why)
		return true
	})
}

// cameAndWent sees of the owner's services that were adopted and given back since the
// last look, in one switch that did not stand, that they run as they did. What they
// make for one run they made anew.
func (p *play) cameAndWent(ledger *state.Ledger) {
	for _, r := range ledger.Records() {
		back := r.Found.Time
		if r.Origin != state.OriginReleased || p.back[r.Target].Equal(back) {
			continue
		}
		p.back[r.Target] = back
		if t := r.Target; !p.found.units[t.Name()] || t.Kind() != units.TargetUnit {
			continue
		}
		for name, was := range p.found.containers {
			i := slices.IndexFunc(p.host.Containers(), func(c simulated.Container) bool { return c.Name == name && c.Unit == was.Unit })
			if was.Unit == r.Target.Name() && (i < 0 || p.host.Containers()[i].Running != was.Running) {
				p.Errorf("found container %s does not run again by %s", name, was.Unit)
			} else if was.Unit == r.Target.Name() {
				p.found.containers[name] = p.host.Containers()[i]
			}
		}
	}
}

// anew reports whether the place of what was adopted was adopted again since, and
// that was undone.
func (p *play) anew(k *former) bool {
	return slices.ContainsFunc(p.kept, func(other *former) bool {
		return other.target == k.target && other.was.Generation > k.was.Generation
	})
}

// takeFound notes that what was found under a name is adopted.
func (p *play) takeFound(r state.Record) {
	k := &former{target: r.Target, was: *r.Adoption, files: map[string]string{}}
	name, there := r.Target.Name(), true
	switch r.Adoption.What {
	case "container":
		k.container, there = p.found.containers[name]
		there = there && k.container.ID == r.Adoption.ID
		delete(p.found.containers, name)
	case "network":
		k.network, there = p.found.networks[name]
		delete(p.found.networks, name)
	case "volume":
		k.volume, there = p.found.volumes[name]
		delete(p.found.volumes, name)
	case "unit", "quadlet":
		there = p.found.units[name]
		delete(p.found.units, name)
		maps.DeleteFunc(p.found.containers, func(_ string, c simulated.Container) bool { return c.Unit == name })
	case "mask":
		there = p.found.masks[name]
		delete(p.found.masks, name)
	}
	for _, f := range r.Adoption.Files {
		if f.Link != "" {
			continue
		}
		text, lay := p.found.files[f.Path]
		there = there && lay
		k.files[f.Path] = text
		delete(p.found.files, f.Path)
	}
	if !there {
		p.Errorf("%s is adopted, and was not found: %+v", r.Target, r.Adoption)
	}
	p.kept = append(p.kept, k)
}

// takeBack notes that what was adopted is its owner's again. Where a switch was cut
// short that adopted it, its owner may have put another file in its place before that
// was undone, or a mask, which stays.
func (p *play) takeBack(k *former, why string) {
	name := k.target.Name()
	lies := k.was.What != "unit" && k.was.What != "quadlet"
	for path, text := range k.files {
		_, another := p.found.files[path]
		mask := p.found.masks[filepath.Base(path)] && filepath.Dir(path) == "/etc/systemd/system"
		if (!another && !mask) || why != "the switch that adopted it did not stand" {
			p.found.files[path] = text
		}
		lies = lies || p.found.files[path] != ""
	}
	switch k.was.What {
	case "container":
		if k.cut { // it is started again where the ledger has that it ran, and else is dead
			for _, c := range p.host.Containers() {
				if c.ID == k.container.ID {
					k.container.Running = c.Running
				}
			}
		}
		p.found.containers[name] = k.container
	case "network":
		p.found.networks[name] = k.network
	case "volume":
		p.found.volumes[name] = k.volume
	case "unit", "quadlet":
		p.found.units[name] = lies
		if _, active := p.host.UnitState(name); k.was.Running && !k.cut && active != "active" && !p.isMasked(k.target) {
			p.Errorf("%s is given back, and is %s", name, active)
		}
	case "mask":
		p.found.masks[name] = true
	}
	p.noteOwners()
}

// keptWhole sees that what was adopted is put aside whole, where it can be given
// back from, and does not run beside what has its place.
func (p *play) keptWhole() {
	ledger := p.ledgerOrNone()
	if ledger == nil {
		return
	}
	_, open := ledger.Unfinished()
	for _, k := range p.kept {
		switch k.was.What {
		case "container":
			p.keptAside(k, ledger, open)
		case "network":
			if !slices.ContainsFunc(p.host.Networks(), func(n simulated.Network) bool {
				return n.Name == k.target.Name() && strconv.Itoa(n.Born) == k.network
			}) {
				p.Errorf("adopted %s is another or gone", k.target)
			}
		case "volume":
			if !slices.ContainsFunc(p.host.Volumes(), func(v simulated.Volume) bool { return v.Name == k.target.Name() && v.Born == k.volume }) {
				p.Errorf("adopted %s is another or gone", k.target)
			}
		}
		for _, f := range k.was.Files {
			p.copyIsThere(k, f, open)
		}
	}
}

func (p *play) keptAside(k *former, ledger *state.Ledger, open bool) { //nolint:revive // a switch is under way, or not
	i := slices.IndexFunc(p.host.Containers(), func(c simulated.Container) bool { return c.ID == k.was.ID })
	if i < 0 {
		p.Errorf("adopted %s is gone", k.target)
		return
	}
	c := p.host.Containers()[i]
	if r, ok := ledger.Record(units.Of(units.TargetContainer, k.was.Aside)); !ok || r.State != state.Held {
		p.Errorf("the ledger does not have %s, which %s is kept as", k.was.Aside, k.target)
	}
	if open {
		return
	}
	if c.Name != k.was.Aside || c.Running || cmp.Or(c.Restart, "no") != "no" {
		p.Errorf("adopted %s is %q, runs %t, starts again %q", k.target, c.Name, c.Running, c.Restart)
	}
}

// copyIsThere sees that a file or a link that was adopted lies in its place, while
// that is still open, or is kept.
func (p *play) copyIsThere(k *former, f state.AdoptedFile, open bool) { //nolint:revive // as above
	at := p.host.Layout.Path(f.Path)
	if f.Link != "" {
		if to, err := os.Readlink(at); err == nil && to == f.Link && !open && !k.over && !p.found.masks[k.target.Name()] {
			p.Errorf("%s is adopted, and %s leads to %s", k.target, f.Path, to)
		}
		return
	}
	lies, _ := os.ReadFile(at) // it need not be there
	if open && string(lies) == k.files[f.Path] {
		return
	}
	text, err := os.ReadFile(filepath.Join(p.host.Layout.State, k.was.Dir, f.Copy))
	if err != nil || string(text) != k.files[f.Path] {
		p.Errorf("the copy of %s holds %q (%v)", f.Path, text, err)
	}
	if string(lies) == k.files[f.Path] {
		p.Errorf("%s is adopted, and lies in its place", f.Path)
	}
}

// isKept reports whether a container is one that was adopted.
func (p *play) isKept(id string) bool {
	return slices.ContainsFunc(p.kept, func(k *former) bool { return k.container.ID == id })
}

// blocked reports whether the name of something that was adopted is another's by
// now, so that it could not be given back.
func (p *play) blocked() bool {
	return slices.ContainsFunc(p.kept, func(k *former) bool { return p.owed(k.target) })
}

// owed reports whether a name is another's by now that something adopted had.
func (p *play) owed(t units.Target) bool {
	return p.holds(t) != "" && slices.ContainsFunc(p.kept, func(k *former) bool { return k.target == t && !k.over })
}

// inTheWay reports whether a name is new and somebody else's.
func (p *play) inTheWay(t units.Target, live map[units.Target]bool) bool {
	return !live[t] && p.holds(t) != ""
}

// inTheWayOf reports whether a name is somebody else's that a manifest declares.
func (p *play) inTheWayOf(m manifest, t units.Target, live map[units.Target]bool) bool {
	return p.inTheWay(t, live) && slices.ContainsFunc(m.resources(), func(r units.Resource) bool { return slices.Contains(units.Targets(r), t) })
}

// keptFor reports whether something is kept already that had a name: it can be but one.
func (p *play) keptFor(t units.Target) bool {
	ledger := p.ledgerOrNone()
	if ledger == nil {
		return false
	}
	r, _ := ledger.Record(t)
	return r.Adoption != nil
}

// upMasked reports whether a unit of the owner's is masked and runs on: systemd would not
// start it again, and so it could not be given back.
func (p *play) upMasked(t units.Target) bool {
	_, active := p.host.UnitState(t.Name())
	return p.isMasked(t) && active == "active"
}

// adopts reports whether a resource adopts what is in its way: by what it says, or
// by its owner's word, unless that was to give it back.
func (p *play) adopts(d declaration, m manifest, act act, live map[units.Target]bool) bool {
	for _, t := range units.Targets(resource(d, m)) {
		if act.verb == "adopt" && t == act.target && p.inTheWay(t, live) {
			return true
		}
	}
	return d.get("takeover") == "adopt" && !p.returned(d, m, live)
}

// returned reports whether what is in a resource's way was given back by hand.
func (p *play) returned(d declaration, m manifest, live map[units.Target]bool) bool {
	ledger := p.ledgerOrNone()
	return ledger != nil && slices.ContainsFunc(units.Targets(resource(d, m)), func(t units.Target) bool {
		r, _ := ledger.Record(t)
		return p.inTheWay(t, live) && r.State == state.Found && r.Origin == state.OriginReleased && r.Why == state.ByHand
	})
}

// owes reports whether what was adopted under a name of a resource is still to be given
// back: that is done first, and the resource waits for the next switch.
func (p *play) owes(d declaration, m manifest) bool {
	ledger := p.ledgerOrNone()
	if ledger == nil {
		return false
	}
	current, inForce, err := state.Current(p.host.Layout)
	p.must(err)
	var asked map[units.Target]string
	if inForce {
		g, err := state.ReadGeneration(p.host.Layout, current)
		p.must(err)
		asked = g.Released
	}
	return slices.ContainsFunc(units.Targets(resource(d, m)), func(t units.Target) bool {
		r, _ := ledger.Record(t)
		_, is := asked[t]
		return r.Adoption != nil && (is || (r.State != state.Retired && r.Adoption.Generation > current))
	})
}

// fits reports whether what is in the way of a resource can be adopted: a network is
// as it is.
func fits(d declaration) bool { return d.address.Kind != units.KindNetwork || d.get("subnet") == "" }

// asFound reports whether a resource is a network that was adopted.
func (p *play) asFound(d declaration) bool {
	return d.address.Kind == units.KindNetwork && slices.ContainsFunc(p.kept, func(k *former) bool {
		return !k.over && k.target == units.Of(units.TargetNetwork, d.object())
	})
}

// act is a step that is a switch: switch, or adopt or release of a name.
type act struct {
	verb   string
	target units.Target
}

// leaves is what a release gives back, and what it leaves out of a manifest: what is
// declared to have a name of that.
func (p *play) leaves(m manifest, act act) (back []state.Record, leaves map[units.Address]bool) {
	leaves = map[units.Address]bool{}
	ledger := p.ledgerOrNone()
	if ledger == nil || act.verb != "release" {
		return nil, leaves
	}
	named, _ := ledger.Record(act.target)
	if named.Adoption == nil {
		return nil, leaves
	}
	holder := map[units.Target]units.Address{}
	for _, d := range m {
		for _, t := range units.Targets(resource(d, m)) {
			holder[t] = d.address
		}
	}
	a, declared := holder[act.target]
	for _, r := range ledger.Adopted() {
		by, held := holder[r.Target]
		switch {
		case declared && held && by == a: // it has one resource's names that it leaves out
			back = append(back, r)
		case !held && (r.Target == act.target || p.adoptedWith(r, named, a, declared, holder)):
			back = append(back, r)
		}
	}
	if declared {
		leaves[a] = true
	}
	return back, leaves
}

// adoptedWith reports whether something of which nothing has the name goes back with
// what is named, or with another name of its resource: one switch adopted both for one
// resource.
func (p *play) adoptedWith(r, named state.Record, a units.Address, declared bool, holder map[units.Target]units.Address) bool {
	return slices.ContainsFunc(p.ledger().Adopted(), func(o state.Record) bool {
		by, held := holder[o.Target]
		goes := o.Target == named.Target || (declared && held && by == a)
		return goes && o.Resource == r.Resource && o.Adoption.Generation == r.Adoption.Generation
	})
}

// mayRelease reports whether nothing that stays declared uses what a release leaves
// out, or took the place of a service that would run beside it. What comes by hand here
// shares no data.
func (p *play) mayRelease(m manifest, back []state.Record, leaves map[units.Address]bool) bool {
	for _, d := range m {
		if leaves[d.address] {
			continue
		}
		if slices.ContainsFunc(resource(d, m).Uses, func(a units.Address) bool { return leaves[a] }) {
			return false
		}
		for _, r := range back {
			service := r.Adoption.What == "unit" || r.Adoption.What == "quadlet" || (r.Adoption.What == "container" && len(r.Adoption.Files) > 0)
			if service && (d.address == r.Resource || p.came(d.address, r)) {
				return false
			}
		}
	}
	return true
}

// occupied reports whether something of somebody else's lies where a release would put
// back what was adopted.
func (p *play) occupied(back []state.Record) bool {
	for _, r := range back {
		for _, f := range r.Adoption.Files {
			text, err := os.ReadFile(p.host.Layout.Path(f.Path))
			if err == nil && (r.Adoption.What != "file" || p.found.files[f.Path] != "" || string(text) == byOtherHands) {
				return true
			}
		}
	}
	return false
}

// came reports whether a resource took over names of the one that adopted something.
func (p *play) came(a units.Address, adopted state.Record) bool {
	return slices.ContainsFunc(p.ledger().Live(), func(r state.Record) bool {
		return r.Resource == a && r.State == state.Live && r.Last.Generation > adopted.Adoption.Generation && slices.Contains(r.Earlier, adopted.Resource)
	})
}

// isAside reports whether a target is what a container was put aside as.
func isAside(t units.Target) bool {
	return t.Kind() == units.TargetContainer && strings.Contains(t.Name(), ".adopted-")
}
