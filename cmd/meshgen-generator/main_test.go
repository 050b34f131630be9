package main

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// The program runs at boot, before there is anything but the disk: it must not
// come to hold what cannot work there, or what makes it slow to start.
func TestGeneratorStaysSmall(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 20 {
		t.Fatalf("only %d packages", len(packages))
	}
	refused := regexp.MustCompile(`^(net|net/.+|crypto/tls|cuelang\.org/.+|github\.com/(tetratelabs|coreos|godbus|spf13)/.+|meshgen/(modules|policy|internal/(apply|host))(/.+)?)$`)
	for _, p := range packages {
		if refused.MatchString(p) && p != "net/netip" {
			t.Errorf("it holds %s", p)
		}
	}
}
