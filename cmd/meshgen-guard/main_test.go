package main

import (
	"os/exec"
	"strings"
	"testing"
)

// The program runs in every start of a container, between its stop and its start:
// it holds the standard library, and of ours no more than it needs.
func TestGuardStaysSmall(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 20 {
		t.Fatalf("only %d packages", len(packages))
	}
	for _, p := range packages {
		first, _, _ := strings.Cut(p, "/")
		ours := p == "meshgen/units" || strings.HasPrefix(p, "meshgen/internal/guard") || strings.HasPrefix(p, "meshgen/cmd/")
		if p == "net" || p == "net/http" || strings.Contains(first, ".") || (first == "meshgen" && !ours) {
			t.Errorf("it holds %s", p)
		}
	}
}
