// Package simulated is a machine in memory, whose files lie below a directory:
// systemd and podman as far as a switch needs them, with the manners that a
// switch is built against. What it has is held against a real machine by the
// scenarios of package scenario.
//
// A [Host] gives systemd its units by the real boot generator, at [Host.Boot]
// and at each daemon-reload. It knows nothing of the ledger or of what must
// hold: it tells what it does to [Host.OnStart], and [Host.Kill] takes a
// process or the power away at a moment of choice.
//
// The manners, each tried on Debian trixie with systemd 257 and podman 5.4.2:
//   - A unit whose definition is gone stays up as not-found. Its stop is a
//     SIGTERM to its processes: a container that is deaf to it stays, and the
//     unit is failed once the timeout is over, by a job that is done. With its definition back in
//     /run/systemd/system and a reload, it stops.
//   - A unit that is new in /run/systemd/system is found without a reload, one
//     in a generator's directory only by one.
//   - The start of a container's service destroys whatever container has the
//     name, also where the start then fails; the service that ran it is
//     inactive, not failed. Not so one that is guarded, units.Guarded: it fails,
//     but for what it, or its resource, has left behind.
//   - A service stops the container that it started, by id, through the
//     definition that is loaded now.
//   - Networks and volumes are made where they are missing and outlive their
//     services. A network that a container uses is not removed, and one whose
//     subnet overlaps another's is not made.
//   - Requires= starts what is needed and goes down with it; Conflicts= stops
//     the other in the same transaction; After= orders both, and what nothing
//     orders comes in any order.
//   - A power cut leaves containers that a hand made in podman's storage, dead;
//     those of services, which have --rm, the first podman command removes.
package simulated

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"meshgen/generator"
	"meshgen/internal/apply"
	"meshgen/state"
)

// Host is a machine. Its methods are what an owner does by hand; what a switch
// has of it comes from [Host.Connect].
type Host struct {
	Layout state.Layout
	// OnStart is told of each container that a service starts, of the one that
	// had its name before, if any, and had to go, and of the others that are there. It must
	// not call the host.
	OnStart func(started Container, replaced *Container, others []Container)
	// OnLost is told of each container whose service is stopped without its
	// definition.
	OnLost func(Container)
	// OnRecover is meshgen-recover.service, where a boot wants it.
	OnRecover func()

	mu          sync.Mutex
	order       *rand.Rand // of what nothing orders
	serial      int
	definitions map[string]definition // as systemd has read them
	units       map[string]*unit      // that ever were up since the boot
	containers  map[string]*Container // by name
	networks    map[string]*Network
	volumes     map[string]*Volume
	secrets     map[string]*Secret
	fuse        fuse
	acts        int // calls of a switch that change something
}

// New returns a machine that is off, on the disk below root. seed chooses among
// the orders that nothing prescribes.
func New(root string, seed uint64) (*Host, error) {
	h := &Host{
		Layout:     state.NewLayout(root, ""),
		order:      rand.New(rand.NewPCG(seed, 0)),
		containers: map[string]*Container{}, networks: map[string]*Network{}, volumes: map[string]*Volume{}, secrets: map[string]*Secret{},
	}
	for _, dir := range []string{"etc/systemd/system", "etc/containers/systemd", "run", "var/lib"} {
		if err := os.MkdirAll(h.path(dir), 0o755); err != nil {
			return nil, err
		}
	}
	return h, os.WriteFile(h.path("etc/machine-id"), []byte("5e1f0000000000000000000000000001\n"), 0o644)
}

func (h *Host) path(name string) string { return h.Layout.Root + "/" + name }

// Connect gives a switch the machine.
func (h *Host) Connect(context.Context, state.Layout) (apply.Machine, error) {
	return apply.Machine{Systemd: systemd{h}, Podman: podman{h}, Store: store{h}, Converter: Converter{}}, nil
}

// ConnectAtBoot gives the recovery at boot the machine.
func (h *Host) ConnectAtBoot(context.Context, state.Layout) (apply.Machine, error) {
	return apply.Machine{Systemd: systemd{h}, Podman: podman{h}, Store: store{h}, Booting: true}, nil
}

