package apply

import (
	"strings"
	"testing"

	"meshgen/state"
	"meshgen/units"
)

func migrating(r units.Resource) units.Resource {
	r.Policy = map[string]string{"rename": "migrate"}
	return r
}

func TestJudgeOfAVolumesRename(t *testing.T) {
	old := generation(1, volume("v", "v"), container("a", "a", "Volume=v.volume:/d"))
	rename := state.Transition{Kind: state.Rename, Resource: address(units.KindVolume, "v"), From: "volume:v", To: "volume:w"}
	for _, test := range []struct {
		policy string
		want   state.Decision
		says   string
	}{
		{"migrate", state.Migrate, ""},
		{"follow", state.Refuse, `policy "follow" would leave its data behind`},
		{"refuse", state.Refuse, "as its policy says"},
		{"", state.Refuse, "its data would stay behind"},
	} {
		t.Run(test.policy, func(t *testing.T) {
			renamed := volume("v", "w")
			if test.policy != "" {
				renamed.Policy = map[string]string{"rename": test.policy}
			}
			judged, refused := judge(t.Context(), before{generation: old, transitions: []state.Transition{rename}}, generation(2, renamed, container("a", "a", "Volume=w.volume:/d")), builtinAsker(t))
			if judged[0].Decision != test.want {
				t.Errorf("decided %q, want %q", judged[0].Decision, test.want)
			}
			if test.says == "" && len(refused) > 0 {
				t.Errorf("refused: %v", refused)
			}
			if test.says != "" && !strings.Contains(refused.Error(), test.says) {
				t.Errorf("refused: %v, want %q", refused, test.says)
			}
		})
	}
}

// What uses a volume is down before it is copied, also where it is to be another
// container or unit after, and what does not runs on.
func TestPlanOfAMigration(t *testing.T) {
	old := generation(1, volume("v", "v"), container("a", "a", "uses=volume/v"), container("b", "b", "uses=volume/v"), container("c", "c"))
	desired := generation(2, migrating(volume("v", "w")), container("a", "a", "uses=volume/v"), container("b", "x", "uses=volume/v"), container("c", "c"))
	b := running(old)
	b.transitions = state.Compare(desired, b.records, b.seen.observed)
	b.transitions, _ = judge(t.Context(), b, desired, builtinAsker(t))
	if plan := makePlan(b, desired); len(plan.Copy) > 0 {
		t.Errorf("a switch that was begun before copies %v", plan.Copy)
	}
	b.begins = true
	plan := makePlan(b, desired)
	want := "stop a.service\nstop b.service\nstop v-volume.service\n" +
		"copy unit w-volume.service: volume:v to volume:w\n" +
		"start w-volume.service\nstart a.service\nstart x.service\n" +
		"hold volume:v"
	if got := migration(plan); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if origin, of := plan.origin("volume:w"); origin != originPartial || of != "volume:v" {
		t.Errorf("volume:w is recorded as %q of %q", origin, of)
	}
}

// What would start a user of the volume meanwhile stops first, and is back after.
func TestPlanOfAMigrationStopsTimers(t *testing.T) {
	timer := func(name string, entries ...units.Address) units.Resource {
		return units.Resource{Address: address(units.KindUnit, name), Name: name, Uses: entries}
	}
	set := func(v units.Resource) []units.Resource {
		return []units.Resource{
			v, container("a", "a", "uses=volume/v", "Install=no"), timer("a.timer"),
			timer("other.timer", address(units.KindContainer, "a")), timer("c.timer"), timer("a.mount"),
		}
	}
	b := running(generation(1, set(volume("v", "v"))...))
	b.down("a.service")
	desired := generation(2, set(migrating(volume("v", "w")))...)
	b.transitions = state.Compare(desired, b.records, b.seen.observed)
	b.transitions, _ = judge(t.Context(), b, desired, builtinAsker(t))
	b.begins = true
	got := migration(makePlan(b, desired))
	if want := "stop a.timer\nstop other.timer\nstop v-volume.service\n" +
		"copy unit w-volume.service: volume:v to volume:w\n" +
		"start a.timer\nstart other.timer\nstart w-volume.service\nhold volume:v"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// migration is what a plan does to units and volumes, a line each.
func migration(p Plan) string {
	var lines []string
	for _, name := range p.Stop {
		lines = append(lines, "stop "+name)
	}
	for _, c := range p.Copy {
		lines = append(lines, "copy unit "+c.Unit+": "+string(c.From)+" to "+string(c.To))
	}
	for _, name := range p.Start {
		lines = append(lines, "start "+name)
	}
	for _, t := range p.Hold {
		lines = append(lines, "hold "+string(t))
	}
	return strings.Join(lines, "\n")
}

// A copy that was cut short is removed with the set that it was for. One whose
// set was in force is held: it may have data that no other volume has.
func TestPlanOfAnUndoneMigration(t *testing.T) {
	old, desired := generation(1, volume("v", "v")), generation(2, migrating(volume("v", "w")))
	for origin, want := range map[string]string{originPartial: "retire unit:w-volume.service volume:w", originCopy: "retire unit:w-volume.service\nhold volume:w"} {
		b := running(old)
		b.generation = desired
		b.records = append(b.records,
			state.Record{Target: "unit:w-volume.service", Resource: address(units.KindVolume, "v"), State: state.Live},
			state.Record{Target: "volume:w", Resource: address(units.KindVolume, "v"), State: state.Live, Origin: origin, Definition: "volume:v"})
		b.transitions = state.Compare(old, b.records, b.seen.observed)
		if got := shown(makePlan(b, old)); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", origin, got, want)
		}
	}
}

func TestSizeIsShownAsPeopleReadIt(t *testing.T) {
	for bytes, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 20: "1.0 MiB", 1000 << 20: "1.0 GiB", 5 << 40: "5.0 TiB", 1 << 60: "1048576.0 TiB"} {
		if got := size(bytes); got != want {
			t.Errorf("size(%d) is %q, want %q", bytes, got, want)
		}
	}
}

func TestServiceOfADefinition(t *testing.T) {
	text := "[X-Volume]\nLabel=[Service]\n\n[Service]\nExecStart=/usr/bin/podman volume create \"a b\"\n\n[Unit]\nAfter=x\n[Service]\nType=oneshot\n"
	if got, want := service(text), "ExecStart=/usr/bin/podman volume create \"a b\"\n\nType=oneshot\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
