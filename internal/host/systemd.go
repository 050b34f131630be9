// Package host looks at the machine and acts on it: systemd over D-Bus, podman
// by its command, files by their digests, sockets and processes by the kernel. It
// decides nothing and remembers nothing; internal/apply asks it.
//
// [Dial] connects to systemd, and [DialManager] does where there is no bus yet.
// Jobs are waited for with a deadline and are never believed lost: a signal that
// does not come is answered by a look at the unit. [Podman] lists and removes
// podman's objects. [Sockets] and [FindProcesses] say what listens and is connected,
// and by whom.
package host

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// Systemd is a connection to the system manager. Close it when done.
type Systemd struct {
	conn *systemd.Conn
	// raw serves calls that the wrapper has no name for; those made side by
	// side cost one round trip.
	raw *dbus.Conn
}

// Dial connects to the system manager on the system bus.
func Dial(ctx context.Context) (*Systemd, error) {
	s, err := dial(func() (*dbus.Conn, error) { return connectBus(ctx) })
	if err != nil {
		return nil, fmt.Errorf("connect to systemd on the system bus: %w", err)
	}
	return s, nil
}

// managerSocket is where systemctl reaches the system manager, as root, also
// where there is no bus yet.
const managerSocket = "/run/systemd/private"

// DialManager connects to the system manager itself, which answers from the
// first moment of a boot on.
func DialManager(ctx context.Context) (*Systemd, error) {
	s, err := dial(func() (*dbus.Conn, error) {
		conn, err := dbus.Dial("unix:path="+managerSocket, dbus.WithContext(ctx))
		if err != nil {
			return nil, err
		}
		if err := conn.Auth(nil); err != nil {
			_ = conn.Close() // the first error counts
			return nil, err
		}
		return conn, nil
	})
	if err != nil {
		return nil, fmt.Errorf("connect to systemd: %w", err)
	}
	return s, nil
}

func dial(connect func() (*dbus.Conn, error)) (*Systemd, error) {
	s := &Systemd{}
	conn, err := systemd.NewConnection(func() (*dbus.Conn, error) {
		c, err := connect()
		if s.raw == nil {
			s.raw = c // the first is for calls, the second for signals
		}
		return c, err
	})
	s.conn = conn
	return s, err
}

func connectBus(ctx context.Context) (*dbus.Conn, error) {
	bus, err := dbus.SystemBusPrivate(dbus.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	if err := bus.Auth(nil); err != nil {
		_ = bus.Close() // the first error counts
		return nil, err
	}
	if err := bus.Hello(); err != nil {
		_ = bus.Close() // the first error counts
		return nil, err
	}
	return bus, nil
}

// Close ends the connection.
func (s *Systemd) Close() { s.conn.Close() }

// Unit is what systemd says of a unit, in the words of
// org.freedesktop.systemd1(5).
type Unit struct {
	Name   string
	Load   string // LoadState: loaded, not-found, masked …
	Active string // ActiveState: active, inactive, failed …
	Sub    string // SubState
	// Job is the type of the job that is queued for it: start, stop …; "" for none.
	Job string
}

// Up reports whether the unit has anything running or is about to.
func (u Unit) Up() bool {
	switch u.Active {
	case "active", "activating", "reloading", "refreshing", "deactivating":
		return true
	}
	return false
}

// Stranded reports whether the unit is up and systemd has lost its definition,
// so that it no longer knows how to stop it.
func (u Unit) Stranded() bool { return u.Load == "not-found" && u.Up() }

// Units returns the named units; one that systemd does not know is there with
// Load "not-found".
func (s *Systemd) Units(ctx context.Context, names []string) (map[string]Unit, error) {
	found := make(map[string]Unit, len(names))
	if len(names) == 0 {
		return found, nil
	}
	list, err := s.conn.ListUnitsByNamesContext(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("list units: %w", err)
	}
	for _, u := range list {
		found[u.Name] = unitStatus(u)
	}
	return found, nil
}

// Loaded returns all units that systemd has in memory: those that are up, those
// that another refers to, and those whose definition it has lost.
func (s *Systemd) Loaded(ctx context.Context) ([]Unit, error) {
	list, err := s.conn.ListUnitsContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("list units: %w", err)
	}
	found := make([]Unit, len(list))
	for i, u := range list {
		found[i] = unitStatus(u)
	}
	return found, nil
}

