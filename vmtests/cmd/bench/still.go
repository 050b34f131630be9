package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"meshgen/vmtests/machine"
)

// The figures, in the order of the table.
const (
	bootGenerator       = "boot generator"
	bootGeneratorTenth  = "boot generator, against a tenth"
	bootGeneratorMemory = "boot generator, memory"
	nothingToDo         = "switch with nothing to do"
	nothingToDoRunning  = "switch with nothing to do, real containers"
	nothingToDoMemory   = "switch with nothing to do, memory"
	statusTime          = "status"
	statusRunning       = "status, real containers"
	auditTime           = "audit, 2,000 sockets"
	auditRunning        = "audit, real containers"
	buildTime           = "build"
	buildMemory         = "build, memory"
	firstSwitchSyncs    = "first switch, syncs"
	nothingToDoSyncs    = "switch with nothing to do, syncs"
	renameTime          = "one rename"
	renameAway          = "one rename, service away"
	renameSyncs         = "one rename, syncs"
	firstDecision       = "first decision, built-in policy"
	laterDecision       = "decision, built-in policy"
	firstDecisionGo     = "first decision, policy in Go, from the cache"
	laterDecisionGo     = "decision, policy in Go"
)

func figures() []string {
	return []string{
		bootGenerator, bootGeneratorTenth, bootGeneratorMemory, nothingToDo, nothingToDoRunning, nothingToDoMemory, nothingToDoSyncs,
		statusTime, statusRunning, auditTime, auditRunning, firstSwitchSyncs, buildTime, buildMemory, renameTime, renameAway, renameSyncs,
		firstDecision, laterDecision, firstDecisionGo, laterDecisionGo,
	}
}

// stub stands in for podman where a thousand containers are more than the host
// can run: a unit is then active and loaded, as systemd has it, with nothing
// in it.
const stub = `#!/bin/sh
case $1 in run | rm) exit 0 ;; esac
exec /usr/bin/podman.real "$@"
`

// still measures what starts and stops nothing, on a machine where n containers
// are declared.
func (b *bench) still(ctx context.Context, n int) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%d containers: %w", n, err)
		}
	}()
	m, err := b.boot(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	_, _ = fmt.Fprintf(b.log, "%d containers, declared\n", n) // only to be looked at
	if _, err := m.Run(ctx, "mv", "/usr/bin/podman", "/usr/bin/podman.real"); err != nil {
		return err
	}
	if err := m.WriteFile(ctx, "/usr/bin/podman", []byte(stub), 0o755); err != nil {
		return err
	}
	err = writeManifest(ctx, m, map[string]string{"fleet.cue": fleet(n, `Type: "oneshot", RemainAfterExit: "yes"`)})
	if err != nil {
		return err
	}
	syncs, err := syncsOf(ctx, m, "meshgen", "switch", "--quiet")
	if err != nil {
		return err
	}
	b.rows = append(b.rows, row{what: firstSwitchSyncs, size: n, ours: count(syncs)})
	if syncs, err = syncsOf(ctx, m, "meshgen", "switch", "--quiet"); err != nil {
		return err
	}
	b.rows = append(b.rows, row{what: nothingToDoSyncs, size: n, ours: count(syncs)})
	for _, measure := range []func(context.Context, *machine.Machine, int) error{b.generators, b.nothing, b.status, b.audits, b.builds} {
		if err := measure(ctx, m, n); err != nil {
			return err
		}
	}
	return nil
}

// generators measures ours and podman's, on the same Quadlets.
func (b *bench) generators(ctx context.Context, m *machine.Machine, n int) error {
	ours, theirs, memory, err := b.sideBySide(ctx, m, generator,
		[]string{"/usr/lib/systemd/system-generators/meshgen-generator"},
		[]string{"/usr/lib/systemd/system-generators/podman-system-generator"}, b.runs)
	if err != nil {
		return err
	}
	b.rows = append(b.rows,
		row{what: bootGenerator, size: n, ours: ours, yardstick: "podman's generator", theirs: theirs, budget: 15},
		row{what: bootGeneratorTenth, size: n, ours: ours, yardstick: "podman's generator", theirs: theirs, budget: theirs.median() / 10},
		row{what: bootGeneratorMemory, size: n, ours: memory, budget: 15})
	return nil
}

