package sdk

import (
	"slices"
	"testing"
)

func TestFactsAreRead(t *testing.T) {
	f := Facts{
		"node.adopted": "true", "data": "yes", "observed.age": "86400", "generation": "many", "observed.ports": "tcp/80 tcp/443",
		"policy.image": "gitea", "observed.label.a.b": "c", "change": "",
	}
	if !f.Is("node.adopted") || f.Is("data") || f.Is("observed.running") {
		t.Error("booleans")
	}
	if n, ok := f.Number("observed.age"); n != 86400 || !ok {
		t.Error("a number")
	}
	for _, key := range []string{"generation", "record.generation"} {
		if _, ok := f.Number(key); ok {
			t.Errorf("%s is no number", key)
		}
	}
	if !slices.Equal(f.List("observed.ports"), []string{"tcp/80", "tcp/443"}) || len(f.List("dependents")) != 0 {
		t.Error("lists")
	}
	if f.Setting("image") != "gitea" || f.Setting("images") != "" || f.Label("a.b") != "c" {
		t.Error("a setting, a label")
	}
	if _, known := f.Lookup("change"); !known {
		t.Error("what is empty is known")
	}
	if _, known := f.Lookup("kind"); known {
		t.Error("what is not there is not known")
	}
}