func unitStatus(u systemd.UnitStatus) Unit {
	return Unit{Name: u.Name, Load: u.LoadState, Active: u.ActiveState, Sub: u.SubState, Job: u.JobType}
}

// Details is what systemd says of a unit beyond [Unit].
type Details struct {
	Fragment   string // FragmentPath: the file that its definition was read from
	Source     string // SourcePath: what a generator made that of; "" where it names none
	Invocation string // InvocationID, in hexadecimal; "" where it never ran
	Result     string // of a service: success, exit-code, timeout …
	Type       string // of a service: notify, oneshot …
	// ControlGroup is the service's, below the cgroup2 mount.
	ControlGroup string
	// Changed is when ActiveState or SubState last changed.
	Changed time.Time
}

// mostPending is how many calls are made side by side: the bus keeps no more than
// 128 of one connection waiting, and refuses the next.
const mostPending = 112

// The properties that Details asks for.
//
//nolint:gochecknoglobals // constant lists
var (
	unitProperties    = []string{"Unit.FragmentPath", "Unit.InvocationID", "Unit.StateChangeTimestamp", "Unit.SourcePath"}
	serviceProperties = append(slices.Clone(unitProperties), "Service.Result", "Service.Type", "Service.ControlGroup")
)

// Details returns the details of the named units; what only a service has is ""
// for others.
func (s *Systemd) Details(ctx context.Context, names []string) (map[string]Details, error) {
	return properties(ctx, s, names, readDetails, func(name string) []string {
		if strings.HasSuffix(name, ".service") {
			return serviceProperties
		}
		return unitProperties
	})
}

// properties asks for properties of each of the units, many side by side, and reads
// the answers.
func properties[T any](ctx context.Context, s *Systemd, names []string, read func([]*dbus.Call) (T, error), of func(name string) []string) (map[string]T, error) {
	all := make(map[string]T, len(names))
	for batch := range slices.Chunk(names, mostPending/len(serviceProperties)) {
		calls := make([][]*dbus.Call, len(batch))
		for i, name := range batch {
			calls[i] = s.get(ctx, name, of(name)...)
		}
		for i, name := range batch {
			t, err := read(calls[i])
			if err != nil {
				return nil, fmt.Errorf("read properties of %s: %w", name, err)
			}
			all[name] = t
		}
	}
	return all, nil
}

func readDetails(calls []*dbus.Call) (d Details, err error) {
	var invocation []byte
	var changed uint64 // microseconds since 1970
	into := []any{&d.Fragment, &invocation, &changed, &d.Source, &d.Result, &d.Type, &d.ControlGroup}
	if err := store(calls, into[:len(calls)]...); err != nil {
		return d, err
	}
	d.Invocation = hex.EncodeToString(invocation)
	if changed > 0 {
		d.Changed = time.UnixMicro(int64(changed))
	}
	return d, nil
}

// Down is what systemd says of a unit that does not run, and may be right not to.
type Down struct {
	Unmet    bool // it was to start, and its conditions did not hold
	Remains  bool // of a service, RemainAfterExit: it does not go down by itself
	Restarts int  // of a service, NRestarts: how often it was started anew since somebody started it
}

// Downs returns that of each of the named units.
func (s *Systemd) Downs(ctx context.Context, names []string) (map[string]Down, error) {
	return properties(ctx, s, names, readDown, func(name string) []string {
		of := []string{"Unit.ConditionResult", "Unit.ConditionTimestamp"}
		if strings.HasSuffix(name, ".service") {
			of = append(of, "Service.RemainAfterExit", "Service.NRestarts")
		}
		return of
	})
}

