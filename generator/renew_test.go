package generator

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"meshgen/state"
	"meshgen/units"
)

// stored is the text of a service that a converter made of a Quadlet of ours.
func stored(id, by string) string {
	return "[X-Meshgen]\nResource=m/container/" + id + "\n\n[Unit]\nSourcePath=/etc/meshgen/current/quadlet/" + id + ".container\n" +
		"\n[Service]\nExecStart=podman run " + by + "\n# 1"
}

// madeBy puts generation 1 in force: a plain unit, p.service, and containers, of which
// a converter that is no longer there made services.
func (m machine) madeBy(maker string, containers ...string) {
	m.Helper()
	given := []Given{{"p.service", []string{"multi-user.target.wants/p.service"}, "[Service]\nExecStart=/bin/p\n# 1"}}
	tree := state.Tree{Files: map[string][]byte{ConvertedFile: []byte(maker + "\n")}}
	for _, id := range containers {
		given = append(given, Given{id + ".service", []string{"multi-user.target.wants/" + id + ".service"}, stored(id, "old")})
		tree.Files["quadlet/"+id+".container"] = []byte("[X-Meshgen]\nResource=m/container/" + id + "\n\n[Container]\nImage=localhost/x\n")
	}
	tree.Files[UnitsFile] = FormatUnits(given)
	if err := state.WriteGeneration(m.layout, state.Generation{Number: 1}, tree, 0); err != nil {
		m.Fatal(err)
	}
	m.current(1)
}

// mustRun sees what systemd is given for two containers and a plain unit: which
// podman each of the containers is to be run by. It returns what was told.
func (m machine) mustRun(a, b string) error {
	m.Helper()
	dir := m.TempDir()
	err := Replay(m.layout, Dirs{Normal: dir, Early: dir, Late: dir})
	for unit, by := range map[string]string{"a": a, "b": b} {
		text, err := os.ReadFile(filepath.Join(dir, unit+".service"))
		if err != nil || !strings.Contains(string(text), "\nExecStart=podman run "+by+"\n") {
			m.Errorf("%s.service is %q, error %v; want it run by the %s one", unit, text, err, by)
		}
	}
	for _, name := range []string{"p.service", "multi-user.target.d/50-meshgen-wants.conf"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			m.Error(err)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 4 {
		m.Errorf("systemd is given %v", entries)
	}
	return err
}

// makes is a converter that makes services of all Quadlets.
const makes = `
for q in "$QUADLET_UNIT_DIRS"/*.container; do
	name=$(basename "$q" .container)
	{ cat "$q"; printf '\n[Unit]\nSourcePath=%s\n\n[Service]\nExecStart=podman run new\n' "$q"; } >"$2/$name.service"
	mkdir -p "$2/multi-user.target.wants"
	ln -s ../$name.service "$2/multi-user.target.wants/$name.service"
done
`

// A machine whose converter is another than the one that made the generation gets
// what that makes of it, and nothing else of it is read anew.
func TestReplayConvertsAnewForAnotherConverter(t *testing.T) {
	m := newMachine(t)
	m.madeBy("another", "a", "b")
	m.converter(makes)
	if err := m.mustRun("new", "new"); err != nil {
		t.Error(err)
	}
	// Where it is the very one, it is not asked.
	m = newMachine(t)
	m.converter("exit 1")
	c, _ := FindConverter(m.layout.Root)
	m.madeBy(Maker(c.Fingerprint()), "a", "b")
	if err := m.mustRun("old", "old"); err != nil {
		t.Error(err)
	}
	// One that is not there changes nothing.
	m = newMachine(t)
	m.madeBy("another", "a", "b")
	if err := m.mustRun("old", "old"); err != nil {
		t.Error(err)
	}
}

// What another converter cannot do, or does wrong, is given as it is stored, and told.
func TestReplayFallsBackOnWhatIsStored(t *testing.T) {
	const both = "generation 1: given as it is stored: "
	for name, c := range map[string]struct{ body, says, a, b string }{
		"it dies":                  {"kill -SEGV $$", both, "old", "old"},
		"it fails without a word":  {"exit 1", both, "old", "old"},
		"it is no program":         {"\x00\x01", both, "old", "old"},
		"it refuses one":           {makes + `rm "$2/b.service"; echo 'quadlet-generator[1]: converting "b.container": no' >&2; exit 1`, "quadlet/b.container: given as it is stored: no", "new", "old"},
		"it makes a mask of one":   {makes + `: >"$2/b.service"`, "b.service: given as it is stored: ", "new", "old"},
		"it makes garbage of one":  {makes + `head -c 5000 /dev/urandom >"$2/b.service"`, "b.service: given as it is stored: ", "new", "old"},
		"it makes a pipe of one":   {makes + `rm "$2/b.service"; mkfifo "$2/b.service"`, both, "old", "old"},
		"it makes one of its own":  {makes + `cp "$2/a.service" "$2/x.service"`, "x.service: made by ", "new", "new"},
		"it talks without an end":  {`exec yes >&2`, both, "old", "old"},
		"it hangs":                 {"exec sleep 600", both, "old", "old"},
		"what it started hangs on": {"sleep 600 & sleep 600", both, "old", "old"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.madeBy("another", "a", "b")
			m.converter(c.body)
			begin := time.Now()
			err := m.mustRun(c.a, c.b)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that says %q", err, c.says)
			}
			if took := time.Since(begin); took > renewDeadline+10*time.Second {
				t.Errorf("took %s", took)
			}
			mustWarn(t, err)
		})
	}
}

// mustWarn sees that all that is told was made up for.
func mustWarn(t *testing.T, err error) {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%v is not joined", err)
	}
	for _, e := range joined.Unwrap() {
		if _, ok := errors.AsType[Warning](e); !ok {
			t.Errorf("%v is no warning", e)
		}
	}
}

// What is converted anew is guarded as what a switch had converted.
func TestReplayGuardsWhatItConvertsAnew(t *testing.T) {
	m := newMachine(t)
	m.madeBy("another", "a")
	ours := "[X-Meshgen]\nResource=m/container/a\n\n[Container]\nContainerName=ant\nImage=localhost/x\n"
	m.write("etc/meshgen/generations/1/quadlet/a.container", ours)
	m.converter(makes)
	dir := t.TempDir()
	if err := Replay(m.layout, Dirs{Normal: dir, Early: dir, Late: dir}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "a.service"))
	if err != nil || !strings.HasPrefix(string(text), units.Guarded(ours, GuardProgram)) ||
		!strings.Contains(string(text), "\nSourcePath="+"/etc/meshgen/generations/1/quadlet/a.container\n") {
		t.Errorf("a.service is %q, error %v", text, err)
	}
}
