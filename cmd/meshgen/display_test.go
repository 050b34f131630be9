package main

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"meshgen/internal/apply"
)

// Away from a terminal each step is a line once it has ended, without colour.
func TestDisplayWritesALineForEachEndedStep(t *testing.T) {
	var out strings.Builder
	d := (&options{}).newDisplay(&out)
	step := apply.Step{Op: "start", Target: "unit:gitea.service", Reason: "new"}
	d.event(apply.Event{Step: step})
	d.event(apply.Event{Step: step, Ended: true, Took: 1500 * time.Millisecond})
	d.event(apply.Event{Step: apply.Step{Op: "write", Target: "file:/f"}, Ended: true})
	d.event(apply.Event{Step: step, Ended: true, Err: errors.New("start gitea.service: timed out")})
	d.end()
	d.end()
	want := []string{
		"start gitea.service 1.50s new",
		"write /f",
		"start gitea.service failed: start gitea.service: timed out",
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestQuietDisplayWritesNothing(t *testing.T) {
	var out strings.Builder
	d := (&options{quiet: true}).newDisplay(&out)
	d.event(apply.Event{Step: apply.Step{Op: "write", Target: "file:/f"}, Ended: true})
	d.line("x")
	d.end()
	if out.String() != "" {
		t.Errorf("wrote %q", out.String())
	}
}

// A line that wraps could not be taken away again.
func TestDisplayKeepsWithinTheTerminal(t *testing.T) {
	for _, width := range []int{20, 40, 80} {
		var out strings.Builder
		d := &display{out: &out, live: true, width: width, stop: make(chan struct{})}
		d.moving = []movement{{apply.Step{Op: "start", Target: "unit:größer-" + "a-name-that-is-longer-than-any-terminal-that-one-would-work-at-with-a-pleasure.service", Reason: "new"}, time.Now()}}
		d.draw()
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns in a terminal of %d: %q", n, width, line)
			}
		}
		if d.drawn != 1 {
			t.Errorf("drew %d lines", d.drawn)
		}
	}
}
