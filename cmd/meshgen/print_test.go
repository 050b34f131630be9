package main

import (
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"meshgen/internal/apply"
	"meshgen/state"
	"meshgen/units"
)

// hostileName is what somebody may call a file, or write into a label or a
// program: it clears the screen, sets its title, and goes on in a line like ours.
const hostileName = "x\x1b[2J\x1b]0;pwn\a\u009b1m\u202e\r\ngeneration 9 is in force"

// hostilePolicy imports the function `generation 9\n is in force` of the module
// `x`, with escapes, and exports `ev\x1b[31mil\nexit 0`.
const hostilePolicy = `AGFzbQEAAAABCAJgAABgAAF/AisBDXgbWzJKG10wO3B3bgcZZ2VuZXJhdGlvbiA5CiBpcyBpbiBm
b3JjZQAAAwMCAQEEBQFwAQEBBQMBAAIGCAF/AUGAiAQLByYDBm1lbW9yeQIABmRlY2lkZQABEGV2
G1szMW1pbApleGl0IDAAAgoRAgoAEICAgIAAQQALBABBAAsALARuYW1lAREDAAJ6egEGZGVjaWRl
AgJkMgcSAQAPX19zdGFja19wb2ludGVyAC0JcHJvZHVjZXJzAQxwcm9jZXNzZWQtYnkBDERlYmlh
biBjbGFuZwYxNC4wLjY=`

// Whatever others call what is told of, no terminal obeys it, and no line of it
// looks like one of ours.
func TestNamesOfOthersAreSafeToShow(t *testing.T) {
	dir := t.TempDir()
	program, err := base64.StdEncoding.DecodeString(hostilePolicy)
	if err != nil {
		t.Fatal(err)
	}
	wasm := filepath.Join(dir, "policy.wasm")
	if err := os.WriteFile(wasm, program, 0o600); err != nil {
		t.Fatal(err)
	}
	address := units.Address{Module: "m", Kind: units.KindFile, ID: hostileName}
	position := units.Position{File: hostileName, Line: 1, Column: 1}
	target := units.Target("file:/" + hostileName)
	taken := state.Transition{
		Kind: state.Takeover, Resource: address, To: target, Reason: "is of " + hostileName,
		Decision: state.Hold, Policy: hostileName, Said: hostileName, Position: position,
	}
	step := apply.Step{Op: "start", Target: target, Reason: hostileName}
	plain := func(write func(w io.Writer) error) func(out, errs io.Writer) {
		return func(out, _ io.Writer) {
			if err := write(&output{Writer: out, o: &options{}}); err != nil {
				t.Error(err)
			}
		}
	}
	for name, show := range map[string]func(out, errs io.Writer){
		"policy show": func(out, errs io.Writer) { run(t.Context(), []string{"policy", "show", wasm}, out, errs) },
		"a table":     plain(func(w io.Writer) error { return writeTable(w, [][]string{{hostileName, "a"}, {"b", hostileName}}) }),
		"transitions": plain(func(w io.Writer) error { return writeTransitions(w, []state.Transition{taken}) }),
		"steps":       plain(func(w io.Writer) error { return writeSteps(w, []apply.Step{step}) }),
		"a story": plain(func(w io.Writer) error {
			told := apply.Telling{Detail: hostileName, Policy: hostileName, PolicySum: hostileName, Facts: map[string]string{"image": hostileName}}
			return (&options{verbose: true}).writeStory(w, apply.Story{Target: target, Events: []apply.Telling{told}, Now: []string{hostileName}, Next: []string{hostileName}})
		}),
		"what is held": func(_, errs io.Writer) {
			d := (&options{}).newDisplay(errs)
			d.line(toldHeld(state.Holding{Resource: address, Taken: []state.Transition{taken}}))
			d.end()
		},
		"a step": func(_, errs io.Writer) {
			d := &display{out: errs, stop: make(chan struct{})}
			d.event(apply.Event{Step: step, Ended: true})
			d.event(apply.Event{Step: step, Ended: true, Err: errors.New(strings.ReplaceAll(hostileName, "\n", " "))})
			d.end()
		},
		"faults": func(_, errs io.Writer) {
			writeError(errs, units.Faults{{Position: position, Message: hostileName, Hint: hostileName}})
		},
		"an error": func(_, errs io.Writer) { writeError(errs, errors.New(strings.ReplaceAll(hostileName, "\n", " "))) },
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			var told strings.Builder
			show(&told, &told)
			if told.Len() == 0 {
				t.Fatal("nothing is shown")
			}
			for line := range strings.Lines(told.String()) {
				line = strings.TrimSuffix(line, "\n")
				if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
					t.Errorf("it holds %q: %q", line[i:min(i+4, len(line))], line)
				}
				if begin := strings.TrimSpace(line); strings.HasPrefix(begin, "generation 9") || strings.HasPrefix(begin, "is in force") || strings.HasPrefix(begin, "exit 0") {
					t.Errorf("a line of its own: %q", line)
				}
			}
		})
	}
}
