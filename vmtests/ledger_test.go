//go:build systemd

package vmtests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"meshgen/state"
)

// compact compacts the machine's ledger, and brings the log that was set aside.
func (v *Machine) compact() {
	v.t.Helper()
	l := state.NewLayout(v.t.TempDir(), "")
	text := v.ReadFile("/var/lib/meshgen/ledger")
	if err := os.MkdirAll(l.State, 0o700); err != nil {
		v.t.Fatal(err)
	}
	if err := os.WriteFile(l.Ledger(), []byte(text), 0o600); err != nil {
		v.t.Fatal(err)
	}
	ledger, err := state.OpenLedger(l, "")
	if err != nil {
		v.t.Fatal(err)
	}
	if err := ledger.Compact(); err != nil {
		v.t.Fatal(err)
	}
	for _, name := range []string{"ledger.1", "ledger"} {
		data, err := os.ReadFile(filepath.Join(l.State, name))
		if err != nil {
			v.t.Fatal(err)
		}
		v.WriteFile("/var/lib/meshgen/"+name, string(data))
	}
}

// A ledger is compacted between two switches. The next has nothing to do, one
// that renames knows what to stop and to remove, and the history goes on.
func TestSwitchGoesOnFromACompactedLedger(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(forge("", "/etc/gitea/app.ini"))
	v.Switch()
	v.compact()
	if r := v.Exec("meshgen", "plan", "--exit-code"); r.Code != 0 || r.Stdout != "nothing to do\n" {
		t.Errorf("plan --exit-code after the compaction: %+v", r)
	}

	v.WriteManifest(forge("gitea", "/etc/gitea/gitea.ini"))
	v.Switch()
	v.mustRun("gitea")
	v.mustBeGone("forge-gitea-server.service")
	if v.Exists("/etc/gitea/app.ini") {
		t.Error("the config file that a record names was not removed")
	}
	history := v.Run("meshgen", "history")
	if strings.Count(history, "  done  ") != 2 {
		t.Errorf("history is\n%s", history)
	}
	v.mustBeSwept()
}
