package audit

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meshgen/internal/apply"
	"meshgen/internal/host"
	"meshgen/units"
)

func listening(address string, pid int, command, cgroup, maker string) host.Socket {
	return host.Socket{
		Protocol: "tcp", State: host.Listening, Local: netip.MustParseAddrPort(address), Maker: maker,
		Process: host.Process{PID: pid, Command: command, Cgroup: cgroup},
	}
}

// A declared port that somebody else listens on is told, with what ends that and no
// more: never systemd, never all that a user does.
func TestPortsThatOthersHave(t *testing.T) {
	id := strings.Repeat("ab", 32)
	for name, c := range map[string]struct {
		s    host.Socket
		want []string
	}{
		"ours": {listening("[::]:80", 7, "web", "/system.slice/m-web.service/libpod-payload-"+id, ""), []string{}},
		"a service": {
			listening("[::]:80", 7, "nginx", "/system.slice/nginx.service", ""),
			[]string{"foreign port:tcp/80: declared for m/container/web, and nginx listens on it, of nginx.service $ systemctl stop nginx.service"},
		},
		"a socket unit": {
			listening("[::]:80", 1, "systemd", "/init.scope", "/system.slice/nginx.socket"),
			[]string{"foreign port:tcp/80: declared for m/container/web, and systemd listens on it, of nginx.socket $ systemctl stop nginx.socket"},
		},
		"systemd, for nobody knows whom": {
			listening("[::]:80", 1, "systemd", "/init.scope", ""),
			[]string{"foreign port:tcp/80: declared for m/container/web, and systemd listens on it"},
		},
		"a user's own": {
			listening("127.0.0.1:80", 7, "rootlessport", "/user.slice/user-1000.slice/user@1000.service/app.slice/x.service", ""),
			[]string{"foreign port:tcp/80: declared for m/container/web, and rootlessport listens on it $ kill 7"},
		},
		"what somebody typed": {
			listening("0.0.0.0:80", 7, "nc", "/user.slice/user-0.slice/session-3.scope", ""),
			[]string{"foreign port:tcp/80: declared for m/container/web, and nc listens on it $ kill 7"},
		},
		"a found container": {
			listening("0.0.0.0:80", 7, "conmon", "/machine.slice/libpod-conmon-"+id+".scope", ""),
			[]string{"foreign port:tcp/80: declared for m/container/web, and conmon listens on it, of container shop $ podman stop shop"},
		},
		"another port":           {listening("[::]:81", 7, "nginx", "/system.slice/nginx.service", ""), []string{}},
		"who is not to be known": {listening("[::]:80", 0, "", "", ""), []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			v := viewOf(t)
			v.Generation.Resources[0].Holds = []units.Port{{Protocol: "tcp", Number: 80}}
			for _, unit := range []string{"nginx.service", "nginx.socket", "user@1000.service", "session-3.scope", "libpod-conmon-" + id + ".scope", "init.scope"} {
				v.Units[unit] = host.Unit{Name: unit, Load: "loaded", Active: "active"}
			}
			v.Objects[units.TargetContainer]["shop"] = host.Object{Name: "shop", ID: id}
			var r Report
			r.ports(v, hear(v, []host.Socket{c.s}))
			if diff := cmp.Diff(c.want, told(r)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// What listens is told with what it is of: a container, all of a pod, a unit.
func TestListeners(t *testing.T) {
	v := viewOf(t)
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	v.Objects[units.TargetContainer]["x"] = host.Object{Name: "x", ID: a}
	v.Objects[units.TargetContainer]["y"] = host.Object{Name: "y", ID: b, PodName: "p"}
	h := hear(v, []host.Socket{
		listening("[::]:1", 5, "x", "/machine.slice/libpod-"+a+".scope/container", ""),
		listening("[::]:1", 5, "x", "/machine.slice/libpod-"+a+".scope/container", ""), // the other half of it
		listening("127.0.0.1:2", 6, "conmon", "/machine.slice/libpod-conmon-"+b+".scope", ""),
		listening("127.0.0.1:3", 7, "u", "/system.slice/u.service", ""),
	})
	for _, c := range []struct {
		f    Finding
		want string
	}{
		{Finding{Target: "container:x"}, "tcp [::]:1, every address, by x (5)"},
		{Finding{Target: "pod:p"}, "tcp 127.0.0.1:2, by conmon (6)"},
		{Finding{Target: "container:z", Also: []units.Target{"unit:u.service"}}, "tcp 127.0.0.1:3, by u (7)"},
		{Finding{Target: "container:z"}, ""},
		{Finding{Class: Stopped, Target: "unit:u.service"}, ""},
	} {
		var got []string
		for _, l := range h.listeners(v, c.f) {
			got = append(got, l.String())
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: %q, want %q", c.f.Target, got, c.want)
		}
	}
}

// Below another root nothing runs, and nothing is asked.
func TestNothingIsHeardBelowAnotherRoot(t *testing.T) {
	var r Report
	r.Hear(t.Context(), apply.View{Layout: viewOf(t).Layout})
	if len(r.Findings)+len(r.Unseen) > 0 {
		t.Errorf("%+v", r)
	}
}

// A container that has ended since podman listed it makes no audit partial.
func TestAContainerThatHasEndedIsHeardOfNoMore(t *testing.T) {
	v := viewOf(t)
	v.Objects[units.TargetContainer]["x"] = host.Object{Name: "x", ID: "x1", PID: 1 << 30} // above any process's
	c := caller{view: v, established: map[uint64][]host.Socket{}}
	if _, err := c.sockets(t.Context(), []string{"x1"}); err != nil {
		t.Error(err)
	}
}

// What has many ports in a row, or many connections to one, is told in a line each.
func TestManyAreOneLine(t *testing.T) {
	at := func(protocol, address string, port, pid int) Listener {
		return Listener{Protocol: protocol, Address: address, Port: port, Process: "sip", PID: pid}
	}
	listens := []Listener{
		at("tcp", "::", 80, 7), at("tcp", "::", 443, 7), at("udp", "::", 9000, 7), at("udp", "::", 9001, 7), at("udp", "::", 9002, 7),
		at("udp", "::", 9003, 8), at("udp", "127.0.0.1", 9004, 8),
	}
	want := []string{
		"tcp [::]:80, every address, by sip (7)", "tcp [::]:443, every address, by sip (7)", "udp [::]:9000-9002, every address, by sip (7)",
		"udp [::]:9003, every address, by sip (8)", "udp 127.0.0.1:9004, by sip (8)",
	}
	if diff := cmp.Diff(want, Finding{Listens: listens}.Ports()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	db := address("m/container/db")
	connects := []Connection{
		{From: "127.0.0.1:40001", To: "127.0.0.1:5432", Of: db, Process: "web", PID: 7},
		{From: "127.0.0.1:40003", To: "127.0.0.1:5433", Of: db, Process: "web", PID: 7},
		{From: "127.0.0.1:40002", To: "127.0.0.1:5432", Of: db, Process: "web", PID: 7},
	}
	want = []string{"127.0.0.1:5432, of m/container/db, by web (7), 2 times", "127.0.0.1:5433, of m/container/db, by web (7)"}
	if diff := cmp.Diff(want, Finding{Connects: connects}.Peers()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
