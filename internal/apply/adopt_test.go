package apply_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"meshgen/internal/apply"
	"meshgen/internal/simulated"
	"meshgen/state"
	"meshgen/units"
)

// takeover is a machine that had a life before, and a manifest that wants all of
// its names.
type takeover struct {
	*play
	set []units.Resource
}

func newTakeover(t *testing.T, dir string) takeover {
	t.Helper()
	p := newPlay(dir, 1)
	write := func(path, text string) {
		at := p.host.Layout.Path(path)
		p.must(os.MkdirAll(filepath.Dir(at), 0o755))
		p.must(os.WriteFile(at, []byte(text), 0o640))
	}
	p.must(p.host.CreateNetwork("net", "10.99.5.0/24"))
	p.must(p.host.CreateVolume("vat"))
	p.must(p.host.CreateSecret("pass", "found", map[string]string{"app": "x"}))
	p.must(p.host.RunContainer("hand", "localhost/probe:2", "--network=net"))
	p.must(p.host.RunContainer("bystander", "localhost/probe:2"))
	write("/etc/containers/systemd/quad.container", "[Container]\nImage=localhost/probe:2\nContainerName=quad\n[Install]\nWantedBy=multi-user.target\n")
	write("/etc/systemd/system/plain.service", "[Service]\nExecStart=/usr/bin/sleep inf\n")
	write("/etc/systemd/system/plain.service.d/x.conf", "[Service]\nEnvironment=X=y\n")
	p.must(os.MkdirAll(p.host.Layout.Path("/etc/systemd/system/multi-user.target.wants"), 0o755))
	p.must(os.Symlink("../plain.service", p.host.Layout.Path("/etc/systemd/system/multi-user.target.wants/plain.service")))
	write("/etc/systemd/system/hand.service.d/x.conf", "[Service]\nEnvironment=X=y\n")
	write("/etc/systemd/system/bystander.service", "[Service]\nExecStart=/usr/bin/sleep inf\n")
	write("/etc/x/one", "found\n")
	p.must(os.Symlink("/nowhere", p.host.Layout.Path("/etc/x/link")))
	p.must(p.host.Mask("masked.service"))
	for _, unit := range []string{"quad.service", "plain.service", "bystander.service"} {
		p.must(p.host.Start(unit))
	}
	for _, line := range []string{
		"network m/net name=net subnet=5", "volume m/data name=vat", "container m/h unit=hand name=hand network=net volume=data",
		"container m/q unit=quad name=quad", "container m/p unit=plain name=plain", "container m/m unit=masked name=masked",
		"file m/f path=/etc/x/one content=1", "file m/l path=/etc/x/link content=2",
	} {
		p.step(line)
	}
	set := adopting(p)
	p.host.OnStart, p.host.OnLost = nil, nil
	p.host.OnRecover = func() { w := takeover{p, set}; w.recover(p.host.ConnectAtBoot) }
	return takeover{p, set}
}

// adopting returns what is declared, a secret beside it, all of which adopts.
func adopting(p *play) []units.Resource {
	set := append(p.manifest.resources(), units.Resource{
		Address: units.Address{Module: "m", Kind: units.KindSecret, ID: "s"}, Name: "pass", Secret: &units.Secret{Content: []byte("ours")},
	})
	for i := range set {
		set[i].Policy = map[string]string{"takeover": "adopt"}
	}
	return set
}

// found is all that must be as it was. A container of the owner's own hand is down
// after a power cut where nothing gives it back, and so is no part of it then.
func (w takeover) found(cut bool) string { //nolint:revive // less to tell, no other way
	var b strings.Builder
	for _, c := range w.host.Containers() {
		switch {
		case c.Unit != "":
			fmt.Fprintf(&b, "container %s of %s, %t %v\n", c.Name, c.Unit, c.Running, c.Labels)
		case cut:
			fmt.Fprintf(&b, "container %s %s\n", c.Name, c.ID)
		default:
			fmt.Fprintf(&b, "container %s %s, %t\n", c.Name, c.ID, c.Running)
		}
	}
	for _, n := range w.host.Networks() {
		fmt.Fprintf(&b, "network %s %d\n", n.Name, n.Born)
	}
	for _, v := range w.host.Volumes() {
		fmt.Fprintf(&b, "volume %s %d\n", v.Name, v.Born)
	}
	for _, s := range w.host.Secrets() {
		fmt.Fprintf(&b, "secret %s %v %v %s\n", s.Name, s.Labels, s.Options, s.Content)
	}
	for _, name := range w.host.Units() {
		if name != "bystander.service" || !cut {
			fmt.Fprintf(&b, "up %s\n", name)
		}
	}
	for _, dir := range []string{"/etc/x", "/etc/systemd", "/etc/containers"} {
		w.must(filepath.WalkDir(w.host.Layout.Path(dir), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			info, err := e.Info()
			if e.Type()&fs.ModeSymlink != 0 {
				to, err := os.Readlink(path)
				fmt.Fprintf(&b, "link %s %s %v\n", path, to, info.ModTime())
				return err
			}
			text, _ := os.ReadFile(path)
			fmt.Fprintf(&b, "file %s %v %v\n%s", path, info.Mode(), info.ModTime(), text)
			return err
		}))
	}
	return b.String()
}

