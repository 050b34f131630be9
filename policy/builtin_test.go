package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// The tables of the built-in policy, as documents have them. A row decides where
// all its conditions hold and none above it did; "" is a setting that is not
// there, and "*" is any value.
type row struct {
	when     string // key=value, key=value|value, or key!=value, apart by spaces
	decision string
	reason   string // a part of it
}

var tables = map[string][]row{
	"takeover": {
		{"policy.takeover=adopt observed.released=true", "hold", "given back by hand"},
		{"policy.takeover=adopt", "adopt", "as its policy says"},
		{"policy.takeover=hold", "hold", "as its policy says"},
		{"policy.takeover=refuse", "refuse", "as its policy says"},
		{"policy.takeover!=", "refuse", `policy.takeover is "`},
		{"node.adopted=true", "hold", "adopted node"},
		{"", "refuse", "what meshgen did not make it does not touch"},
	},
	"rename": {
		{"policy.rename=refuse", "refuse", "as its policy says"},
		{"policy.rename=follow holds kind=dir", "refuse", `policy "follow" would leave its data behind and put an empty directory in its place`},
		{"policy.rename=follow holds", "refuse", `policy "follow" would leave its data behind and put an empty volume in its place`},
		{"policy.rename=migrate holds kind=dir", "refuse", "a directory is not copied"},
		{"policy.rename=migrate holds", "migrate", "its data is copied"},
		{"policy.rename=follow|migrate", "follow", "as its policy says"},
		{"policy.rename!=", "refuse", `policy.rename is "`},
		{"holds kind=dir", "refuse", "its data would stay behind and an empty directory take its place"},
		{"holds", "refuse", "its data would stay behind and an empty volume take its place"},
		{"", "follow", "follows its new name"},
	},
	"transfer": {
		{"policy.transfer=refuse", "refuse", "as its policy says"},
		{"policy.transfer!= policy.transfer!=transfer", "refuse", `policy.transfer is "`},
		{"candidates=a/container/x b/container/x", "refuse", "a/container/x or b/container/x"},
		{"", "transfer", "another address"},
	},
	"remove": {
		{"policy.remove=remove", "remove", "as its policy says"},
		{"policy.remove=refuse", "refuse", "as its policy says"},
		{"policy.remove=keep kind=container|unit|pod|kube", "refuse", "its policy keeps it, and without its unit nothing could stop it any more"},
		{"policy.remove=keep", "keep", "as its policy says"},
		{"policy.remove!=", "refuse", `policy.remove is "`},
		{"holds kind=container|unit|pod|kube", "refuse", "without its unit nothing could stop it any more"},
		{"holds", "keep", "it holds data"},
		{"", "remove", "no longer declared"},
	},
	"drift": {
		{"policy.drift!= policy.drift!=restore policy.drift!=keep policy.drift!=refuse", "refuse", `policy.drift is "`},
		{"change=directory", "refuse", "a directory"},
		{"policy.drift=refuse", "refuse", "as its policy says"},
		{"change=masked", "keep", "owner's word"},
		{"change=overridden", "keep", "not ours"},
		{"change=remade", "keep", "is not ours"},
		{"policy.drift=keep", "keep", "as its policy says"},
		{"policy.drift=restore", "restore", "as its policy says"},
		{"data=true change=gone", "refuse", "an empty one"},
		{"", "restore", "put back"},
	},
}

// The values that each fact is given; absent is no value.
const absent = "\x00"

var domain = map[string][]string{
	"kind":              {"container", "unit", "pod", "kube", "volume", "network", "file", "dir", "secret", absent},
	"data":              {"true", "false", absent},
	"candidates":        {"", "a/container/x", "a/container/x b/container/x", absent},
	"change":            {"content", "mode", "gone", "directory", "file", "symlink", "masked", "overridden", "damaged", "renamed", "remade", absent},
	"node.adopted":      {"true", "false", absent},
	"observed.released": {"true", "false", absent},
}

// matter has the facts that may matter to each transition, its setting apart.
var matter = map[string][]string{
	"takeover": {"kind", "data", "node.adopted", "observed.released"},
	"rename":   {"kind", "data", "node.adopted"},
	"transfer": {"kind", "data", "candidates"},
	"remove":   {"kind", "data", "node.adopted"},
	"drift":    {"kind", "data", "change"},
}

func settings() []string {
	return []string{absent, "", "adopt", "hold", "follow", "migrate", "transfer", "remove", "keep", "restore", "refuse", "Follow", "refused", strings.Repeat("x", 3000)}
}

