package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"meshgen/vmtests/machine"
)

// moving measures a rename among n containers that run: by meshgen on one
// machine and by bare systemctl(1) on another that is loaded alike, in turn.
func (b *bench) moving(ctx context.Context, n int) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%d running containers: %w", n, err)
		}
	}()
	_, _ = fmt.Fprintf(b.log, "%d containers, running\n", n) // only to be looked at
	var pair [2]*machine.Machine
	for i := range pair {
		if pair[i], err = b.boot(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, pair[i].Close()) }()
	}
	files := map[string]string{"fleet.cue": fleet(n-1, `Restart: "always"`), "it.cue": watchedService("it-0")}
	for _, m := range pair {
		if err := writeManifest(ctx, m, files); err != nil {
			return err
		}
	}
	ours, theirs := pair[0], pair[1]
	if err := together(
		func() error { _, err := ours.Run(ctx, "meshgen", "switch", "--quiet"); return err },
		func() error { _, err := theirs.Run(ctx, "sh", "-c", plainQuadlets); return err },
	); err != nil {
		return err
	}
	if err := b.nothingRunning(ctx, ours, n); err != nil {
		return err
	}
	return b.rename(ctx, ours, theirs, n)
}

// plainQuadlets has a machine run, without meshgen, what its manifest says.
const plainQuadlets = `set -e
meshgen build -o /tmp/built
mkdir -p /etc/containers/systemd
cp /tmp/built/quadlet/* /etc/containers/systemd/
systemctl daemon-reload
cd /tmp/built/quadlet
systemctl start $(ls | sed 's/\.container$/.service/')
`

func together(a, b func() error) error {
	var errs [2]error
	var both sync.WaitGroup
	both.Go(func() { errs[0] = a() })
	both.Go(func() { errs[1] = b() })
	both.Wait()
	return errors.Join(errs[:]...)
}

func (b *bench) nothingRunning(ctx context.Context, m *machine.Machine, n int) error {
	ours, theirs, _, err := b.sideBySide(ctx, m, plainly,
		[]string{"meshgen", "switch", "--quiet"}, []string{"podman", "ps", "--all", "--format", "json"}, b.runs)
	if err != nil {
		return err
	}
	b.rows = append(b.rows, row{
		what: nothingToDoRunning, size: n, ours: ours, yardstick: "podman ps", theirs: theirs, budget: nothingBudget(n),
	})
	ours, theirs, _, err = b.sideBySide(ctx, m, plainly,
		[]string{"meshgen", "status"}, []string{"podman", "ps", "--all", "--format", "json"}, b.runs)
	if err != nil {
		return err
	}
	b.rows = append(b.rows, row{what: statusRunning, size: n, ours: ours, yardstick: "podman ps -a", theirs: theirs, budget: statusBudget(n)})
	ours, theirs, _, err = b.sideBySide(ctx, m, plainly,
		[]string{"meshgen", "audit", "--quiet"}, []string{"podman", "ps", "--all", "--format", "json"}, b.runs)
	if err != nil {
		return err
	}
	b.rows = append(b.rows, row{what: auditRunning, size: n, ours: ours, yardstick: "podman ps -a", theirs: theirs, budget: auditBudget})
	return nil
}

// The ways to rename by hand: with the old stopped before systemd
// reads its units again, and by Conflicts= with the reload done while it runs.
const (
	stopFirst = `set -e
cd /etc/containers/systemd
systemctl stop %[1]s
mv %[1]s.container %[2]s.container
sed -i s/ContainerName=.*/ContainerName=%[2]s/ %[2]s.container
systemctl daemon-reload
systemctl start %[2]s
`
	byConflict = `set -e
cd /etc/containers/systemd
sed s/ContainerName=.*/ContainerName=%[2]s/ %[1]s.container >.new
printf '\n[Unit]\nConflicts=%[1]s.service\nAfter=%[1]s.service\n' >>.new
mv .new %[2]s.container
systemctl daemon-reload
systemctl start %[2]s
rm %[1]s.container
sed -i /^Conflicts=/d %[2]s.container
sed -i /^After=%[1]s/d %[2]s.container
systemctl daemon-reload
`
)

// timed is how long a rename takes, and how long the service is away.
type timed struct{ whole, away series }

func newTimed() timed { return timed{series{unit: "ms"}, series{unit: "ms"}} }

func (t *timed) add(s sample) {
	t.whole.addTime(s)
	t.away.add(milliseconds(s.Away))
}

func (b *bench) rename(ctx context.Context, ours, theirs *machine.Machine, n int) error {
	switched, stopped, handed := newTimed(), newTimed(), newTimed()
	mine, other := 0, 0 // the number in the present name
	next := func(way string) (sample, error) {
		other++
		return take(ctx, theirs, watched, "sh", "-c", fmt.Sprintf(way, it(other-1), it(other)))
	}
	for range b.renames {
		mine++
		s, err := b.renameByUs(ctx, ours, mine)
		if err != nil {
			return err
		}
		switched.add(s)
		if s, err = next(stopFirst); err != nil {
			return err
		}
		stopped.add(s)
		if s, err = next(byConflict); err != nil {
			return err
		}
		handed.add(s)
	}
	mine++
	if err := writeManifest(ctx, ours, map[string]string{"it.cue": watchedService(it(mine))}); err != nil {
		return err
	}
	syncs, err := syncsOf(ctx, ours, "meshgen", "switch", "--quiet")
	if err != nil {
		return err
	}
	whole, away := 600.0, 200.0
	if n <= 10 {
		whole = 450
	}
	b.rows = append(b.rows,
		row{what: renameTime, size: n, ours: switched.whole, yardstick: "stop, reload, start", theirs: stopped.whole, budget: whole},
		row{what: renameTime, size: n, ours: switched.whole, yardstick: "reload, hand over, reload", theirs: handed.whole, budget: whole},
		row{what: renameAway, size: n, ours: switched.away, yardstick: "stop, reload, start", theirs: stopped.away, budget: away},
		row{what: renameAway, size: n, ours: switched.away, yardstick: "reload, hand over, reload", theirs: handed.away, budget: away},
		row{what: renameSyncs, size: n, ours: count(syncs)})
	return nil
}

// it returns the renamed container's name after that many renames.
func it(renames int) string { return fmt.Sprintf("it-%d", renames) }

func (b *bench) renameByUs(ctx context.Context, m *machine.Machine, renames int) (sample, error) {
	if err := writeManifest(ctx, m, map[string]string{"it.cue": watchedService(it(renames))}); err != nil {
		return sample{}, err
	}
	return take(ctx, m, watched, "meshgen", "switch", "--quiet")
}
