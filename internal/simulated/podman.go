package simulated

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// Container is one in podman's storage.
type Container struct {
	ID, Name, Image string
	Running         bool
	Unit            string // that started it; "" where a hand did
	Labels          map[string]string
	Networks        []string
	Volumes         []string
	Ports           []units.Port
	Environment     []string
	Deaf            bool     // to SIGTERM
	Restart         string   // its restart policy
	Needs           []string // the ids of the containers that it starts with
}

// Network is one in podman's storage.
type Network struct {
	ID, Name string
	Born     int // tells it from another of its name, as its id does not
	Labels   map[string]string
	Subnet   netip.Prefix // not valid where podman chose one
}

// Volume is one in podman's storage. Born tells it from another of its name.
type Volume struct {
	Name   string
	Born   int
	Made   time.Time
	Labels map[string]string
}

// Secret is one in podman's storage.
type Secret struct {
	ID, Name, Content string
	Labels            map[string]string
	Options           map[string]string // of podman's own driver
}

// podman is the machine's as a switch has it.
type podman struct{ h *Host }

func (p podman) Containers(context.Context) ([]host.Object, error) {
	return p.containers(func(Container) bool { return true }), nil
}

// Unused is of no use here: no volume has a name that podman made up.
func (p podman) Unused(context.Context) (map[string]bool, error) { return map[string]bool{}, nil }

func (p podman) VolumeUsers(_ context.Context, name string) ([]host.Object, error) {
	return p.containers(func(c Container) bool { return slices.Contains(c.Volumes, name) }), nil
}

func (p podman) containers(of func(Container) bool) []host.Object {
	var found []host.Object
	for _, c := range p.h.Containers() {
		if !of(c) {
			continue
		}
		o := host.Object{
			Name: c.Name, ID: c.ID, Labels: c.Labels, Image: c.Image, Running: c.Running, Unit: c.Unit, Networks: c.Networks,
		}
		for _, port := range c.Ports {
			o.Ports = append(o.Ports, port.Target().Name())
		}
		found = append(found, o)
	}
	return found
}

func (p podman) Volumes(context.Context) ([]host.Object, error) {
	var found []host.Object
	for _, v := range p.h.Volumes() {
		found = append(found, host.Object{Name: v.Name, ID: v.Name, Labels: v.Labels, Driver: "local", Created: time.Unix(int64(v.Born), 0)})
	}
	return found, nil
}

func (p podman) Networks(context.Context) ([]host.Object, error) {
	var found []host.Object
	for _, n := range p.h.Networks() {
		o := host.Object{Name: n.Name, ID: n.ID, Labels: n.Labels, Driver: "bridge", Created: time.Unix(int64(n.Born), 0)}
		if n.Subnet.IsValid() {
			o.Subnets = []string{n.Subnet.String()}
		}
		found = append(found, o)
	}
	return found, nil
}

// Pods returns none: no unit here makes a pod.
func (p podman) Pods(context.Context) ([]host.Object, error) { return nil, nil }

func (p podman) Secrets(context.Context) ([]host.Object, error) {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	var found []host.Object
	for _, name := range slices.Sorted(maps.Keys(p.h.secrets)) {
		s := p.h.secrets[name]
		found = append(found, host.Object{Name: name, ID: s.ID, Labels: s.Labels, Driver: host.FileDriver, Options: s.Options})
	}
	return found, nil
}

func (p podman) InspectSecret(_ context.Context, id string) (s host.Secret, said []byte, err error) {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	for name, is := range p.h.secrets {
		if is.ID == id {
			s = host.Secret{Name: name, Labels: is.Labels, Driver: host.FileDriver, Options: is.Options, Content: []byte(is.Content)}
			return s, fmt.Appendf(nil, "[{\"ID\": %q}]", id), nil
		}
	}
	return s, nil, fmt.Errorf("secret %s: not found", id)
}

func (p podman) CreateSecret(_ context.Context, s host.Secret) error {
	p.h.act()
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	if p.h.secrets[s.Name] != nil {
		return fmt.Errorf("%s: exists", s)
	}
	options := maps.Clone(s.Options)
	if options == nil {
		options = map[string]string{"path": "/secrets"}
	}
	p.h.secrets[s.Name] = &Secret{ID: p.h.newID(), Name: s.Name, Labels: s.Labels, Content: string(s.Content), Options: options}
	return nil
}

