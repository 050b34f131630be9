package apply_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"meshgen/internal/apply"
	"meshgen/internal/simulated"
	"meshgen/state"
	"meshgen/units"
)

// A history is what happens to a node, one step a line:
//
//	container m/a unit=ant name=cow env=N:1 volume=data network=net port=8080
//	network m/net unit=nat name=net subnet=5
//	volume m/data name=vat
//	file m/f path=/etc/x/one content=1 notify=a
//	    edits the manifest: what is named is declared, the keys given are set
//	remove KIND ADDRESS · swap KIND KEY ADDRESS ADDRESS · move KIND ADDRESS ADDRESS · module FROM TO
//	    edits it too; move gives a resource another id
//	switch [kill=N] [cut]
//	    brings it into force, or dies at the Nth point, with the power or without
//	adopt|release TARGET [kill=N] [cut]
//	    does so with what is in the way adopted, or with what was given back
//	rollback [kill=N] [cut]
//	    to the generation that was in force before
//	reboot
//	stop|start|die|fail|mask|unmask UNIT
//	hand|gone container|network|volume|file|unit|quadlet NAME
//	    something that is not of meshgen comes, or goes
//	restart NAME
//	    a container that came so is to be started at each boot
//	edit|delete PATH
//	    a file of ours is changed by other hands
//
// A step that makes no sense where it stands does nothing.
type history []string

// play is a history on its way.
type play struct {
	faults   []string
	host     *simulated.Host
	manifest manifest
	// sets has what each generation is to have: what was declared, but for what
	// was held.
	sets map[int]manifest
	// down are units that are to stay down, by what they were to run then; ""
	// stands for one that may be up as well.
	down     map[string]string
	found    found
	kept     []*former                  // what was adopted
	back     map[units.Target]time.Time // when what was adopted was given back last
	born     map[string]int             // volumes that ever were
	boots    bool                       // what starts is started by a boot or by hand
	died     bool                       // the last switch did
	heldBack bool                       // the last boot did not recover
}

const machineID = "5e1f0000000000000000000000000001"

// newPlay begins on an empty machine below dir.
func newPlay(dir string, seed uint64) *play {
	h, err := simulated.New(dir, seed)
	p := &play{
		host: h, manifest: manifest{}, sets: map[int]manifest{}, down: map[string]string{},
		found: newFound(), born: map[string]int{}, back: map[units.Target]time.Time{},
	}
	p.must(err)
	h.OnStart, h.OnLost, h.OnRecover = p.started, p.lost, p.recoverAtBoot
	p.must(h.Boot())
	return p
}