// adopted says what is not meshgen's by now; "" where all is.
func (w takeover) adopted() string {
	wrong := ""
	runs, aside := map[string]string{}, false
	for _, c := range w.host.Containers() {
		runs[c.Name] = fmt.Sprint(c.Labels[units.MarkLabel], " ", c.Running)
		aside = aside || strings.HasPrefix(c.Name, "hand.adopted-") && !c.Running
	}
	for name, id := range map[string]string{"hand": "h", "quad": "q", "plain": "p", "masked": "m"} {
		if runs[name] != "m/container/"+id+" true" {
			wrong += fmt.Sprintf("container %s is %q\n", name, runs[name])
		}
	}
	if s := w.host.Secrets(); len(s) != 1 || s[0].Content != "ours" || s[0].Labels[units.MarkLabel] != "m/secret/s" {
		wrong += fmt.Sprintf("the secrets are %v\n", s)
	}
	if !aside {
		wrong += "nothing was put aside\n"
	}
	for _, path := range []string{
		"/etc/containers/systemd/quad.container", "/etc/systemd/system/plain.service", "/etc/systemd/system/masked.service",
		"/etc/systemd/system/multi-user.target.wants/plain.service", "/etc/systemd/system/plain.service.d/x.conf",
		"/etc/systemd/system/hand.service.d/x.conf",
	} {
		if _, err := os.Lstat(w.host.Layout.Path(path)); err == nil {
			wrong += path + " is there\n"
		}
	}
	for _, name := range []string{"one", "link"} {
		if info, err := os.Lstat(w.host.Layout.Path("/etc/x/" + name)); err != nil || !info.Mode().IsRegular() {
			wrong += name + " is no file of ours\n"
		}
	}
	return wrong
}

// recover runs a recovery, by the machine that connect reaches.
func (w takeover) recover(connect apply.Connect) {
	w.with(connect, func(node *apply.Node) error {
		_, err := node.Recover(context.Background(), apply.Options{Rollback: true, Keep: 3}, func(apply.Event) {})
		return err
	})
}

// with has a node act until it is done, or its process dies.
func (w takeover) with(connect apply.Connect, act func(*apply.Node) error) {
	node, err := apply.OpenLocked(context.Background(), w.host.Layout, connect)
	w.must(err)
	defer func() {
		v := recover()
		w.must(node.Close())
		if v != nil && v != any(simulated.Killed{}) {
			panic(v)
		}
	}()
	w.must(act(node))
}

// switchTo brings the set into force, or has names given back.
func (w takeover) switchTo(release ...string) {
	if err := w.attempt(release...); err != nil {
		w.must(err)
	}
}

// attempt is switchTo that may fail.
func (w takeover) attempt(release ...string) (failed error) {
	w.with(w.host.Connect, func(node *apply.Node) error {
		failed = w.act(node, release)
		return nil
	})
	return failed
}

