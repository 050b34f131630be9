//go:build systemd

package vmtests

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// side is one of the two sets that a rig goes between: a container with a name,
// a network and a volume that stay, a config file whose path goes with the name,
// and one that stays at its path with other content.
type side struct{ name, file string }

func (s side) manifest() string {
	return fmt.Sprintf(`package mesh

modules: forge: {
	containers: "gitea.server": {
		name: %[1]q
		Container: {
			Image: "localhost/probe:1", Network: ["net"], Environment: IS: %[1]q
			Volume: ["data:/data", "%[2]s:/app.ini:ro", "/etc/gitea/kept.ini:/kept.ini:ro"]
		}
	}
	volumes: data: {}
	networks: net: {}
	files: "app.ini": {path: %[2]q, mode: "0640", content: "moved\n", notify: "gitea.server": "restart"}
	files: "kept.ini": {path: "/etc/gitea/kept.ini", mode: "0600", content: "of %[1]s\n", notify: "gitea.server": "restart"}
}
`, s.name, s.file)
}

// rig is a machine that is moved from side to side, with things on it that are
// not of meshgen.
type rig struct {
	*Machine
	sides [2]side
	now   int       // the side that it is on
	whole [2]string // how it looks after an unbroken switch to either
	by    string    // the things that are not of meshgen
	since string    // the time of its boot
}

// newRig returns a rig on a machine on which the scripts were run first.
func newRig(t *testing.T, prepare ...string) *rig {
	t.Helper()
	r := &rig{Machine: Boot(t), sides: [2]side{{"ant", "/etc/gitea/ant.ini"}, {"bat", "/etc/gitea/bat.ini"}}}
	r.booted()
	for _, script := range prepare {
		r.Run("sh", "-ec", script)
	}
	r.Run("podman", "run", "--detach", "--name=bystander", "--network=none", "localhost/probe:2")
	r.Run("podman", "network", "create", "byline")
	r.WriteFile("/etc/gitea/foreign.ini", "not of meshgen\n")
	r.by = r.bystanders()
	// Each is reached from the other before it is the measure: a first switch
	// has no predecessors.
	for i := range 4 {
		r.now = i % 2
		r.WriteManifest(r.sides[r.now].manifest())
		r.Switch()
		r.whole[r.now] = r.snapshot()
	}
	return r
}

func (r *rig) booted() {
	r.t.Helper()
	r.since = strings.TrimSpace(r.Run("date", "+%s.%N"))
}

// reboot takes the power away and brings the machine up again.
func (r *rig) reboot() {
	r.t.Helper()
	r.noOverlap()
	r.PowerCut()
	r.Boot()
	r.booted()
}

// bystanders is what must not change of the things that are not of meshgen.
func (r *rig) bystanders() string {
	r.t.Helper()
	return r.Run("sh", "-c", `
podman inspect --format '{{.Id}} {{.Created}} {{.State.StartedAt}}' bystander
podman network inspect --format '{{.ID}} {{.Created}}' byline
stat --format '%i %a %U %Z' /etc/gitea/foreign.ini
cat /etc/gitea/foreign.ini`)
}

// snapshot is all of the machine that a switch answers for.
func (r *rig) snapshot() string {
	r.t.Helper()
	out := r.Run("sh", "-c", `
echo '# containers'
podman inspect --format '{{$c := .Name}}{{println $c .State.Status}}{{range .Config.Env}}{{println $c .}}{{end}}{{range .Mounts}}{{println $c .Type .Source .Destination}}{{end}}{{range $n, $_ := .NetworkSettings.Networks}}{{println $c $n}}{{end}}' $(podman ps --all --external --format={{.Names}} | grep -vx bystander) | grep . | grep -v HOSTNAME= | sort
echo '# networks'; podman network ls --format={{.Name}} | sort
echo '# volumes'; podman volume ls --format={{.Name}} | sort
echo '# files'; for f in $(find /etc/gitea -type f | sort); do stat --format='%n %a %U:%G' $f; cat $f; done
echo '# units'; systemctl show --property=Id,LoadState,ActiveState,SubState,FragmentPath,DropInPaths ant bat forge-net-network forge-data-volume
echo '# generated'; find /run/systemd/generator* -printf '%P %l\n' | grep -e forge -e ant -e bat | sort
echo '# litter'; find /etc /var/lib/meshgen /run/meshgen /run/systemd/system /dev/shm -name '*meshgen-*' -o -path '/run/meshgen/*' -not -name lock -o -path '/run/systemd/system/*'
ls -A /etc/meshgen | grep -x pending; ls -A /etc/meshgen/generations | grep -v '^[0-9]*$'
ls -A /var/lib/meshgen | grep -vx -e ledger -e 'ledger\.[0-9]*' -e lock
true`)
	return out + "# ledger\n" + r.ledger().String()
}

