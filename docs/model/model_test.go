//go:build model

// Package model has spin check the model of a switch that lies beside this file:
// as it is, where every promise must hold, and with each fault that a macro puts
// in, where a promise must break.
package model

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The promises, each by a part of its assertion that no other assertion has.
const (
	recordedFirst = "(!(runs[0])||live[0])"         // P1
	goneFirst     = "&&!(loaded[x])"                // P2, of a unit
	unlinkedFirst = "assert(!(file))"               // P2, of a file
	stopKnowsHow  = "assert(loaded[x])"             // P3, of a stop
	neverBoth     = "assert(!((runs[0]&&runs[1])))" // P3
	oneSetAtBoot  = "(runsChg==current)"            // P6
	unitsAtEnd    = "(live[x]&&due[x])"
	filesAtEnd    = "(conf==to)"
	changesAtEnd  = "(runsChg==to)"
)

// Every promise holds, and no part of the model is there for nothing: each of its
// statements is reached, but for those that a broken promise would reach.
func TestSwitchKeepsItsPromises(t *testing.T) {
	c := newChecker(t, "-O1", "-DSAFETY")
	out := c.check("-m10000", "-w22")
	if c.broken() || !strings.Contains(out, "errors: 0") {
		t.Fatalf("%s\n%s", out, c.story())
	}
	for line := range strings.Lines(out) {
		if strings.Contains(line, ", state ") && !strings.Contains(line, `"-end-"`) && !strings.Contains(line, `"assert(`) {
			t.Errorf("not reached: %s", strings.TrimSpace(line))
		}
	}
}

// Since what the world may do is bounded, a run that does not end goes in a
// circle; there is none.
func TestEveryRunEnds(t *testing.T) {
	c := newChecker(t, "-O1", "-DNP")
	if out := c.check("-l", "-m10000", "-w23"); c.broken() || !strings.Contains(out, "errors: 0") {
		t.Errorf("%s\n%s", out, c.story())
	}
}

func TestFaultsBreakPromises(t *testing.T) {
	for _, fault := range []struct{ macro, breaks string }{
		{"RELOAD_BEFORE_STOP", stopKnowsHow},
		{"RECORD_AFTER_ACT", recordedFirst},
		{"RETIRE_UNSEEN", unlinkedFirst},
		{"NO_FENCE", neverBoth},
		{"NO_BRIDGE", neverBoth},
		{"NO_RESCUE", stopKnowsHow},
		{"NO_BOOT_RECOVERY", oneSetAtBoot},
		{"NO_DUE", unitsAtEnd},

		{"BOOT_TRUSTS_FLIP", oneSetAtBoot},
		{"BRIDGE_BEFORE_FENCE", neverBoth},
		{"NO_LOOK_AFTER_RELOAD", neverBoth},
		{"RECORD_UNSTARTED", changesAtEnd},
		{"RESCUE_BY_PLAN", stopKnowsHow},
		{"RETIRE_AFTER_ERROR", goneFirst},
		{"START_IS_ENOUGH", filesAtEnd},
		{"TRUST_FIRST_RUN", unitsAtEnd},
	} {
		t.Run(fault.macro, func(t *testing.T) {
			c := newChecker(t, "-O0", "-DSAFETY", "-DBFS", "-D"+fault.macro) // breadth first: the shortest story
			out := c.check("-w22")
			if !c.broken() {
				t.Fatalf("no promise is broken\n%s", out)
			}
			if story := c.story(); !strings.Contains(story, fault.breaks) {
				t.Errorf("not the promise that was meant, %s\n%s", fault.breaks, story)
			}
		})
	}
}

// checker is spin's verifier of one variant of the model, in a directory of its
// own.
type checker struct {
	t     *testing.T
	dir   string
	model string
	macro []string
}

// newChecker makes a verifier, beside those of other tests. The flags are the
// compiler's; macros are the model's too.
func newChecker(t *testing.T, flags ...string) *checker {
	t.Helper()
	t.Parallel()
	for _, tool := range []string{"spin", "cc"} {
		if _, err := exec.LookPath(tool); err == nil {
			continue
		} else if os.Getenv("MESHGEN_REQUIRE_MACHINE") == "1" {
			t.Fatal(err)
		} else {
			t.Skip(err)
		}
	}
	model, err := filepath.Abs("switch.pml")
	if err != nil {
		t.Fatal(err)
	}
	c := &checker{t: t, dir: t.TempDir(), model: model}
	for _, f := range flags {
		if strings.HasPrefix(f, "-D") {
			c.macro = append(c.macro, f)
		}
	}
	c.command("spin", append(c.macro, "-o3", "-a", model)...) // -o3: statements are not merged, so that each is counted
	c.command("cc", append(flags, "-w", "-DNOREDUCE", "-o", "pan", "pan.c")...)
	return c
}

// check searches all states and tells the figures.
func (c *checker) check(flags ...string) string {
	c.t.Helper()
	out := c.command(filepath.Join(c.dir, "pan"), flags...)
	c.t.Log(strings.Join(figures.FindAllString(out, -1), ", "))
	for _, incomplete := range []string{"Search not completed", "max search depth too small", "out of memory"} {
		if !c.broken() && strings.Contains(out, incomplete) {
			c.t.Errorf("%s\n%s", incomplete, out)
		}
	}
	return out
}

var figures = regexp.MustCompile(`depth reached \d+|\d+ states, stored|[\d.]+\s+total actual memory usage|elapsed time [\d.]+ seconds`)

// broken reports whether a promise was.
func (c *checker) broken() bool {
	_, err := os.Stat(filepath.Join(c.dir, "switch.pml.trail"))
	return err == nil
}

// story is how the promise was broken, a step or an act of the world a line, and
// the assertion.
func (c *checker) story() string {
	c.t.Helper()
	out := c.command("spin", append(c.macro, "-k", "switch.pml.trail", "-T", "-B", c.model)...)
	story, _, _ := strings.Cut(out, "spin: trail ends")
	c.t.Log(strings.Join(strings.Fields(story), " "))
	return story
}

func (c *checker) command(name string, args ...string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), name, args...)
	cmd.Dir = c.dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && name != "spin" { // spin's exit code is that of the trail
		c.t.Fatalf("%s: %v\n%s", name, err, out.String())
	}
	return out.String()
}
