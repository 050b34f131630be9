//go:build systemd

package vmtests

import (
	"encoding/json"
	"os/exec"
	"strconv"
	"testing"
)

// Every scenario that a machine of any kind has to go by is played on this one.
func TestScenarios(t *testing.T) {
	for _, s := range scenarios(t) {
		t.Run(s.Name, func(t *testing.T) { Boot(t).play(s) })
	}
}

// listed is one of those that the program of that name plays.
type listed struct {
	Name string
	Then []string // what comes after each step
}

// scenarios asks the program for all that it has.
func scenarios(t *testing.T) []listed {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "run", "./cmd/scenario", "list", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []listed
	if err := json.Unmarshal(out, &all); err != nil || len(all) == 0 {
		t.Fatalf("%d scenarios: %v", len(all), err)
	}
	return all
}

// play plays a scenario to its end, or to the first step that does not go as it
// should.
func (v *Machine) play(s listed) {
	v.t.Helper()
	for i, then := range s.Then {
		v.t.Log(v.Run("scenario", s.Name, strconv.Itoa(i+1)))
		switch then {
		case "nothing":
		case "power cut":
			v.PowerCut()
			v.Boot()
		case "reboot":
			v.PowerOff()
			v.Boot()
		default:
			v.t.Fatalf("%s: nobody knows what that is", then)
		}
	}
}
