package audit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"meshgen/internal/hint"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// meshgen is the owner of what is ours.
const meshgen = "meshgen"

// switchFix settles what a switch settles.
const switchFix = "meshgen switch"

// removal returns the command that ends an object and takes it away. podman gives
// what runs its stop timeout.
func removal(t units.Target, o host.Object) string {
	switch t.Kind() {
	case units.TargetContainer:
		return "podman rm --force --volumes " + operand(o.Name)
	case units.TargetPod:
		return "podman pod rm --force " + operand(o.Name)
	}
	return "podman " + t.Kind() + " rm " + operand(o.Name)
}

// undefine returns the command that stops a unit, all of a template, and puts its
// definition out of systemd's sight, and podman's. The text stays, under a name that
// neither reads.
func (j *joiner) undefine(unit, path string) string {
	const reload = " && systemctl daemon-reload"
	stop := "systemctl stop " + operand(unit)
	if prefix, suffix, ok := strings.Cut(unit, "@."); ok {
		stop = "systemctl stop " + operand(prefix+"@*."+suffix)
	}
	switch info, err := os.Lstat(j.Layout.Path(path)); {
	case !strings.Contains(path, "/systemd/system/"): // it is generated, and cannot be disabled
		return stop + " && " + putAway(path) + reload
	case err == nil && info.Mode()&os.ModeSymlink != 0:
		// To disable a unit that is linked takes the link away: it has to be down then.
		return stop + " && systemctl disable " + operand(unit) + " && rm --force " + hint.Quote(path) + reload
	}
	return "systemctl disable --now " + operand(unit) + " && " + putAway(path) + reload
}

func putAway(path string) string { return "mv " + hint.Quote(path) + " " + hint.Quote(path+".off") }

// unshadow returns the command that has our definition of a unit win again, and who
// has the one that wins now.
func (j *joiner) unshadow(t state.Transition) (fix, owner string) {
	name := t.To.Name()
	path := j.Definitions[name]
	if t.Change == state.Masked || path == "" {
		if path == "" {
			path = filepath.Join("/etc/systemd/system", name)
			if !lies(j.Layout.Path(path)) {
				path = filepath.Join("/run/systemd/system", name)
			}
		}
		return fmt.Sprintf("systemctl unmask %s && systemctl unmask --runtime %[1]s && systemctl start %[1]s", operand(name)), path
	}
	return putAway(path) + " && systemctl daemon-reload && systemctl restart " + operand(name), path
}

// refused returns the command that settles what no switch would put right by itself.
func (j *joiner) refused(t state.Transition) string {
	name := hint.Quote(t.To.Name())
	switch {
	case t.Change == state.Directory || t.Change == state.File || t.Change == state.Remade && t.To.Kind() == units.TargetFile:
		return "mv " + name + " " + hint.Quote(t.To.Name()+".off") + " && " + switchFix
	case t.To.Kind() == units.TargetVolume && t.Change == state.Gone:
		return "" // its data has to come from somewhere
	case t.Change == state.Remade && t.To.Kind() == units.TargetContainer:
		return "podman container rm --force " + name + j.restart(units.Unit(j.declared[t.To]))
	case t.Change == state.Remade && t.To.Kind() != units.TargetVolume:
		return "podman " + t.To.Kind() + " rm --force " + name + " && " + switchFix
	}
	return "" // the owner's to decide
}

// restart returns the rest of a command line that has a unit run, if it is to. A switch
// would not: its unit may have failed as its container was taken away, and what other
// hands took down stays down.
func (j *joiner) restart(unit string) string {
	if !j.unit[unit].Wanted && !j.Units[unit].Up() {
		return ""
	}
	return " && systemctl restart " + operand(unit)
}

// operand is quote of what a command takes and does not look into for options.
func operand(s string) string {
	if strings.HasPrefix(s, "-") {
		return "-- " + hint.Quote(s)
	}
	return hint.Quote(s)
}
