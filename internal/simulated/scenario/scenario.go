// Package scenario has what must go alike on the simulated machine and on a real
// one: [All], a table of acts and of what is to be seen after each. [Play]
// plays one on a [Machine].
package scenario

import (
	"fmt"
	"slices"
	"strings"
)

// Machine is what a scenario is played on. An act that fails on the machine is
// no fault of the scenario's: whether it is to fail stands in the table.
type Machine interface {
	// Do does an act: see [Step].
	Do(words []string, text string) error
	// Containers are all, as "NAME IMAGE running" or "NAME IMAGE dead".
	Containers() []string
	// Container is podman's id of one, and its restart policy.
	Container(name string) (id, restart string)
	Networks() []string
	Volumes() []string
	// Unit is its LoadState and its ActiveState.
	Unit(name string) string
	// File is its content; "" where there is none.
	File(path string) string
	// Transitions are those of the last switch, as "KIND ADDRESS".
	Transitions() []string
}

// Scenario is a row of the table.
type Scenario struct {
	Name  string
	Steps []Step
}

// Step is an act, and what is to be seen after it. An act is one of
//
//	switch             Text is the body of module m
//	release TARGET     Text is the same; of what was adopted
//	write PATH         Text is the content
//	remove PATH
//	keep UNIT          what the generator made of it comes to /run/systemd/system
//	reload
//	start|stop|mask UNIT
//	run [OPTION] NAME  by podman, by hand, with its --volume or --publish
//	rename NAME TO     of a container, by podman, by hand
//	pause|resume NAME  podman stop and podman start of a container, by hand
//	update NAME POLICY podman update --restart, by hand
//	rm NAME            of a container, by podman, by hand
//	network-rm NAME    by podman, by hand, as are network-create, volume-rm and
//	                   volume-create
//	cut                the power goes, and comes back
type Step struct {
	Do    string
	Text  string
	Fails bool
	// What is nil is not looked at.
	Containers  []string
	Units       []string // "UNIT LOADSTATE ACTIVESTATE"
	Networks    []string
	Volumes     []string
	Files       []string // "PATH=CONTENT"
	Transitions []string
	Restart     []string // of containers, "NAME POLICY"
	// Note is a container whose id is to be known later. Same are two names: that of a
	// container now, and that under which it was noted.
	Note string
	Same []string
}

// Play plays a scenario and returns what went otherwise than the table says.
func Play(m Machine, s Scenario) (faults []string) {
	noted := map[string]string{} // ids
	for _, step := range s.Steps {
		fault := func(what string, got, want any) {
			faults = append(faults, fmt.Sprintf("%s: %s: %v, want %v", step.Do, what, got, want))
		}
		if err := m.Do(strings.Fields(step.Do), step.Text); (err != nil) != step.Fails {
			fault("ended", err, map[bool]string{true: "an error", false: "none"}[step.Fails])
		}
		for what, look := range map[string]struct {
			want []string
			now  func() []string
		}{
			"containers":  {step.Containers, m.Containers},
			"networks":    {step.Networks, m.Networks},
			"volumes":     {step.Volumes, m.Volumes},
			"transitions": {step.Transitions, m.Transitions},
		} {
			if step.want(look.want) {
				if got := look.now(); !slices.Equal(got, look.want) {
					fault(what, got, look.want)
				}
			}
		}
		if step.Note != "" {
			noted[step.Note], _ = m.Container(step.Note)
		}
		for _, want := range step.Restart {
			name, _, _ := strings.Cut(want, " ")
			if _, policy := m.Container(name); name+" "+policy != want {
				fault("restart policy", policy, want)
			}
		}
		for _, same := range step.Same {
			now, then, _ := strings.Cut(same, " ")
			if id, _ := m.Container(now); id == "" || id != noted[then] {
				fault("id of "+now, id, noted[then])
			}
		}
		for _, want := range step.Units {
			name, _, _ := strings.Cut(want, " ")
			if got := name + " " + m.Unit(name); got != want {
				fault("unit", got, want)
			}
		}
		for _, want := range step.Files {
			path, _, _ := strings.Cut(want, "=")
			if got := path + "=" + m.File(path); got != want {
				fault("file", got, want)
			}
		}
	}
	return faults
}

func (Step) want(list []string) bool { return list != nil }

// Manifest returns the manifest with this body of module m.
func Manifest(body string) string { return "package mesh\n\nmodules: m: {\n" + body + "\n}\n" }
