package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Podman is the podman command of the machine.
type Podman struct {
	Path string // of the program
	// Booting says that there is no bus yet: podman is to talk to systemd itself.
	Booting bool
}

// FindPodman returns the machine's podman.
func FindPodman() (Podman, error) {
	path, err := exec.LookPath("podman")
	if err != nil {
		return Podman{}, fmt.Errorf("podman: %w", err)
	}
	return Podman{Path: path}, nil
}

// Object is a container, a pod, a volume, a network or a secret.
type Object struct {
	Name   string
	ID     string // a volume has none: its name stands here
	Labels map[string]string
	// From here to Infra it is a container's alone, but for Unit, which a pod has too:
	// the systemd unit that runs it, as podman was told. A container has the labels
	// of its image too.
	Image    string
	ImageID  string
	Running  bool
	Frozen   bool // paused: its processes are there, and stand still
	External bool // of another tool, as buildah: podman lists it, and knows no more
	Unit     string
	Networks []string
	// Pod is the id of the pod that it is in, PodName its name; Infra says that it is
	// the pod's own. Ports are those of the host that lead to it, as protocol/port or
	// protocol/address:port.
	Ports   []string
	Pod     string
	PodName string
	Infra   bool
	// PID is that of its first process; 0 where it does not run.
	PID int
	// Created is not known of all objects.
	Created time.Time
	// Driver and Options are a volume's or a network's, Subnets and Internal a
	// network's alone, and Mountpoint, where the data lies, a volume's.
	Driver     string
	Options    map[string]string
	Subnets    []string
	Internal   bool
	Mountpoint string
	// Anonymous says that podman made up the name of a volume, for one container.
	Anonymous bool
}

// Containers lists all containers, those that do not run included.
func (p Podman) Containers(ctx context.Context) ([]Object, error) {
	return p.containers(ctx, "ps", "--all", "--external", "--pod", "--format", "json")
}

func (p Podman) containers(ctx context.Context, args ...string) ([]Object, error) {
	var list []struct {
		ID       string   `json:"Id"`
		Names    []string `json:"Names"`
		Image    string   `json:"Image"`
		ImageID  string   `json:"ImageID"`
		State    string   `json:"State"`
		Networks []string `json:"Networks"`
		Pod      string   `json:"Pod"`
		PodName  string   `json:"PodName"`
		IsInfra  bool     `json:"IsInfra"`
		Created  int64    `json:"Created"` // seconds since 1970
		PID      int      `json:"Pid"`
		Ports    []port   `json:"Ports"`
		Labels   map[string]string
	}
	if err := p.list(ctx, &list, args...); err != nil {
		return nil, err
	}
	var found []Object
	for _, c := range list {
		for _, name := range c.Names {
			found = append(found, Object{
				Name: name, ID: c.ID, Labels: c.Labels, Image: c.Image, ImageID: c.ImageID,
				Running: c.State == "running", Frozen: c.State == "paused", External: strings.EqualFold(c.State, "storage"), Unit: c.Labels["PODMAN_SYSTEMD_UNIT"],
				Networks: c.Networks, Ports: ports(c.Ports), Pod: c.Pod, PodName: c.PodName, Infra: c.IsInfra, PID: c.PID,
				Created: time.Unix(c.Created, 0),
			})
		}
	}
	return found, nil
}

// port is a range of ports, as podman ps has it.
type port struct {
	Host     string `json:"host_ip"`
	First    int    `json:"host_port"`
	Range    int    `json:"range"`
	Protocol string `json:"protocol"`
}

func ports(list []port) []string {
	var found []string
	for _, p := range list {
		for i := range p.Range {
			at := strconv.Itoa(p.First + i)
			if p.Host != "" && p.Host != "0.0.0.0" {
				at = net.JoinHostPort(p.Host, at)
			}
			found = append(found, p.Protocol+"/"+at)
		}
	}
	return found
}

