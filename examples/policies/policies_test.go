// Package policies builds the examples here and asks each with its cases.
package policies

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"meshgen/policy"
)

// tool returns the first of some programs that is there and does what it has to.
// Where none is, the test is skipped, but not in CI.
func tool(t testing.TB, does func(ctx context.Context, path string) bool, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil && does(t.Context(), path) {
			return path
		}
	}
	if os.Getenv("MESHGEN_REQUIRE_MACHINE") == "1" {
		t.Fatalf("none of %v is there, or it does not build for WebAssembly: make setup", names)
	}
	t.Skipf("none of %v is there, or it does not build for WebAssembly", names)
	return ""
}

func runs(context.Context, string) bool { return true }

// hasTarget reports whether a rustc has the library for WebAssembly.
func hasTarget(ctx context.Context, rustc string) bool {
	out, err := exec.CommandContext(ctx, rustc, "--target", "wasm32-unknown-unknown", "--print", "target-libdir").Output()
	if err != nil {
		return false
	}
	found, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "libcore-*"))
	return err == nil && len(found) > 0
}

// build builds an example and returns it.
func build(t testing.TB, example string) policy.Module {
	t.Helper()
	out := filepath.Join(t.TempDir(), example+".wasm")
	var cmd *exec.Cmd
	switch example {
	case "go":
		cmd = exec.CommandContext(t.Context(), tool(t, runs, "go"), "build", "-buildmode=c-shared", "-ldflags=-s", "-o", out)
		cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	case "c":
		cmd = exec.CommandContext(t.Context(), tool(t, runs, "clang-14", "clang"), "--target=wasm32", "-Os", "-Wall", "-Wextra", "-Wno-unused-function", "-Werror",
			"-ffreestanding", "-fno-builtin", "-nostdlib", "-I", "../../../policy/sdk", "-Wl,--no-entry", "-o", out, "steady.c")
	case "rust":
		cmd = exec.CommandContext(t.Context(), tool(t, hasTarget, "rustc", "/usr/bin/rustc"), "--edition", "2021", "--target", "wasm32-unknown-unknown",
			"--crate-type", "cdylib", "-D", "warnings", "-C", "opt-level=s", "-C", "panic=abort", "-C", "strip=symbols", "-o", out, "lab.rs")
	}
	cmd.Dir = example
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, said)
	}
	code, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return policy.Module{Name: filepath.Join(example, filepath.Base(out)), Code: code}
}

func TestExamplesDecideTheirCases(t *testing.T) {
	for _, example := range []string{"go", "c", "rust"} {
		t.Run(example, func(t *testing.T) {
			t.Parallel()
			m := build(t, example)
			if i := policy.Inspect(t.Context(), m); len(i.Faults) > 0 {
				t.Fatal(i.Faults)
			}
			path := filepath.Join(example, "cases.txtar")
			file, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			cases, faults := policy.ParseCases(file)
			if len(faults) > 0 {
				t.Fatal(faults)
			}
			cache := t.TempDir()
			for range 2 { // compiled, and from the cache
				r := policy.NewRuntime(cache, policy.DefaultLimits())
				for _, c := range cases {
					first, second := r.Decide(t.Context(), m, c.Facts), r.Decide(t.Context(), m, c.Facts)
					if differs := c.Differs(first); differs != "" {
						t.Errorf("%s:%d: %s: %s", path, c.Line, c.Name, differs)
					}
					if first.Decision != second.Decision || first.Reason != second.Reason {
						t.Errorf("%s: %+v, and then %+v", c.Name, first, second)
					}
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}
			transitionsAreAnswered(t, m)
		})
	}
}

// A policy is asked of every transition of its module, so that each has to have
// an answer.
func transitionsAreAnswered(t *testing.T, m policy.Module) {
	t.Helper()
	r := policy.NewRuntime("", policy.DefaultLimits())
	defer func() { _ = r.Close() }()
	for _, transition := range policy.Transitions() {
		for _, kind := range []string{"container", "volume", "file"} {
			a := r.Decide(t.Context(), m, policy.Facts{"transition": transition, "kind": kind})
			if a.Fault != "" || a.Reason == "" {
				t.Errorf("%s of a %s: %+v", transition, kind, a)
			}
		}
	}
}

// BenchmarkGoFromCache is the first decision of a policy in plain Go, with the
// start of its runtime, where it was compiled before.
func BenchmarkGoFromCache(b *testing.B) {
	m, cache := build(b, "go"), b.TempDir()
	f := policy.Facts{"transition": "takeover", "kind": "container", "policy.image": "a", "observed.image": "a"}
	for i := 0; b.Loop(); i++ {
		r := policy.NewRuntime(cache, policy.DefaultLimits())
		if a := r.Decide(b.Context(), m, f); a.Decision != policy.Adopt {
			b.Fatal(a)
		}
		_ = r.Close()
		if i == 0 {
			b.ResetTimer()
		}
	}
}

// BenchmarkGoLater is each decision after that.
func BenchmarkGoLater(b *testing.B) {
	m := build(b, "go")
	r := policy.NewRuntime("", policy.DefaultLimits())
	defer func() { _ = r.Close() }()
	f := policy.Facts{"transition": "takeover", "kind": "container", "policy.image": "a", "observed.image": "a"}
	r.Decide(b.Context(), m, f)
	for b.Loop() {
		if a := r.Decide(b.Context(), m, f); a.Decision != policy.Adopt {
			b.Fatal(a)
		}
	}
}
