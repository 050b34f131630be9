package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// The page has every command with its codes and flags, and man(7) takes it without a
// warning.
func TestManHasEveryCommand(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"man"}, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	page := out.String()
	for _, cmd := range below(newRoot(&options{})) {
		if cmd.Hidden || cmd.HasSubCommands() {
			continue
		}
		if !strings.Contains(page, ".SS "+roff(cmd.UseLine())+"\n") || !strings.Contains(page, roff(exitHelp(nameOf(cmd)))) {
			t.Errorf("%s is not told", cmd.CommandPath())
		}
		set := cmd.LocalNonPersistentFlags()
		if yes := set.Lookup("yes"); yes != nil && !strings.Contains(page, roff(yes.Usage)+"\n") {
			t.Errorf("%s: --yes is not told", cmd.CommandPath())
		}
	}
	for line := range strings.SplitSeq(page, "\n") {
		if macro, _, _ := strings.Cut(line, " "); strings.HasPrefix(line, ".") &&
			!strings.Contains(" .TH .SH .SS .PP .TP .B .BR .I .nf .fi ", " "+macro+" ") {
			t.Errorf("%q is no macro that was meant", line)
		}
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		skip(t, "no groff to try it with")
	}
	cmd := exec.CommandContext(t.Context(), groff, "-man", "-Tutf8", "-ww", "-z")
	cmd.Stdin = strings.NewReader(page)
	if said, err := cmd.CombinedOutput(); err != nil || len(said) > 0 {
		t.Errorf("%v: %s", err, said)
	}
}
