package apply_test

import (
	"os"
	"strings"
	"testing"

	"meshgen/generator"
)

// Where the guard comes, or lies elsewhere after an upgrade, systemd is given the
// units anew, and what runs by them is not restarted.
func TestGuardThatMovesRestartsNothing(t *testing.T) {
	was := generator.GuardProgram
	defer func() { generator.GuardProgram = was }()
	p := newPlay(t.TempDir(), 1)
	p.step("container m/a")
	p.step("container m/b")
	p.step("switch")
	before := p.host.Containers()
	generator.GuardProgram = "/opt/lib/meshgen/meshgen-guard"
	p.step("switch")
	for i, c := range p.host.Containers() {
		if c.ID != before[i].ID || !c.Running {
			t.Errorf("%s was restarted", c)
		}
		text, err := os.ReadFile(p.host.Layout.Path("/run/systemd/generator/" + c.Unit))
		if err != nil || !strings.Contains(string(text), "ExecStartPre=/opt/lib/meshgen/meshgen-guard "+c.Name+" ") {
			t.Errorf("%s: %s, error %v", c, text, err)
		}
	}
	acts := p.host.Acts()
	p.step("switch")
	if p.host.Acts() != acts {
		t.Error("a further switch does something")
	}
	if len(p.faults) > 0 || len(before) != 2 {
		t.Errorf("%d containers: %s", len(before), strings.Join(p.faults, "\n"))
	}
}
