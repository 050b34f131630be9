package audit

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meshgen/internal/apply"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// begin is when the first switch of the node of [viewOf] ended.
var begin = time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)

func address(text string) units.Address {
	a, err := units.ParseAddress(text)
	if err != nil {
		panic(err)
	}
	return a
}

// viewOf is a node below a root of its own on which all is as it should be: one
// container, the pod crew, and a file in a directory that was made for it.
func viewOf(t *testing.T) apply.View {
	t.Helper()
	l := state.NewLayout(t.TempDir(), "")
	write(t, l.Path("/etc/m/a"))
	resources := []units.Resource{
		{
			Address: address("m/container/web"), Name: "m-web",
			Sections: []units.Section{{Name: "Container", Entries: []units.Entry{{Key: "ContainerName", Values: []string{"web"}}}}},
		},
		{
			Address: address("m/pod/crew"), Name: "m-crew",
			Sections: []units.Section{{Name: "Pod", Entries: []units.Entry{{Key: "PodName", Values: []string{"crew"}}}}},
		},
		{Address: address("m/file/a"), Name: "a", File: &units.File{Path: "/etc/m/a"}},
	}
	v := apply.View{
		Layout: l, At: begin.Add(time.Hour),
		Generation: state.Generation{
			Number: 3, Resources: resources,
			Units: []state.Unit{
				{Name: "m-crew-pod.service", Resource: resources[1].Address, Wanted: true},
				{Name: "m-web.service", Resource: resources[0].Address, Wanted: true},
			},
		},
		Switches: []state.Switch{
			{Generation: 1, Begin: begin.Add(-time.Second), End: begin, Result: state.Done},
			{Generation: 2, Begin: begin.Add(time.Minute), End: begin.Add(2 * time.Minute), Result: state.RolledBack},
			{Generation: 3, Begin: begin.Add(3 * time.Minute), End: begin.Add(4 * time.Minute), Result: state.Failed},
		},
		Records: map[units.Target]state.Record{},
		Objects: map[string]map[string]host.Object{
			units.TargetContainer: {"web": {Name: "web", ID: "1", Unit: "m-web.service", Running: true}},
			units.TargetPod:       {"crew": {Name: "crew", ID: "2", Unit: "m-crew-pod.service"}},
			units.TargetNetwork:   {"podman": {Name: "podman"}},
			units.TargetVolume:    {}, units.TargetSecret: {},
		},
		Units: map[string]host.Unit{
			"m-web.service":      {Name: "m-web.service", Load: "loaded", Active: "active", Sub: "running"},
			"m-crew-pod.service": {Name: "m-crew-pod.service", Load: "loaded", Active: "active", Sub: "running"},
			"ssh.service":        {Name: "ssh.service", Load: "loaded", Active: "failed", Sub: "failed"},
		},
		Details: map[string]host.Details{}, Downs: map[string]host.Down{}, Definitions: map[string]string{},
	}
	for _, r := range resources {
		for _, target := range units.Targets(r) {
			v.Records[target] = live(target, r.Address)
		}
	}
	v.Records["dir:/etc/m"] = live("dir:/etc/m", address("m/file/a"))
	return v
}