func (w takeover) act(node *apply.Node, release []string) error {
	ctx := context.Background()
	in := apply.Input{Node: "n", Digest: fmt.Sprint(len(w.set), slices.ContainsFunc(w.set, func(r units.Resource) bool { return r.Wasm != nil })), Resources: w.set}
	for _, name := range release {
		if name == "adopt" {
			in.Adopt = []string{"container:hand", "unit:hand.service", "unit:quad.service", "unit:plain.service", "unit:masked.service", "network:net", "volume:vat", "secret:pass", "file:/etc/x/one", "file:/etc/x/link"}
			continue
		}
		var err error
		if in, err = node.Releasing(ctx, in, release); err != nil {
			return err
		}
		break
	}
	p, err := node.Prepare(ctx, in)
	if err == nil && len(p.Rejected) > 0 {
		err = p.Rejected
	}
	if err != nil {
		return err
	}
	out, err := node.Switch(ctx, p, apply.Options{Rollback: true, Keep: 3}, func(apply.Event) { w.host.Point() })
	if err == nil && len(out.Failed) > 0 {
		err = fmt.Errorf("%v", out.Failed)
	}
	return err
}

// What has a name by now that is to be given back is left alone, and the next switch
// gives back what it kept from its place, once that is free.
func TestReleaseWaitsForTheName(t *testing.T) {
	try(t, func(w takeover) {
		was := w.found(false)
		w.switchTo()
		w.must(w.host.Stop("hand.service"))
		w.must(w.host.RunContainer("hand", "localhost/probe:2"))
		err := w.attempt(released...)
		if err == nil || !strings.Contains(err.Error(), "has the name by now") {
			t.Fatalf("release: %v", err)
		}
		if err := w.attempt(); err == nil {
			t.Error("a switch says nothing of what is to be given back")
		}
		w.host.RemoveContainer("hand")
		w.switchTo()
		if diff := gocmp.Diff(was, w.found(false)); diff != "" {
			t.Errorf("released (-was +is):\n%s", diff)
		}
	})
}

// A policy that is at fault does not keep the owner from having back what was his.
func TestReleaseAsksNoPolicy(t *testing.T) {
	try(t, func(w takeover) {
		was := w.found(false)
		w.switchTo()
		const junk = "junk"
		for i := range w.set {
			w.set[i].Wasm = &units.Wasm{Path: "junk.wasm", Digest: state.TextDigest(junk), Content: []byte(junk)}
		}
		w.switchTo()
		set := w.set
		w.set = slices.DeleteFunc(slices.Clone(set), func(r units.Resource) bool { return r.Address.ID == "p" })
		err := w.attempt()
		if err == nil || strings.Count(err.Error(), "policy junk.wasm: is no WebAssembly program") != strings.Count(err.Error(), "junk.wasm tries") {
			t.Errorf("what is taken away is let go without the policy's word: %v", err)
		}
		if err == nil || !strings.Contains(err.Error(), "without wasm, switch, then take it away") {
			t.Errorf("nothing says how to get out: %v", err)
		}
		w.set = set
		w.switchTo(released...)
		if diff := gocmp.Diff(was, w.found(false)); diff != "" {
			t.Errorf("released (-was +is):\n%s", diff)
		}
	})
}

// Where a unit does not come up, all is given back, and adopted once it does.
func TestAdoptThatFailsGivesBack(t *testing.T) {
	try(t, func(w takeover) {
		was := w.found(false)
		w.step("container m/m env=FAIL:start")
		sound := w.set
		w.set = adopting(w.play)
		if err := w.attempt(); err == nil {
			t.Fatal("a unit that fails comes up")
		}
		if diff := gocmp.Diff(was, w.found(false)); diff != "" {
			t.Fatalf("rolled back (-was +is):\n%s", diff)
		}
		w.set = sound
		w.switchTo()
		if wrong := w.adopted(); wrong != "" {
			t.Errorf("not adopted:\n%s", wrong)
		}
	})
}

var released = []string{
	"container:hand", "unit:hand.service", "container:quad", "unit:plain.service", "unit:masked.service", "network:net", "volume:vat", "secret:pass", "file:/etc/x/one", "file:/etc/x/link",
}

// try runs a test on a machine of its own, and tells what could not go on.
func try(t *testing.T, test func(w takeover)) {
	t.Helper()
	defer func() {
		if v := recover(); v != nil && v != any(broken{}) {
			panic(v)
		}
	}()
	w := newTakeover(t, filepath.Join(memory(t), "node"))
	defer func() {
		for _, f := range w.faults {
			t.Error(f)
		}
	}()
	test(w)
}

