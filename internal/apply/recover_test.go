package apply_test

import (
	"testing"

	"meshgen/internal/apply"
	"meshgen/internal/simulated"
	"meshgen/state"
	"meshgen/units"
)

// A switch with --rollback=never to a set that does not come up is cut short at
// each of its points in turn. Where the set was in force by then the recovery
// leaves it so, whatever it is told itself, and what failed stays due.
func TestRecoveryLeavesInForceWhatWasNeverToGoBack(t *testing.T) {
	stayed := 0
	for kill, died := 1, true; died; kill++ {
		p := newPlay(t.TempDir(), 1)
		p.step("container m/a")
		p.step("switch")
		p.step("container m/a env=FAIL:start")
		p.host.Kill(kill, kill%2 == 0)
		p.switchNever(t)
		if died = p.host.Dead(); !died {
			break
		}
		p.host.Kill(0, false)
		if kill%2 == 0 {
			p.reboot()
		}
		before, _, err := state.Current(p.host.Layout)
		p.must(err)
		if !p.mustStayIfInForce(t, before) || len(p.faults) > 0 {
			t.Errorf("at point %d: %q", kill, p.faults)
		}
		if before == 2 {
			stayed++
		}
	}
	if stayed == 0 {
		t.Error("none was cut short once it was in force")
	}
}

// switchNever brings the manifest into force with --rollback=never.
func (p *play) switchNever(t *testing.T) {
	t.Helper()
	m := p.manifest.sound()
	p.onNode(t, func(node *apply.Node) error {
		in, err := node.Prepare(t.Context(), apply.Input{Node: "n", Digest: m.digest(), Resources: m.resources()})
		if err != nil {
			return err
		}
		p.sets[in.To] = m
		_, err = node.Switch(t.Context(), in, apply.Options{Keep: 3}, func(apply.Event) { p.host.Point() })
		return err
	})
}

// mustStayIfInForce recovers, and sees that the generation is in force which was
// before, with what failed of it due.
func (p *play) mustStayIfInForce(t *testing.T, before int) (ok bool) {
	t.Helper()
	var out apply.Outcome
	p.onNode(t, func(node *apply.Node) (err error) {
		out, err = node.Recover(t.Context(), apply.Options{Rollback: true, Keep: 3}, func(apply.Event) {})
		return err
	})
	after, _, err := state.Current(p.host.Layout)
	p.must(err)
	due, _ := p.ledger().Record(units.Of(units.TargetUnit, "m-a.service"))
	if after != before || (after == 2 && (!due.Due || (out.Result != state.Failed && out.Result != ""))) || (after == 1 && due.Due) {
		t.Errorf("generation %d is in force, then %d; due is %t, and it ended %q", before, after, due.Due, out.Result)
		return false
	}
	return true
}

// onNode does something with the node locked, as far as the process lives.
func (p *play) onNode(t *testing.T, do func(*apply.Node) error) {
	t.Helper()
	node, err := apply.OpenLocked(t.Context(), p.host.Layout, p.host.Connect)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if v := recover(); v != nil && v != any(simulated.Killed{}) {
			panic(v)
		}
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := do(node); err != nil {
		t.Error(err)
	}
}
