package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"meshgen/generator"
)

// writes keeps what each write(2) would have.
type writes []string

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}

// Each error is one message with its priority, in the facility of daemons.
func TestReportSaysHowBadItIs(t *testing.T) {
	var log writes
	report(&log, errors.Join(
		errors.New("a.service: create: no space left on device"),
		generator.Warning{Err: errors.New("b.service: masked")},
		errors.Join(errors.New("one\ntwo"), generator.Warning{Err: fmt.Errorf("x: %w", errors.Join(errors.New("three"), errors.New("four")))}),
	))
	pid := os.Getpid()
	want := []string{
		fmt.Sprintf("<27>meshgen-generator[%d]: a.service: create: no space left on device\n", pid),
		fmt.Sprintf("<28>meshgen-generator[%d]: b.service: masked\n", pid),
		fmt.Sprintf("<27>meshgen-generator[%d]: one; two\n", pid),
		fmt.Sprintf("<28>meshgen-generator[%d]: x: three; four\n", pid),
	}
	if strings.Join(log, "") != strings.Join(want, "") || len(log) != len(want) {
		t.Errorf("written: %q, want %q", []string(log), want)
	}
}

// The kernel refuses a message that is too long, and drops them when they are too many.
func TestReportKeepsTheKernelsBounds(t *testing.T) {
	var log writes
	var all []error
	for i := range 1000 {
		all = append(all, fmt.Errorf("%d: %s", i, strings.Repeat("x", 5000)))
	}
	report(&log, errors.Join(all...))
	if len(log) != mostLines+1 || !strings.HasSuffix(log[mostLines], "and 960 more like these\n") {
		t.Errorf("%d lines, the last %q", len(log), log[len(log)-1])
	}
	for _, line := range log {
		if len(line) > 976 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
}
