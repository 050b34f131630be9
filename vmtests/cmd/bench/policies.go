package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"meshgen/policy"
)

// policies measures decisions, which need no machine: the first of a runtime,
// with its start, and each one after that. A policy in plain Go has been compiled
// before.
func (b *bench) policies(ctx context.Context) error {
	_, _ = fmt.Fprintln(b.log, "policies") // only to be looked at
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // below /tmp
	path := filepath.Join(dir, "policy.wasm")
	build := exec.CommandContext(ctx, "go", "build", "-buildmode=c-shared", "-ldflags=-s", "-o", path, "./examples/policies/go")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", build, err, out)
	}
	code, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	inGo := policy.Module{Name: "policy.wasm", Code: code}
	for _, p := range []struct {
		module       policy.Module
		first, later string
		budgets      [2]float64 // in milliseconds
	}{
		{policy.Builtin(), firstDecision, laterDecision, [2]float64{5, 0.1}},
		{inGo, firstDecisionGo, laterDecisionGo, [2]float64{100, 0}},
	} {
		first, later, err := decisions(ctx, p.module, filepath.Join(dir, "cache"), b.runs)
		if err != nil {
			return err
		}
		b.rows = append(b.rows, row{what: p.first, size: 1, ours: first, budget: p.budgets[0]}, row{what: p.later, size: 1, ours: later, budget: p.budgets[1]})
	}
	return nil
}

// decisions measures runs of a new runtime, and of decisions in one that is there,
// a hundred of them for each run.
func decisions(ctx context.Context, m policy.Module, cache string, runs int) (first, later series, err error) {
	first.unit, later.unit = "ms", "ms"
	facts := policy.Facts{"transition": "takeover", "kind": "container", "policy.takeover": "adopt", "policy.image": "web:1", "observed.image": "web:1"}
	for i := range runs + 1 {
		r := policy.NewRuntime(cache, policy.DefaultLimits())
		took, err := decideOnce(ctx, r, m, facts)
		if err != nil {
			return first, later, errors.Join(err, r.Close())
		}
		if i > 0 { // the first one compiles
			first.addTime(took)
		}
		for range 100 {
			if took, err = decideOnce(ctx, r, m, facts); err != nil {
				return first, later, errors.Join(err, r.Close())
			}
			later.addTime(took)
		}
		if err := r.Close(); err != nil {
			return first, later, err
		}
	}
	return first, later, nil
}

func decideOnce(ctx context.Context, r *policy.Runtime, m policy.Module, f policy.Facts) (sample, error) {
	begin, worked := time.Now(), processorTime()
	a := r.Decide(ctx, m, f)
	s := sample{Took: time.Since(begin), CPU: processorTime() - worked}
	if a.Decision != policy.Adopt {
		return s, fmt.Errorf("%s decides %s: %s%s", m.Name, a.Decision, a.Reason, a.Fault)
	}
	return s, nil
}

// processorTime returns the time that processors have worked for this process.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it knows this process
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