// nothing measures a switch with nothing to do, beside a look by systemctl.
func (b *bench) nothing(ctx context.Context, m *machine.Machine, n int) error {
	ours, theirs, memory, err := b.sideBySide(ctx, m, plainly,
		[]string{"meshgen", "switch", "--quiet"}, []string{"systemctl", "list-units", "--all", "--no-legend", "--no-pager"}, b.runs)
	if err != nil {
		return err
	}
	b.rows = append(b.rows,
		row{what: nothingToDo, size: n, ours: ours, yardstick: "systemctl list-units", theirs: theirs, budget: nothingBudget(n)},
		row{what: nothingToDoMemory, size: n, ours: memory, budget: 100})
	return nil
}

// status measures what is told of each declared resource, beside systemctl's list.
func (b *bench) status(ctx context.Context, m *machine.Machine, n int) error {
	ours, theirs, _, err := b.sideBySide(ctx, m, plainly,
		[]string{"meshgen", "status"}, []string{"systemctl", "list-units", "--all", "--no-legend", "--no-pager"}, b.runs)
	if err != nil {
		return err
	}
	b.rows = append(b.rows, row{what: statusTime, size: n, ours: ours, yardstick: "systemctl list-units", theirs: theirs, budget: statusBudget(n)})
	return nil
}

// statusBudget returns the budget of a status, in milliseconds; 0 where it has none.
func statusBudget(n int) float64 {
	if n <= 200 {
		return 300
	}
	return 0
}

// nothingBudget returns the budget of a switch with nothing to do, in
// milliseconds.
func nothingBudget(n int) float64 {
	if n <= 100 {
		return 30
	}
	return 100
}

// sockets has systemd listen on that many ports, as a distribution's socket unit.
const sockets = `set -e
cd /usr/lib/systemd/system
{ echo '[Socket]'; seq -f 'ListenStream=127.0.0.1:%.0f' 20000 21999; } >many.socket
printf '[Service]\nExecStart=sleep infinity\n' >many.service
systemctl daemon-reload
systemctl start many.socket
`

// auditBudget is what an audit may take, in milliseconds.
const auditBudget = 1000

// audited is an audit whatever it finds: a stub makes no containers.
func audited() []string {
	return []string{"sh", "-c", "meshgen audit --quiet >/dev/null || test $? = 10"}
}

// audits measures an audit among 2,000 sockets, beside the two looks that it joins.
func (b *bench) audits(ctx context.Context, m *machine.Machine, n int) error {
	if _, err := m.Run(ctx, "sh", "-c", sockets); err != nil {
		return err
	}
	yardsticks := map[string][]string{
		"podman ps -a": {"podman.real", "ps", "--all", "--format", "json"}, "ss -tulpn": {"ss", "-tulpn"},
	}
	for _, yardstick := range slices.Sorted(maps.Keys(yardsticks)) {
		ours, theirs, _, err := b.sideBySide(ctx, m, plainly, audited(), yardsticks[yardstick], b.runs)
		if err != nil {
			return err
		}
		b.rows = append(b.rows, row{what: auditTime, size: n, ours: ours, yardstick: yardstick, theirs: theirs, budget: auditBudget})
	}
	_, err := m.Run(ctx, "systemctl", "stop", "many.socket")
	return err
}

// builds measures what reads the whole manifest, beside a dry run of podman's
// converter on what came of it.
func (b *bench) builds(ctx context.Context, m *machine.Machine, n int) error {
	ours, theirs, memory, err := b.sideBySide(ctx, m, plainly,
		[]string{"sh", "-c", "rm -rf /tmp/built; exec meshgen build -o /tmp/built"},
		[]string{"/usr/libexec/podman/quadlet", "-dryrun"}, max(1, b.runs/3))
	if err != nil {
		return err
	}
	b.rows = append(b.rows,
		row{what: buildTime, size: n, ours: ours, yardstick: "quadlet -dryrun", theirs: theirs},
		row{what: buildMemory, size: n, ours: memory, budget: 100})
	return nil
}

// sideBySide runs two commands in turn, the first time unmeasured.
func (b *bench) sideBySide(ctx context.Context, m *machine.Machine, way string, our, their []string, runs int) (ours, theirs, memory series, err error) {
	ours.unit, theirs.unit, memory.unit = "ms", "ms", "MB"
	for i := range runs + 1 {
		a, err := take(ctx, m, way, our...)
		if err != nil {
			return ours, theirs, memory, err
		}
		z, err := take(ctx, m, way, their...)
		if err != nil {
			return ours, theirs, memory, err
		}
		if i == 0 {
			continue
		}
		ours.addTime(a)
		theirs.addTime(z)
		memory.add(a.megabytes())
	}
	return ours, theirs, memory, nil
}
