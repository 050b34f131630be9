package units

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Target is a name that a resource holds on the machine, as kind:name:
// unit:gitea.service, container:gitea, file:/etc/gitea/app.ini, port:tcp/3000.
type Target string

// The kinds of target.
const (
	TargetUnit      = "unit"
	TargetContainer = "container"
	TargetPod       = "pod"
	TargetVolume    = "volume"
	TargetNetwork   = "network"
	TargetFile      = "file"
	TargetDir       = "dir" // a directory that is declared, or was made on the way to something
	TargetPort      = "port"
	TargetImage     = "image" // one that was pulled for a container
	TargetSecret    = "secret"
)

// Of returns the target of that kind and name.
func Of(kind, name string) Target { return Target(kind + ":" + name) }

// Kind returns the part before the first colon.
func (t Target) Kind() string {
	kind, _, _ := strings.Cut(string(t), ":")
	return kind
}

// Name returns the part after the first colon.
func (t Target) Name() string {
	_, name, _ := strings.Cut(string(t), ":")
	return name
}

// Unit returns the unit that systemd knows the resource by; "" for a file, a directory or a secret. What
// becomes of a Quadlet follows podman-systemd.unit(5).
func Unit(r Resource) string {
	section, suffix := "Container", ""
	switch r.Address.Kind {
	case KindContainer:
	case KindPod:
		section, suffix = "Pod", "-pod"
	case KindVolume:
		section, suffix = "Volume", "-volume"
	case KindNetwork:
		section, suffix = "Network", "-network"
	case KindUnit:
		return r.Name
	case KindFile, KindDir, KindSecret:
		return ""
	}
	if name := r.Value(section, "ServiceName"); name != "" {
		return name + ".service"
	}
	return r.Name + suffix + ".service"
}

// Object returns the target that podman knows the resource by; "" where it
// knows none.
func Object(r Resource) Target {
	switch r.Address.Kind {
	case KindContainer:
		return Of(TargetContainer, r.Value("Container", "ContainerName"))
	case KindPod:
		return Of(TargetPod, r.Value("Pod", "PodName"))
	case KindVolume:
		return Of(TargetVolume, r.Value("Volume", "VolumeName"))
	case KindNetwork:
		return Of(TargetNetwork, r.Value("Network", "NetworkName"))
	case KindSecret:
		return Of(TargetSecret, r.Name)
	case KindUnit, KindFile, KindDir:
	}
	return ""
}

// Targets returns every name that the resource holds on the machine, the one
// it is best known by first.
func Targets(r Resource) []Target {
	switch r.Address.Kind {
	case KindFile:
		return []Target{Of(TargetFile, r.File.Path)}
	case KindDir:
		return []Target{Of(TargetDir, r.Dir.Path)}
	case KindSecret:
		return []Target{Object(r)}
	case KindContainer, KindPod, KindVolume, KindNetwork, KindUnit:
	}
	targets := []Target{Of(TargetUnit, Unit(r))}
	if object := Object(r); object != "" {
		targets = append(targets, object)
	}
	if r.Address.Kind == KindPod {
		targets = append(targets, Infra(r))
	}
	for _, p := range Ports(r) {
		targets = append(targets, p.Target())
	}
	return targets
}

// Infra returns the container that podman has for a pod itself, by the name that
// Quadlet gives it.
func Infra(pod Resource) Target {
	return Of(TargetContainer, Object(pod).Name()+"-infra")
}

// Ports returns the host ports that the resource takes: those of PublishPort
// with a host port, those that a socket listens on, and those it says that it
// holds. What does not parse is left out; the loader has refused it.
func Ports(r Resource) []Port {
	ports := slices.Clone(r.Holds)
	for _, section := range PublishSections() {
		for _, v := range r.Values(section, "PublishPort") {
			p, err := ParsePublishPort(v)
			if err != nil {
				continue
			}
			ports = append(ports, p...)
		}
	}
	for _, key := range ListenKeys() {
		for _, v := range r.Values("Socket", key) {
			p, ok, err := ParseListen(v, ListenProtocol(r, key))
			if ok && err == nil && !slices.Contains(ports, p) {
				ports = append(ports, p)
			}
		}
	}
	return ports
}

// PublishSections returns the sections that may have PublishPort.
func PublishSections() []string { return []string{"Container", "Pod"} }

// ListenKeys returns the keys of [Socket] that may take a port.
func ListenKeys() []string { return []string{"ListenStream", "ListenDatagram"} }

// ListenProtocol returns the protocol of the ports that a key of [Socket] takes.
// UDP-Lite counts as UDP.
func ListenProtocol(r Resource, key string) string {
	switch {
	case r.Value("Socket", "SocketProtocol") == "sctp":
		return "sctp"
	case key == "ListenDatagram":
		return "udp"
	}
	return "tcp"
}

// ParseListen returns the port that a value of ListenStream or ListenDatagram
// takes: number, address:number or [address]:number. ok is false for what is no
// port of the host's, a path, an abstract name or another family, and for what
// systemd has yet to expand: systemd.socket(5).
func ParseListen(value, protocol string) (p Port, ok bool, err error) {
	if value == "" || strings.ContainsAny(value, "/@%") || strings.HasPrefix(value, "vsock") {
		return Port{}, false, nil
	}
	p, err = ParsePort(protocol + "/" + value)
	return p, true, err
}

