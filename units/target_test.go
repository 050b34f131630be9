package units

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParsePublishPort(t *testing.T) {
	tests := []struct {
		value string
		want  string // targets, or the error
	}{
		{"80", ""},
		{"80/udp", ""},
		{"8000-8010", ""},
		{":80", ""},
		{"127.0.0.1::80", ""},
		{"[::1]::80", ""},
		{"8080:80", "port:tcp/8080"},
		{"8080:80/udp", "port:udp/8080"},
		{"8080:80/UDP", "port:udp/8080"},
		{"53:53/tcp,udp", "port:tcp/53 port:udp/53"},
		{"53:53/tcp,tcp", "port:tcp/53"},
		{"5000:5000/sctp", "port:sctp/5000"},
		{"0.0.0.0:8080:80", "port:tcp/8080"},
		{"127.0.0.1:8080:80", "port:tcp/127.0.0.1:8080"},
		{"127.0.0.1:53:53/udp", "port:udp/127.0.0.1:53"},
		{"[::]:8080:80", "port:tcp/[::]:8080"},
		{"[::1]:8080:80/udp", "port:udp/[::1]:8080"},
		{"[0:0::1]:8080:80", "port:tcp/[::1]:8080"},
		{"[::ffff:10.0.0.1]:8080:80", "port:tcp/10.0.0.1:8080"},
		{"8080-8081:80-81/udp", "port:udp/8080 port:udp/8081"},
		{"127.0.0.1:8080-8081:80-81", "port:tcp/127.0.0.1:8080 port:tcp/127.0.0.1:8081"},
		{"[::1]:8080-8081:80-81", "port:tcp/[::1]:8080 port:tcp/[::1]:8081"},

		{"", `"" is not a port: want 1 to 65535`},
		{"http", `"http" is not a port: want 1 to 65535`},
		{"0:80", `"0" is not a port: want 1 to 65535`},
		{"8080:0", `"0" is not a port: want 1 to 65535`},
		{"65536:80", `"65536" is not a port: want 1 to 65535`},
		{"8080:", `"" is not a port: want 1 to 65535`},
		{"8080:80/", `protocol "" is none of tcp, udp, sctp`},
		{"8080:80/icmp", `protocol "icmp" is none of tcp, udp, sctp`},
		{"8080:80/tcp/udp", `protocol "tcp/udp" is none of tcp, udp, sctp`},
		{"8081-8080:80-81", `port range "8081-8080" does not rise`},
		{"8080-8080:80", `port range "8080-8080" does not rise`},
		{"8080-8082:80-81", `"8080-8082:80-81" has 3 host ports for 2 container ports`},
		{"8080:80-81", `"8080:80-81" has 1 host ports for 2 container ports`},
		{"127.0.0.1:80", `"127.0.0.1" is not a port: want 1 to 65535`},
		{"[::1]:80", `"[::1]:80" has an address and no host port: want [::1]::80 for any`},
		{"::1:8080:80", `"::1" is not an address to listen on: want one like 127.0.0.1 or [::1]`},
		{"[127.0.0.1]:8080:80", `"[127.0.0.1]" is not an address to listen on: want one like 127.0.0.1 or [::1]`},
		{"[fe80::1%eth0]:8080:80", `"[fe80::1%eth0]" is not an address to listen on: want one like 127.0.0.1 or [::1]`},
		{"localhost:8080:80", `"localhost" is not an address to listen on: want one like 127.0.0.1 or [::1]`},
		{":8080:80", `"" is not an address to listen on: want one like 127.0.0.1 or [::1]`},
	}
	for _, test := range tests {
		t.Run(test.value, func(t *testing.T) {
			ports, err := ParsePublishPort(test.value)
			got := targets(ports)
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("ParsePublishPort(%q):\n%s", test.value, diff)
			}
		})
	}
}

func targets(ports []Port) string {
	var names []string
	for _, p := range ports {
		names = append(names, string(p.Target()))
	}
	return strings.Join(names, " ")
}