func TestAdoptAndRelease(t *testing.T) {
	try(t, func(w takeover) {
		was := w.found(false)
		w.switchTo()
		if wrong := w.adopted(); wrong != "" {
			t.Fatalf("not adopted:\n%s", wrong)
		}
		acts := w.host.Acts()
		w.switchTo()
		if w.host.Acts() != acts {
			t.Error("a second switch acts")
		}
		w.switchTo(released...)
		if diff := gocmp.Diff(was, w.found(false)); diff != "" {
			t.Fatalf("released (-was +is):\n%s", diff)
		}
		acts = w.host.Acts()
		w.switchTo()
		if w.host.Acts() != acts {
			t.Error("what was given back is adopted again, unasked")
		}
		w.switchTo("adopt")
		if wrong := w.adopted(); wrong != "" {
			t.Fatalf("not adopted again:\n%s", wrong)
		}
	})
}

// A switch dies at each of its points, with the power or without: a recovery, and
// the boot's where there is one, end with all adopted or all as it was.
func TestAdoptDiesAnywhere(t *testing.T) {
	dieAnywhere(t, func(takeover) {}, func(w takeover) { w.switchTo() })
}

func TestReleaseDiesAnywhere(t *testing.T) {
	dieAnywhere(t, func(w takeover) { w.switchTo() }, func(w takeover) { w.switchTo(released...) })
}

func dieAnywhere(t *testing.T, begin, act func(takeover)) {
	for n, died := 1, true; died; n++ {
		died = false
		for _, cut := range []bool{false, true} {
			try(t, func(w takeover) {
				was := w.found(cut)
				begin(w)
				w.host.Kill(n, cut)
				act(w)
				dead := w.host.Dead()
				died = died || dead
				w.host.Kill(0, false)
				if cut && dead {
					w.must(w.host.Cut())
					w.must(w.host.Boot())
				}
				w.recover(w.host.Connect)
				if wrong := w.adopted(); wrong != "" && w.found(cut) != was {
					t.Errorf("at point %d, power cut %t: neither adopted:\n%s\nnor as it was (-was +is):\n%s", n, cut, wrong, gocmp.Diff(was, w.found(cut)))
				}
			})
		}
		if t.Failed() {
			return
		}
	}
}

// What is not there any more, or not as it was kept, is seen before anything of ours
// is taken away, and stays recorded.
func TestReleaseOfWhatIsGone(t *testing.T) {
	try(t, func(w takeover) {
		w.switchTo()
		kept := func(name string) string { return filepath.Join(w.host.Layout.Adopted(), "1", name) }
		for _, c := range w.host.Containers() {
			if strings.HasPrefix(c.Name, "hand.adopted-") {
				w.host.RemoveContainer(c.Name)
			}
		}
		w.must(os.Remove(kept("etc!x!one.kept")))
		w.must(os.WriteFile(kept("etc!systemd!system!plain.service.kept"), []byte("[Service]\nExecStart=/usr/bin/touch /pwned\n"), 0o600))
		acts := w.host.Acts()
		err := w.attempt(released...)
		if err == nil {
			t.Fatal("all is given back")
		}
		for _, want := range []string{
			"container:hand: cannot be given back: container ", "is gone", "file:/etc/x/one: cannot be given back: the copy of /etc/x/one is gone from " + kept("etc!x!one.kept"),
			"unit:plain.service: cannot be given back: the copy of /etc/systemd/system/plain.service was changed: " + kept("etc!systemd!system!plain.service.kept"),
		} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("release: %v\nwant %q", err, want)
			}
		}
		if w.host.Acts() != acts {
			t.Error("a release that is refused acts")
		}
		for _, what := range released {
			if r, _ := w.ledger().Record(units.Target(what)); r.Adoption == nil || r.State != state.Live {
				t.Errorf("%s is %s, %s", what, r.State, r.Origin)
			}
		}
	})
}

// A volume that was made anew by other hands is not said to be given back: once, and
// its name is free.
func TestReleaseOfAnotherVolume(t *testing.T) {
	try(t, func(w takeover) {
		w.switchTo()
		w.must(w.host.Stop("hand.service"))
		w.must(w.host.RemoveVolume("vat"))
		w.must(w.host.CreateVolume("vat"))
		err := w.attempt(released...)
		if want := "volume:vat: not given back: the volume is gone, and another has its name"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("release: %v\nwant %q", err, want)
		}
		if r, _ := w.ledger().Record("volume:vat"); r.Adoption != nil || r.Origin == "released" {
			t.Errorf("volume:vat is %s, %s", r.State, r.Origin)
		}
		if len(w.host.Volumes()) != 1 {
			t.Errorf("volumes: %v", w.host.Volumes())
		}
	})
}