func live(t units.Target, a units.Address) state.Record {
	return state.Record{Target: t, Resource: a, State: state.Live, Emissions: 1, Last: state.Moment{Generation: 1, Time: begin}}
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// down is the view's container in another state of its unit.
func down(v *apply.View, u host.Unit, d host.Details, why host.Down) {
	u.Name = "m-web.service"
	v.Units[u.Name], v.Details[u.Name], v.Downs[u.Name] = u, d, why
}

func drifted(change state.Change, to units.Target, decision state.Decision) apply.Drift {
	return apply.Drift{Transition: state.Transition{
		Kind: state.Drift, Resource: address("m/container/web"), From: to, To: to, Change: change, Decision: decision,
		Policy: state.BuiltinPolicy, Reason: "is so",
	}}
}

// told is every finding of a report in a line: class, target, what is said, and what
// settles it.
func told(r Report) []string {
	lines := []string{}
	for _, f := range slices.Concat(r.Findings, r.Held, r.Found, r.Retained) {
		line := string(f.Class) + " " + string(f.Target) + ": " + f.Detail
		if f.Fix != "" {
			line += " $ " + f.Fix
		}
		lines = append(lines, line)
	}
	return lines
}

func TestJoin(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*apply.View)
		want   []string
	}{
		"all is as declared": {func(*apply.View) {}, nil},

		// What is ours, and gone.
		"a file is gone": {func(v *apply.View) {
			v.Drift = []apply.Drift{drifted(state.Gone, "file:/etc/m/a", state.Restore)}
		}, []string{"missing file:/etc/m/a: is so $ meshgen switch"}},
		"a volume is gone": {func(v *apply.View) {
			d := drifted(state.Gone, "volume:data", state.Refuse)
			d.Hint = "bring its data back"
			v.Drift = []apply.Drift{d}
		}, []string{"missing volume:data: is so; bring its data back"}},
		"systemd does not know a unit": {func(v *apply.View) {
			down(v, host.Unit{Load: "not-found", Active: "inactive"}, host.Details{}, host.Down{})
		}, []string{"missing unit:m-web.service: systemd does not know it $ systemctl daemon-reload && systemctl start m-web.service"}},
		"a pod is gone under its unit": {func(v *apply.View) {
			delete(v.Objects[units.TargetPod], "crew")
		}, []string{"missing pod:crew: the pod is gone, and its unit is up $ systemctl restart m-crew-pod.service"}},

		// What is ours, and does not run.
		"stopped": {func(v *apply.View) {
			down(v, host.Unit{Load: "loaded", Active: "inactive"}, host.Details{Type: "notify", Result: "success"}, host.Down{})
		}, []string{"stopped unit:m-web.service: is stopped $ systemctl start m-web.service"}},
		"failed": {func(v *apply.View) {
			down(v, host.Unit{Load: "loaded", Active: "failed"}, host.Details{Result: "exit-code"}, host.Down{})
		}, []string{"stopped unit:m-web.service: failed: exit-code $ systemctl reset-failed m-web.service && systemctl start m-web.service"}},
		"started again and again": {func(v *apply.View) {
			down(v, host.Unit{Load: "loaded", Active: "activating", Sub: "auto-restart"}, host.Details{Result: "exit-code"}, host.Down{Restarts: 7})
		}, []string{"stopped unit:m-web.service: fails, and is started again: 7 times by now $ journalctl -n 30 -u m-web.service"}},
		"started again once": {func(v *apply.View) {
			down(v, host.Unit{Load: "loaded", Active: "activating", Sub: "auto-restart"}, host.Details{Result: "exit-code"}, host.Down{Restarts: 1})
		}, nil},
		"started again since it ended well": {func(v *apply.View) {
			down(v, host.Unit{Load: "loaded", Active: "activating", Sub: "auto-restart"}, host.Details{Result: "success"}, host.Down{Restarts: 99})
		}, nil},
		"its conditions do not hold": {func(v *apply.View) {
			down(v, host.Unit{Load: "loaded", Active: "inactive"}, host.Details{Type: "notify", Result: "success"}, host.Down{Unmet: true})
		}, nil},
		"runs once, and has": {func(v *apply.View) {
			down(v, host.Unit{Load: "loaded", Active: "inactive"}, host.Details{Type: "oneshot", Result: "success"}, host.Down{})
		}, nil},
		"runs once, remains, and was stopped": {func(v *apply.View) {
			down(v, host.Unit{Load: "loaded", Active: "inactive"}, host.Details{Type: "oneshot", Result: "success"}, host.Down{Remains: true})
		}, []string{"stopped unit:m-web.service: is stopped $ systemctl start m-web.service"}},
		"paused": {func(v *apply.View) {
			v.Objects[units.TargetContainer]["web"] = host.Object{Name: "web", ID: "1", Unit: "m-web.service", Frozen: true}
		}, []string{"stopped container:web: is paused $ podman unpause web"}},
		"about to start": {func(v *apply.View) {
			down(v, host.Unit{Load: "loaded", Active: "inactive", Job: "start"}, host.Details{}, host.Down{})
		}, nil},
		"nothing has it start": {func(v *apply.View) {
			down(v, host.Unit{Load: "loaded", Active: "inactive"}, host.Details{}, host.Down{})
			v.Generation.Units[1].Wanted = false
		}, nil},

		// What a unit leaves that is gone.
		"processes of a unit that nobody defines": {func(v *apply.View) {
			v.Units["x.service"] = host.Unit{Name: "x.service", Load: "not-found", Active: "inactive"}
			v.Left = map[string][]host.Process{"x.service": {{PID: 7, Command: "nc"}, {PID: 9, Command: "sh"}}}
		}, []string{"foreign unit:x.service: has ended, and left nc (7), sh (9); systemd has lost its definition; the ledger never had it $ systemctl kill x.service"}},
		"processes of a unit that was ours, and failed": {func(v *apply.View) {
			v.Units["x.service"] = host.Unit{Name: "x.service", Load: "not-found", Active: "failed"}
			v.Left = map[string][]host.Process{"x.service": {{PID: 7, Command: "a"}, {PID: 8, Command: "b"}, {PID: 9, Command: "c"}, {PID: 10, Command: "d"}}}
			r := live("unit:x.service", address("m/unit/x"))
			r.State, r.Retired.Generation = state.Retired, 2
			v.Records[r.Target] = r
		}, []string{"stale unit:x.service: has failed, and left a (7), b (8), c (9) …; systemd has lost its definition; was of m/unit/x until generation 2, and was seen gone $ systemctl kill x.service && systemctl reset-failed x.service"}},
		"a container that its unit left": {func(v *apply.View) {
			v.Units["x.service"] = host.Unit{Name: "x.service", Load: "not-found", Active: "failed"}
			v.Left = map[string][]host.Process{"x.service": {{PID: 7, Command: "conmon"}}}
			v.Objects[units.TargetContainer]["x"] = host.Object{Name: "x", ID: "9", Image: "i:1", Unit: "x.service", Running: true}
		}, []string{"foreign container:x: a container of image i:1, runs; the ledger never had it; x.service has ended, and left it $ podman rm --force --volumes x"}},

		// What is ours, and was changed.
		"content": {func(v *apply.View) {
			v.Drift = []apply.Drift{drifted(state.ChangedContent, "file:/etc/m/a", state.Restore)}
		}, []string{"drifted file:/etc/m/a: is so $ meshgen switch"}},
		"a directory in its place": {func(v *apply.View) {
			v.Drift = []apply.Drift{drifted(state.Directory, "file:/etc/m/a", state.Refuse)}
		}, []string{"drifted file:/etc/m/a: is so $ mv /etc/m/a /etc/m/a.off && meshgen switch"}},
		"a file in a directory's place": {func(v *apply.View) {
			v.Drift = []apply.Drift{drifted(state.File, "dir:/srv/data", state.Refuse)}
		}, []string{"drifted dir:/srv/data: is so $ mv /srv/data /srv/data.off && meshgen switch"}},
		"another container has its name": {func(v *apply.View) {
			v.Drift = []apply.Drift{drifted(state.Remade, "container:web", state.Keep)}
		}, []string{"drifted container:web: is so $ podman container rm --force web && systemctl restart m-web.service"}},
		"another secret has its name": {func(v *apply.View) {
			v.Drift = []apply.Drift{drifted(state.Remade, "secret:pass", state.Keep)}
		}, []string{"drifted secret:pass: is so $ podman secret rm --force pass && meshgen switch"}},
		"another container has the name of what nothing is to start": {func(v *apply.View) {
			v.Drift = []apply.Drift{drifted(state.Remade, "container:web", state.Keep)}
			down(v, host.Unit{Load: "loaded", Active: "inactive"}, host.Details{}, host.Down{})
			v.Generation.Units[1].Wanted = false
		}, []string{"drifted container:web: is so $ podman container rm --force web"}},
		"runs without its definition": {func(v *apply.View) {
			down(v, host.Unit{Load: "not-found", Active: "active"}, host.Details{}, host.Down{})
		}, []string{"drifted unit:m-web.service: runs, and systemd has lost its definition $ systemctl daemon-reload"}},
		"its definition is bad": {func(v *apply.View) {
			down(v, host.Unit{Load: "bad-setting", Active: "inactive"}, host.Details{}, host.Down{})
		}, []string{"drifted unit:m-web.service: systemd cannot use its definition: bad-setting $ meshgen switch"}},
		"a drop-in": {func(v *apply.View) {
			v.Layout.Root = dropIn(v.Layout.Root, "m-web.service", "10 nice.conf")
		}, []string{
			"drifted unit:m-web.service: changed by /etc/systemd/system/m-web.service.d/10 nice.conf $ " +
				"mv '/etc/systemd/system/m-web.service.d/10 nice.conf' '/etc/systemd/system/m-web.service.d/10 nice.conf.off' && systemctl daemon-reload && systemctl restart m-web.service",
		}},
		"a drop-in of a unit that is not ours": {func(v *apply.View) {
			v.Layout.Root = dropIn(v.Layout.Root, "ssh.service", "override.conf")
		}, nil},
		"a policy of the owner's keeps it": {func(v *apply.View) {
			d := drifted(state.ChangedContent, "file:/etc/m/a", state.Keep)
			d.Facts = map[string]string{"policy.drift": "keep"}
			v.Drift = []apply.Drift{d}
		}, []string{"held file:/etc/m/a: is so, and its policy keeps it so"}},

		// Another definition wins.
		"masked": {func(v *apply.View) {
			v.Drift = []apply.Drift{drifted(state.Masked, "unit:m-web.service", state.Keep)}
		}, []string{"shadowed unit:m-web.service: is so $ systemctl unmask m-web.service && systemctl unmask --runtime m-web.service && systemctl start m-web.service"}},
		"overridden": {func(v *apply.View) {
			v.Drift = []apply.Drift{drifted(state.Overridden, "unit:m-web.service", state.Keep)}
			v.Definitions["m-web.service"] = "/etc/systemd/system/m-web.service"
		}, []string{
			"shadowed unit:m-web.service: is so $ mv /etc/systemd/system/m-web.service /etc/systemd/system/m-web.service.off && systemctl daemon-reload && systemctl restart m-web.service",
		}},

		// What is ours, and not declared.
		"a unit that is no longer declared": {func(v *apply.View) {
			v.Records["unit:old.service"] = live("unit:old.service", address("m/container/old"))
			v.Units["old.service"] = host.Unit{Name: "old.service", Load: "not-found", Active: "active"}
		}, []string{"stale unit:old.service: is no longer declared, and is active; systemd has lost its definition $ meshgen switch"}},
		"a container that is no longer declared": {func(v *apply.View) {
			v.Records["container:old"] = live("container:old", address("m/container/old"))
			v.Objects[units.TargetContainer]["old"] = host.Object{Name: "old", Image: "i:1", Running: true}
		}, []string{"stale container:old: a container of image i:1, runs, no longer declared $ meshgen switch"}},
		"a container with our mark": {func(v *apply.View) {
			v.Objects[units.TargetContainer]["old"] = host.Object{Name: "old", Image: "i:1", Labels: map[string]string{units.MarkLabel: "m/container/old"}}
		}, []string{"stale container:old: a container of image i:1, does not run, bears meshgen's mark, of m/container/old; the ledger never had it $ podman rm --force --volumes old"}},
		"a file that is no longer declared": {func(v *apply.View) {
			v.Records["file:/etc/m/a"] = live("file:/etc/m/a", address("m/file/a"))
			v.Generation.Resources = v.Generation.Resources[:2]
		}, []string{"stale file:/etc/m/a: is no longer declared, and is there $ meshgen switch"}},
		"of ours, and let be": {func(v *apply.View) {
			for _, target := range []units.Target{"volume:data", "container:kept", "unit:kept.service", "volume:gone"} {
				v.Records[target] = state.Record{Target: target, Resource: address("m/volume/x"), State: state.Held, Emissions: 1, Why: "kept"}
			}
			v.Objects[units.TargetVolume]["data"] = host.Object{Name: "data"}
			v.Objects[units.TargetContainer]["kept"] = host.Object{Name: "kept"}
		}, []string{"held container:kept: kept", "retained volume:data: kept"}},
		"declared, and left out": {func(v *apply.View) {
			v.Generation.Held = []state.Holding{{Resource: address("m/container/x"), Taken: []state.Transition{{To: "container:x", Reason: "a container"}}}}
			v.Objects[units.TargetContainer]["x"] = host.Object{Name: "x"}
		}, []string{"held container:x: declared, and left out: container:x is taken: a container $ meshgen adopt container:x"}},

		// What is not ours.
		"each of podman's objects": {func(v *apply.View) {
			v.Objects[units.TargetContainer]["x"] = host.Object{Name: "x", Image: "i:1", Running: true}
			v.Objects[units.TargetNetwork]["x"] = host.Object{Name: "x"}
			v.Objects[units.TargetVolume]["x"] = host.Object{Name: "x"}
			v.Objects[units.TargetSecret]["-x y"] = host.Object{Name: "-x y"}
		}, []string{
			"foreign container:x: a container of image i:1, runs; the ledger never had it $ podman rm --force --volumes x",
			"foreign network:x: a network; the ledger never had it $ podman network rm x",
			"foreign secret:-x y: a secret; the ledger never had it $ podman secret rm -- '-x y'",
			"foreign volume:x: a volume; the ledger never had it $ podman volume rm x",
		}},
		"a pod with what is in it": {func(v *apply.View) {
			v.Objects[units.TargetPod]["p"] = host.Object{Name: "p", ID: "p1"}
			v.Objects[units.TargetContainer]["p-infra"] = host.Object{Name: "p-infra", Pod: "p1", PodName: "p", Infra: true}
			v.Objects[units.TargetContainer]["in"] = host.Object{Name: "in", Pod: "p1", PodName: "p"}
		}, []string{"foreign pod:p: a pod; the ledger never had it $ podman pod rm --force p"}},
		"a container in a pod of ours": {func(v *apply.View) {
			v.Objects[units.TargetContainer]["in"] = host.Object{Name: "in", Image: "i:1", Pod: "2", PodName: "crew"}
		}, []string{"foreign container:in: a container of image i:1, does not run; the ledger never had it $ podman rm --force --volumes in"}},
		"podman's own, and other tools'": {func(v *apply.View) {
			v.Objects[units.TargetContainer]["crew-infra"] = host.Object{Name: "crew-infra", Pod: "2", PodName: "crew", Infra: true}
			v.Objects[units.TargetContainer]["buildah"] = host.Object{Name: "buildah", External: true}
			v.Objects[units.TargetVolume]["0f"] = host.Object{Name: "0f", Anonymous: true}
		}, nil},
		"a volume that nobody has": {func(v *apply.View) {
			v.Objects[units.TargetVolume]["0f"] = host.Object{Name: "0f", Anonymous: true}
			v.Unused = map[string]bool{"0f": true}
		}, []string{"foreign volume:0f: a volume without a name, which no container uses; the ledger never had it $ podman volume rm 0f"}},
		"found, and anew under its name": {func(v *apply.View) {
			v.Records["container:x"] = state.Record{Target: "container:x", State: state.Found, Why: "a container"}
			v.Objects[units.TargetContainer]["x"] = host.Object{Name: "x", ID: "new", Image: "i:1", Running: true}
		}, []string{"found container:x: a container of image i:1, runs; was there before the first switch, a container"}},
		"found, and its unit has lost its definition": {func(v *apply.View) {
			v.Records["unit:x.service"] = state.Record{Target: "unit:x.service", State: state.Found, Why: "defined by /etc/x"}
			v.Records["container:x"] = state.Record{Target: "container:x", State: state.Found}
			v.Objects[units.TargetContainer]["x"] = host.Object{Name: "x", Image: "i:1", Running: true, Unit: "x.service"}
			v.Units["x.service"] = host.Unit{Name: "x.service", Load: "not-found", Active: "active"}
		}, []string{
			"foreign container:x: a container of image i:1, runs; was there before the first switch; x.service runs, and systemd has lost its definition; " +
				"x.service was there before the first switch, defined by /etc/x $ podman rm --force --volumes x",
		}},
		"before the first switch": {func(v *apply.View) {
			*v = apply.View{Layout: v.Layout, Objects: v.Objects, Definitions: map[string]string{"x.service": "/etc/systemd/system/x.service"}}
		}, []string{
			"found container:web: a container of image , runs", "found pod:crew: a pod",
			"found unit:x.service: defined by /etc/systemd/system/x.service",
		}},
		"the ledger is lost": {func(v *apply.View) {
			v.Records, v.Switches, v.Lost = nil, nil, true
			v.Objects[units.TargetNetwork]["x"] = host.Object{Name: "x"}
		}, []string{"foreign network:x: a network; the ledger, which may know it, cannot be read $ podman network rm x"}},
		"what is declared cannot be read": {func(v *apply.View) {
			v.Generation, v.Blind = state.Generation{}, true
			v.Objects[units.TargetNetwork]["x"] = host.Object{Name: "x"}
		}, []string{"foreign network:x: a network; the ledger never had it $ podman network rm x"}},
		"run by a unit of the owner's": {func(v *apply.View) {
			v.Objects[units.TargetContainer]["x"] = host.Object{Name: "x", Image: "i:1", Running: true, Unit: "-x.service"}
			v.Units["-x.service"] = host.Unit{Name: "-x.service", Load: "loaded", Active: "active"}
			v.Definitions["-x.service"] = "/etc/containers/systemd/x.container"
		}, []string{
			"foreign container:x: a container of image i:1, runs; the ledger never had it; run by -x.service $ " +
				"systemctl stop -- -x.service && mv /etc/containers/systemd/x.container /etc/containers/systemd/x.container.off && systemctl daemon-reload",
		}},
		"a container that is paused": {func(v *apply.View) {
			v.Objects[units.TargetContainer]["x"] = host.Object{Name: "x", ID: "9", Image: "i:1", Frozen: true}
		}, []string{"foreign container:x: a container of image i:1, is paused; the ledger never had it $ podman rm --force --volumes x"}},
		"a pod and what it uses, in an order to type": {func(v *apply.View) {
			v.Objects[units.TargetNetwork]["kube"] = host.Object{Name: "kube"}
			v.Objects[units.TargetPod]["p"] = host.Object{Name: "p", ID: "8"}
			v.Objects[units.TargetSecret]["a"] = host.Object{Name: "a"}
			v.Definitions["x.service"] = "/etc/containers/systemd/x.container"
		}, []string{
			"foreign pod:p: a pod; the ledger never had it $ podman pod rm --force p",
			"foreign unit:x.service: defined by /etc/containers/systemd/x.container; does not run; the ledger never had it $ " +
				"systemctl stop x.service && mv /etc/containers/systemd/x.container /etc/containers/systemd/x.container.off && systemctl daemon-reload",
			"foreign network:kube: a network; the ledger never had it $ podman network rm kube",
			"foreign secret:a: a secret; the ledger never had it $ podman secret rm a",
		}},
		"a Quadlet that is a template": {func(v *apply.View) {
			v.Definitions["x@.service"] = "/etc/containers/systemd/x@.container"
		}, []string{
			"foreign unit:x@.service: defined by /etc/containers/systemd/x@.container; does not run; the ledger never had it $ " +
				"systemctl stop 'x@*.service' && mv /etc/containers/systemd/x@.container /etc/containers/systemd/x@.container.off && systemctl daemon-reload",
		}},
		"a unit file that is linked": {func(v *apply.View) {
			const path = "/etc/systemd/system/x.service"
			write(t, v.Layout.Path("/etc/systemd/system/another.service"))
			if err := os.Symlink("/opt/x.service", v.Layout.Path(path)); err != nil {
				t.Fatal(err)
			}
			v.Definitions["x.service"] = path
		}, []string{
			"foreign unit:x.service: defined by /etc/systemd/system/x.service; does not run; the ledger never had it $ " +
				"systemctl stop x.service && systemctl disable x.service && rm --force /etc/systemd/system/x.service && systemctl daemon-reload",
		}},
		"a unit that the owner installed": {func(v *apply.View) {
			v.Definitions["x.service"] = "/usr/local/lib/systemd/system/x.service"
		}, []string{
			"foreign unit:x.service: defined by /usr/local/lib/systemd/system/x.service; does not run; the ledger never had it $ " +
				"systemctl disable --now x.service && mv /usr/local/lib/systemd/system/x.service /usr/local/lib/systemd/system/x.service.off && systemctl daemon-reload",
		}},
		"a unit file": {func(v *apply.View) {
			v.Definitions["x.service"] = "/etc/systemd/system/x.service"
			v.Definitions["packaged.service"] = "/usr/share/containers/systemd/packaged.container"
		}, []string{
			"foreign unit:x.service: defined by /etc/systemd/system/x.service; does not run; the ledger never had it $ " +
				"systemctl disable --now x.service && mv /etc/systemd/system/x.service /etc/systemd/system/x.service.off && systemctl daemon-reload",
		}},
		"a unit that has lost its definition": {func(v *apply.View) {
			v.Units["x.service"] = host.Unit{Name: "x.service", Load: "not-found", Active: "active"}
			v.Units["gone.service"] = host.Unit{Name: "gone.service", Load: "not-found", Active: "failed"}
		}, []string{"foreign unit:x.service: runs, and systemd has lost its definition; the ledger never had it $ systemctl stop x.service"}},
		"a unit of ours that failed when it went": {func(v *apply.View) {
			v.Records["unit:x.service"] = state.Record{
				Target: "unit:x.service", Resource: address("m/unit/x"), State: state.Retired, Retired: state.Moment{Generation: 2}, Emissions: 1,
			}
			v.Units["x.service"] = host.Unit{Name: "x.service", Load: "not-found", Active: "failed"}
		}, []string{
			"stale unit:x.service: failed, and has no definition any more; was of m/unit/x until generation 2, and was seen gone $ systemctl reset-failed x.service",
		}},
		"files": {func(v *apply.View) {
			for _, name := range []string{"/etc/m/b", "/etc/m/sub/deep", "/etc/m/x\x1b[2J\ny", "/etc/m/nl\n", "/etc/meshgen/x"} {
				writeAt(v.Layout.Path(name))
			}
		}, []string{
			"foreign dir:/etc/m/sub: a directory in one of meshgen's $ rm --recursive /etc/m/sub",
			"foreign file:/etc/m/b: lies in a directory of meshgen's $ rm /etc/m/b",
			"foreign file:/etc/m/nl\n: lies in a directory of meshgen's",
			"foreign file:/etc/m/x\x1b[2J\ny: lies in a directory of meshgen's $ rm \"$(printf '/etc/m/x\\033\\1332J\\012y')\"",
			"foreign file:/etc/meshgen/x: lies in a directory of meshgen's $ rm /etc/meshgen/x",
		}},
		"files that a container may write": {func(v *apply.View) {
			writeAt(v.Layout.Path("/etc/m/b"))
			s := &v.Generation.Resources[0].Sections[0]
			s.Entries = append(s.Entries, units.Entry{Key: "Volume", Values: []string{"/etc/m:/config:Z"}})
		}, nil},
		"files that a container may only read": {func(v *apply.View) {
			writeAt(v.Layout.Path("/etc/m/b"))
			s := &v.Generation.Resources[0].Sections[0]
			s.Entries = append(s.Entries, units.Entry{Key: "Volume", Values: []string{"/etc/m:/config:ro,Z"}}, units.Entry{Key: "Mount", Values: []string{"type=bind,src=/etc,dst=/x,ro"}})
		}, []string{"foreign file:/etc/m/b: lies in a directory of meshgen's $ rm /etc/m/b"}},
		"what meshgen leaves in its own directories": {func(v *apply.View) {
			for _, path := range []string{
				v.Layout.Ledger(), v.Layout.Ledger() + ".3", v.Layout.Lock(), v.Layout.SecretKey(), v.Layout.Backups() + "/x", v.Layout.Policies() + "/x",
				v.Layout.Adopted() + "/x", v.Layout.Audited(), v.Layout.Generation(3) + "/x", v.Layout.Config + "/manifest/x.cue", v.Layout.Config + "/.meshgen-1",
			} {
				writeAt(path)
			}
		}, nil},

		// A switch.
		"a switch is under way": {func(v *apply.View) {
			v.Busy, v.Unfinished = true, &state.Switch{Generation: 4, Transitions: []state.Transition{{Resource: address("m/container/web")}, {Resource: address("m/container/old")}}}
			down(v, host.Unit{Load: "not-found", Active: "active"}, host.Details{}, host.Down{})
			v.Units["m-crew-pod.service"] = host.Unit{Name: "m-crew-pod.service", Load: "loaded", Active: "inactive"}
			v.Records["container:old"] = live("container:old", address("m/container/old"))
			v.Objects[units.TargetContainer]["old"] = host.Object{Name: "old"}
			v.Objects[units.TargetNetwork]["x"] = host.Object{Name: "x"}
		}, []string{"foreign network:x: a network; the ledger never had it $ podman network rm x"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := viewOf(t)
			c.change(&v)
			if diff := cmp.Diff(append([]string{}, c.want...), told(Join(v))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func writeAt(path string) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		panic(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		panic(err)
	}
}

func dropIn(root, unit, name string) string {
	writeAt(filepath.Join(root, "etc/systemd/system", unit+".d", name))
	return root
}

// What is told of a thing goes with its class, and the rest of what is known with it.
func TestFindingHasWhatIsKnown(t *testing.T) {
	v := viewOf(t)
	v.Objects[units.TargetContainer]["x"] = host.Object{
		Name: "x", Image: "i:1", Created: begin.Add(5 * time.Minute), Labels: map[string]string{"com.docker.compose.project": "shop"},
	}
	want := Finding{
		Class: Foreign, Target: "container:x", Owner: "compose project shop", Since: begin.Add(5 * time.Minute), Generation: 3,
		Listens: []Listener{}, Detail: "a container of image i:1, does not run; the ledger never had it", Fix: "podman rm --force --volumes x",
	}
	if diff := cmp.Diff([]Finding{want}, Join(v).Findings); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A switch that was rolled back was never in force; podman tells no more than seconds.
func TestGenerationAt(t *testing.T) {
	j := joiner{View: viewOf(t)}
	j.Switches = append(j.Switches, state.Switch{Generation: 4, Begin: begin.Add(5 * time.Minute)})
	for at, want := range map[time.Duration]int{
		-time.Hour: 0, -time.Second: 0, 0: 1, time.Minute: 1, 3 * time.Minute: 1, 4 * time.Minute: 3, time.Hour: 3,
	} {
		if got := j.generationAt(begin.Add(at)); got != want {
			t.Errorf("%s after the first switch: generation %d, want %d", at, got, want)
		}
	}
	j.Switches[0].End = begin.Add(900 * time.Millisecond)
	if got := j.generationAt(begin); got != 1 {
		t.Errorf("in the second of the switch: generation %d, want 1", got)
	}
	if got := j.generationAt(begin.Add(500 * time.Millisecond)); got != 0 {
		t.Errorf("in the second of the switch, by the clock of files: generation %d, want 0", got)
	}
	if got := j.generationAt(time.Time{}); got != 0 {
		t.Errorf("at no time: generation %d, want 0", got)
	}
}

func TestNotesSayHowASwitchStands(t *testing.T) {
	v := viewOf(t)
	v.Unfinished = &state.Switch{Generation: 4}
	if got, want := Join(v).Notes, []string{"a switch to generation 4 was cut short; meshgen recover finishes or undoes it"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	v.Busy = true
	if got, want := Join(v).Notes, []string{"a switch to generation 4 is under way: what it moves is left out here"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// What is connected comes first, then what listens, then by class and by name.
func TestSort(t *testing.T) {
	finding := func(class Class, target units.Target, listens, connects int) Finding {
		return Finding{Class: class, Target: target, Listens: make([]Listener, listens), Connects: make([]Connection, connects)}
	}
	want := []Finding{
		finding(Foreign, "c", 0, 1), finding(Foreign, "d", 2, 0), finding(Foreign, "e", 1, 0), finding(Drifted, "p", 1, 0),
		finding(Stale, "z", 0, 0), finding(Foreign, "a", 0, 0), finding(Foreign, "b", 0, 0),
		finding(Missing, "a", 0, 0), finding(Stopped, "a", 0, 0), finding(Shadowed, "a", 0, 0), finding(Drifted, "a", 0, 0),
	}
	for range 20 {
		r := Report{}
		shuffled := map[int]Finding{}
		for i, f := range want {
			shuffled[i] = f
		}
		r.Findings = slices.Collect(maps.Values(shuffled)) // in the order of a map
		r.sort()
		if diff := cmp.Diff(want, r.Findings); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	}
}

func TestSince(t *testing.T) {
	r := Report{Findings: []Finding{{Target: "a", Since: begin, Generation: 1}, {Target: "b", Since: begin, Generation: 3}, {Target: "c"}}}
	var left []string
	for _, f := range r.Since(3).Findings {
		left = append(left, string(f.Target))
	}
	if got := strings.Join(left, " "); got != "b c" {
		t.Errorf("since generation 3: %s, want b c: what has no time may have begun since", got)
	}
}
