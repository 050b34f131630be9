//go:build systemd

package vmtests

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"meshgen/internal/host"
)

// sockets returns what internal/host sees on the machine: see vmtests/look.
func (v *Machine) sockets(args ...string) []host.Socket {
	v.t.Helper()
	var list []host.Socket
	v.decode(v.Run(append([]string{"look"}, args...)...), &list)
	return list
}

func (v *Machine) decode(text string, into any) {
	v.t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		v.t.Fatal(err)
	}
}

// inspect returns what podman says of a container or pod in a template.
func (v *Machine) inspect(kind, name, format string) string {
	v.t.Helper()
	return strings.TrimSpace(v.Run("podman", kind, "inspect", "--format="+format, name))
}

// onPort returns the sockets whose own port that is.
func onPort(list []host.Socket, port uint16) (found []host.Socket) {
	for _, s := range list {
		if s.Local.Port() == port {
			found = append(found, s)
		}
	}
	return found
}

// listener is what a test expects of a listening socket.
type listener struct{ local, command, unit, container, maker string }

// mustListen fails unless exactly the expected listens on a port.
func mustListen(t *testing.T, list []host.Socket, protocol string, port uint16, want listener) {
	t.Helper()
	found := slices.DeleteFunc(onPort(list, port), func(s host.Socket) bool { return s.Protocol != protocol })
	if len(found) != 1 {
		t.Errorf("%s %d: %d sockets, want 1: %+v", protocol, port, len(found), found)
		return
	}
	s := found[0]
	got := listener{
		local: s.Local.Addr().String(), command: strings.TrimSuffix(s.Command, ".avx2"), // pasta's, by the processor
		unit: host.UnitOf(s.Cgroup), container: host.ContainerOf(s.Cgroup), maker: s.Maker,
	}
	if got != want || s.State != host.Listening || s.PID == 0 {
		t.Errorf("%s %d: %+v, want %+v: %+v", protocol, port, got, want, s)
	}
}

const listenQuadlets = `
cat >/etc/containers/systemd/quad.container <<E
[Container]
Image=localhost/probe:1
PublishPort=8001:80
PublishPort=8002:80/udp
E
cat >/etc/containers/systemd/net.container <<E
[Container]
Image=localhost/probe:1
Network=host
Exec=probe serve :8003
E
cat >/etc/containers/systemd/po.pod <<E
[Pod]
PublishPort=127.0.0.1:8004:80
E
cat >/etc/containers/systemd/member.container <<E
[Container]
Image=localhost/probe:1
Pod=po.pod
E
cat >/etc/systemd/system/act.socket <<E
[Socket]
ListenStream=127.0.0.1:8005
ListenDatagram=[::1]:8006
E
cat >/etc/systemd/system/act.service <<E
[Service]
ExecStart=/bin/sleep infinity
E
systemctl daemon-reload
systemctl start quad net po-pod member act.socket
podman run --quiet --detach --name=hand --publish=8007:80 localhost/probe:1
podman run --quiet --detach --name=nethand --network=host localhost/probe:1 probe serve [::]:8008
`

