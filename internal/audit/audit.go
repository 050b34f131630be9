// Package audit answers what is on a machine that nobody asked for: what a manifest
// did not declare, or what is not as it declares it.
//
// [Join] is pure: it joins one look at the machine ([apply.View], [Sockets]) with
// the ledger and the generation in force, and returns a [Report]. Nothing is
// changed; each finding has the command that would settle it.
//
// What a distribution ships is never a finding: packages' units below /usr, units
// that are transient or made by generators, podman's own network, what podman makes
// for pods and health checks, and all that runs in a user's session.
package audit

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"meshgen/units"
)

// Class says what kind of finding it is.
type Class string

// All classes. The last three are listed, and do not count.
const (
	Stale    Class = "stale"    // ours, no longer declared, still there
	Missing  Class = "missing"  // declared, and not there
	Stopped  Class = "stopped"  // declared to run, and does not
	Drifted  Class = "drifted"  // ours, changed by other hands
	Shadowed Class = "shadowed" // another definition of that unit wins
	Foreign  Class = "foreign"  // not ours, and came up since the first switch
	Held     Class = "held"     // once ours, left alone; or declared, and left out
	Found    Class = "found"    // not ours, and there before the first switch
	Retained Class = "retained" // no longer declared, and kept for the data in it
)

// Counted are the classes that count, in the order in which they are told.
func Counted() []Class { return []Class{Stale, Foreign, Missing, Stopped, Shadowed, Drifted} }

// Finding is one thing that is not as the manifest says.
type Finding struct {
	Class  Class        `json:"class"`
	Target units.Target `json:"target"`
	// Also are other names that the thing has: the unit that runs a container.
	Also     []units.Target `json:"also,omitempty"`
	Resource units.Address  `json:"resource,omitzero"`
	// Owner is who has it: meshgen, the path of the definition that it comes from, or
	// whatever made it; "" where that is not known.
	Owner string `json:"owner,omitempty"`
	// Since is when it began, as far as that is known, and Generation the one that was
	// in force then; 0 where none was.
	Since      time.Time `json:"since,omitzero"`
	Generation int       `json:"generation,omitempty"`
	// Listens are the ports that it listens on, Connects the connections that it has
	// to what is declared.
	Listens  []Listener   `json:"listens"`
	Connects []Connection `json:"connects,omitempty"`
	Detail   string       `json:"detail"`
	// Fix is a command line for a shell that settles it; "" where none does.
	Fix string `json:"fix,omitempty"`
}

// Listener is a port that something listens on.
type Listener struct {
	Protocol string `json:"protocol"` // tcp or udp
	Address  string `json:"address"`  // 0.0.0.0 and :: are every one of the host's
	Port     int    `json:"port"`
	Process  string `json:"process,omitempty"`
	PID      int    `json:"pid,omitempty"`
}

// String is as in "tcp 0.0.0.0:3000, every address, by gitea (1234)".
func (l Listener) String() string { return l.upTo(l.Port) }

// upTo is String for all ports from that of l to the last.
func (l Listener) upTo(last int) string {
	ports := strconv.Itoa(l.Port)
	if last > l.Port {
		ports += "-" + strconv.Itoa(last)
	}
	text := l.Protocol + " " + net.JoinHostPort(l.Address, ports)
	if a, err := netip.ParseAddr(l.Address); err == nil && a.IsUnspecified() {
		text += ", every address"
	}
	return text + by(l.Process, l.PID)
}

func by(process string, pid int) string {
	if pid == 0 {
		return ""
	}
	return fmt.Sprintf(", by %s (%d)", process, pid)
}

// Ports are what a finding listens on, in words: ports in a row that one process has
// are one.
func (f Finding) Ports() []string {
	var lines []string
	for i := 0; i < len(f.Listens); {
		first, n := f.Listens[i], 1
		for next := first; i+n < len(f.Listens); n++ {
			if next.Port++; f.Listens[i+n] != next {
				break
			}
		}
		lines = append(lines, first.upTo(first.Port+n-1))
		i += n
	}
	return lines
}

