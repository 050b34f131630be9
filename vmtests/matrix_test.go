//go:build systemd

package vmtests

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// everyPoint has a matrix run at all of its points, each in every way, which
// takes about an hour: make crash-test.
func everyPoint() bool { return os.Getenv("MESHGEN_EVERY_POINT") == "1" }

// points are the numbers of the calls that are to be hit, of so many: all of
// them and a few beyond, should a switch have more, or about as many as sampled,
// evenly, and the same ones each time: one that goes wrong now and then would tell
// nothing of the change that is tested. $MESHGEN_POINTS, two numbers with a dash between,
// has those from the one to the other.
func points(t testing.TB, total, sampled int) []int {
	t.Helper()
	first, last, step := 1, total+total/20, 1
	if asked := os.Getenv("MESHGEN_POINTS"); asked != "" {
		if _, err := fmt.Sscanf(asked, "%d-%d", &first, &last); err != nil {
			t.Fatalf("MESHGEN_POINTS=%s: %v", asked, err)
		}
	} else if !everyPoint() {
		step = (total + sampled - 1) / sampled
		first += step / 2
	}
	var points []int
	for n := first; n <= last; n += step {
		points = append(points, n)
	}
	t.Logf("%d calls, hit at %d of them: every %d from %d on", total, len(points), step, first)
	return points
}

// A rename is killed at every call that changes a file or talks to systemd,
// before the call takes effect, every other time with the power cut as well.
// Whatever is there is in the ledger, what is not of meshgen is as it was, the
// machine boots one set whole, and the next switch ends where an unbroken one
// would have.
func TestRenameKilledAtEveryCall(t *testing.T) {
	r := newRig(t)
	total := len(r.calls("-bus"))
	ran := 0
	for i, n := range points(t, total, 36) {
		for _, power := range reboots(i) {
			r = r.sound(t)
			at := r.killAt("-kill=" + strconv.Itoa(n))
			if at != "" {
				ran++
			}
			r.goesOn(at, power)
		}
	}
	t.Logf("killed %d times", ran)
}

// The moments at which most hangs on the next call, each without and with a
// power cut.
func TestRenameKilledAtTheWorstMoments(t *testing.T) {
	r := newRig(t)
	for _, only := range []string{
		"openat /dev/shm/meshgen-quadlet",            // the converter is at work
		"renameat /etc/meshgen/generations/.staging", // the new generation is complete
		"write /var/lib/meshgen/ledger",              // the intent
		"-> /etc/meshgen/pending",
		"-> /etc/gitea/kept.ini",
		"-> /etc/meshgen/current",
		"StartUnit",                     // the hand-over
		"50-meshgen-fence.conf",         // made for the bridge
		" Reload",                       // systemd has the old names still
		"unlinkat /etc/gitea/",          // the old file
		"unlinkat /etc/meshgen/pending", // all is done
	} {
		for _, power := range []bool{false, true} {
			r = r.sound(t)
			at := r.killAt("-only="+only, "-kill=1")
			if at == "" {
				t.Errorf("no call has %q", only)
			}
			r.goesOn(at, power)
		}
	}
}

// A switch is killed just before and just after its set is in force, and the one
// that is to recover it is killed as well, at every call.
func TestRecoveryKilledAtEveryCall(t *testing.T) {
	r := newRig(t)
	total := 0
	for _, only := range []string{"-> /etc/meshgen/current", "StartUnit"} {
		r.killAt("-only="+only, "-kill=1")
		r.Run("nth", "-bus", "-log=/run/nth.log", "meshgen", "switch")
		total = max(total, len(strings.Split(strings.TrimSpace(r.ReadFile("/run/nth.log")), "\n")))
	}
	for i, n := range points(t, total, 12) {
		r = r.sound(t)
		first := r.killAt("-only="+[]string{"-> /etc/meshgen/current", "StartUnit"}[i%2], "-kill=1")
		r.Exec("nth", "-bus", "-log=/run/nth.log", "-kill="+strconv.Itoa(n), "meshgen", "switch")
		if second := r.hit(); second != "" {
			r.goesOn(first+", then "+second, false)
		} else {
			r.goesOn(first, false)
		}
	}
}

// reboots says for the ith point whether the power is to be cut: of a sample for
// every other one, else for each once without and once with.
func reboots(i int) []bool {
	if everyPoint() {
		return []bool{false, true}
	}
	return []bool{i%2 == 1}
}

// killAt kills a switch to the other side at the call that nth's flags tell, and
// returns the call; "" where there is none.
func (r *rig) killAt(flags ...string) string {
	r.t.Helper()
	r.turn()
	res := r.Exec(slices.Concat([]string{"nth", "-bus", "-log=/run/nth.log"}, flags, []string{"meshgen", "switch"})...)
	at := r.hit()
	if (res.Code == 137) != (at != "") {
		r.t.Fatalf("%q: %q: %+v", flags, at, res)
	}
	return at
}

// goesOn has the power cut after a switch was killed, if so, and checks what the
// machine boots and what becomes of it.
func (r *rig) goesOn(at string, power bool) { //nolint:revive // one more step, no other way
	r.t.Helper()
	if power {
		at += ", and the power cut"
		r.cutPower(at)
	}
	r.recovers(at)
}

// cutPower reboots the machine after a switch was killed, and sees that one set
// runs whole.
func (r *rig) cutPower(at string) {
	r.t.Helper()
	r.reboot()
	if is := r.running(); is != r.sides[0].name && is != r.sides[1].name {
		r.t.Errorf("%s: boots neither set: %s", at, is)
	}
}

// recovers sees that a switch that was killed left nothing that it does not
// answer for, and that the next one carries it through.
func (r *rig) recovers(at string) {
	r.t.Helper()
	wrong := func(format string, args ...any) {
		r.t.Helper()
		r.t.Errorf("%s: %s", at, fmt.Sprintf(format, args...))
	}
	if left := r.unnamed(); len(left) > 0 {
		wrong("not in the ledger: %q", left)
	}
	if by := r.bystanders(); by != r.by {
		wrong("what is not of meshgen has changed: %s", cmp.Diff(r.by, by))
	}
	if res := r.Exec("meshgen", "switch"); res.Code != 0 {
		wrong("the next switch: %+v", res)
	}
	r.mustBeWhole(wrong)
	r.noOverlap()
	r.t.Logf("done: %s", at)
}
