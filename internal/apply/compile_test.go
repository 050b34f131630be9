package apply

import (
	"testing"

	"meshgen/generator"

	"github.com/google/go-cmp/cmp"

	"meshgen/state"
	"meshgen/units"
)

// Another policy changes what becomes of a resource one day, and nothing of
// what it is: what was made of it is kept.
func TestPolicyIsNoChange(t *testing.T) {
	l := state.Layout{Root: t.TempDir()}
	web := units.Resource{
		Address: units.Address{Module: "m", Kind: units.KindContainer, ID: "web"}, Name: "m-web",
		Sections: []units.Section{{Name: "Container", Entries: []units.Entry{{Key: "Image", Values: []string{"web"}}}}},
	}
	first, err := Compile(t.Context(), l, nil, Input{Resources: []units.Resource{web}}, state.Generation{})
	if err != nil {
		t.Fatal(err)
	}
	first.Generation.Number = 1
	web.Policy = map[string]string{"remove": "keep"}
	web.Wasm = &units.Wasm{Path: "policy.wasm", Digest: "ab", Content: []byte("x")}
	second, err := Compile(t.Context(), l, nil, Input{Resources: []units.Resource{web}}, first.Generation)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"quadlet/m-web.container"}, second.Tree.Same); diff != "" {
		t.Errorf("kept files: %s", diff)
	}
	if diff := cmp.Diff(first.Generation.Units, second.Generation.Units); diff != "" {
		t.Error(diff)
	}
	if got := second.Generation.Resources[0].Policy["remove"]; got != "keep" {
		t.Errorf("the new generation says %q", got)
	}
	if got := string(second.Tree.Files["files/ab"]); got != "x" {
		t.Errorf("the new generation has the policy %q", got)
	}
}

// A unit of systemd's own is given as it is declared, where there is no converter
// as well, beside the Quadlets that wait for one.
func TestPlainUnitsNeedNoConverter(t *testing.T) {
	l := state.Layout{Root: t.TempDir()}
	section := func(name, key string, values ...string) units.Section {
		return units.Section{Name: name, Entries: []units.Entry{{Key: key, Values: values}}}
	}
	at := func(kind units.Kind, id string) units.Address { return units.Address{Module: "m", Kind: kind, ID: id} }
	web := units.Resource{Address: at(units.KindContainer, "web"), Name: "m-web", Sections: []units.Section{section("Container", "Image", "web")}}
	timer := units.Resource{Address: at(units.KindUnit, "backup.timer"), Name: "m-backup.timer", Sections: []units.Section{
		section("Timer", "OnCalendar", "daily"),
		{Name: "Install", Entries: []units.Entry{
			{Key: "RequiredBy", Values: []string{"b.target"}}, {Key: "UpheldBy", Values: []string{"c.target"}}, {Key: "WantedBy", Values: []string{"timers.target a.target"}},
		}},
	}}
	service := units.Resource{Address: at(units.KindUnit, "backup.service"), Name: "m-backup.service", Sections: []units.Section{section("Service", "ExecStart", "/bin/true")}}
	input := Input{Resources: []units.Resource{web, service, timer}}
	c, err := Compile(t.Context(), l, nil, input, state.Generation{})
	if err != nil {
		t.Fatal(err)
	}
	want := []state.Unit{
		{Name: "m-backup.service", Resource: service.Address, Digest: units.RunDigest(units.Render(service)), Text: state.TextDigest(units.Render(service))},
		{
			Name: "m-backup.timer", Resource: timer.Address, Digest: units.RunDigest(units.Render(timer)), Text: state.TextDigest(units.Render(timer)), Wanted: true,
			Links: []string{"a.target.wants/m-backup.timer", "b.target.requires/m-backup.timer", "c.target.upholds/m-backup.timer", "timers.target.wants/m-backup.timer"},
		},
		{Name: "m-web.service", Resource: web.Address, Digest: state.TextDigest(units.Render(web))},
	}
	if diff := cmp.Diff(want, c.Generation.Units); diff != "" {
		t.Error(diff)
	}
	given := string(generator.FormatUnits([]generator.Given{
		{Name: "m-backup.service", Text: units.Render(service)}, {Name: "m-backup.timer", Links: want[1].Links, Text: units.Render(timer)},
	}))
	if diff := cmp.Diff(given, string(c.Tree.Files[generator.UnitsFile])); diff != "" {
		t.Error(diff)
	}
	if got := string(c.Tree.Files["out/normal/m-backup.timer"]); got != units.Render(timer) {
		t.Errorf("out/normal has %q", got)
	}
	if _, converted := c.Tree.Files[generator.ConvertedFile]; converted {
		t.Error("counts as converted")
	}

	c.Generation.Number = 1
	again, err := Compile(t.Context(), l, nil, input, c.Generation)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"quadlet/m-web.container", "out/normal/m-backup.service", "out/normal/m-backup.timer"}, again.Tree.Same); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(c.Generation.Units, again.Generation.Units); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(given, string(again.Tree.Files[generator.UnitsFile])); diff != "" {
		t.Error(diff)
	}
}