func (p podman) RemoveSecret(_ context.Context, id string) error {
	p.h.act()
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	maps.DeleteFunc(p.h.secrets, func(_ string, s *Secret) bool { return s.ID == id })
	return nil
}

func (p podman) InspectPod(_ context.Context, id string) ([]byte, error) {
	return nil, fmt.Errorf("pod %s: not found", id)
}

func (p podman) RemovePod(_ context.Context, id string) error {
	return fmt.Errorf("pod %s: not found", id)
}

// ImageLabels returns none: no image here was made of a container.
func (p podman) ImageLabels(context.Context) (map[string]map[string]string, error) { return nil, nil }

func (p podman) Images(context.Context) (map[string]bool, error) {
	return map[string]bool{"localhost/probe:1": true, "localhost/probe:2": true}, nil
}

func (p podman) Pull(_ context.Context, image string) error {
	return fmt.Errorf("%s: no registry", image)
}

func (p podman) RemoveContainer(_ context.Context, id string) error {
	p.h.act()
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	p.h.lose(id)
	return nil
}

func (p podman) RemoveNetwork(_ context.Context, name string) error {
	p.h.act()
	return p.h.RemoveNetwork(name)
}

func (p podman) RemoveVolume(_ context.Context, name string) error {
	p.h.act()
	return p.h.RemoveVolume(name)
}

// Containers returns all containers, by name.
func (h *Host) Containers() []Container { return sorted(h, h.containers) }

// Networks returns all networks, by name.
func (h *Host) Networks() []Network { return sorted(h, h.networks) }

// Volumes returns all volumes, by name.
func (h *Host) Volumes() []Volume { return sorted(h, h.volumes) }

func sorted[T any](h *Host, objects map[string]*T) []T {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []T
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		found = append(found, *objects[name])
	}
	return found
}

// RunContainer is podman run --detach --name by hand, with more of its options, each as
// --KEY=VALUE: --network, of which container:NAME is another's, --volume and --publish.
// A name that is taken is an error.
func (h *Host) RunContainer(name, image string, with ...string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.containers[name] != nil {
		return fmt.Errorf("container %s: in use", name)
	}
	c := &Container{ID: h.newID(), Name: name, Image: image, Running: true}
	for _, option := range with {
		key, value, _ := strings.Cut(option, "=")
		of, another := strings.CutPrefix(value, "container:")
		switch {
		case key == "--volume":
			h.mount(c, value)
		case key == "--publish":
			ports, err := units.ParsePublishPort(value)
			if err != nil {
				return err
			}
			c.Ports = append(c.Ports, ports...)
		case !another:
			c.Networks = append(c.Networks, value)
		case h.containers[of] == nil:
			return fmt.Errorf("container %s: not found", of)
		default:
			c.Needs = append(c.Needs, h.containers[of].ID)
		}
	}
	if h.portTaken(c.Ports) {
		return errPort
	}
	h.containers[name] = c
	return nil
}

// RemoveContainer is podman rm --force of a container by its name.
func (h *Host) RemoveContainer(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.containers[name]; c != nil {
		h.lose(c.ID)
	}
}

// RenameContainer is podman rename. The unit that runs it goes on.
func (h *Host) RenameContainer(name, to string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.containers[name]
	if c == nil || h.containers[to] != nil {
		return fmt.Errorf("container %s: not found, or %s in use", name, to)
	}
	delete(h.containers, name)
	c.Name, h.containers[to] = to, c
	return nil
}

// UpdateContainer is podman update --restart.
func (h *Host) UpdateContainer(name, restart string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.containers[name]
	if c == nil {
		return noContainer(name)
	}
	c.Restart = restart
	return nil
}

// StopContainer is podman stop, and StartContainer podman start.
func (h *Host) StopContainer(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.containers[name]
	if c == nil {
		return noContainer(name)
	}
	return h.stopContainer(c.ID)
}

// StartContainer is what [Host.StopContainer] says.
func (h *Host) StartContainer(name string) error {
	h.mu.Lock()
	c := h.containers[name]
	h.mu.Unlock()
	if c == nil {
		return noContainer(name)
	}
	return h.startContainer(c.ID)
}

// CreateNetwork is podman network create by hand.
func (h *Host) CreateNetwork(name, subnet string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.networks[name] != nil {
		return fmt.Errorf("network %s: exists", name)
	}
	return h.createNetwork(name, subnet, nil)
}

