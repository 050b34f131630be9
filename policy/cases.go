package policy

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// Case is what a policy is expected to answer with certain facts.
type Case struct {
	Name     string
	Line     int // of its name in the file, from 1
	Facts    Facts
	Decision Decision
	Reason   string // "" for any
}

// CaseFault is something wrong in a file of cases.
type CaseFault struct {
	Line    int // from 1
	Message string
	Hint    string
}

// ParseCases reads a txtar file whose sections are cases: a line `key = value` for
// each fact, lines that begin with # left out, and one line `=> decision` or
// `=> decision: reason`. It returns cases or faults, never both.
func ParseCases(file []byte) ([]Case, []CaseFault) {
	archive := txtar.Parse(file)
	var cases []Case
	var faults []CaseFault
	line := 1 + bytes.Count(archive.Comment, []byte("\n"))
	for _, f := range archive.Files {
		p := caseParser{Case: Case{Name: f.Name, Line: line, Facts: Facts{}}, at: line}
		for text := range strings.Lines(string(f.Data)) {
			p.at++
			p.parse(strings.TrimSpace(text))
		}
		p.finish()
		cases, faults = append(cases, p.Case), append(faults, p.faults...)
		line += 1 + bytes.Count(f.Data, []byte("\n"))
	}
	if len(cases) == 0 {
		faults = append(faults, CaseFault{1, "there is no case in it", "a case begins with a line like: -- its name --"})
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return cases, nil
}

// caseParser reads one case.
type caseParser struct {
	Case
	at      int // the line
	expects int // the line of what is expected; 0 before it
	faults  []CaseFault
}

func (p *caseParser) fault(line int, hint, format string, args ...any) {
	p.faults = append(p.faults, CaseFault{line, fmt.Sprintf(format, args...), hint})
}

func (p *caseParser) parse(text string) {
	if text == "" || text[0] == '#' {
		return
	}
	if expected, ok := strings.CutPrefix(text, "=>"); ok {
		p.expect(strings.TrimSpace(expected))
		return
	}
	key, value, ok := strings.Cut(text, "=")
	key = strings.TrimSpace(key)
	switch _, known := FactOf(key); {
	case !ok:
		p.fault(p.at, "a fact is a line like: kind = container", "%q is neither a fact nor a decision", text)
	case !known:
		p.fault(p.at, "meshgen policy show builtin lists all facts", "there is no fact %q: a policy that asks for it is told that it is not known", key)
	default:
		if _, twice := p.Facts[key]; twice {
			p.fault(p.at, "", "%s is there twice", key)
		}
		p.Facts[key] = strings.TrimSpace(value)
	}
}

func (p *caseParser) expect(text string) {
	if p.expects > 0 {
		p.fault(p.at, "", "a second decision, after the one in line %d", p.expects)
		return
	}
	p.expects = p.at
	word, why, _ := strings.Cut(text, ":")
	d, ok := ParseDecision(strings.TrimSpace(word))
	if !ok {
		p.fault(p.at, "one of refuse, hold, adopt, follow, migrate, transfer, remove, keep, restore", "%q is no decision", strings.TrimSpace(word))
	}
	p.Decision, p.Reason = d, strings.TrimSpace(why)
}

// finish looks at what can be told only of the whole case.
func (p *caseParser) finish() {
	transition, ok := p.Facts["transition"]
	switch {
	case len(p.faults) > 0:
	case !ok:
		p.fault(p.Line, "transition = "+strings.Join(Transitions(), ", or "), "%s: there is no transition", p.Name)
	case Offers(transition) == nil:
		p.fault(p.Line, "one of "+strings.Join(Transitions(), ", "), "%s: %q is no transition of which a policy decides", p.Name, transition)
	case p.expects == 0:
		p.fault(p.Line, "it is a line like: => refuse", "%s: no decision is expected", p.Name)
	case !offered(transition, p.Decision):
		p.fault(p.expects, "", "%s is expected, and %s", p.Decision, offers(transition))
	}
	if len(p.faults) > 0 {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(p.Facts)) {
		if f, _ := FactOf(key); !f.In(transition) {
			p.fault(p.Line, "", "%s: the fact %s is never known in a %s", p.Name, key, transition)
		}
	}
}

// Differs says how an answer is not what the case expects; "" where it is. What
// counts as refuse through a fault of the policy's is never expected.
func (c Case) Differs(a Answer) string {
	expected := c.Decision.String()
	if c.Reason != "" {
		expected += ": " + c.Reason
	}
	switch {
	case a.Fault != "":
		return a.Fault
	case a.Decision != c.Decision, c.Reason != "" && a.Reason != c.Reason:
		return fmt.Sprintf("answered %s: %s; expected is %s", a.Decision, a.Reason, expected)
	}
	return ""
}