func TestParsePortReadsWhatTargetWrites(t *testing.T) {
	tests := map[string]string{
		"2222":             "port:tcp/2222",
		"tcp/2222":         "port:tcp/2222",
		"udp/53":           "port:udp/53",
		"tcp/127.0.0.1:53": "port:tcp/127.0.0.1:53",
		"udp/[::1]:53":     "port:udp/[::1]:53",
		"tcp/0.0.0.0:53":   "port:tcp/53",
		"":                 `"" is not a port: want 1 to 65535`,
		"tcp":              `"tcp" is not a port: want 1 to 65535`,
		"tcp,udp/53":       `"tcp,udp/53" has more than one protocol`,
		"53/udp":           `protocol "53" is none of tcp, udp, sctp`,
		"tcp/host:53":      `"host" is not an address to listen on: want one like 127.0.0.1 or [::1]`,
	}
	for s, want := range tests {
		p, err := ParsePort(s)
		got := string(p.Target())
		if err != nil {
			got = err.Error()
		} else if again, err := ParsePort(strings.TrimPrefix(got, "port:")); err != nil || again != p {
			t.Errorf("ParsePort(%q) = %v, %v: want %v", got, again, err, p)
		}
		if got != want {
			t.Errorf("ParsePort(%q): got %s, want %s", s, got, want)
		}
	}
}

func TestPortsOverlap(t *testing.T) {
	tests := []struct {
		a, b string
		want bool
	}{
		{"tcp/80", "tcp/80", true},
		{"tcp/80", "udp/80", false},
		{"tcp/80", "tcp/81", false},
		{"tcp/80", "tcp/127.0.0.1:80", true},
		{"tcp/80", "tcp/[::]:80", true},
		{"tcp/[::]:80", "tcp/[::1]:80", true},
		{"tcp/[::]:80", "tcp/127.0.0.1:80", false},
		{"tcp/127.0.0.1:80", "tcp/127.0.0.2:80", false},
	}
	for _, test := range tests {
		a, errA := ParsePort(test.a)
		b, errB := ParsePort(test.b)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if a.Overlaps(b) != test.want || b.Overlaps(a) != test.want {
			t.Errorf("%s overlaps %s: want %v", test.a, test.b, test.want)
		}
	}
}

func TestPortsOfASocket(t *testing.T) {
	socket := func(entries ...Entry) string {
		r := Resource{
			Address: Address{Module: "m", Kind: KindUnit, ID: "x.socket"}, Name: "x.socket",
			Sections: []Section{{Name: "Socket", Entries: entries}},
		}
		var names []string
		for _, t := range Targets(r) {
			names = append(names, string(t))
		}
		return strings.Join(names, " ")
	}
	tests := []struct {
		got, want string
	}{
		{socket(entry("ListenStream", "80", "127.0.0.1:81", "[::1]:82", "0.0.0.0:80")), "unit:x.socket port:tcp/80 port:tcp/127.0.0.1:81 port:tcp/[::1]:82"},
		{socket(entry("ListenDatagram", "53"), entry("ListenStream", "53")), "unit:x.socket port:tcp/53 port:udp/53"},
		{socket(entry("ListenStream", "99"), entry("SocketProtocol", "sctp")), "unit:x.socket port:sctp/99"},
		{socket(entry("ListenStream", "/run/80", "@80", "vsock:2:80", "%i", "", "[fe80::1]:80%eth0")), "unit:x.socket"},
		{socket(entry("ListenFIFO", "/run/x")), "unit:x.socket"},
	}
	for _, test := range tests {
		if test.got != test.want {
			t.Errorf("got %s, want %s", test.got, test.want)
		}
	}
	for _, wrong := range []string{"0", "65536", "name", "1.2.3:4", "::1:80"} {
		if p, ok, err := ParseListen(wrong, "tcp"); err == nil {
			t.Errorf("%s: %v, %v, want an error", wrong, p, ok)
		}
	}
}