// ledger is what the ledger says, folded by hand.
type ledger struct {
	states     map[string]string // by target: live, held or retired
	due        map[string]bool
	unfinished bool
}

func (r *rig) ledger() ledger {
	r.t.Helper()
	l := ledger{map[string]string{}, map[string]bool{}, false}
	for line := range strings.Lines(r.ReadFile("/var/lib/meshgen/ledger")) {
		_, payload, _ := strings.Cut(line, " ")
		var events []struct {
			Event, Target string
			Record        struct { // of a ledger that was compacted
				Target, State string
				Due           bool
			}
		}
		if !strings.HasPrefix(payload, "[") || !strings.HasSuffix(line, "\n") {
			continue // the header, and what was cut short
		}
		if err := json.Unmarshal([]byte(payload), &events); err != nil {
			r.t.Fatalf("ledger: %v: %s", err, line)
		}
		for _, e := range events {
			if e.Event == "record" {
				l.states[e.Record.Target] = e.Record.State
				if e.Record.Due {
					l.due[e.Record.Target] = true
				}
				continue
			}
			l.fold(e.Event, e.Target)
		}
	}
	return l
}

func (l *ledger) fold(event, target string) {
	switch event {
	case "begin", "end":
		l.unfinished = event == "begin"
	case "emit":
		l.states[target] = "live"
	case "hold":
		l.states[target] = "held"
	case "retire":
		l.states[target] = "retired"
		delete(l.due, target)
	case "due":
		l.due[target] = true
	case "started":
		delete(l.due, target)
	}
}

func (l ledger) has(target string) bool {
	return l.states[target] == "live" || l.states[target] == "held"
}