// What podman publishes is listened for by the conmon of the container, or of the
// pod's infra container, which is in a cgroup of the unit that podman was started by,
// or in a scope of its own where that was no unit. What a container on the host's
// network listens on is its own.
func TestWhoListens(t *testing.T) {
	v := Boot(t)
	v.Run("sh", "-ec", "mkdir -p /etc/containers/systemd"+listenQuadlets)
	hand, nethand := v.inspect("container", "hand", "{{.Id}}"), v.inspect("container", "nethand", "{{.Id}}")
	net := v.inspect("container", "systemd-net", "{{.Id}}")
	var list []host.Socket
	v.Await("the containers listen", func() bool {
		list = v.sockets("listening")
		return len(onPort(list, 8003)) > 0 && len(onPort(list, 8008)) > 0
	})
	mustListen(t, list, "tcp", 8001, listener{"0.0.0.0", "conmon", "quad.service", "", "/system.slice/quad.service"})
	mustListen(t, list, "udp", 8002, listener{"0.0.0.0", "conmon", "quad.service", "", "/system.slice/quad.service"})
	mustListen(t, list, "tcp", 8003, listener{"::", "probe", "net.service", net, "/system.slice/net.service/libpod-payload-" + net})
	mustListen(t, list, "tcp", 8004, listener{"127.0.0.1", "conmon", "po-pod.service", "", "/system.slice/po-pod.service"})
	mustListen(t, list, "tcp", 8005, listener{"127.0.0.1", "systemd", "init.scope", "", "/system.slice/act.socket"})
	mustListen(t, list, "udp", 8006, listener{"::1", "systemd", "init.scope", "", "/system.slice/act.socket"})
	mustListen(t, list, "tcp", 8007, listener{"0.0.0.0", "conmon", "libpod-conmon-" + hand + ".scope", hand, "/shell"})
	mustListen(t, list, "tcp", 8008, listener{"::", "probe", "libpod-" + nethand + ".scope", nethand, "/machine.slice/libpod-" + nethand + ".scope/container"})

	// Once the service runs, it has what systemd listens on as well.
	v.Run("systemctl", "start", "act.service")
	v.Await("sleep runs", func() bool {
		s := onPort(v.sockets("listening"), 8005)
		return len(s) == 1 && s[0].Command == "sleep"
	})
	mustListen(t, v.sockets("listening"), "tcp", 8005, listener{"127.0.0.1", "sleep", "act.service", "", "/system.slice/act.socket"})

	// What is gone listens no more.
	v.Run("podman", "rm", "--force", "--time=0", "hand")
	v.Run("systemctl", "stop", "quad.service", "act.socket", "act.service")
	list = v.sockets("listening")
	for _, port := range []uint16{8001, 8002, 8005, 8006, 8007} {
		if s := onPort(list, port); len(s) > 0 {
			t.Errorf("%d is listened on: %+v", port, s)
		}
	}
}

// A connection out of a container is seen in the container's network namespace, and
// on the machine's where it ends there; those of a pod are in one.
func TestConnectionsOfContainers(t *testing.T) {
	v := Boot(t)
	v.Run("sh", "-ec", `
podman run --quiet --detach --name=store --network=host localhost/probe:1 probe store 0.0.0.0:8100
podman run --quiet --detach --name=alone localhost/probe:1
podman pod create --name=po
podman run --quiet --detach --pod=po --name=one localhost/probe:1`)
	gateway := v.inspect("container", "alone", "{{.NetworkSettings.Gateway}}")
	v.Run("podman", "run", "--quiet", "--detach", "--pod=po", "--name=two", "localhost/probe:1", "probe", "connect", gateway+":8100")
	pids := map[string]string{}
	for _, name := range []string{"store", "alone", "one", "two"} {
		pids[name] = v.inspect("container", name, "{{.State.Pid}}")
	}
	store, two := v.inspect("container", "store", "{{.Id}}"), v.inspect("container", "two", "{{.Id}}")
	remote := netip.MustParseAddrPort(gateway + ":8100")
	v.Await("two is connected", func() bool { return len(v.sockets("established", pids["two"])) == 1 })

	inside := v.sockets("established", pids["two"])[0]
	if inside.Remote != remote || inside.Command != "probe" || host.ContainerOf(inside.Cgroup) != two {
		t.Errorf("in the pod: %+v, want one of %s to %s", inside, two, remote)
	}
	if one := v.sockets("established", pids["one"]); len(one) != 1 || one[0] != inside {
		t.Errorf("by another of the pod: %+v, want %+v", one, inside)
	}
	if s := v.sockets("established", pids["alone"]); len(s) != 0 {
		t.Errorf("a container that is not connected: %+v", s)
	}
	outside := onPort(v.sockets("established"), 8100)
	if len(outside) != 1 || outside[0].Local != remote || outside[0].Remote != inside.Local || host.ContainerOf(outside[0].Cgroup) != store {
		t.Errorf("on the machine: %+v, want the other end of %+v, of %s", outside, inside, store)
	}
	if s := v.sockets("established", pids["store"]); len(onPort(s, 8100)) != 1 {
		t.Errorf("a container on the host's network sees other connections than the host: %+v", s)
	}
	namespaces := strings.Fields(v.Run("sh", "-c", "readlink /proc/"+pids["one"]+"/ns/net /proc/"+pids["two"]+"/ns/net /proc/"+pids["alone"]+"/ns/net"))
	if len(namespaces) != 3 || namespaces[0] != namespaces[1] || namespaces[1] == namespaces[2] {
		t.Errorf("network namespaces: %v", namespaces)
	}
}

