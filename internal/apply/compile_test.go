package apply

import (
	"testing"

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
}