func (r row) holds(f Facts) bool {
	for condition := range strings.SplitSeq(r.when, " ") {
		key, value, ok := strings.Cut(condition, "=")
		switch {
		case condition == "":
		case condition == "holds":
			if f["data"] != "true" {
				return false
			}
		case !ok: // what follows the space in a list
		case key == "candidates":
			if f[key] != strings.TrimPrefix(r.when, "candidates=") {
				return false
			}
		case strings.HasSuffix(key, "!"):
			got, known := f[strings.TrimSuffix(key, "!")]
			if value == "" && !known || value != "" && got == value {
				return false
			}
		case !slices.Contains(strings.Split(value, "|"), f[key]):
			return false
		}
	}
	return true
}

// TestBuiltinIsItsTable asks the built-in policy for every transition with every
// setting and all that matters beside it.
func TestBuiltinIsItsTable(t *testing.T) {
	r := NewRuntime("", Limits{})
	defer func() { _ = r.Close() }()
	for _, transition := range Transitions() {
		n, used := 0, map[row]bool{}
		for _, setting := range settings() {
			f := Facts{"transition": transition}
			if setting != absent {
				f["policy."+transition] = setting
			}
			each(f, matter[transition], func(f Facts) {
				n++
				at := slices.IndexFunc(tables[transition], func(r row) bool { return r.holds(f) })
				want := tables[transition][at]
				used[want] = true
				a := r.Decide(t.Context(), Builtin(), f)
				if a.Fault != "" || a.Decision.String() != want.decision || !strings.Contains(a.Reason, want.reason) {
					t.Fatalf("%v: %s, %q, fault %q; want %s, %q", f, a.Decision, a.Reason, a.Fault, want.decision, want.reason)
				}
				for key, value := range a.Read {
					if f[key] != value {
						t.Fatalf("%v: it read %s as %q", f, key, value)
					}
				}
			})
		}
		if len(used) != len(tables[transition]) {
			t.Errorf("%s: %d of %d rows were met", transition, len(used), len(tables[transition]))
		}
		t.Logf("%s: %d cases", transition, n)
	}
}

// each calls do with every choice of values for the keys.
func each(f Facts, keys []string, do func(Facts)) {
	if len(keys) == 0 {
		do(f)
		return
	}
	for _, value := range domain[keys[0]] {
		with := maps.Clone(f)
		if value != absent {
			with[keys[0]] = value
		}
		each(with, keys[1:], do)
	}
}

// A setting for one transition says nothing of another.
func TestBuiltinReadsItsOwnSetting(t *testing.T) {
	r := NewRuntime("", Limits{})
	defer func() { _ = r.Close() }()
	for _, transition := range Transitions() {
		bare := r.Decide(t.Context(), Builtin(), Facts{"transition": transition, "kind": "file"})
		f := Facts{"transition": transition, "kind": "file"}
		for _, other := range Transitions() {
			if other != transition {
				f["policy."+other] = "refuse"
			}
		}
		if a := r.Decide(t.Context(), Builtin(), f); a.Decision != bare.Decision || a.Reason != bare.Reason {
			t.Errorf("%s: %s, %q, without the others' settings %s, %q", transition, a.Decision, a.Reason, bare.Decision, bare.Reason)
		}
	}
}

func TestBuiltinRefusesWhatItDoesNotKnow(t *testing.T) {
	r := NewRuntime("", Limits{})
	defer func() { _ = r.Close() }()
	for _, transition := range []string{"", "create", "update", "renames"} {
		a := r.Decide(t.Context(), Builtin(), Facts{"transition": transition})
		if want := fmt.Sprintf("of a transition %q, of which no policy decides", transition); a.Decision != Refuse || !strings.Contains(a.Fault, want) {
			t.Errorf("%+v", a)
		}
	}
}

func TestBuiltinNamesAnUnknownSettingAndItsWords(t *testing.T) {
	r := NewRuntime("", Limits{})
	defer func() { _ = r.Close() }()
	a := r.Decide(t.Context(), Builtin(), Facts{"transition": "rename", "policy.rename": "folow"})
	if want := `policy.rename is "folow", and not one of follow, migrate, refuse`; a.Decision != Refuse || a.Reason != want || a.Fault != "" {
		t.Errorf("%+v", a)
	}
}

func TestBuiltinNamesManyCandidatesInBrief(t *testing.T) {
	r := NewRuntime("", Limits{})
	defer func() { _ = r.Close() }()
	for _, n := range []int{30, 300} {
		a := r.Decide(t.Context(), Builtin(), Facts{"transition": "transfer", "candidates": strings.Repeat("module/container/some.name ", n) + "last"})
		if want := "it may have been any of many"; a.Decision != Refuse || a.Reason != want || a.Fault != "" {
			t.Errorf("%+v", a)
		}
	}
}

func TestBuiltinIsSmall(t *testing.T) {
	if n := len(Builtin().Code); n > 16<<10 {
		t.Errorf("it has %d bytes", n)
	}
}
