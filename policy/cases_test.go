package policy

import (
	"slices"
	"strings"
	"testing"
)

func TestParseCases(t *testing.T) {
	cases, faults := ParseCases([]byte(`What these are.

-- one --
# a comment
transition = rename
policy.image = a = b
change.is = 
=> follow: it holds no data: so
`))
	if len(cases) > 0 || len(faults) != 1 || faults[0].Line != 7 {
		t.Fatalf("%v, %v", cases, faults)
	}
	cases, faults = ParseCases([]byte("-- one --\ntransition = rename\npolicy.image = a = b\ndependents =\n=> follow: it holds no data: so\n-- two --\n\ntransition=drift\n=>keep"))
	if len(faults) > 0 || len(cases) != 2 {
		t.Fatalf("%v, %v", cases, faults)
	}
	one, two := cases[0], cases[1]
	if one.Name != "one" || one.Line != 1 || one.Decision != Follow || one.Reason != "it holds no data: so" || one.Facts["policy.image"] != "a = b" || len(one.Facts) != 3 {
		t.Errorf("%+v", one)
	}
	if two.Name != "two" || two.Line != 6 || two.Decision != Keep || two.Reason != "" || two.Facts["transition"] != "drift" {
		t.Errorf("%+v", two)
	}
}

func TestFaultsOfCasesHaveTheirLines(t *testing.T) {
	for _, c := range []struct {
		file  string
		line  int
		fault string
	}{
		{"", 1, "there is no case in it"},
		{"transition = rename\n", 1, "there is no case in it"},
		{"-- a --\nkind = file\n=> keep\n", 1, "a: there is no transition"},
		{"-- a --\ntransition = create\n=> keep\n", 1, `a: "create" is no transition of which a policy decides`},
		{"-- a --\ntransition = drift\n", 1, "a: no decision is expected"},
		{"-- a --\ntransition = drift\n=> follow\n", 3, "follow is expected, and a drift offers restore, keep, refuse"},
		{"-- a --\ntransition = drift\n=> kept\n", 3, `"kept" is no decision`},
		{"-- a --\ntransition = drift\n=> keep\n=> keep\n", 4, "a second decision, after the one in line 3"},
		{"-- a --\ntransition = drift\nkind = file\nkind = unit\n=> keep\n", 4, "kind is there twice"},
		{"-- a --\ntransition = drift\n=> keep\n-- b --\ntransition = drift\nimage = x\n=> keep\n", 6, `there is no fact "image"`},
		{"-- a --\ntransition = drift\nkind: file\n=> keep\n", 3, `"kind: file" is neither a fact nor a decision`},
		{"-- a --\ntransition = drift\ncandidates = x\n=> keep\n", 1, "a: the fact candidates is never known in a drift"},
	} {
		cases, faults := ParseCases([]byte(c.file))
		if len(cases) > 0 || len(faults) != 1 || faults[0].Line != c.line || !strings.HasPrefix(faults[0].Message, c.fault) {
			t.Errorf("%q: %v, %v; want line %d, %s", c.file, cases, faults, c.line, c.fault)
		}
	}
}

// What counts as refuse, since the policy is at fault, is not what was expected.
func TestAFaultIsNeverExpected(t *testing.T) {
	c := Case{Decision: Refuse}
	if got := c.Differs(Answer{Decision: Refuse, Fault: "policy x: unreachable"}); got != "policy x: unreachable" {
		t.Error(got)
	}
	if got := c.Differs(Answer{Decision: Refuse, Reason: "any"}); got != "" {
		t.Error(got)
	}
	c.Reason = "because"
	if got := c.Differs(Answer{Decision: Refuse, Reason: "so"}); got != "answered refuse: so; expected is refuse: because" {
		t.Error(got)
	}
}

func TestInspect(t *testing.T) {
	i := Inspect(t.Context(), Builtin())
	if len(i.Faults) > 0 || i.SHA256 != Builtin().SHA256() || i.Memory != (Memory{pageSize, pageSize}) ||
		!slices.Equal(i.Imports, []string{"meshgen.fact (i32, i32, i32, i32) -> i32", "meshgen.reason (i32, i32)"}) ||
		!slices.Equal(i.Exports, []string{"decide () -> i32", "memory"}) {
		t.Errorf("%+v", i)
	}
	p := prog{imports: [][]byte{importOf("env", "open", typeAnswer)}, pages: -1}
	i = Inspect(t.Context(), Module{Name: "m", Code: p.bytes()})
	if !slices.Equal(i.Faults, []string{"imports env.open, which there is not", "exports no memory by the name memory", "exports no function decide"}) {
		t.Errorf("%+v", i)
	}
	for _, c := range hostile() {
		Inspect(t.Context(), Module{Name: "m", Code: c.code}) // without a panic, and running nothing
	}
}

func FuzzParseCases(f *testing.F) {
	f.Add([]byte("-- one --\ntransition = rename\n=> follow: it holds no data\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		cases, faults := ParseCases(file)
		if (len(cases) == 0) == (len(faults) == 0) {
			t.Errorf("%d cases, %d faults", len(cases), len(faults))
		}
		lines := strings.Count(string(file), "\n") + 1
		for _, fault := range faults {
			if fault.Line < 1 || fault.Line > lines {
				t.Errorf("%+v of %d lines", fault, lines)
			}
		}
	})
}