// Volumes lists all volumes.
func (p Podman) Volumes(ctx context.Context) ([]Object, error) {
	var list []struct {
		Name       string
		Labels     map[string]string
		Driver     string
		Options    map[string]string
		Mountpoint string
		CreatedAt  time.Time
		Anonymous  bool
	}
	if err := p.list(ctx, &list, "volume", "ls", "--format", "json"); err != nil {
		return nil, err
	}
	found := make([]Object, len(list))
	for i, v := range list {
		found[i] = Object{
			Name: v.Name, ID: v.Name, Labels: v.Labels, Driver: v.Driver, Options: v.Options, Mountpoint: v.Mountpoint, Created: v.CreatedAt,
			Anonymous: v.Anonymous,
		}
	}
	return found, nil
}

// Networks lists all networks.
func (p Podman) Networks(ctx context.Context) ([]Object, error) {
	var list []struct {
		Name    string            `json:"name"`
		ID      string            `json:"id"`
		Labels  map[string]string `json:"labels"`
		Created time.Time         `json:"created"`
		Driver  string            `json:"driver"`
		Options map[string]string `json:"options"`
		Subnets []struct {
			Subnet string `json:"subnet"`
		} `json:"subnets"`
		Internal bool `json:"internal"`
	}
	if err := p.list(ctx, &list, "network", "ls", "--format", "json"); err != nil {
		return nil, err
	}
	found := make([]Object, len(list))
	for i, n := range list {
		found[i] = Object{
			Name: n.Name, ID: n.ID, Labels: n.Labels, Created: n.Created, Driver: n.Driver, Options: n.Options, Internal: n.Internal,
		}
		for _, s := range n.Subnets {
			found[i].Subnets = append(found[i].Subnets, s.Subnet)
		}
	}
	return found, nil
}

// Unused returns the names of the volumes that no container has.
func (p Podman) Unused(ctx context.Context) (map[string]bool, error) {
	out, err := p.run(ctx, "volume", "ls", "--quiet", "--filter", "dangling=true")
	if err != nil {
		return nil, err
	}
	unused := map[string]bool{}
	for name := range strings.FieldsSeq(string(out)) {
		unused[name] = true
	}
	return unused, nil
}

// Addresses returns the container that has each address in the named networks.
func (p Podman) Addresses(ctx context.Context, networks []string) (map[netip.Addr]string, error) {
	found := map[netip.Addr]string{}
	if len(networks) == 0 {
		return found, nil
	}
	var list []struct {
		Containers map[string]struct {
			Name       string `json:"name"`
			Interfaces map[string]struct {
				Subnets []struct {
					Address netip.Prefix `json:"ipnet"`
				} `json:"subnets"`
			} `json:"interfaces"`
		} `json:"containers"`
	}
	if err := p.list(ctx, &list, append([]string{"network", "inspect", "--"}, networks...)...); err != nil {
		return nil, err
	}
	for _, n := range list {
		for _, c := range n.Containers {
			for _, i := range c.Interfaces {
				for _, s := range i.Subnets {
					found[s.Address.Addr().Unmap()] = c.Name
				}
			}
		}
	}
	return found, nil
}

// Pods lists all pods.
func (p Podman) Pods(ctx context.Context) ([]Object, error) {
	var list []struct {
		ID      string `json:"Id"`
		Name    string
		Labels  map[string]string
		Created time.Time
	}
	if err := p.list(ctx, &list, "pod", "ps", "--format", "json"); err != nil {
		return nil, err
	}
	found := make([]Object, len(list))
	for i, l := range list {
		found[i] = Object{Name: l.Name, ID: l.ID, Labels: l.Labels, Unit: l.Labels["PODMAN_SYSTEMD_UNIT"], Created: l.Created}
	}
	return found, nil
}

// ImageLabels returns the labels of each image, by its id.
func (p Podman) ImageLabels(ctx context.Context) (map[string]map[string]string, error) {
	var list []struct {
		ID     string `json:"Id"`
		Labels map[string]string
	}
	if err := p.list(ctx, &list, "images", "--all", "--format", "json"); err != nil {
		return nil, err
	}
	labels := make(map[string]map[string]string, len(list))
	for _, i := range list {
		labels[i.ID] = i.Labels
	}
	return labels, nil
}