// CreateSecret is podman secret create.
func (h *Host) CreateSecret(name, content string, labels map[string]string) error {
	return podman{h}.CreateSecret(context.Background(), host.Secret{Name: name, Labels: labels, Content: []byte(content)})
}

// RemoveSecret is podman secret rm.
func (h *Host) RemoveSecret(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.secrets, name)
}

// Secrets returns all secrets, by their names.
func (h *Host) Secrets() []Secret {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []Secret
	for _, name := range slices.Sorted(maps.Keys(h.secrets)) {
		found = append(found, *h.secrets[name])
	}
	return found
}

// CreateVolume is podman volume create by hand.
func (h *Host) CreateVolume(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.volumes[name] != nil {
		return fmt.Errorf("volume %s: exists", name)
	}
	h.createVolume(name, nil)
	return nil
}

// RemoveNetwork is podman network rm.
func (h *Host) RemoveNetwork(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.networks[name] == nil {
		return fmt.Errorf("network %s: not found", name)
	}
	for _, c := range h.containers {
		if slices.Contains(c.Networks, name) {
			return fmt.Errorf("network %s: container %s uses it", name, c.Name)
		}
	}
	delete(h.networks, name)
	return nil
}

// RemoveVolume is podman volume rm.
func (h *Host) RemoveVolume(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.containers {
		if slices.Contains(c.Volumes, name) {
			return fmt.Errorf("volume %s: container %s uses it", name, c.Name)
		}
	}
	delete(h.volumes, name)
	return nil
}

func (h *Host) newID() string { return fmt.Sprintf("%064x", h.next()) }

func (h *Host) byID(id string) *Container {
	for _, c := range h.containers {
		if c.ID == id {
			return c
		}
	}
	return nil
}

func (h *Host) removeContainer(id string) {
	c := h.byID(id)
	if c == nil {
		return
	}
	delete(h.containers, c.Name)
	if path := h.cidFile(c.Unit); c.Unit != "" {
		if text, err := os.ReadFile(path); err == nil && string(text) == id {
			_ = os.Remove(path) // it is there
		}
	}
}

// cidFile is where the id of the container lies that a service runs.
func (h *Host) cidFile(service string) string {
	return h.path("run/" + strings.TrimSuffix(service, ".service") + ".cid")
}

// lose removes a container from under the unit that runs it: its process ends
// well, and the unit with it.
func (h *Host) lose(id string) {
	h.removeContainer(id)
	for _, u := range h.units {
		if u.container == id {
			u.active, u.sub, u.container = "inactive", "dead", ""
		}
	}
}

func (h *Host) createNetwork(name, subnet string, labels map[string]string) error {
	n := &Network{ID: state.TextDigest(name), Name: name, Born: h.next(), Labels: labels}
	if subnet != "" {
		var err error
		if n.Subnet, err = netip.ParsePrefix(subnet); err != nil {
			return err
		}
	}
	for _, other := range h.networks {
		if n.Subnet.IsValid() && other.Subnet.IsValid() && n.Subnet.Overlaps(other.Subnet) {
			return fmt.Errorf("subnet %s: used by network %s", n.Subnet, other.Name)
		}
	}
	h.networks[name] = n
	return nil
}

func (h *Host) createVolume(name string, labels map[string]string) {
	h.volumes[name] = &Volume{Name: name, Born: h.next(), Made: time.Now(), Labels: labels}
}

// prepare runs what comes before the command of a service: the guard, package
// guard, which is told the container, the resource and the unit.
func (h *Host) prepare(name string, u *unit, command string) error {
	words := strings.Fields(command)
	if len(words) != 4 || path.Base(words[0]) != units.GuardName {
		return nil
	}
	has := h.containers[words[1]]
	if has == nil {
		return nil
	}
	mark := has.Labels[units.MarkLabel]
	if mark == "" || (mark != words[2] && has.Unit != name) {
		return fmt.Errorf("container %s: not of %s", has.Name, name)
	}
	was := *has
	u.cleared = &was
	h.lose(has.ID)
	return nil
}