// What its owner has put where a file was, after ours was gone or over ours, is not
// replaced; he may let go of what was kept.
func TestReleaseReplacesNothingOfOthers(t *testing.T) {
	try(t, func(w takeover) {
		one := w.host.Layout.Path("/etc/x/one")
		full := w.set
		w.switchTo()
		w.must(os.WriteFile(one, []byte("changed\n"), 0o644))
		if err := w.attempt("file:/etc/x/one"); err == nil || !strings.Contains(err.Error(), "somebody else has put something there") {
			t.Errorf("release over a change: %v", err)
		}
		w.must(os.Remove(one))
		w.set = slices.DeleteFunc(slices.Clone(full), func(r units.Resource) bool { return r.Address.ID == "f" })
		w.switchTo()
		w.must(os.WriteFile(one, []byte("new\n"), 0o644))
		if err := w.attempt("file:/etc/x/one"); err == nil || !strings.Contains(err.Error(), "somebody else has put something there") {
			t.Errorf("release over a new one: %v", err)
		}
		if text, err := os.ReadFile(one); string(text) != "new\n" {
			t.Errorf("%q (%v)", text, err)
		}
		w.with(w.host.Connect, func(node *apply.Node) error {
			_, err := node.Forget([]string{"file:/etc/x/one"})
			return err
		})
		if r, _ := w.ledger().Record("file:/etc/x/one"); r.Adoption != nil {
			t.Error("what was kept is not let go")
		}
	})
}

// without takes a resource out of the manifest.
func (w *takeover) without(ids ...string) {
	w.set = slices.DeleteFunc(slices.Clone(w.set), func(r units.Resource) bool { return slices.Contains(ids, r.Address.ID) })
}

// refused sees that an attempt is refused with words, and does nothing.
func (w takeover) refused(t *testing.T, want string, release ...string) {
	t.Helper()
	acts := w.host.Acts()
	if err := w.attempt(release...); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v\nwant %q", err, want)
	}
	if w.host.Acts() != acts {
		t.Error("what is refused acts")
	}
}

// The ledger has one adoption of a name: a second would lose the first.
func TestAdoptTwiceIsRefused(t *testing.T) {
	try(t, func(w takeover) {
		full := w.set
		w.switchTo()
		w.without("h", "f")
		w.switchTo()
		w.must(w.host.RunContainer("hand", "localhost/probe:2"))
		w.must(os.WriteFile(w.host.Layout.Path("/etc/x/one"), []byte("second\n"), 0o644))
		w.set = full
		w.refused(t, "container:hand cannot be adopted: what had the name before generation 1 is still kept")
		w.refused(t, "file:/etc/x/one cannot be adopted: what had the name before generation 1 is still kept")
	})
}

// declare has lines change the manifest, all of which adopts.
func (w *takeover) declare(lines ...string) {
	for _, line := range lines {
		w.step(line)
	}
	w.set = adopting(w.play)
}

// What is given back lies, or runs, beside what took its place and has another name by
// now, unless the two may share what one alone can have.
func TestReleaseBesideSuccessor(t *testing.T) {
	try(t, func(w takeover) {
		w.switchTo()
		w.declare("file m/f path=/etc/x/two", "container m/h name=his", "container m/p unit=simple")
		w.refused(t, "unit:plain.service: cannot be given back: m/container/p at ", "unit:plain.service")
		w.refused(t, "took its place and stays, as container:plain, and what the two would share is not known", "unit:plain.service")
		w.switchTo()
		w.refused(t, "took its place and stays, as container:plain, and what the two would share is not known", "unit:plain.service")
		w.switchTo("file:/etc/x/one", "container:hand")
		if text, err := os.ReadFile(w.host.Layout.Path("/etc/x/one")); string(text) != "found\n" {
			t.Errorf("the file that is given back holds %q, %v", text, err)
		}
		if text, err := os.ReadFile(w.host.Layout.Path("/etc/x/two")); err != nil || string(text) == "found\n" {
			t.Errorf("what took its place holds %q, %v", text, err)
		}
		runs := map[string]bool{}
		for _, c := range w.host.Containers() {
			runs[c.Name] = c.Running
		}
		if !runs["hand"] || !runs["his"] {
			t.Errorf("containers run: %v", runs)
		}
		acts := w.host.Acts()
		if w.switchTo(); w.host.Acts() != acts {
			t.Error("a switch after that acts")
		}
		w.without("p")
		w.switchTo()
		w.switchTo("unit:plain.service")
		if _, active := w.host.UnitState("plain.service"); active != "active" {
			t.Errorf("plain.service is %s", active)
		}
	})
}

