package apply

import (
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"meshgen/internal/host"
	"meshgen/units"
)

// plain returns a unit of systemd's own, whose id is its name, or a name and an
// id. It is wanted where it is no service.
func plain(name string, entries ...string) units.Resource {
	id, name, renamed := strings.Cut(name, " ")
	if !renamed {
		name = id
	}
	kind := id[strings.LastIndexByte(id, '.')+1:]
	if kind == "service" {
		entries = append(entries, "Install=no")
	}
	return resource(units.KindUnit, strings.ToUpper(kind[:1])+kind[1:], id, name, entries...)
}

func TestPlanOfPlainUnits(t *testing.T) {
	activating := func(name string) func(*before) {
		return func(b *before) {
			b.seen.units[name] = host.Unit{Name: name, Load: "loaded", Active: "activating", Sub: "start"}
		}
	}
	tests := []struct {
		name     string
		old, new []units.Resource
		but      func(*before)
		want     string
	}{
		{name: "nothing changes", old: set(plain("a.timer"), plain("a.service")), new: set(plain("a.timer"), plain("a.service"))},
		{
			name: "a changed timer is restarted, its service starts when it is time",
			old:  set(plain("a.timer", "OnCalendar=daily"), plain("a.service", "ExecStart=1")), new: set(plain("a.timer", "OnCalendar=weekly"), plain("a.service", "ExecStart=2")),
			but:  func(b *before) { b.down("a.service") },
			want: "restart a.timer",
		},
		{
			name: "a job that is at work is not disturbed",
			old:  set(plain("a.service", "Type=oneshot", "ExecStart=1")), new: set(plain("a.service", "Type=oneshot", "ExecStart=2")),
			but: activating("a.service"),
		},
		{
			name: "a service that is up is restarted",
			old:  set(plain("a.service", "ExecStart=1")), new: set(plain("a.service", "ExecStart=2")),
			want: "restart a.service",
		},
		{
			name: "a container's unit that becomes a plain one is stopped by what started it",
			old:  set(container("a", "a")), new: set(plain("a.service", "ExecStart=1")),
			want: "stop a.service\nstart a.service\nretire container:a",
		},
		{
			name: "one that was started since it changed is not",
			old:  set(plain("a.service")), new: set(plain("a.service")),
			but: func(b *before) {
				b.record("unit:a.service").Started, b.record("unit:a.service").Invocation = "earlier", "1"
				b.seen.invocations = map[string]string{"a.service": "2"}
			},
		},
		{
			name: "a slice, which would take all in it down, is left to systemd",
			old:  set(plain("a.slice", "MemoryMax=1")), new: set(plain("a.slice", "MemoryMax=2")),
		},
		{
			name: "a target pulls in what it has come to want",
			old:  set(plain("a.target", "Wants=1")), new: set(plain("a.target", "Wants=2")),
			want: "start a.target",
		},
		{
			name: "a mount is mounted anew where it is",
			old:  set(plain("a.mount", "Options=ro")), new: set(plain("a.mount", "Options=rw")),
			want: "reload a.mount",
		},
		{
			name: "a changed socket whose service is down is restarted",
			old:  set(plain("a.socket", "ListenStream=1"), plain("a.service")), new: set(plain("a.socket", "ListenStream=2"), plain("a.service")),
			but:  func(b *before) { b.down("a.service") },
			want: "restart a.socket\nretire port:tcp/1",
		},
		{
			name: "one whose service is up has it go down first",
			old:  set(plain("a.socket", "ListenStream=1"), plain("a.service")), new: set(plain("a.socket", "ListenStream=2"), plain("a.service")),
			want: "stop a.socket a.service\nstart a.socket a.service\nretire port:tcp/1",
		},
		{
			name: "so has a new one",
			old:  set(plain("a.service")), new: set(plain("a.service"), plain("a.socket")),
			want: "stop a.service\nstart a.socket a.service",
		},
		{
			name: "so has a renamed one",
			old:  set(plain("a.socket", "Service=x.service"), plain("x.service")), new: set(plain("a.socket b.socket", "Service=x.service"), plain("x.service")),
			want: "stop a.socket x.service\nstart b.socket x.service\nretire unit:a.socket",
		},
		{
			name: "a socket and its service that are renamed together go down first: the service has the socket open",
			old:  set(plain("a.socket"), plain("a.service")), new: set(plain("a.socket b.socket"), plain("a.service b.service")),
			want: "stop a.socket a.service\nstart b.socket b.service\nretire unit:a.service unit:a.socket",
		},
		{
			name: "where the service is down the socket is handed over",
			old:  set(plain("a.socket"), plain("a.service")), new: set(plain("a.socket b.socket"), plain("a.service b.service")),
			but:  func(b *before) { b.down("a.service") },
			want: "hand over a.socket to b.socket\nretire unit:a.service unit:a.socket",
		},
		{
			name: "a socket that gets another service has the former one go down too",
			old:  set(plain("a.socket", "Service=x.service"), plain("x.service"), plain("y.service")),
			new:  set(plain("a.socket", "Service=y.service"), plain("x.service"), plain("y.service")),
			but:  func(b *before) { b.down("y.service") },
			want: "stop a.socket x.service\nstart a.socket x.service",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := running(generation(1, test.old...))
			if test.but != nil {
				test.but(&b)
			}
			if diff := gocmp.Diff(test.want, shown(makePlan(b, generation(2, test.new...)))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