// Errorf notes something that is not as it has to be.
func (p *play) Errorf(format string, args ...any) {
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// Fatalf notes something after which there is no going on.
func (p *play) Fatalf(format string, args ...any) {
	p.Errorf(format, args...)
	panic(broken{})
}

// broken is what a play panics with that cannot go on.
type broken struct{}

func (p *play) must(err error) {
	if err != nil {
		p.Fatalf("%v", err)
	}
}

// play plays a history on a machine below dir, which is removed, and returns
// what went wrong at the first step that did.
func (h history) play(dir string, seed uint64) (faults []string) {
	defer os.RemoveAll(dir)
	var p *play
	defer func() {
		v := recover()
		if _, ok := v.(broken); v != nil && !ok {
			faults = []string{fmt.Sprintf("panic: %v\n%s", v, debug.Stack())}
		} else if p != nil {
			faults = p.faults
		}
	}()
	p = newPlay(dir, seed)
	for _, line := range h {
		if p.step(line); len(p.faults) > 0 {
			break
		}
	}
	return p.faults
}

// step takes one step.
func (p *play) step(line string) {
	words := strings.Fields(line)
	switch words[0] {
	case "container", "network", "volume", "file":
		p.declare(words)
	case "remove":
		delete(p.manifest, addressOf(words[1], words[2]))
	case "swap":
		p.swap(words)
	case "move":
		p.move(addressOf(words[1], words[2]), addressOf(words[1], words[3]))
	case "module":
		for _, d := range p.manifest.sorted() {
			if to := d.address; to.Module == words[1] {
				to.Module = words[2]
				p.move(d.address, to)
			}
		}
	case "switch", "rollback":
		p.doSwitch(act{verb: words[0]}, words[1:])
	case "adopt", "release":
		p.doSwitch(act{words[0], units.Target(words[1])}, words[2:])
	default:
		p.happen(words)
	}
}

func addressOf(kind, word string) units.Address {
	module, id, _ := strings.Cut(word, "/")
	return units.Address{Module: module, Kind: units.Kind(kind), ID: id}
}

func (p *play) declare(words []string) {
	a := addressOf(words[0], words[1])
	d := declaration{a, map[string]string{}}
	if was, ok := p.manifest[a]; ok {
		d.keys = maps.Clone(was.keys)
	}
	for _, w := range words[2:] {
		key, value, _ := strings.Cut(w, "=")
		d.keys[key] = value
		if value == "" {
			delete(d.keys, key)
		}
	}
	p.manifest[a] = d
}

// swap exchanges what two resources say of a key, the default of a name spelled
// out.
func (p *play) swap(words []string) {
	a, okA := p.manifest[addressOf(words[1], words[3])]
	b, okB := p.manifest[addressOf(words[1], words[4])]
	if !okA || !okB || a.address == b.address {
		return
	}
	value := func(d declaration) string {
		switch words[2] {
		case "unit":
			return d.base()
		case "name":
			return d.object()
		}
		return d.get(words[2])
	}
	atA, atB := value(a), value(b)
	p.declare([]string{words[1], words[3], words[2] + "=" + atB})
	p.declare([]string{words[1], words[4], words[2] + "=" + atA})
}

func (p *play) move(from, to units.Address) {
	d, ok := p.manifest[from]
	if _, taken := p.manifest[to]; !ok || taken {
		return
	}
	delete(p.manifest, from)
	p.manifest[to] = declaration{to, d.keys}
}

// doSwitch brings the manifest into force.
func (p *play) doSwitch(act act, words []string) {
	kill, cut := 0, false
	for _, w := range words {
		if n, ok := strings.CutPrefix(w, "kill="); ok {
			kill, _ = strconv.Atoi(n) // 0 kills nothing
		}
		cut = cut || w == "cut"
	}
	m := p.manifest.sound()
	p.noteMasked(m)
	p.host.Kill(kill, cut)
	r := p.run(m, act)
	died := p.host.Dead()
	p.host.Kill(0, false)
	if died {
		p.afterDeath()
		if cut {
			p.reboot()
			p.bootsOneSet()
		}
		return
	}
	if r.recover != nil {
		if p.found.none() && len(p.kept) == 0 {
			p.Fatalf("recover: %v", r.recover)
		}
		p.always() // it says what is in the way, and waits
		return
	}
	if len(r.prepared.Rejected) > 0 {
		p.refused(r)
		return
	}
	if r.outcome.Result == state.RolledBack && r.set.fails() {
		p.rolledBack(r)
		return
	}
	if r.outcome.Result == state.Failed && (r.set.fails() || r.waits) { // a boot brought it into force
		p.always()
		for unit := range p.down {
			p.down[unit] = ""
		}
		return
	}
	p.reached(r)
	if act.verb != "rollback" && p.settles(m, r) {
		p.again(m)
	}
}

// settles reports whether a switch to a manifest leads to the set that there is:
// what was given back may not be in its way.
func (p *play) settles(m manifest, r run) bool {
	live := p.live()
	set, _ := p.without(m, p.held(m, act{verb: "switch"}, live))
	return set.digest() == r.set.digest()
}

// live is what the ledger has as ours.
func (p *play) live() map[units.Target]bool {
	live := map[units.Target]bool{}
	if ledger := p.ledgerOrNone(); ledger != nil {
		for _, record := range ledger.Live() {
			live[record.Target] = true
		}
	}
	return live
}

// run is what one process did.
type run struct {
	prepared apply.Prepared
	outcome  apply.Outcome
	// live is what the ledger had as ours when it was judged, and before what lay
	// on the disk, where it may have been refused.
	live   map[units.Target]bool
	before string
	// set is what it was to bring into force, and must that it was to be refused.
	set  manifest
	must bool
	// late tells that it began with what another had left, and recover why that,
	// or the way back from its own, was not to be brought to an end.
	late    bool
	recover error
	// waits tells that something could not be given back.
	waits bool
}

// run switches as the command does, until the process ends or dies.
func (p *play) run(m manifest, act act) (r run) {
	ctx := context.Background()
	node, err := apply.OpenLocked(ctx, p.host.Layout, p.host.Connect)
	p.must(err)
	defer func() {
		err := node.Close()
		if v := recover(); v != nil && v != any(simulated.Killed{}) {
			panic(v)
		}
		p.must(err)
	}()
	progress := func(apply.Event) { p.host.Point() }
	options := apply.Options{Rollback: true, Keep: 3}
	r.late = unfinished(node)
	if _, r.recover = node.Recover(ctx, options, progress); r.recover != nil {
		return r
	}
	p.sortOut()
	r.live = p.live()
	p.letGo()
	in := apply.Input{Node: "n", Digest: m.digest(), Resources: m.resources()}
	if act.verb == "rollback" {
		if in, err = node.Earlier(0); err != nil {
			r.before = p.tree()
			r.prepared.Rejected = units.Faults{{Message: err.Error()}}
			return r
		}
		m = p.sets[in.Of]
	}
	declared := m
	back, leaves := p.leaves(m, act)
	if len(leaves) > 0 {
		m = maps.Clone(m)
		maps.DeleteFunc(m, func(a units.Address, _ declaration) bool { return leaves[a] })
	}
	held := p.held(m, act, r.live)
	var stays manifest
	r.set, stays = p.without(m, held)
	for _, h := range in.Held { // so the generation has it that comes back
		held[h.Resource] = true
	}
	r.must = p.clashes(r.set, stays) || p.mustRefuse(r.set, act, r.live)
	if r.must || p.occupied(back) || p.mayRefuse(m, r.set, act, r.live) {
		r.before = p.tree()
	}
	switch act.verb {
	case "adopt":
		in.Adopt = []string{string(act.target)}
	case "release":
		if in, err = node.Releasing(ctx, in, []string{string(act.target)}); err != nil {
			if len(back) > 0 && p.mayRelease(declared, back, leaves) {
				p.Errorf("not given back: %v", err)
			}
			r.before = p.tree()
			r.prepared.Rejected = units.Faults{{Message: err.Error()}}
			return r
		}
		if !p.mayRelease(declared, back, leaves) {
			p.Errorf("%s is given back, and was not to be", act.target)
		}
		maps.Copy(held, leaves)
	}
	r.prepared, err = node.Prepare(ctx, in)
	p.must(err)
	if len(r.prepared.Rejected) > 0 {
		return r
	}
	p.holdsJust(held, r.prepared.Held)
	if !r.prepared.Plan.Empty() {
		p.sets[r.prepared.To] = r.set
	}
	r.outcome, err = node.Switch(ctx, r.prepared, options, progress)
	if err != nil && unfinished(node) {
		r.recover = err // also a way back that is refused
		return r
	}
	if faults, rejected := errors.AsType[units.Faults](err); rejected {
		r.prepared.Rejected = faults
		return r
	}
	r.waits = err != nil && p.blocked()
	if err != nil && !r.set.fails() && !r.waits {
		p.Fatalf("switch: %v\n%s", err, strings.Join(r.outcome.Failed, "\n"))
	}
	return r
}

func unfinished(node *apply.Node) bool {
	if node.Ledger == nil {
		return false
	}
	_, open := node.Ledger.Unfinished()
	return open
}

// afterDeath looks at what a switch left that died.
func (p *play) afterDeath() {
	p.died = true
	for unit := range p.down {
		p.down[unit] = "" // it may be due now
	}
	p.always()
}

// recoverAtBoot is what the recovery unit runs.
func (p *play) recoverAtBoot() {
	ctx := context.Background()
	node, err := apply.OpenLocked(ctx, p.host.Layout, p.host.ConnectAtBoot)
	p.must(err)
	defer func() { p.must(node.Close()) }()
	_, err = node.Recover(ctx, apply.Options{Rollback: true, Keep: 3}, func(apply.Event) {})
	if err != nil && p.found.none() {
		p.Errorf("recover at boot: %v", err)
	}
	p.heldBack = err != nil
}

func (p *play) reboot() {
	p.boots, p.heldBack = true, false
	p.must(p.host.Cut())
	p.must(p.host.Boot())
	p.boots = false
	clear(p.down)
	p.found.reboot(p.host)
	for _, k := range p.kept {
		k.cut = true
	}
	p.noteOwners()
	p.noteDown(func(declaration) bool { return false })
	p.always()
}

// noteDown has what is in force and down stay so, but for what is unsure.
func (p *play) noteDown(sure func(declaration) bool) {
	m := p.inForce()
	for _, d := range m {
		if d.address.Kind != units.KindContainer || p.isUp(d) {
			continue
		}
		if _, known := p.down[d.base()]; known {
			continue
		}
		p.down[d.base()] = ""
		if sure(d) {
			p.down[d.base()] = m.runs(d) + forAddress + d.address.String()
		}
	}
}

// noteMasked has what is down and masked, under whatever name it had, stay down or
// not: the mask is of a name, and its owner's word.
func (p *play) noteMasked(m manifest) {
	ledger := p.ledgerOrNone()
	if ledger == nil {
		return
	}
	for _, r := range ledger.Live() {
		_, active := p.host.UnitState(r.Target.Name())
		if d, declared := m[r.Resource]; declared && p.isMasked(r.Target) && active != "active" {
			p.down[d.base()] = ""
		}
	}
}

func (p *play) isUp(d declaration) bool {
	_, active := p.host.UnitState(d.base() + ".service")
	return active == "active"
}

// inForce is the manifest of the generation that current points to.
func (p *play) inForce() manifest {
	n, ok, err := state.Current(p.host.Layout)
	p.must(err)
	if !ok {
		return manifest{}
	}
	return p.sets[n]
}

const forAddress = " for "

// isDown reports whether a container is to stay down, and whether that is sure: one
// that passed to another resource may be up as well.
func (p *play) isDown(m manifest, d declaration) (down, sure bool) {
	was, known := p.down[d.base()]
	runs, address, _ := strings.Cut(was, forAddress)
	switch {
	case !known:
		return false, true
	case was == "" || (runs == m.runs(d) && address != d.address.String()):
		return false, false
	}
	return runs == m.runs(d), true
}

// runs tells what makes a container run as it does.
func (m manifest) runs(d declaration) string {
	return strings.TrimPrefix(fmt.Sprint(resource(d, m).Sections[0].Entries), "") + " by " + d.base() + m.reach(d)
}

// reach tells the names that a container's own depends on.
func (m manifest) reach(d declaration) string {
	s := ""
	for _, kind := range []units.Kind{units.KindVolume, units.KindNetwork} {
		if id := d.get(string(kind)); id != "" {
			s += " on " + m[d.with(kind, id)].object()
		}
	}
	return s
}

// changes returns the lines of two trees that only one has.
func changes(before, after string) string {
	had, has := strings.Split(before, "\n"), strings.Split(after, "\n")
	var diff []string
	for _, line := range had {
		if !slices.Contains(has, line) {
			diff = append(diff, "- "+line)
		}
	}
	for _, line := range has {
		if !slices.Contains(had, line) {
			diff = append(diff, "+ "+line)
		}
	}
	return strings.Join(diff, "\n")
}

// tree tells all that lies on the disk, but for what goes with the power. What
// was written again is another, if only by its time.
func (p *play) tree() string {
	var b strings.Builder
	for _, top := range []string{"etc", "var"} {
		p.must(filepath.WalkDir(p.host.Layout.Path(top), func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() || path == p.host.Layout.Lock() {
				b.WriteString(path + "\n")
				if filepath.Dir(path) == p.host.Layout.Generations() && err == nil {
					return fs.SkipDir // a generation is never changed
				}
				return err
			}
			info, err := e.Info()
			if err == nil {
				fmt.Fprintln(&b, path, info.Size(), info.ModTime().UnixNano())
			}
			return err
		}))
	}
	for _, c := range p.host.Containers() {
		fmt.Fprintf(&b, "%s %s %t\n", c.Name, c.ID, c.Running)
	}
	return b.String()
}

var paths = []string{"/etc/x/one", "/etc/x/two", "/etc/y/one"}

// TestKeptHistories plays the histories of testdata/histories: each was found to
// go wrong once.
func TestKeptHistories(t *testing.T) {
	for name, h := range readHistories(t, "testdata/histories") {
		t.Run(name, func(t *testing.T) {
			if faults := h.play(t.TempDir(), 1); len(faults) > 0 {
				t.Error(strings.Join(faults, "\n"))
			}
		})
	}
}

func readHistories(t *testing.T, dir string) map[string]history {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]history{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var h history
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				h = append(h, line)
			}
		}
		found[strings.TrimSuffix(filepath.Base(file), ".txt")] = h
	}
	return found
}