// What is put aside is not declared, nor adopted, under the name that it has then.
func TestAsideIsNoTarget(t *testing.T) {
	try(t, func(w takeover) {
		w.switchTo()
		w.declare("container m/aside unit=aside name=hand.adopted-1")
		w.refused(t, "container:hand.adopted-1 is what container:hand was before it was adopted, put aside")
	})
}

// Status tells of what is put aside, and is not as that has to be.
func TestStatusTellsOfAsides(t *testing.T) {
	try(t, func(w takeover) {
		w.switchTo()
		drift := func() (told string) {
			w.with(w.host.Connect, func(node *apply.Node) error {
				_, standings, err := node.Status(context.Background())
				for _, s := range standings {
					if slices.Contains(s.Targets, "container:hand.adopted-1") {
						told = s.Drift
					}
				}
				return err
			})
			return told
		}
		if told := drift(); told != "" {
			t.Errorf("of one that is as it was left: %s", told)
		}
		if told := w.losses(); told != "" {
			t.Errorf("of one that is as it was left, a plan tells %s", told)
		}
		w.host.RemoveContainer("hand.adopted-1")
		if told, want := drift(), "is gone: container:hand cannot be given back"; told != want {
			t.Errorf("%q, want %q", told, want)
		}
		if told, want := w.losses(), "container:hand.adopted-1 is gone: container:hand cannot be given back"; told != want {
			t.Errorf("a plan tells %q, want %q", told, want)
		}
		w.switchTo() // fails for no such thing
		w.with(w.host.Connect, func(node *apply.Node) error {
			_, err := node.Forget([]string{"container:hand.adopted-1"})
			return err
		})
		if told := w.losses(); told != "" {
			t.Errorf("of one that was let go, a plan tells %s", told)
		}
	})
}

// losses is what a plan tells of what was put aside.
func (w takeover) losses() (told string) {
	w.with(w.host.Connect, func(node *apply.Node) error {
		p, err := node.Prepare(context.Background(), apply.Input{Node: "n", Digest: "1", Resources: w.set})
		for _, l := range p.Losses {
			told += string(l.Target) + " " + l.Detail
		}
		return err
	})
	return told
}

// What could not be given back at once has its place left free until it is.
func TestOwedReleaseComesFirst(t *testing.T) {
	try(t, func(w takeover) {
		was := w.found(false)
		w.switchTo()
		w.must(w.host.Stop("hand.service"))
		w.must(w.host.RunContainer("hand", "localhost/probe:2"))
		if err := w.attempt(released...); err == nil {
			t.Fatal("all is given back")
		}
		w.with(w.host.Connect, func(node *apply.Node) error {
			p, err := node.Prepare(context.Background(), apply.Input{Node: "n", Digest: "1", Resources: w.set})
			i := slices.IndexFunc(p.Held, func(h state.Holding) bool { return h.Resource.String() == "m/container/h" })
			switch {
			case err != nil:
			case i < 0:
				t.Error("nothing waits for what is to be given back")
			case p.Held[i].Command() != "":
				t.Errorf("%q is offered, and would be refused", p.Held[i].Command())
			}
			return err
		})
		w.host.RemoveContainer("hand")
		for range 2 {
			w.switchTo()
			if diff := gocmp.Diff(was, w.found(false)); diff != "" {
				t.Errorf("released (-was +is):\n%s", diff)
			}
		}
	})
}

// A volume that was adopted has no copy: no policy has a switch remove it.
func TestRemovedAdoptedVolumeStays(t *testing.T) {
	try(t, func(w takeover) {
		for i := range w.set {
			w.set[i].Policy["remove"] = "remove"
		}
		w.switchTo()
		w.set = nil
		w.switchTo()
		if v := w.host.Volumes(); len(v) != 1 {
			t.Errorf("volumes: %v", v)
		}
		if r, _ := w.ledger().Record("volume:vat"); r.Adoption == nil {
			t.Error("nothing would give the volume back")
		}
	})
}

