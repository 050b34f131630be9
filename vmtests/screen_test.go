//go:build systemd

package vmtests

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A unit fails twice, for two reasons, one is stopped by hand, one runs, one has done
// its work: status has the failed one first, with the words of its last run alone.
func TestStatusTellsWhatIsWrongFirst(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`units: {
		"a-runs.service": {name: "a-runs.service", Service: ExecStart: "/bin/sleep infinity", Install: WantedBy: "multi-user.target"}
		"b-idle.service": {name: "b-idle.service", Service: ExecStart: "/bin/sleep infinity"}
		"c-stopped.service": {name: "c-stopped.service", Service: ExecStart: "/bin/sleep infinity", Install: WantedBy: "multi-user.target"}
		"d-done.service": {name: "d-done.service", Service: {Type: "oneshot", ExecStart: "/bin/true"}, Install: WantedBy: "multi-user.target"}
		"e-fails.service": {name: "e-fails.service", Service: {ExecStart: "/bin/sh -c 'test -e /run/reason || exec sleep infinity; cat /run/reason; exit 3'"}, Install: WantedBy: "multi-user.target"}
	}`))
	v.Switch()
	for _, reason := range []string{"the first reason", "the second reason"} {
		v.WriteFile("/run/reason", reason+"\n")
		v.Run("systemctl", "restart", "e-fails.service")
		v.Await("it has failed", func() bool { return v.Show("e-fails.service", "ActiveState")["ActiveState"] == "failed" })
	}
	v.Run("systemctl", "stop", "c-stopped.service")

	var doc struct {
		Counts    map[string]int
		Resources []struct {
			Unit, Health, Result string
			Log                  []string
		}
	}
	if err := json.Unmarshal([]byte(v.Run("meshgen", "status", "--json")), &doc); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"active": 1, "failed": 1, "inactive": 2, "stopped": 1}, doc.Counts); diff != "" {
		t.Error(diff)
	}
	for _, r := range doc.Resources {
		if want := map[string]string{"c-stopped.service": "stopped", "e-fails.service": "failed"}[r.Unit]; r.Health != want {
			t.Errorf("%s is %q, want %q", r.Unit, r.Health, want)
		}
		if r.Unit == "e-fails.service" && (r.Result != "exit-code" || len(r.Log) > 3 || !slices.Contains(r.Log, "the second reason") || slices.Contains(r.Log, "the first reason")) {
			t.Errorf("of %s it says %q, and %q", r.Unit, r.Result, r.Log)
		}
	}
	shown := v.Run("meshgen", "status")
	failed, stopped, active := strings.Index(shown, "  failed "), strings.Index(shown, "  stopped "), strings.Index(shown, "  active ")
	if failed < 0 || stopped < failed || active < stopped {
		t.Errorf("not in the order of what matters:\n%s", shown)
	}
}

// A plan shows what changes, of a secret that it does and no more, also where its
// content stands in other things.
func TestPlanDiffNeverShowsASecret(t *testing.T) {
	v := Boot(t)
	declare := func(content string) {
		v.WriteManifest(single(`let pw = "` + content + `"
	secrets: pass: {name: "pass", content: pw}
	files: f: {path: "/etc/f.conf", content: "user = x\npassword = \(pw)\n"}
	containers: x: {name: "ant", Container: {Image: "localhost/probe:1", Network: "none", Environment: URL: "db://x:\(pw)@db"}}`))
	}
	declare("hunter2-old")
	v.Switch()
	declare("hunter3-new")
	for _, args := range [][]string{{"plan", "--diff"}, {"plan", "--diff=all"}, {"plan", "--diff=all", "--json", "--verbose"}} {
		out := v.Run(append([]string{"meshgen"}, args...)...)
		if strings.Contains(out, "hunter") || !strings.Contains(out, "content changes (keyed digest ") || !strings.Contains(out, "password = ‹secret pass›") {
			t.Errorf("%q:\n%s", args, out)
		}
	}
}