// execute runs the command of a service: podman's, or a process that stays.
func (h *Host) execute(name string, u *unit, command string) error {
	words := strings.Fields(command)
	if len(words) < 2 || !strings.HasSuffix(words[0], "podman") {
		return nil
	}
	o := readOptions(words)
	switch strings.Join(words[1:min(3, len(words))], " ") {
	case "network create":
		if h.networks[o.last] != nil {
			return nil
		}
		return h.createNetwork(o.last, o.get("--subnet"), o.labels())
	case "volume create":
		if h.volumes[o.last] == nil {
			h.createVolume(o.last, o.labels())
		}
		return nil
	}
	return h.runContainer(name, u, o)
}

// options are the words of a command line.
type options struct {
	values map[string][]string
	image  string
	last   string
}

func readOptions(words []string) options {
	o := options{values: map[string][]string{}, last: words[len(words)-1]}
	for i, word := range words {
		if strings.HasPrefix(word, "localhost/") {
			o.image = word
		}
		key, value, ok := strings.Cut(word, "=")
		if !strings.HasPrefix(word, "-") {
			continue
		}
		if !ok && i+1 < len(words) {
			key, value = word, words[i+1]
		}
		o.values[key] = append(o.values[key], value)
	}
	return o
}

func (o options) get(key string) string { return strings.Join(o.values[key], " ") }

func (o options) labels() map[string]string {
	labels := map[string]string{}
	for _, l := range o.values["--label"] {
		key, value, _ := strings.Cut(l, "=")
		labels[key] = value
	}
	return labels
}

var errPort = errors.New("address already in use")

// runContainer is podman run as a service has it.
func (h *Host) runContainer(unit string, u *unit, o options) error {
	c := &Container{
		ID: h.newID(), Name: o.get("--name"), Image: o.image, Running: true, Unit: unit, Labels: o.labels(),
		Networks: o.values["--network"], Environment: o.values["--env"], Deaf: o.last != o.image,
	}
	before := u.cleared
	if replaced := h.containers[c.Name]; replaced != nil {
		if replace := o.values["--replace"]; len(replace) == 0 || replace[len(replace)-1] == "false" {
			return fmt.Errorf("container %s: in use", c.Name)
		}
		was := *replaced
		before = &was
		h.lose(replaced.ID)
	}
	for _, mount := range o.values["-v"] {
		h.mount(c, mount)
	}
	for _, publish := range o.values["--publish"] {
		ports, err := units.ParsePublishPort(publish)
		if err != nil {
			return err
		}
		c.Ports = append(c.Ports, ports...)
	}
	for _, network := range c.Networks {
		if h.networks[network] == nil && network != "none" && network != "host" {
			return fmt.Errorf("network %s: not found", network)
		}
	}
	for _, secret := range o.values["--secret"] {
		name, _, _ := strings.Cut(secret, ",")
		if h.secrets[name] == nil {
			return fmt.Errorf("secret %s: not found", name)
		}
	}
	if h.portTaken(c.Ports) {
		return errPort
	}
	if slices.Contains(c.Environment, "FAIL=start") {
		return errFailed
	}
	if h.OnStart != nil {
		var others []Container
		for _, name := range slices.Sorted(maps.Keys(h.containers)) {
			others = append(others, *h.containers[name])
		}
		h.OnStart(*c, before, others)
	}
	h.containers[c.Name] = c
	u.container = c.ID
	if err := os.WriteFile(h.cidFile(unit), []byte(c.ID), 0o644); err != nil {
		return err
	}
	if slices.Contains(c.Environment, "FAIL=run") { // it starts, and ends at once
		h.removeContainer(c.ID)
		u.container = ""
		u.active, u.sub, u.result = "failed", "failed", "exit-code"
	}
	return nil
}

// mount gives a container a volume, which is made where there is none.
func (h *Host) mount(c *Container, mount string) {
	volume, _, _ := strings.Cut(mount, ":")
	if strings.HasPrefix(volume, "/") {
		return
	}
	if h.volumes[volume] == nil {
		h.createVolume(volume, nil)
	}
	c.Volumes = append(c.Volumes, volume)
}

func (h *Host) portTaken(ports []units.Port) bool {
	for _, c := range h.containers {
		for _, taken := range c.Ports {
			if c.Running && slices.ContainsFunc(ports, taken.Overlaps) {
				return true
			}
		}
	}
	return false
}

// String tells a container in a few words.
func (c Container) String() string {
	return "container " + c.Name + " of " + strconv.Quote(c.Unit)
}
