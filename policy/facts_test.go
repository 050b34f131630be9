package policy

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of facts into the document")

const document = "../docs/policy.md"

// The document's table is made from FactTable.
func TestDocumentHasTheTableOfFacts(t *testing.T) {
	const begin, end = "<!-- made from policy/facts.go by make golden -->\n", "<!-- end -->\n"
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	table, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", document)
	}
	if table == factsInMarkdown() {
		return
	}
	if !*update {
		t.Fatalf("%s has another table: make golden", document)
	}
	if err := os.WriteFile(document, []byte(before+begin+factsInMarkdown()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func factsInMarkdown() string {
	var b strings.Builder
	b.WriteString("| fact | known in | is | for instance |\n|---|---|---|---|\n")
	for _, f := range FactTable() {
		in := "all"
		if f.Transitions != nil {
			in = strings.Join(f.Transitions, ", ")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` |\n", f.Key, in, f.Meaning, f.Example)
	}
	return b.String()
}

func TestFactsHaveOneRowEach(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range FactTable() {
		if seen[f.Key] || f.Meaning == "" || f.Example == "" {
			t.Errorf("%+v", f)
		}
		seen[f.Key] = true
		for _, transition := range f.Transitions {
			if Offers(transition) == nil {
				t.Errorf("%s: no transition %q", f.Key, transition)
			}
		}
	}
}

func TestFactOf(t *testing.T) {
	for key, want := range map[string]string{
		"kind":                          "kind",
		"policy.image":                  "policy.NAME",
		"policy.takeover":               "policy.NAME",
		"policy.":                       "",
		"policy":                        "",
		"observed.label.com.docker.app": "observed.label.NAME",
		"observed.image.id":             "observed.image.id",
		"observed.images":               "",
		"kinds":                         "",
		"":                              "",
		"NAME":                          "",
	} {
		if f, ok := FactOf(key); f.Key != want || ok != (want != "") {
			t.Errorf("%q: %q, %t; want %q", key, f.Key, ok, want)
		}
	}
}

// The built-in policy asks for nothing that is not in the table.
func TestBuiltinAsksForFactsOfTheTable(t *testing.T) {
	source, err := os.ReadFile("builtin/builtin.c")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, call := range []string{`ask("`, `yes("`, `meshgen_fact("`} {
		for _, rest := range strings.Split(string(source), call)[1:] {
			key, _, _ := strings.Cut(rest, `"`)
			asked++
			if _, ok := FactOf(key); !ok {
				t.Errorf("it asks for %q", key)
			}
		}
	}
	if asked < 10 {
		t.Errorf("only %d", asked)
	}
}