// Target returns port:protocol/number, or port:protocol/host:number where the
// port is taken on one address alone.
func (p Port) Target() Target {
	number := strconv.Itoa(p.Number)
	switch {
	case p.Host == "":
	case strings.Contains(p.Host, ":"):
		number = "[" + p.Host + "]:" + number
	default:
		number = p.Host + ":" + number
	}
	return Of(TargetPort, p.Protocol+"/"+number)
}

// Overlaps reports whether two ports cannot both be listened on.
func (p Port) Overlaps(q Port) bool {
	if p.Protocol != q.Protocol || p.Number != q.Number {
		return false
	}
	return p.Host == "" || q.Host == "" || p.Host == q.Host ||
		p.Host == "::" && isIPv6(q.Host) || q.Host == "::" && isIPv6(p.Host)
}

func isIPv6(host string) bool { return strings.Contains(host, ":") }

// ParsePublishPort returns the host ports that a value of PublishPort takes,
// in the form of podman-run(1): [[ip:][hostPort]:]containerPort[/protocol],
// where a port may be a range and the protocol a list. A value without a host
// port takes none: podman chooses one. The address 0.0.0.0 counts as none, as
// it does for podman.
func ParsePublishPort(value string) ([]Port, error) {
	spec, list, ok := strings.Cut(value, "/")
	if !ok {
		list = "tcp"
	}
	protocols, err := parseProtocols(list)
	if err != nil {
		return nil, err
	}
	address, host, container, err := splitPublishPort(spec)
	if err != nil {
		return nil, err
	}
	from, to, err := portRange(container)
	if err != nil || host == "" {
		return nil, err
	}
	hostFrom, hostTo, err := portRange(host)
	if err != nil {
		return nil, err
	}
	if hostTo-hostFrom != to-from {
		return nil, fmt.Errorf("%q has %d host ports for %d container ports", value, hostTo-hostFrom+1, to-from+1)
	}
	var ports []Port
	for _, protocol := range protocols {
		for n := hostFrom; n <= hostTo; n++ {
			ports = append(ports, Port{Protocol: protocol, Host: address, Number: n})
		}
	}
	return ports, nil
}

// ParsePort returns the port that is written as protocol/number,
// protocol/address:number or number alone, which is tcp: what [Port.Target]
// writes after the kind.
func ParsePort(s string) (Port, error) {
	protocol, rest, ok := strings.Cut(s, "/")
	if !ok {
		protocol, rest = "tcp", s
	}
	protocols, err := parseProtocols(protocol)
	if err != nil {
		return Port{}, err
	}
	if len(protocols) > 1 {
		return Port{}, fmt.Errorf("%q has more than one protocol", s)
	}
	address, number, ok := cutColon(rest)
	if !ok {
		address, number = "", rest
	} else if address, err = parseHost(address); err != nil {
		return Port{}, err
	}
	n, err := portNumber(number)
	if err != nil {
		return Port{}, err
	}
	return Port{Protocol: protocols[0], Host: address, Number: n}, nil
}

func parseProtocols(list string) ([]string, error) {
	var protocols []string
	for protocol := range strings.SplitSeq(strings.ToLower(list), ",") {
		switch protocol {
		case "tcp", "udp", "sctp":
		default:
			return nil, fmt.Errorf("protocol %q is none of tcp, udp, sctp", protocol)
		}
		if !slices.Contains(protocols, protocol) {
			protocols = append(protocols, protocol)
		}
	}
	return protocols, nil
}

// splitPublishPort cuts [[ip:][hostPort]:]containerPort. Colons within brackets
// belong to the address.
func splitPublishPort(spec string) (address, host, container string, err error) {
	rest, container, ok := cutColon(spec)
	if !ok {
		return "", "", spec, nil
	}
	address, host, ok = cutColon(rest)
	if strings.HasPrefix(rest, "[") && strings.HasSuffix(rest, "]") {
		return "", "", "", fmt.Errorf("%q has an address and no host port: want %s::%s for any", spec, rest, container)
	}
	if !ok {
		return "", rest, container, nil
	}
	address, err = parseHost(address)
	return address, host, container, err
}

// parseHost returns the address to listen on in its shortest form; "" for
// all of them.
func parseHost(s string) (string, error) {
	inner := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	address, err := netip.ParseAddr(inner)
	if err != nil || address.Zone() != "" || address.Is6() != (len(s) == len(inner)+2) {
		return "", fmt.Errorf("%q is not an address to listen on: want one like 127.0.0.1 or [::1]", s)
	}
	if address = address.Unmap(); address == netip.IPv4Unspecified() {
		return "", nil
	}
	return address.String(), nil
}

func portRange(s string) (from, to int, err error) {
	first, last, ok := strings.Cut(s, "-")
	if !ok {
		last = first
	}
	if from, err = portNumber(first); err != nil {
		return 0, 0, err
	}
	if to, err = portNumber(last); err != nil {
		return 0, 0, err
	}
	if ok && to <= from {
		return 0, 0, fmt.Errorf("port range %q does not rise", s)
	}
	return from, to, nil
}

func portNumber(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 65535 {
		return 0, fmt.Errorf("%q is not a port: want 1 to 65535", s)
	}
	return n, nil
}