// Peers are what a finding is connected to, in words: connections of one process to one
// port are one.
func (f Finding) Peers() []string {
	times := map[Connection]int{}
	var order []Connection
	for _, c := range f.Connects {
		c.From = ""
		if times[c]++; times[c] == 1 {
			order = append(order, c)
		}
	}
	var lines []string
	for _, c := range order {
		line := c.To + ", of " + c.Of.String() + by(c.Process, c.PID)
		if n := times[c]; n > 1 {
			line += fmt.Sprintf(", %d times", n)
		}
		lines = append(lines, line)
	}
	return lines
}

// Connection is an established one, to a port that something declared listens on.
type Connection struct {
	From    string        `json:"from"` // address:port
	To      string        `json:"to"`
	Of      units.Address `json:"of,omitzero"` // whose port it is
	Process string        `json:"process,omitempty"`
	PID     int           `json:"pid,omitempty"`
}

// Report is what an audit found.
type Report struct {
	At         time.Time `json:"time"`
	Generation int       `json:"generation"`
	// Findings count; what an ignore pattern has is among Ignored instead.
	Findings []Finding `json:"findings"`
	Held     []Finding `json:"held"`
	Found    []Finding `json:"found"`
	Retained []Finding `json:"retained"`
	Ignored  []Finding `json:"ignored"`
	// Unseen says what could not be looked at; the report is partial then.
	Unseen []string `json:"unseen"`
	// Notes are what else there is to know: a switch that was cut short.
	Notes []string `json:"notes"`
}

// Partial reports whether something could not be seen.
func (r Report) Partial() bool { return len(r.Unseen) > 0 }

// Counts returns how many findings each class has that counts, zeros too.
func (r Report) Counts() map[Class]int {
	counts := map[Class]int{}
	for _, c := range Counted() {
		counts[c] = 0
	}
	for _, f := range r.Findings {
		counts[f.Class]++
	}
	return counts
}

// Since leaves out what began before generation n was in force. What has no time, as a
// file that is gone, may have begun since, and stays.
func (r Report) Since(n int) Report {
	before := func(f Finding) bool { return !f.Since.IsZero() && f.Generation < n }
	r.Findings = slices.DeleteFunc(slices.Clone(r.Findings), before)
	r.Ignored = slices.DeleteFunc(slices.Clone(r.Ignored), before)
	r.Held = slices.DeleteFunc(slices.Clone(r.Held), before)
	r.Found = slices.DeleteFunc(slices.Clone(r.Found), before)
	r.Retained = slices.DeleteFunc(slices.Clone(r.Retained), before)
	return r
}

// Unfix takes the commands out: what they name is below another root, and a shell would
// take it for what this machine has by that name.
func (r *Report) Unfix() {
	for _, list := range [][]Finding{r.Findings, r.Held, r.Found, r.Retained, r.Ignored} {
		for i := range list {
			list[i].Fix = ""
		}
	}
}

// add puts a finding where its class belongs.
func (r *Report) add(f Finding) {
	if f.Listens == nil {
		f.Listens = []Listener{}
	}
	switch f.Class {
	case Held:
		r.Held = append(r.Held, f)
	case Found:
		r.Found = append(r.Found, f)
	case Retained:
		r.Retained = append(r.Retained, f)
	case Stale, Missing, Stopped, Drifted, Shadowed, Foreign:
		r.Findings = append(r.Findings, f)
	}
}

// sort puts what is connected and what listens before what just lies there, and what
// others use after them: podman removes no network that a container is in.
func (r *Report) sort() {
	for _, list := range []*[]Finding{&r.Findings, &r.Held, &r.Found, &r.Retained, &r.Ignored} {
		if *list == nil {
			*list = []Finding{}
		}
		slices.SortFunc(*list, func(a, b Finding) int {
			return cmp.Or(
				cmp.Compare(min(len(b.Connects), 1), min(len(a.Connects), 1)), cmp.Compare(min(len(b.Listens), 1), min(len(a.Listens), 1)),
				cmp.Compare(slices.Index(Counted(), a.Class), slices.Index(Counted(), b.Class)),
				cmp.Compare(used(a.Target), used(b.Target)),
				cmp.Compare(len(b.Connects), len(a.Connects)), cmp.Compare(len(b.Listens), len(a.Listens)),
				strings.Compare(string(a.Target), string(b.Target)),
			)
		})
	}
}

// used is 1 for what containers use, and 0 for all else.
func used(t units.Target) int {
	switch t.Kind() {
	case units.TargetNetwork, units.TargetVolume, units.TargetSecret:
		return 1
	}
	return 0
}