// String lists what the ledger has for there.
func (l ledger) String() string {
	var lines []string
	for target := range l.states {
		if l.has(target) {
			lines = append(lines, target+" "+l.states[target])
		}
		if l.due[target] {
			lines = append(lines, target+" due")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + fmt.Sprintf("\nunfinished: %v\n", l.unfinished)
}

// unnamed returns what is on the machine of meshgen's and not in its ledger,
// which must be nothing at any time: P1, and P2.
func (r *rig) unnamed() []string {
	r.t.Helper()
	l := r.ledger()
	things := strings.Fields(r.Run("sh", "-c", `
podman ps --all --external --format='{{.Names}}' | grep -vx bystander | sed 's/^/container:/'
podman network ls --format='{{.Name}}' | grep -vx -e byline -e podman | sed 's/^/network:/'
podman volume ls --format='{{.Name}}' | sed 's/^/volume:/'
find /etc/gitea -type f -not -name foreign.ini -not -name fill -not -name '.meshgen-*' | sed 's/^/file:/'
find /run/systemd/generator /run/systemd/system -name '*.service' -printf '%f\n' | grep -e forge -e ant -e bat | sort -u | sed 's/^/unit:/'
systemctl list-units --all --plain --no-legend 'forge-*' 'ant*' 'bat*' | awk '$2 == "loaded" || $3 != "inactive" {print "unit:" $1}'
true`))
	things = slices.DeleteFunc(things, l.has)
	if temps := r.Run("find", "/etc/gitea", "-name", ".meshgen-*"); temps != "" && !l.unfinished {
		things = append(things, strings.Fields(temps)...)
	}
	return things
}

// running says which side runs, "ant" or "bat", by the container that is up and
// by the content of the config files, or what is wrong with it.
func (r *rig) running() string {
	r.t.Helper()
	up := slices.DeleteFunc(r.Containers(), func(name string) bool { return name == "bystander" })
	if len(up) != 1 {
		return fmt.Sprintf("containers %q", up)
	}
	for _, s := range r.sides {
		if s.name == up[0] {
			return r.runs(s)
		}
	}
	return "container " + up[0]
}

// runs returns the name of a side whose container runs, or what is not of it.
func (r *rig) runs(s side) string {
	r.t.Helper()
	var wrong []string
	if is := r.is(s.name); is != s.name {
		wrong = append(wrong, fmt.Sprintf("container %s is of %q", s.name, is))
	}
	for path, want := range map[string]string{s.file: "moved\n640\n", "/etc/gitea/kept.ini": "of " + s.name + "\n600\n"} {
		got := r.Exec("sh", "-c", "cat "+path+" && stat --format=%a "+path)
		if got.Stdout != want {
			wrong = append(wrong, fmt.Sprintf("container %s runs and %s is %q", s.name, path, got.Stdout+got.Stderr))
		}
	}
	if len(wrong) > 0 {
		return strings.Join(wrong, ", ")
	}
	return s.name
}

// noOverlap sees in podman's record that since the boot there never were two
// containers of the resource at once.
func (r *rig) noOverlap() {
	r.t.Helper()
	out := r.Run("podman", "events", "--stream=false", "--since="+r.since, "--format=json",
		"--filter=type=container", "--filter=event=start", "--filter=event=died")
	running := ""
	for line := range strings.Lines(out) {
		var e struct{ Name, Status string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			r.t.Fatal(err)
		}
		switch {
		case e.Name == "bystander":
		case e.Status == "died" && running == e.Name:
			running = ""
		case e.Status == "start" && running != "":
			r.t.Errorf("%s started while %s ran", e.Name, running)
		case e.Status == "start":
			running = e.Name
		}
	}
}

// turn writes the manifest of the other side, and returns the one that is left.
func (r *rig) turn() (old side) {
	r.t.Helper()
	old = r.sides[r.now]
	r.now = 1 - r.now
	r.WriteManifest(r.sides[r.now].manifest())
	return old
}

// calls runs a switch to the other side to its end and returns the calls that
// it makes.
func (r *rig) calls(flags ...string) []string {
	r.t.Helper()
	r.turn()
	r.Run(slices.Concat([]string{"nth", "-log=/run/nth.log"}, flags, []string{"meshgen", "switch"})...)
	return strings.Split(strings.TrimSpace(r.ReadFile("/run/nth.log")), "\n")
}

// hit returns the call that nth hit, "" where the switch had fewer.
func (r *rig) hit() string {
	r.t.Helper()
	calls := strings.Split(strings.TrimSpace(r.ReadFile("/run/nth.log")), "\n")
	last := calls[len(calls)-1]
	if strings.HasSuffix(last, ": killed") {
		return last
	}
	for _, call := range calls {
		for _, errno := range errnos {
			if strings.HasSuffix(call, ": "+errno) {
				return call
			}
		}
	}
	return ""
}

// sound returns the rig where all is well on it, but for litter that was told of
// and is not to be held against the next, else another.
func (r *rig) sound(t *testing.T) *rig {
	t.Helper()
	if r.whole[r.now] == r.snapshot() {
		return r
	}
	r.Run("sh", "-c", "rm -rf /dev/shm/meshgen-quadlet-* /etc/meshgen/.meshgen-* /var/lib/meshgen/.meshgen-*")
	if r.whole[r.now] == r.snapshot() {
		return r
	}
	if err := r.m.Close(); err != nil {
		t.Fatal(err)
	}
	return newRig(t)
}

// mustBeWhole sees that the machine is as after an unbroken switch.
func (r *rig) mustBeWhole(wrong func(string, ...any)) {
	r.t.Helper()
	if diff := cmp.Diff(r.whole[r.now], r.snapshot()); diff != "" {
		wrong("not as after an unbroken switch (-unbroken +this):\n%s", diff)
	}
	if is := r.running(); is != r.sides[r.now].name {
		wrong("runs %s", is)
	}
	if by := r.bystanders(); by != r.by {
		wrong("what is not of meshgen has changed: %s", cmp.Diff(r.by, by))
	}
	if res := r.Exec("meshgen", "plan", "--exit-code"); res.Code != 0 {
		wrong("plan: %+v", res)
	}
}
