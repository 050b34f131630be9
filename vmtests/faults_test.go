//go:build systemd

package vmtests

import (
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// errnos are what a disk answers that is broken, full, or read-only.
var errnos = []string{"EIO", "ENOSPC", "EROFS"}

// harmless are the calls that may fail without a word, and why.
var harmless = []struct{ call, why string }{
	{"(ftruncate|pwrite64) /var/lib/meshgen/lock", "the pid in it only serves a message; the lock holds without it"},
	{"unlinkat (/etc/meshgen/generations/.staging|/run/(meshgen|systemd/system)/[^:]+)", "rmdir is tried next, and its answer is the one that counts: nothing is there, or it was a directory"},
	{"linkat /etc/meshgen/generations/.*", "where it cannot be a link to that of the generation before, it is a copy"},
	{"unlinkat /dev/shm/meshgen-quadlet-[0-9/a-z.-]+", "the converter's own directory, in memory"},
	{"mkdirat /dev/shm/meshgen-quadlet-[0-9-]+", "the converter works in /tmp where it cannot in memory"},
}

// A rename in which one call that changes or syncs a file fails, each in turn:
// the exit code tells, the message names what it was, the machine runs one set
// whole, and the next switch ends where an unbroken one would have.
func TestRenameWithAFailingDisk(t *testing.T) {
	r := newRig(t)
	total := len(r.calls())
	ran := 0
	for i, n := range points(t, total, 24) {
		for _, errno := range faults(i) {
			if r = r.sound(t); r.failsAt(n, errno) {
				ran++
			}
		}
	}
	t.Logf("failed %d times", ran)
}

// faults are the errors for the ith point: of a sample one in turn, else all.
func faults(i int) []string {
	if everyPoint() {
		return errnos
	}
	return errnos[i%len(errnos):][:1]
}

// failsAt has one call of a switch to the other side fail, and checks; false
// where the switch has fewer calls.
func (r *rig) failsAt(n int, errno string) bool {
	r.t.Helper()
	old := r.turn()
	res := r.Exec("nth", "-log=/run/nth.log", "-fail="+strconv.Itoa(n)+":"+errno, "meshgen", "switch")
	at := r.hit()
	wrong := func(format string, args ...any) {
		r.t.Helper()
		r.t.Errorf("call "+at+": exit "+strconv.Itoa(res.Code)+": "+format+"\n%s", append(args, indent(res.Stderr))...)
	}
	aim, is := r.sides[r.now].name, r.running()
	r.t.Logf("%s: exit %d, %s runs: %s", at, res.Code, map[string]string{old.name: "the old", aim: "the new"}[is], lastFault(res.Stderr))
	switch {
	case at == "" && res.Code != 0:
		wrong("nothing failed")
	case at == "":
	case res.Code == 0 && !mayFail(at):
		wrong("success is claimed")
	case res.Code != 0 && !names(res.Stderr, at):
		wrong("the message does not name the object")
	}
	if res.Code == 0 {
		r.mustBeWhole(wrong)
	}
	if n := strings.Count(res.Stderr, "hint:"); n > 1 {
		wrong("%d hints", n)
	}
	if want := map[int]string{0: aim, 3: old.name, 4: aim, 5: old.name}[res.Code]; is != want && (res.Code != 1 || is != old.name && is != aim) {
		wrong("what runs is %s", is)
	}
	if left := r.unnamed(); len(left) > 0 {
		wrong("not in the ledger: %q", left)
	}
	if by := r.bystanders(); by != r.by {
		wrong("what is not of meshgen has changed: %s", cmp.Diff(r.by, by))
	}
	if res := r.Exec("meshgen", "status"); res.Code != 0 {
		wrong("status: %+v", res)
	}
	if res := r.Exec("meshgen", "switch"); res.Code != 0 {
		wrong("the next switch: %+v", res)
	}
	r.mustBeWhole(wrong)
	r.noOverlap()
	return at != ""
}

func mayFail(call string) bool {
	for _, h := range harmless {
		if regexp.MustCompile(`^\d+ ` + h.call + `: `).MatchString(call) {
			return true
		}
	}
	return false
}

// names reports whether a message names what a call was on: a path of it, or
// the directory where that is a temporary's.
func names(message, call string) bool {
	call, _, _ = strings.Cut(call, ": ")
	for _, object := range strings.Fields(call)[2:] {
		if strings.HasPrefix(path.Base(object), ".meshgen-") {
			object = path.Dir(object)
		}
		if object != "->" && strings.Contains(message, object) {
			return true
		}
	}
	return false
}

// lastFault is the line of a message that says what failed.
func lastFault(stderr string) string {
	for line := range strings.Lines(stderr) {
		if strings.Contains(line, "error") || strings.Contains(line, "space") || strings.Contains(line, "read-only") {
			return strings.TrimSpace(line)
		}
	}
	return strconv.Quote(stderr)
}

func indent(text string) string {
	return "  | " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  | ")
}
