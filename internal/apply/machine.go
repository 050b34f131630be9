package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"meshgen/generator"
	"meshgen/internal/hint"
	"meshgen/internal/host"
	"meshgen/state"
)

// Machine is the system that a node is on, as far as a switch needs it. Below
// --root nothing runs: Systemd and Podman are nil.
type Machine struct {
	Systemd Systemd
	Podman  Podman
	// Store is nil where Podman is.
	Store Store
	// Converter is nil where there is no quadlet.
	Converter Converter
	// Unit is the systemd unit that this process runs in; "" where it is none.
	Unit string
	// Settle is how long a unit has to stay up to count as up.
	Settle time.Duration
	// Booting tells that systemd is about to start what is enabled, and holds
	// that back until this program has ended: no job may be waited for.
	Booting bool
}

// Systemd is a system manager: that of the machine is *[host.Systemd], whose
// methods say what each does.
type Systemd interface {
	Units(ctx context.Context, names []string) (map[string]host.Unit, error)
	Loaded(ctx context.Context) ([]host.Unit, error)
	Details(ctx context.Context, names []string) (map[string]host.Details, error)
	Downs(ctx context.Context, names []string) (map[string]host.Down, error)
	Dependents(ctx context.Context, names []string) ([]string, error)
	Reload(ctx context.Context) error
	ResetFailed(ctx context.Context, name string) error
	Run(ctx context.Context, verb host.Verb, names []string, done func(host.Job)) []host.Job
	Enqueue(ctx context.Context, verb host.Verb, name string) error
	PayloadEnded(controlGroup string) bool
	Journal(ctx context.Context, unit string, since time.Time, lines int) []string
	LastRun(ctx context.Context, unit, invocation string, lines int) []string
	Close()
}

// Podman has the objects that units make: that of the machine is [host.Podman].
type Podman interface {
	Containers(ctx context.Context) ([]host.Object, error)
	Volumes(ctx context.Context) ([]host.Object, error)
	Networks(ctx context.Context) ([]host.Object, error)
	Pods(ctx context.Context) ([]host.Object, error)
	Secrets(ctx context.Context) ([]host.Object, error)
	InspectSecret(ctx context.Context, id string) (s host.Secret, said []byte, err error)
	CreateSecret(ctx context.Context, s host.Secret) error
	RemoveSecret(ctx context.Context, id string) error
	Images(ctx context.Context) (map[string]bool, error)
	ImageLabels(ctx context.Context) (map[string]map[string]string, error)
	Pull(ctx context.Context, image string) error
	Unused(ctx context.Context) (map[string]bool, error)
	VolumeUsers(ctx context.Context, name string) ([]host.Object, error)
	InspectContainer(ctx context.Context, id string) (host.Inspection, error)
	InspectPod(ctx context.Context, id string) ([]byte, error)
	Ties(ctx context.Context, ids []string) (map[string]host.Tie, error)
	StopContainer(ctx context.Context, id string) error
	StartContainer(ctx context.Context, id string) error
	RenameContainer(ctx context.Context, id, name string) error
	SetRestart(ctx context.Context, id, policy string) error
	RemoveContainer(ctx context.Context, id string) error
	RemovePod(ctx context.Context, id string) error
	RemoveNetwork(ctx context.Context, name string) error
	RemoveVolume(ctx context.Context, name string) error
}

// Store has what can be seen of podman's objects without asking podman: that of
// the machine is [host.Store].
type Store interface {
	Containers() (ids map[string]string, known bool)
	Network(name string) (host.Object, bool)
	Secrets() (byName map[string]host.Object, known bool)
	VolumeMade(name string) (time.Time, bool)
}

// Converter makes services of Quadlets: that of the machine is
// [generator.Converter].
type Converter interface {
	Fingerprint() string
	Version(ctx context.Context) (string, error)
	Convert(ctx context.Context, quadlets map[string]string, source string) (generator.Output, []generator.Refusal, error)
}

// Connect reaches the machine of a layout. What it connects is closed by
// [Node.Close].
type Connect func(ctx context.Context, l state.Layout) (Machine, error)

// settleFor is how long a unit has to stay up to count as up. For systemd a
// container has started once its process runs; one that ends at once, over a
// word in its configuration, has done so by then.
const settleFor = 200 * time.Millisecond

// Local connects to the machine that this program runs on. Below --root there is
// at most a converter. With an error comes what could be reached all the same.
func Local(ctx context.Context, l state.Layout) (Machine, error) {
	m := Machine{Converter: LocalConverter(l), Settle: settleFor}
	if l.Root != "/" {
		return m, nil
	}
	if m.Converter == nil {
		return m, hint.Add(errors.New("quadlet: not on this machine"), "it comes with podman 4.4 and later")
	}
	podman, err := host.FindPodman()
	if err == nil {
		m.Podman, m.Store = podman, host.Store{Root: l.Root}
	}
	// Once there is a connection, a signal ends the switch in its own time, and not that.
	connected, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	dialled := context.AfterFunc(ctx, hangUp)
	systemd, failed := host.Dial(connected)
	switch {
	case !dialled():
		failed = fmt.Errorf("connect to systemd on the system bus: %w", context.Cause(ctx))
	case failed == nil:
		m.Systemd, m.Unit = systemd, host.OwnUnit()
	}
	return m, errors.Join(err, failed)
}

// LocalConverter returns the converter that lies below the root of the layout;
// nil where there is none.
func LocalConverter(l state.Layout) Converter { //nolint:iface,ireturn // nil where there is none
	if c, ok := generator.FindConverter(l.Root); ok {
		return c
	}
	return nil
}
