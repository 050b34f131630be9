package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meshgen/internal/audit"
	"meshgen/units"
)

// night is a report as an operator may find it: the container that a rename left
// behind, and one of most of what else there can be. A process and a file have names
// that somebody chose to be taken for a command.
func night() audit.Report {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.Local) // as it is shown
	db := units.Address{Module: "forge", Kind: units.KindContainer, ID: "db"}
	config := units.Address{Module: "forge", Kind: units.KindFile, ID: "app.ini"}
	return audit.Report{
		At: at, Generation: 17,
		Unseen: []string{"list of secrets: podman secret ls --quiet: no answer within 10s"},
		Notes:  []string{"the manifest is another than that of generation 17: meshgen plan says what a switch would do"},
		Findings: []audit.Finding{
			{
				Class: audit.Foreign, Target: "container:forge-gitea-server", Also: []units.Target{"unit:old.service"}, Owner: "old.service", Since: at, Generation: 16,
				Listens:  []audit.Listener{{Protocol: "tcp", Address: "::", Port: 3000, Process: "gitea", PID: 337}, {Protocol: "udp", Address: "127.0.0.1", Port: 53, Process: "$ rm -rf ~ $ x", PID: 338}},
				Connects: []audit.Connection{{From: "127.0.0.1:40112", To: "127.0.0.1:5432", Of: db, Process: "gitea", PID: 337}},
				Detail: "a container of image docker.io/gitea/gitea:1.24, runs; the ledger never had it; old.service runs, and systemd has lost its definition; " +
					"old.service was there before the first switch, defined by /etc/containers/systemd/old.container",
				Fix: "podman rm --force --volumes forge-gitea-server",
			},
			{Class: audit.Stale, Target: "network:forge-old", Resource: units.Address{Module: "forge", Kind: units.KindNetwork, ID: "old"}, Since: at, Generation: 3, Detail: "a network, no longer declared", Fix: "meshgen switch"},
			{Class: audit.Foreign, Target: "file:/etc/gitea/x\n  $ rm -rf /", Since: at, Generation: 17, Detail: "lies in a directory of meshgen's", Fix: `rm "$(printf '/etc/gitea/x\012\040\040\044\040rm\040-rf\040/')"`},
			{Class: audit.Missing, Target: "file:/etc/gitea/app.ini", Resource: config, Detail: "is gone", Fix: "meshgen switch"},
			{Class: audit.Stopped, Target: "unit:forge-db.service", Resource: db, Since: at, Generation: 17, Detail: "failed: exit-code", Fix: "systemctl reset-failed forge-db.service && systemctl start forge-db.service"},
		},
		Held:     []audit.Finding{{Class: audit.Held, Target: "container:cache", Detail: "declared, and left out: container:cache is taken: a container", Fix: "meshgen adopt container:cache"}},
		Retained: []audit.Finding{{Class: audit.Retained, Target: "volume:forge-data", Since: at, Generation: 12, Detail: "no longer declared, and kept for its data"}},
		Found:    []audit.Finding{{Class: audit.Found, Target: "container:registry", Since: at, Detail: "a container of image registry:2, runs"}},
		Ignored:  []audit.Finding{{Class: audit.Foreign, Target: "container:ci-1", Detail: "a container"}},
	}
}

func TestAuditFitsTheScreen(t *testing.T) {
	for name, c := range map[string]struct {
		s screen
		o options
	}{
		"40": {screen{width: 40}, options{}}, "80": {screen{width: 80}, options{}}, "120": {screen{width: 120}, options{}},
		"pipe": {screen{}, options{}}, "80-colour": {screen{width: 80, color: true}, options{}},
		"80-verbose": {screen{width: 80}, options{verbose: true}}, "80-quiet": {screen{width: 80}, options{quiet: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			for line := range strings.SplitSeq(auditHead(night()), "\n") {
				for _, part := range c.s.give(visible(line), c.s.width, cutWrap) {
					got.WriteString(part + "\n")
				}
			}
			table := c.o.auditTable(night())
			got.WriteString(table.lay(c.s))
			golden(t, filepath.Join("testdata/audit", name+".golden"), got.String())
		})
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// A line that begins as a command does is one that meshgen says: whatever names there
// are, and however narrow the screen.
func TestOnlyACommandLooksLikeOne(t *testing.T) {
	commands := map[string]bool{}
	for _, list := range [][]audit.Finding{night().Findings, night().Held} {
		for _, f := range list {
			commands["    $ "+f.Fix] = true
		}
	}
	for width := 20; width <= 130; width++ {
		table := (&options{verbose: true}).auditTable(night())
		for line := range strings.Lines(table.lay(screen{width: width})) {
			if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "    $") && !commands[line] || strings.HasPrefix(line, "$") || strings.HasPrefix(line, "  $") {
				t.Errorf("at %d columns: %q", width, line)
			}
		}
	}
}