func readDown(calls []*dbus.Call) (d Down, err error) {
	var held bool
	var tried uint64 // microseconds since 1970; 0 where it never was
	var restarts uint32
	into := []any{&held, &tried, &d.Remains, &restarts}
	err = store(calls, into[:len(calls)]...)
	d.Unmet, d.Restarts = !held && tried > 0, int(restarts)
	return d, err
}

// Dependents returns the units that systemd takes down with the named ones, by
// Requires=, BindsTo= or PartOf=, and with those in turn; the named ones are not
// among them.
func (s *Systemd) Dependents(ctx context.Context, names []string) ([]string, error) {
	seen := map[string]bool{}
	for _, name := range names {
		seen[name] = true
	}
	var found []string
	for len(names) > 0 {
		var next []string
		for batch := range slices.Chunk(names, mostPending/len(serviceProperties)) {
			calls := make([][]*dbus.Call, len(batch))
			for i, name := range batch {
				calls[i] = s.get(ctx, name, "Unit.RequiredBy", "Unit.BoundBy", "Unit.ConsistsOf")
			}
			for i, name := range batch {
				var required, bound, parts []string
				if err := store(calls[i], &required, &bound, &parts); err != nil {
					return nil, fmt.Errorf("read dependents of %s: %w", name, err)
				}
				for _, dependent := range slices.Concat(required, bound, parts) {
					if !seen[dependent] {
						seen[dependent] = true
						next = append(next, dependent)
					}
				}
			}
		}
		found = append(found, next...)
		names = next
	}
	return found, nil
}

// get asks for properties of a unit, each by its interface and name.
func (s *Systemd) get(ctx context.Context, name string, properties ...string) []*dbus.Call {
	object := s.raw.Object("org.freedesktop.systemd1", unitPath(name))
	calls := make([]*dbus.Call, len(properties))
	for i, property := range properties {
		iface, key, _ := strings.Cut(property, ".")
		calls[i] = object.GoWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, make(chan *dbus.Call, 1),
			"org.freedesktop.systemd1."+iface, key)
	}
	return calls
}

// store waits for the answers to get and puts each where it belongs.
func store(calls []*dbus.Call, into ...any) error {
	var failed error
	for i, here := range into {
		var v dbus.Variant
		<-calls[i].Done
		err := calls[i].Store(&v)
		if err == nil {
			err = v.Store(here)
		}
		failed = cmp.Or(failed, err)
	}
	return failed
}

func unitPath(name string) dbus.ObjectPath {
	return dbus.ObjectPath("/org/freedesktop/systemd1/unit/" + systemd.PathBusEscape(name))
}

// Reload has systemd run its generators and read all units again, as
// systemctl daemon-reload does.
func (s *Systemd) Reload(ctx context.Context) error {
	if err := s.conn.ReloadContext(ctx); err != nil {
		return fmt.Errorf("daemon-reload: %w", err)
	}
	return nil
}

// ResetFailed has systemd forget that the unit failed. A unit that systemd does
// not know is no error.
func (s *Systemd) ResetFailed(ctx context.Context, name string) error {
	err := s.conn.ResetFailedUnitContext(ctx, name)
	var e dbus.Error
	if errors.As(err, &e) && e.Name == "org.freedesktop.systemd1.NoSuchUnit" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reset %s: %w", name, err)
	}
	return nil
}

// Verb is what a job does, as in systemctl(1).
type Verb string

// The verbs.
const (
	Start   Verb = "start"
	Stop    Verb = "stop"
	Restart Verb = "restart"
	Reload  Verb = "reload"
)

// Job is what became of one unit's job.
type Job struct {
	Unit string
	Verb Verb
	// Err is nil where the job was done.
	Err error
	// Took is the time from the call to the end of the job.
	Took time.Duration
}

