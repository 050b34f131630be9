package apply

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"meshgen/internal/host"
	"meshgen/policy"
	"meshgen/state"
	"meshgen/units"
)

// factory has a judgement of each kind of resource and of what may be in its way.
func factory() judgement {
	at := time.Unix(1_000_000, 0)
	server := container("server", "gitea", "uses=volume/data", "Image=localhost/gitea:2", "PublishPort=3000:3000", "PublishPort=2222:22")
	server.Policy = map[string]string{"takeover": "hold", "image": "localhost/gitea:1"}
	data := volume("data", "data")
	gone := container("gone", "gone")
	gone.Policy = map[string]string{"remove": "refuse"}
	desired := generation(8, server, container("side", "side", "uses=volume/data"), data, network("net", "net"), file("ini", "/etc/x.ini", "new"),
		resource(units.KindUnit, "Service", "job.service", "job.service"))
	desired.Node, desired.Adopted = "control", true
	old := generation(7, container("server", "forge"), gone, volume("data", "olddata"), network("net", "oldnet"), file("ini", "/etc/x.ini", "old"))
	b := before{generation: old, at: at, seen: sight{units: map[string]host.Unit{}}}
	for _, r := range old.Resources {
		for _, t := range units.Targets(r) {
			record := state.Record{Target: t, Resource: r.Address, State: state.Live, Origin: "written", Last: state.Moment{Generation: 6}}
			if t.Kind() == units.TargetContainer {
				record.Container = "c0ffee"
			}
			b.records = append(b.records, record)
		}
	}
	for _, name := range []string{"forge.service", "gone.service"} {
		b.seen.units[name] = host.Unit{Load: "loaded", Active: "active"}
	}
	b.inTheWay = []state.Record{
		{Target: "container:gitea", State: state.Found, Origin: "found"},
		{Target: "volume:data", State: state.Found, Origin: state.OriginReleased, Why: state.ByHand, Last: state.Moment{Generation: 3}},
	}
	b.seen.observed = state.Observed{
		Files: map[units.Target]state.FileState{"file:/etc/x.ini": {Digest: state.TextDigest("by hand"), Meta: "0644 0:0"}},
		Taken: map[units.Target]state.Occupant{
			"container:gitea": {
				Words: "runs", What: "container", Running: true, ID: "2458", Image: "localhost/gitea:1", ImageID: "1d",
				Labels: map[string]string{"app": "git", "none": ""}, Ports: []string{"tcp/80", "tcp/3000"}, Networks: []string{"podman", "forge"},
				Created: at.Add(-90 * time.Second), Pod: "forge", Unit: "old.service",
			},
			"volume:data":      {Words: "exists", What: "volume", ID: "data"},
			"unit:job.service": {Words: "defined by", What: "unit", Path: "/usr/lib/systemd/system/job.service", Digest: "ab", Unit: "job.service", Same: true},
			"network:net":      {Words: "exists", What: "network", ID: "17"},
		},
	}
	return newJudgement(b, desired)
}

// facts written a line each; those that all have are left out.
func shownFacts(f map[string]string) string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(f)) {
		switch key {
		case "module", "node.name", "node.adopted", "generation", "id", "resource", "transition", "from.name", "to.name", "declared.digest":
		default:
			lines = append(lines, key+"="+f[key])
		}
	}
	return strings.Join(lines, "\n")
}

