package apply_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"meshgen/generator"
	"meshgen/internal/apply"
	"meshgen/state"
)

// late is the machine's converter, and has something come up while it runs again.
type late struct {
	apply.Converter
	runs  *int
	comes func()
}

func (l late) Convert(ctx context.Context, quadlets map[string]string, source string) (generator.Output, []generator.Refusal, error) {
	if *l.runs++; *l.runs == 2 {
		l.comes()
	}
	return l.Converter.Convert(ctx, quadlets, source)
}

// Something that comes between the looks of a switch, which looks again once
// something is held, is held too.
func TestHoldAtTheSecondLook(t *testing.T) {
	p := newPlay(filepath.Join(t.TempDir(), "node"), 1)
	p.step("hand container bat")
	p.step("container m/a name=bat takeover=hold")
	p.step("container m/b")
	p.step("file m/f path=/etc/x/one takeover=hold")
	runs, path := 0, p.host.Layout.Path("/etc/x/one")
	connect := func(ctx context.Context, l state.Layout) (apply.Machine, error) {
		m, err := p.host.Connect(ctx, l)
		m.Converter = late{m.Converter, &runs, func() {
			p.must(os.MkdirAll(filepath.Dir(path), 0o755))
			p.must(os.WriteFile(path, []byte("late"), 0o600))
		}}
		return m, err
	}
	node, err := apply.OpenLocked(t.Context(), p.host.Layout, connect)
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := node.Prepare(t.Context(), apply.Input{Digest: "1", Resources: p.manifest.resources()})
	if err != nil || len(prepared.Rejected) > 0 {
		t.Fatal(err, prepared.Rejected)
	}
	if _, err := node.Switch(t.Context(), prepared, apply.Options{Rollback: true, Keep: 3}, func(apply.Event) {}); err != nil {
		t.Fatal(err)
	}
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	var held []string
	for _, h := range prepared.Held {
		held = append(held, h.Resource.String()+": "+h.Why())
	}
	if len(held) != 2 || !strings.HasPrefix(held[0], "m/container/a: container:bat is taken") || !strings.HasPrefix(held[1], "m/file/f: file:/etc/x/one is taken") {
		t.Errorf("held: %q", held)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "late" {
		t.Errorf("the file holds %q (%v)", text, err)
	}
	if _, active := p.host.UnitState("m-b.service"); active != "active" {
		t.Error("m-b does not run")
	}
	p.untouched()
	for _, fault := range p.faults {
		t.Error(fault)
	}
}
