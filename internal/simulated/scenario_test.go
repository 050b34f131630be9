package simulated_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"meshgen/internal/apply"
	"meshgen/internal/simulated"
	"meshgen/internal/simulated/scenario"
	"meshgen/modules"
)

// The machine behaves as the table says, which a real one is held to as well.
func TestScenarios(t *testing.T) {
	for _, s := range scenario.All() {
		t.Run(s.Name, func(t *testing.T) {
			h, err := simulated.New(t.TempDir(), 1)
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Boot(); err != nil {
				t.Fatal(err)
			}
			for _, fault := range scenario.Play(&machine{Host: h}, s) {
				t.Error(fault)
			}
		})
	}
}

// machine has a scenario played on the simulated one.
type machine struct {
	*simulated.Host
	digests     int
	transitions []string
}

func (m *machine) Do(words []string, text string) error {
	last := words[len(words)-1]
	path := m.Layout.Path(last)
	switch words[0] {
	case "switch":
		return m.switchTo(text)
	case "release":
		return m.switchTo(text, last)
	case "write":
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
	case "remove":
		return os.Remove(path)
	case "keep":
		given, err := os.ReadFile(m.Layout.Path("/run/systemd/generator/" + last))
		return errors.Join(err, os.WriteFile(m.Layout.Path("/run/systemd/system/"+last), given, 0o644))
	case "reload":
		return m.Reload()
	case "start":
		return m.Start(last)
	case "stop":
		return m.Stop(last)
	case "mask":
		return m.Mask(last)
	case "run":
		return m.RunContainer(last, "localhost/probe:2", words[1:len(words)-1]...)
	case "rename":
		return m.RenameContainer(words[1], last)
	case "pause":
		return m.StopContainer(last)
	case "resume":
		return m.StartContainer(last)
	case "update":
		return m.UpdateContainer(words[1], last)
	case "rm":
		m.RemoveContainer(last)
		return nil
	case "network-rm":
		return m.RemoveNetwork(last)
	case "network-create":
		return m.CreateNetwork(last, "")
	case "volume-rm":
		return m.RemoveVolume(last)
	case "volume-create":
		return m.CreateVolume(last)
	case "cut":
		return errors.Join(m.Cut(), m.Boot())
	}
	return errors.New(words[0] + ": no act")
}

func (m *machine) switchTo(body string, release ...string) (err error) {
	dir := m.Layout.Manifest()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "mesh.cue"), []byte(scenario.Manifest(body)), 0o644); err != nil {
		return err
	}
	loaded, err := modules.Load(dir, modules.Options{Node: "n"})
	if err != nil {
		return err
	}
	ctx := context.Background()
	node, err := apply.OpenLocked(ctx, m.Layout, m.Connect)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	o := apply.Options{Rollback: true, Keep: 3}
	if _, err := node.Recover(ctx, o, func(apply.Event) {}); err != nil {
		return err
	}
	m.digests++
	in := apply.Input{Node: "n", Digest: strconv.Itoa(m.digests), Resources: loaded.Resources}
	if len(release) > 0 {
		if in, err = node.Releasing(ctx, in, release); err != nil {
			return err
		}
	}
	p, err := node.Prepare(ctx, in)
	if err != nil {
		return err
	}
	m.transitions = nil
	for _, t := range p.Transitions {
		m.transitions = append(m.transitions, string(t.Kind)+" "+t.Resource.String())
	}
	out, err := node.Switch(ctx, p, o, func(apply.Event) {})
	if err == nil && len(out.Failed) > 0 {
		err = errors.New(strings.Join(out.Failed, "; "))
	}
	return err
}

func (m *machine) Containers() []string {
	var list []string
	for _, c := range m.Host.Containers() {
		list = append(list, c.Name+" "+c.Image+" "+map[bool]string{true: "running", false: "dead"}[c.Running])
	}
	return list
}

func (m *machine) Container(name string) (id, restart string) {
	for _, c := range m.Host.Containers() {
		if c.Name == name {
			return c.ID, cmp.Or(c.Restart, "no")
		}
	}
	return "", ""
}

func (m *machine) Networks() []string {
	var list []string
	for _, n := range m.Host.Networks() {
		list = append(list, n.Name)
	}
	return list
}

func (m *machine) Volumes() []string {
	var list []string
	for _, v := range m.Host.Volumes() {
		list = append(list, v.Name)
	}
	return list
}

func (m *machine) Unit(name string) string {
	load, active := m.UnitState(name)
	return load + " " + active
}

func (m *machine) File(path string) string {
	text, err := os.ReadFile(m.Layout.Path(path))
	if err != nil {
		return ""
	}
	return string(text)
}

func (m *machine) Transitions() []string { return slices.Clone(m.transitions) }