func TestFacts(t *testing.T) {
	j := factory()
	for name, test := range map[string]struct {
		transition state.Transition
		want       string
	}{
		"takeover of a container": {
			state.Transition{Kind: state.Takeover, Resource: address(units.KindContainer, "server"), To: "container:gitea"},
			`data=false
declared.image=localhost/gitea:2
declared.ports=tcp/2222 tcp/3000
kind=container
observed.age=90
observed.exists=true
observed.id=2458
observed.image=localhost/gitea:1
observed.image.id=1d
observed.label.app=git
observed.label.none=
observed.networks=forge podman
observed.owner=found
observed.pod=forge
observed.ports=tcp/3000 tcp/80
observed.released=false
observed.running=true
observed.same=false
observed.unit=old.service
observed.what=container
policy.image=localhost/gitea:1
policy.takeover=hold
record.origin=found
record.state=found
to=container:gitea
to.kind=container`,
		},
		"takeover of a volume that was given back": {
			state.Transition{Kind: state.Takeover, Resource: address(units.KindVolume, "data"), To: "volume:data"},
			`data=true
dependents=m/container/server m/container/side
kind=volume
observed.exists=true
observed.id=data
observed.owner=found
observed.released=true
observed.running=false
observed.same=false
observed.what=volume
record.generation=3
record.origin=released
record.state=found
to=volume:data
to.kind=volume`,
		},
		"takeover of a package's unit": {
			state.Transition{Kind: state.Takeover, Resource: address(units.KindUnit, "job.service"), To: "unit:job.service"},
			`data=false
kind=unit
observed.digest=ab
observed.exists=true
observed.owner=package
observed.path=/usr/lib/systemd/system/job.service
observed.released=false
observed.running=false
observed.same=true
observed.unit=job.service
observed.what=unit
to=unit:job.service
to.kind=unit`,
		},
		"takeover of a network that came later": {
			state.Transition{Kind: state.Takeover, Resource: address(units.KindNetwork, "net"), To: "network:net"},
			`data=false
kind=network
observed.exists=true
observed.id=17
observed.owner=foreign
observed.released=false
observed.running=false
observed.same=false
observed.what=network
to=network:net
to.kind=network`,
		},
		"rename of a container": {
			state.Transition{Kind: state.Rename, Resource: address(units.KindContainer, "server"), From: "container:forge", To: "container:gitea"},
			`data=false
declared.image=localhost/gitea:2
declared.ports=tcp/2222 tcp/3000
from=container:forge
from.kind=container
kind=container
observed.id=c0ffee
observed.owner=meshgen
observed.running=true
observed.unit=forge.service
observed.what=container
policy.image=localhost/gitea:1
policy.takeover=hold
record.generation=6
record.origin=written
record.state=live
to=container:gitea
to.kind=container`,
		},
		"rename of a volume": {
			state.Transition{Kind: state.Rename, Resource: address(units.KindVolume, "data"), From: "volume:olddata", To: "volume:data"},
			`data=true
dependents=m/container/server m/container/side
from=volume:olddata
from.kind=volume
kind=volume
observed.owner=meshgen
observed.what=volume
record.generation=6
record.origin=written
record.state=live
to=volume:data
to.kind=volume`,
		},
		"rename of a volume's unit, which holds none": {
			state.Transition{Kind: state.Rename, Resource: address(units.KindVolume, "data"), From: "unit:olddata-volume.service", To: "unit:data-volume.service"},
			`data=false
dependents=m/container/server m/container/side
from=unit:olddata-volume.service
from.kind=unit
kind=volume
observed.owner=meshgen
record.generation=6
record.origin=written
record.state=live
to=unit:data-volume.service
to.kind=unit`,
		},
		"rename of a network": {
			state.Transition{Kind: state.Rename, Resource: address(units.KindNetwork, "net"), From: "network:oldnet", To: "network:net"},
			`data=false
from=network:oldnet
from.kind=network
kind=network
observed.owner=meshgen
observed.what=network
record.generation=6
record.origin=written
record.state=live
to=network:net
to.kind=network`,
		},
		"transfer": {
			state.Transition{Kind: state.Transfer, Resource: address(units.KindContainer, "side"), From: "unit:gone.service", To: "unit:gone.service"},
			`candidates=m/container/gone
data=false
from=unit:gone.service
from.kind=unit
kind=container
observed.exists=true
record.generation=6
record.origin=written
record.state=live
to=unit:gone.service
to.kind=unit`,
		},
		"transfer from one of two": {
			state.Transition{
				Kind: state.Transfer, Resource: address(units.KindContainer, "side"), From: "unit:gone.service", To: "unit:gone.service",
				Candidates: []units.Address{address(units.KindContainer, "z"), address(units.KindContainer, "gone")},
			},
			`candidates=m/container/gone m/container/z
data=false
from=unit:gone.service
from.kind=unit
kind=container
observed.exists=true
record.generation=6
record.origin=written
record.state=live
to=unit:gone.service
to.kind=unit`,
		},
		"remove, by what was said last": {
			state.Transition{Kind: state.Remove, Resource: address(units.KindContainer, "gone"), From: "unit:gone.service"},
			`data=false
from=unit:gone.service
from.kind=unit
kind=container
observed.exists=true
observed.owner=meshgen
observed.running=true
observed.unit=gone.service
observed.what=unit
policy.remove=refuse
record.generation=6
record.origin=written
record.state=live`,
		},
		"drift of a file": {
			state.Transition{Kind: state.Drift, Resource: address(units.KindFile, "ini"), From: "file:/etc/x.ini", To: "file:/etc/x.ini", Change: state.ChangedContent},
			`change=content
data=false
from=file:/etc/x.ini
from.kind=file
kind=file
observed.digest=` + state.TextDigest("by hand") + `
observed.exists=true
observed.owner=meshgen
observed.path=/etc/x.ini
observed.same=false
observed.what=file
record.generation=6
record.origin=written
record.state=live
to=file:/etc/x.ini
to.kind=file`,
		},
		"drift of a masked unit": {
			state.Transition{Kind: state.Drift, Resource: address(units.KindContainer, "server"), From: "unit:forge.service", To: "unit:forge.service", Change: state.Masked},
			`change=masked
data=false
declared.image=localhost/gitea:2
declared.ports=tcp/2222 tcp/3000
from=unit:forge.service
from.kind=unit
kind=container
observed.exists=true
observed.owner=meshgen
observed.running=true
observed.unit=forge.service
observed.what=mask
policy.image=localhost/gitea:1
policy.takeover=hold
record.generation=6
record.origin=written
record.state=live
to=unit:forge.service
to.kind=unit`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := j.facts(test.transition)
			if diff := gocmp.Diff(test.want, shownFacts(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			for key, value := range got {
				row, known := policy.FactOf(key)
				if !known || !row.In(string(test.transition.Kind)) || (value == "" && row.Key != "observed.label.NAME") {
					t.Errorf("%s=%q: not in the table, or not for this", key, value)
				}
			}
			all := map[string]string{
				"transition": string(test.transition.Kind), "resource": test.transition.Resource.String(), "module": "m",
				"id": test.transition.Resource.ID, "node.name": "control", "node.adopted": "true", "generation": "7",
			}
			for key, want := range all {
				if got[key] != want {
					t.Errorf("%s=%q, want %q", key, got[key], want)
				}
			}
		})
	}
}