// Boot starts a machine that is off: the generators run, and what is enabled is
// started.
func (h *Host) Boot() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.units = map[string]*unit{}
	if err := os.MkdirAll(h.path("run/systemd/system"), 0o755); err != nil {
		return err
	}
	err := h.reload()
	wanted := h.wanted("multi-user.target")
	if slices.Contains(wanted, generator.RecoverUnit) && h.OnRecover != nil {
		h.mu.Unlock()
		h.OnRecover()
		h.mu.Lock()
	}
	t := transaction{host: h, jobs: map[string]*job{}}
	for _, name := range wanted {
		_ = t.enqueue("start", name) // systemd goes on without it
	}
	t.run()
	return err
}

// Cut takes the power away: what is in memory and in /run is gone.
func (h *Host) Cut() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.units, h.definitions = map[string]*unit{}, nil
	for name, c := range h.containers {
		if c.Running = false; c.Unit != "" {
			delete(h.containers, name)
		}
	}
	entries, err := os.ReadDir(h.path("run"))
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(h.path("run"), e.Name())))
	}
	return err
}

// Killed is what a switch panics with when its time has come.
type Killed struct{}

// fuse is when a process dies: at the point of that number, if it is above 0.
type fuse struct {
	points int
	at     int
	cut    bool // with the power
	dead   bool
}

// Kill has the switch die at the nth point from now on: a call that changes
// something, a job given to systemd, one that systemd takes up, or a call of
// [Host.Point]. With cut the power goes too, and systemd takes up no job any
// more; else it ends those that it was given. At n 0 nothing dies.
func (h *Host) Kill(n int, cut bool) { h.fuse = fuse{at: n, cut: cut} }

// Dead reports whether the switch died since [Host.Kill].
func (h *Host) Dead() bool { return h.fuse.dead }

// Points returns how many points were passed since [Host.Kill].
func (h *Host) Points() int { return h.fuse.points }

// Point is a moment at which the switch may die.
func (h *Host) Point() {
	if h.fuse.burn() {
		panic(Killed{})
	}
}

func (f *fuse) burn() bool {
	f.points++
	f.dead = f.dead || f.points == f.at
	return f.dead
}

// off reports whether the power went with the switch.
func (f *fuse) off() bool { return f.dead && f.cut }

// Acts returns how many calls of switches changed something so far.
func (h *Host) Acts() int { return h.acts }

// act is the begin of a call that changes something.
func (h *Host) act() {
	h.acts++
	h.Point()
}

func (h *Host) next() int {
	h.serial++
	return h.serial
}

// UnitState returns the LoadState and the ActiveState of a unit.
func (h *Host) UnitState(name string) (load, active string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := h.unit(name)
	return u.Load, u.Active
}

// Units returns the names of all units that are up, in order.
func (h *Host) Units() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var up []string
	for _, name := range slices.Sorted(maps.Keys(h.units)) {
		if h.up(name) {
			up = append(up, name)
		}
	}
	return up
}

// Reload is systemctl daemon-reload.
func (h *Host) Reload() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reload()
}

// Start is systemctl start.
func (h *Host) Start(unit string) error { return h.byHand("start", unit) }

// Stop is systemctl stop.
func (h *Host) Stop(unit string) error { return h.byHand("stop", unit) }

func (h *Host) byHand(verb, unit string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := transaction{host: h, jobs: map[string]*job{}}
	if err := t.ask(verb, unit); err != nil {
		return err
	}
	t.run()
	return t.asked[unit].err
}

// Exit has the process of a unit end by itself, and well.
func (h *Host) Exit(name string) {
	h.end(name, unit{active: "inactive", sub: "dead", result: "success"})
}

// Fail has the process of a unit end by itself, and badly.
func (h *Host) Fail(name string) {
	h.end(name, unit{active: "failed", sub: "failed", result: "exit-code"})
}

func (h *Host) end(name string, as unit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := h.units[name]
	if u == nil || !h.up(name) {
		return
	}
	h.removeContainer(u.container)
	as.invocation = u.invocation
	*u = as
}

// Mask is systemctl mask: the definition of the unit is away from the next
// reload on, which comes with it.
func (h *Host) Mask(name string) error {
	if err := os.Symlink("/dev/null", h.path("etc/systemd/system/"+name)); err != nil {
		return fmt.Errorf("mask: %w", err)
	}
	return h.Reload()
}

// Unmask is systemctl unmask.
func (h *Host) Unmask(name string) error {
	path := h.path("etc/systemd/system/" + name)
	if to, err := os.Readlink(path); err != nil || to != "/dev/null" {
		return nil //nolint:nilerr // it is not masked
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	return h.Reload()
}
