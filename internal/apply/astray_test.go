package apply

import (
	"slices"
	"strings"
	"testing"

	"meshgen/state"
	"meshgen/units"
)

// penned is a node with a container on a network and a volume, and one that uses
// neither.
func penned() state.Generation {
	return generation(1,
		network("n", "n"), volume("v", "v"),
		container("a", "a", "uses=network/n", "uses=volume/v"), container("b", "b", "uses=network/n"), container("c", "c"))
}

// What is missing is made anew by its own unit, with what uses it, and what its
// owner has stopped stays down.
func TestPlanRestoresWhatIsMissing(t *testing.T) {
	for _, c := range []struct {
		missing units.Target
		down    string
		want    string
	}{
		{missing: "container:c", want: "stop c.service\nstart c.service"},
		{missing: "container:c", down: "c.service"},
		{missing: "network:n", want: "stop a.service b.service n-network.service\nstart n-network.service a.service b.service"},
		{missing: "network:n", down: "a.service", want: "stop b.service n-network.service\nstart n-network.service b.service"},
		{missing: "volume:v", want: "stop a.service v-volume.service\nstart v-volume.service a.service"},
	} {
		t.Run(string(c.missing)+c.down, func(t *testing.T) {
			g := penned()
			for i := range g.Resources {
				g.Resources[i].Policy = map[string]string{"drift": "restore"}
			}
			b := running(g)
			b.seen.observed.Missing = map[units.Target]string{c.missing: "is gone"}
			if c.down != "" {
				b.down(c.down)
			}
			b.transitions = state.Compare(g, b.records, b.seen.observed)
			b.transitions, _ = judge(t.Context(), b, g, builtinAsker(t))
			p := makePlan(b, g)
			if got := shown(p); strings.TrimSpace(got) != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if emits := slices.Contains(p.Emit, c.missing); emits != (c.missing.Kind() == units.TargetVolume) {
				t.Errorf("that it is made anew is recorded: %t", emits)
			}
		})
	}
}

// What is missing is put right, unless the policy says otherwise; what is somebody
// else's by now is not touched, whatever it says.
func TestJudgeOfWhatOtherHandsDidToPodmansObjects(t *testing.T) {
	for _, c := range []struct {
		policy, missing, foreign string
		want                     state.Decision
	}{
		{policy: "", missing: "is gone", want: state.Refuse},
		{policy: "restore", missing: "is gone", want: state.Restore},
		{policy: "keep", missing: "is gone", want: state.Keep},
		{policy: "refuse", missing: "is gone", want: state.Refuse},
		{policy: "", foreign: "was made anew", want: state.Keep},
		{policy: "restore", foreign: "was made anew", want: state.Keep},
		{policy: "refuse", foreign: "was made anew", want: state.Refuse},
	} {
		t.Run(c.policy+c.missing+c.foreign, func(t *testing.T) {
			v := volume("v", "v")
			if c.policy != "" {
				v.Policy = map[string]string{"drift": c.policy}
			}
			g := generation(1, v)
			b := running(g)
			b.seen.observed.Missing = map[units.Target]string{"volume:v": c.missing}
			b.seen.observed.Foreign = map[units.Target]string{"volume:v": c.foreign}
			b.transitions = state.Compare(g, b.records, b.seen.observed)
			judged, _ := judge(t.Context(), b, g, builtinAsker(t))
			if len(judged) != 1 || judged[0].Decision != c.want {
				t.Errorf("judged %+v, want %s", judged, c.want)
			}
			if b.transitions = judged; !makePlan(b, g).Empty() != (c.want == state.Restore) {
				t.Errorf("something to do is %t", c.want != state.Restore)
			}
		})
	}
}