// Without root all sockets of the machine are known, and the cgroups that they were
// made in; who has those of others is not, nor is anything in another namespace.
func TestSocketsWithoutRoot(t *testing.T) {
	v := Boot(t)
	v.Run("systemd-run", "--unit=ant", "busybox", "nc", "-l", "-p", "8200")
	v.Run("podman", "run", "--quiet", "--detach", "--name=alone", "localhost/probe:1")
	v.Await("ant listens", func() bool { return len(onPort(v.sockets("listening"), 8200)) == 1 })
	as := func(root bool) host.Socket {
		args := []string{"look", "listening"}
		if !root {
			args = append([]string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}, args...)
		}
		var list []host.Socket
		v.decode(v.Run(args...), &list)
		s := onPort(list, 8200)
		if len(s) != 1 {
			t.Fatalf("%v: %+v", args, list)
		}
		return s[0]
	}
	known, unknown := as(true), as(false)
	if host.UnitOf(known.Cgroup) != "ant.service" || known.PID == 0 || host.UnitOf(known.Maker) != "ant.service" {
		t.Errorf("as root: %+v", known)
	}
	known.Process = host.Process{}
	if unknown != known {
		t.Errorf("without root: %+v, want %+v", unknown, known)
	}
	r := v.Exec("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "look", "listening", v.inspect("container", "alone", "{{.State.Pid}}"))
	if r.Code == 0 || !strings.Contains(r.Stderr, "permission denied") {
		t.Errorf("another namespace: %+v", r)
	}
}

// What a user's rootless container publishes is in the machine's network namespace,
// though who has it may not be: rootlessport is in one of the user's own, pasta is not.
func TestWhoListensForAUser(t *testing.T) {
	v := Boot(t)
	v.WriteFile("/run/user.sh", `
podman load --quiet --input=/run/probe.tar
podman run --quiet --detach --log-driver=none --pid=host --network=bridge --publish=8300:80 localhost/probe:1
podman run --quiet --detach --log-driver=none --pid=host --network=pasta --publish=8301:80 localhost/probe:1
`)
	// The machine's /dev/net/tun is the build host's, for root alone.
	v.Run("sh", "-ec", `
umount /dev/net/tun && rm -f /dev/net/tun && mknod -m 666 /dev/net/tun c 10 200
useradd --create-home ann
rm -f /etc/subuid /etc/subgid
mkdir -p /run/user/1000 && chown ann /run/user/1000
podman save --quiet --output=/run/probe.tar localhost/probe:1 && chmod 644 /run/probe.tar
systemd-run --wait --uid=ann --unit=ann --property=Delegate=yes --service-type=oneshot --property=KillMode=none --property=WorkingDirectory=/home/ann \
	env HOME=/home/ann XDG_RUNTIME_DIR=/run/user/1000 STORAGE_DRIVER=vfs sh -e /run/user.sh`)
	list := v.sockets("listening")
	mustListen(t, list, "tcp", 8300, listener{"::", "rootlessport", "ann.service", "", "/system.slice/ann.service"})
	mustListen(t, list, "tcp", 8301, listener{"::", "pasta", "ann.service", "", "/system.slice/ann.service"})
	for _, s := range slices.Concat(onPort(list, 8300), onPort(list, 8301)) {
		if s.UID != 1000 {
			t.Errorf("not the user's: %+v", s)
		}
	}
}

// systemd says of a unit which job it waits for.
func TestUnitWaitsForItsJob(t *testing.T) {
	v := Boot(t)
	v.WriteFile("/etc/systemd/system/ant.service", "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n")
	v.Run("systemctl", "daemon-reload")
	v.Run("systemctl", "enable", "--now", "ant.service")
	v.Run("systemd-run", "--unit=bat", "sleep", "infinity")
	v.Run("systemd-run", "--unit=cow", "--service-type=notify", "--no-block", "sleep", "infinity")
	v.Await("cow is started", func() bool { return v.Show("cow.service", "SubState")["SubState"] == "start" })

	var units []host.Unit
	v.decode(v.Run("look", "loaded"), &units)
	found := map[string]host.Unit{}
	for _, u := range units {
		found[u.Name] = u
	}
	for _, want := range []host.Unit{
		{Name: "ant.service", Load: "loaded", Active: "active", Sub: "running"},
		{Name: "bat.service", Load: "loaded", Active: "active", Sub: "running"},
		{Name: "cow.service", Load: "loaded", Active: "activating", Sub: "start", Job: "start"},
	} {
		if found[want.Name] != want {
			t.Errorf("%+v, want %+v", found[want.Name], want)
		}
	}
}