// Images returns every name by which an image is here.
func (p Podman) Images(ctx context.Context) (map[string]bool, error) {
	var list []struct {
		ID     string `json:"Id"`
		Names  []string
		Digest string
	}
	if err := p.list(ctx, &list, "images", "--all", "--format", "json"); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, i := range list {
		names[i.ID] = true
		for _, n := range i.Names {
			names[n] = true
		}
	}
	return names, nil
}

func (p Podman) list(ctx context.Context, into any, args ...string) error {
	out, err := p.run(ctx, args...)
	if p.Booting && panicked(err) {
		// The first podman of a boot takes down the pods that the power cut left up,
		// and 5.4.2 now and then panics over it. The next finds them down.
		out, err = p.run(ctx, args...)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("podman %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// panicked reports whether a program in Go, which podman is, ended by a panic. No
// podman that lists ends with that code otherwise.
func panicked(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.ExitCode() == 2
}

// Pull fetches an image.
func (p Podman) Pull(ctx context.Context, image string) error {
	_, err := p.run(ctx, "pull", "--quiet", "--", image)
	return err
}

// RemoveContainer stops and removes the container of that id. Where its conmon was
// killed podman 5.4 stops it and fails, and the second time removes it.
func (p Podman) RemoveContainer(ctx context.Context, id string) error {
	rm := []string{"rm", "--force", "--volumes", "--ignore", "--", id}
	_, err := p.run(ctx, rm...)
	if err != nil && ctx.Err() == nil {
		_, err = p.run(ctx, rm...)
	}
	return err
}

// RemovePod stops and removes the pod of that id, with all containers in it.
func (p Podman) RemovePod(ctx context.Context, id string) error {
	_, err := p.run(ctx, "pod", "rm", "--force", "--ignore", "--", id)
	return err
}

// RemoveNetwork removes the network of that name. One that a container still
// uses is an error: podman 5.4 sees that by the name alone, and takes a network
// that is named by its id away from under its containers.
func (p Podman) RemoveNetwork(ctx context.Context, name string) error {
	_, err := p.run(ctx, "network", "rm", "--", name)
	return err
}

// RemoveVolume removes the volume of that name, with its data. One that a
// container uses is an error.
func (p Podman) RemoveVolume(ctx context.Context, name string) error {
	_, err := p.run(ctx, "volume", "rm", "--", name)
	return err
}

func (p Podman) run(ctx context.Context, args ...string) ([]byte, error) {
	return p.runWith(ctx, nil, args...)
}

// noBus is no address of a bus, so that go-systemd in podman turns to the system
// manager's own socket. The socket of the bus is there early in a boot, and its
// service waits for whoever waits for that: the first podman of a boot, which
// makes the slice of each pod, would never end.
const noBus = "DBUS_SYSTEM_BUS_ADDRESS=unix:path=/nonexistent"

// runWith runs podman with an environment; nil is our own.
func (p Podman) runWith(ctx context.Context, env []string, args ...string) ([]byte, error) {
	return p.feed(ctx, nil, env, args...)
}

// feed is runWith with something to read.
func (p Podman) feed(ctx context.Context, stdin io.Reader, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, p.Path, args...)
	cmd.Stdin, cmd.Env = stdin, env
	if p.Booting {
		cmd.Env = append(cmd.Environ(), noBus)
	}
	// A key on the terminal is for the switch, which goes on to its end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// What it started and waits for has our pipes, and ends with it.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		message := strings.TrimSpace(stderr.String())
		if message == "" {
			return nil, fmt.Errorf("podman %s: %w", strings.Join(args, " "), err)
		}
		return nil, fmt.Errorf("podman %s: %w: %s", strings.Join(args, " "), err, lastLine(message))
	}
	return stdout.Bytes(), nil
}

func lastLine(s string) string {
	return s[strings.LastIndexByte(s, '\n')+1:]
}
