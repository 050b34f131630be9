package state

import (
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// compactIn names the root of the node whose ledger a process of its own is to
// compact.
const compactIn = "MESHGEN_TEST_COMPACT"

// TestCompactsInAProcessOfItsOwn is the process that is killed below.
func TestCompactsInAProcessOfItsOwn(t *testing.T) {
	root := os.Getenv(compactIn)
	if root == "" {
		t.Skip("not asked to")
	}
	runtime.LockOSThread() // strace counts the calls of each thread
	if err := reopen(t, NewLayout(root, "")).Compact(); err != nil {
		t.Fatal(err)
	}
}

// A compaction is killed before each system call by which it changes anything.
// The ledger is there, says what it said, and the next compaction makes one
// copy of the old log and no more.
func TestCompactionSurvivesKills(t *testing.T) {
	if err := exec.CommandContext(t.Context(), "strace", "-f", "-o", "/dev/null", "true").Run(); err != nil {
		t.Skipf("no strace: %v", err)
	}
	for _, call := range []string{"write", "fsync", "linkat", "renameat,renameat2", "unlinkat"} {
		kills := 0
		for killCompaction(t, call, kills+1) {
			kills++
		}
		t.Logf("killed %d times before %s", kills, call)
		if kills == 0 {
			t.Errorf("never killed before %s", call)
		}
	}
}

// killCompaction reports whether a compaction was killed before its nth call.
func killCompaction(t *testing.T, call string, n int) (killed bool) {
	t.Helper()
	l, ledger := history(t, 1)
	appendAll(t, ledger, []Event{{Kind: EventFind, Target: "container:web", Why: "running"}})
	told := story(t, l)
	inject := "inject=" + call + ":signal=SIGKILL:when=" + strconv.Itoa(n)
	cmd := exec.CommandContext(t.Context(), "strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace="+call, "-e", inject,
		os.Args[0], "-test.run=^TestCompactsInAProcessOfItsOwn$")
	cmd.Env = append(os.Environ(), compactIn+"="+l.Root)
	out, err := cmd.CombinedOutput()
	if err != nil && !strings.Contains(err.Error(), "killed") {
		t.Fatalf("%s %d: %v\n%s", call, n, err, out)
	}
	for range 2 {
		after := reopen(t, l)
		if !reflect.DeepEqual(after.Records(), ledger.Records()) || !reflect.DeepEqual(story(t, l), told) {
			t.Fatalf("%s %d: after the kill the ledger is another", call, n)
		}
		if names := strings.Join(files(t, l), " "); strings.Contains(names, "ledger.2") {
			t.Fatalf("%s %d: there are %s", call, n, names)
		}
		if _, err := os.Lstat(l.Ledger() + ".1"); err == nil && after.after.Log == 1 {
			break
		}
		if err := after.Compact(); err != nil {
			t.Fatalf("%s %d: compact again: %v", call, n, err)
		}
	}
	return err != nil
}