// Run gives the units their jobs, all at once, so that systemd puts them in the
// order of their dependencies, and waits for each until its end or the deadline
// of ctx. done is called as each one ends. The answer is in the order of names.
func (s *Systemd) Run(ctx context.Context, verb Verb, names []string, done func(Job)) []Job {
	jobs := make([]Job, len(names))
	ended := make(chan int, len(names))
	begin := time.Now()
	for i, name := range names {
		jobs[i] = Job{Unit: name, Verb: verb}
		result := make(chan string, 1)
		if err := s.enqueue(ctx, verb, name, result); err != nil {
			jobs[i].Err = fmt.Errorf("%s %s: %w", verb, name, err)
			ended <- i
			continue
		}
		go func() {
			jobs[i].Err = s.wait(ctx, verb, name, result)
			ended <- i
		}()
	}
	for range names {
		i := <-ended
		jobs[i].Took = time.Since(begin)
		done(jobs[i])
	}
	return jobs
}

// Enqueue gives a unit its job and does not wait for its end.
func (s *Systemd) Enqueue(ctx context.Context, verb Verb, name string) error {
	if err := s.enqueue(ctx, verb, name, nil); err != nil {
		return fmt.Errorf("%s %s: %w", verb, name, err)
	}
	return nil
}

func (s *Systemd) enqueue(ctx context.Context, verb Verb, name string, result chan<- string) (err error) {
	switch verb {
	case Start:
		_, err = s.conn.StartUnitContext(ctx, name, "replace", result)
	case Stop:
		_, err = s.conn.StopUnitContext(ctx, name, "replace", result)
	case Restart:
		_, err = s.conn.RestartUnitContext(ctx, name, "replace", result)
	case Reload:
		_, err = s.conn.ReloadOrRestartUnitContext(ctx, name, "replace", result)
	default:
		err = fmt.Errorf("%q is not a verb", verb)
	}
	return err
}

// wait returns when the job has ended. Its signal can be lost, when the bus or
// the manager is restarted, so that the unit is also looked at now and then.
func (s *Systemd) wait(ctx context.Context, verb Verb, name string, result <-chan string) error {
	begin := time.Now()
	look := time.NewTicker(2 * time.Second)
	defer look.Stop()
	for deaf := 0; ; {
		select {
		case r := <-result:
			return jobError(verb, name, r)
		case <-look.C:
			has, err := s.hasJob(ctx, name)
			if err != nil {
				if deaf++; deaf == 3 {
					return fmt.Errorf("%s %s: %w", verb, name, err)
				}
				continue
			}
			if deaf = 0; has {
				continue
			}
			select {
			case r := <-result:
				return jobError(verb, name, r)
			default:
				return s.settled(ctx, verb, name)
			}
		case <-ctx.Done():
			return fmt.Errorf("%s %s: no end after %s: %w", verb, name, time.Since(begin).Round(time.Second), os.ErrDeadlineExceeded)
		}
	}
}

func jobError(verb Verb, name, result string) error {
	if result == "done" {
		return nil
	}
	return fmt.Errorf("%s %s: %s", verb, name, result)
}

func (s *Systemd) hasJob(ctx context.Context, name string) (bool, error) {
	jobs, err := s.conn.ListJobsContext(ctx)
	if err != nil {
		return false, fmt.Errorf("list jobs: %w", err)
	}
	return slices.ContainsFunc(jobs, func(j systemd.JobStatus) bool { return j.Unit == name }), nil
}

// settled judges a job whose end was not heard by the state of its unit.
func (s *Systemd) settled(ctx context.Context, verb Verb, name string) error {
	found, err := s.Units(ctx, []string{name})
	if err != nil {
		return err
	}
	up := found[name].Up()
	if up == (verb == Stop) {
		return fmt.Errorf("%s %s: its job is gone and the unit is %s", verb, name, found[name].Active)
	}
	return nil
}
