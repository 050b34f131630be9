//go:build systemd

package vmtests

import (
	"fmt"
	"strings"
	"testing"
)

// many declares a container and so many config files, each of this content.
func many(files int, content string) string {
	return fmt.Sprintf(`package mesh

import "list"

modules: m: {
	containers: x: Container: {Image: "localhost/probe:1", Network: "none"}
	files: {for i in list.Range(0, %d, 1) {"f\(i)": {path: "/etc/many/d\(mod(i, 10))/f\(i).conf", content: %q}}}
}
`, files, content)
}

// The syncs of a switch do not grow with the number of its files, whether they
// are written, changed, or removed.
func TestSyncsDoNotGrowWithTheFiles(t *testing.T) {
	few, lots := syncs(t, 10), syncs(t, 1000)
	for what, n := range few {
		t.Logf("%s: %d syncs for 10 files, %d for 1000", what, n, lots[what])
		if n == 0 || lots[what] > n {
			t.Errorf("%s: %d syncs for 10 files, %d for 1000", what, n, lots[what])
		}
	}
}

// syncs returns how many calls sync the disk in switches that write, change
// and remove so many files.
func syncs(t *testing.T, files int) map[string]int {
	t.Helper()
	v := Boot(t)
	count := map[string]int{}
	for _, step := range []struct{ what, manifest string }{
		{"written", many(files, "one")}, {"changed", many(files, "two")}, {"removed", many(0, "")},
	} {
		v.WriteManifest(step.manifest)
		for _, call := range v.changes() {
			if name := strings.Fields(call)[1]; strings.Contains(name, "sync") {
				count[step.what]++
			}
		}
		if got := strings.Count(v.Run("find", "/etc", "-name", "f*.conf", "-path", "/etc/many/*"), "\n"); step.what != "removed" && got != files {
			t.Fatalf("%d files are there, not %d", got, files)
		}
	}
	return count
}

// changes runs a switch and returns the calls by which it changes files.
func (v *Machine) changes() []string {
	v.t.Helper()
	v.Run("nth", "-log=/run/nth.log", "meshgen", "switch")
	return strings.Split(strings.TrimSpace(v.ReadFile("/run/nth.log")), "\n")
}

// A switch with nothing to do syncs nothing and writes nothing but its pid into
// the lock; of what a killed one may have left it unlinks what is not there.
func TestSwitchWithNothingToDoMakesNoChange(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(many(10, "one"))
	v.Switch()
	written := v.times()
	for _, call := range v.changes() {
		fields := strings.Fields(call)
		name, path := fields[1], fields[2]
		if path != "/var/lib/meshgen/lock" && name != "unlinkat" {
			t.Errorf("%s", call)
		}
	}
	if now := v.times(); now != written {
		t.Errorf("something was written:\n%s\nwas\n%s", now, written)
	}
}

// times is when anything was last changed of what a switch may write, but for
// its lock.
func (v *Machine) times() string {
	v.t.Helper()
	return v.Run("find", "/etc", "/var/lib/meshgen", "/run/systemd/system", "-not", "-name", "lock", "-printf", "%p %C@ %i\n")
}
