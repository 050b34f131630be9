package apply

import (
	"context"
	"path/filepath"
	"strings"
	"sync"

	"meshgen/internal/host"
	"meshgen/state"
)

// Health is what is wrong with a resource, the worst of it.
type Health string

// All that may be wrong, the worst first.
const (
	IsFailed     Health = "failed"
	IsRestarting Health = "restarting" // it fails, and systemd starts it again and again
	IsStopped    Health = "stopped"    // what wants it is up, and it is down
	IsDrifted    Health = "drifted"    // by other hands
	IsHeld       Health = "held"       // declared, and something is in its way
	IsStale      Health = "stale"      // no longer declared, and still there
	IsWell       Health = ""
)

// Healths returns all that may be wrong, the worst first.
func Healths() []Health {
	return []Health{IsFailed, IsRestarting, IsStopped, IsDrifted, IsHeld, IsStale}
}

// health says what is wrong with a resource whose unit does so. up tells whether
// something that wants the unit is.
func health(s Standing, u host.Unit, d host.Details, up bool) Health {
	switch {
	case u.Active == "failed":
		return IsFailed
	case u.Sub == "auto-restart" || u.Sub == "auto-restart-queued":
		return IsRestarting
	case s.State == "stale":
		return IsStale
	case up && u.Active == "inactive" && s.State == "live" && !hasRun(d):
		return IsStopped
	case s.Drift != "":
		return IsDrifted
	case s.Why != "" && (len(s.Targets) == 0 || s.State == "live"):
		return IsHeld
	}
	return IsWell
}

// hasRun reports whether a unit is one that does its work and is down again, and
// did it.
func hasRun(d host.Details) bool {
	return d.Type == "oneshot" && d.Invocation != "" && d.Result == "success"
}

// wantedBy returns the units that want each unit of a generation.
func wantedBy(g state.Generation) map[string][]string {
	by := map[string][]string{}
	for _, u := range g.Units {
		for _, link := range u.Links {
			if dir := filepath.Dir(link); dir != "." {
				by[u.Name] = append(by[u.Name], strings.TrimSuffix(dir, filepath.Ext(dir)))
			}
		}
	}
	return by
}

// activity adds what systemd says of the units.
func (n *Node) activity(ctx context.Context, g state.Generation, standings []Standing) error {
	if n.Systemd == nil {
		for i, s := range standings {
			standings[i].Health = health(s, host.Unit{}, host.Details{}, false)
		}
		return nil
	}
	by := wantedBy(g)
	var names, all []string
	for _, s := range standings {
		if s.Unit != "" {
			names = append(names, s.Unit)
			all = append(append(all, s.Unit), by[s.Unit]...)
		}
	}
	found, err := n.Systemd.Units(ctx, all)
	if err != nil {
		return err
	}
	details, err := n.Systemd.Details(ctx, names)
	if err != nil {
		return err
	}
	for i, s := range standings {
		d, up := details[s.Unit], false
		for _, name := range by[s.Unit] {
			up = up || found[name].Active == "active"
		}
		standings[i].Active = found[s.Unit].Active
		standings[i].Health = health(s, found[s.Unit], d, up)
		if standings[i].Health == IsFailed || standings[i].Health == IsRestarting {
			standings[i].Result = d.Result
		}
		if !d.Changed.IsZero() {
			standings[i].Since = d.Changed
		}
	}
	n.lastWords(ctx, standings, details)
	return nil
}

const (
	mostLogs  = 5 // units whose log is read: a machine where all fails has one reason
	lastLines = 3
)

// lastWords adds the last lines that failed units logged in their last run.
func (n *Node) lastWords(ctx context.Context, standings []Standing, details map[string]host.Details) {
	var reading sync.WaitGroup
	left := mostLogs
	for i, s := range standings {
		if left > 0 && (s.Health == IsFailed || s.Health == IsRestarting) {
			left--
			reading.Go(func() {
				standings[i].Log = n.Systemd.LastRun(ctx, s.Unit, details[s.Unit].Invocation, lastLines)
			})
		}
	}
	reading.Wait()
}