// What would take another's container down, start it or part a file from its other
// names is refused, and nothing is done.
func TestAdoptRefusesWhatOthersHave(t *testing.T) {
	write := func(w takeover, path, text string) {
		w.must(os.MkdirAll(filepath.Dir(w.host.Layout.Path(path)), 0o755))
		w.must(os.WriteFile(w.host.Layout.Path(path), []byte(text), 0o644))
		w.must(w.host.Reload())
	}
	for _, c := range []struct {
		name, says string
		begin      func(w takeover)
	}{
		{"a unit that starts another", "container:hand cannot be adopted: by both.service, which would be taken away, podman runs bystander", func(w takeover) {
			write(w, "/etc/systemd/system/both.service", "[Service]\nExecStart=/bin/sh -c \"podman start hand; podman start bystander; exec sleep inf\"\n")
		}},
		{"two units that start it", "a.service and b.service each start it", func(w takeover) {
			write(w, "/etc/systemd/system/a.service", "[Service]\nExecStart=/bin/sh -c \"podman start hand\"\n")
			write(w, "/etc/systemd/system/b.service", "[Service]\nExecStart=-/bin/sh -c 'podman run --name=hand x'\n")
		}},
		{"an instance", "ctr@hand.service starts it, one of a template's units", func(w takeover) {
			write(w, "/etc/systemd/system/ctr@.service", "[Service]\nExecStart=/bin/sh -c 'podman start %i'\n")
			w.must(os.Symlink("/etc/systemd/system/ctr@.service", w.host.Layout.Path("/etc/systemd/system/multi-user.target.wants/ctr@hand.service")))
		}},
		{"a unit that makes another", "podman removes it as it stops", func(w takeover) {
			write(w, "/etc/containers/systemd/quad.container", "[Container]\nImage=localhost/probe:2\nContainerName=other\n")
		}},
		{"its network", "container:hand cannot be adopted: podman has others depend on it: side", func(w takeover) {
			w.must(w.host.RunContainer("side", "localhost/probe:2", "--network=container:hand"))
		}},
		{"a file of two names", "/etc/x/one has other names: 2 hard links lead to it", func(w takeover) {
			w.must(os.Link(w.host.Layout.Path("/etc/x/one"), w.host.Layout.Path("/etc/x/other")))
		}},
		{"a unit file of two names", "/etc/systemd/system/plain.service has other names", func(w takeover) {
			w.must(os.Link(w.host.Layout.Path("/etc/systemd/system/plain.service"), w.host.Layout.Path("/etc/x/other")))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			try(t, func(w takeover) {
				c.begin(w)
				was, acts := w.found(false), w.host.Acts()
				err := w.attempt()
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("says %v, not %q", err, c.says)
				}
				if diff := gocmp.Diff(was, w.found(false)); diff != "" || w.host.Acts() != acts {
					t.Errorf("refused (-was +is):\n%s", diff)
				}
			})
		})
	}
}

// Two containers that one unit starts are adopted by one switch, which takes its file
// once, and are given back together.
func TestAdoptTwoOfOneUnit(t *testing.T) {
	try(t, func(w takeover) {
		at := w.host.Layout.Path("/etc/systemd/system/both.service")
		w.must(w.host.RunContainer("two", "localhost/probe:2"))
		w.must(os.WriteFile(at, []byte("[Service]\nExecStart=/bin/sh -c \"podman start hand two; exec sleep inf\"\n"), 0o644))
		w.must(w.host.Start("both.service"))
		w.declare("container m/two unit=two name=two")
		// A shell starts nothing on the simulated machine.
		found := func() string { return strings.ReplaceAll(w.found(false), ", false", ", true") }
		was := found()
		w.switchTo()
		if _, err := os.Lstat(at); err == nil {
			t.Error("the unit's file is there")
		}
		if err := w.attempt("container:two"); err == nil || !strings.Contains(err.Error(), "container:two: cannot be given back without container:hand") {
			t.Errorf("release of one: %v", err)
		}
		w.switchTo(append([]string{"container:two"}, released...)...)
		if diff := gocmp.Diff(was, found()); diff != "" {
			t.Errorf("released (-was +is):\n%s", diff)
		}
	})
}
