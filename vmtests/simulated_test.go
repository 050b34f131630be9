//go:build systemd

package vmtests

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"meshgen/internal/simulated/scenario"
)

// The simulated machine, on which histories are played by the thousand, is held
// against this one by the same table.
func TestRealMachineGoesAsTheSimulatedOne(t *testing.T) {
	for _, s := range scenario.All() {
		t.Run(s.Name, func(t *testing.T) {
			for _, fault := range scenario.Play(&played{Machine: Boot(t)}, s) {
				t.Error(fault)
			}
		})
	}
}

// played has a scenario played on a machine.
type played struct {
	*Machine
	transitions []string
}

func (v *played) Do(words []string, text string) error {
	last := words[len(words)-1]
	switch words[0] {
	case "switch":
		return v.switchTo(text)
	case "release":
		return v.switchTo(text, last)
	case "write":
		v.WriteFile(last, text)
	case "cut":
		v.PowerCut()
		v.Boot("ant.service") // the one that the table has in the way of something
	case "remove":
		return v.try("rm", last)
	case "keep":
		return v.try("cp", "/run/systemd/generator/"+last, "/run/systemd/system/")
	case "reload":
		return v.try("systemctl", "daemon-reload")
	case "start", "stop", "mask":
		return v.try("systemctl", words[0], last)
	case "run":
		command := append([]string{"podman", "run", "--detach", "--name=" + last}, words[1:len(words)-1]...)
		if !strings.Contains(strings.Join(words, " "), "--publish=") {
			command = append(command, "--network=none")
		}
		return v.try(append(command, "localhost/probe:2")...)
	case "rename":
		return v.try("podman", "rename", words[1], last)
	case "pause":
		return v.endContainer("stop", last)
	case "resume":
		return v.try("podman", "start", last)
	case "update":
		return v.try("podman", "update", "--restart="+last, words[1])
	case "rm":
		return v.endContainer("rm", "--force", last)
	case "network-rm", "network-create", "volume-rm", "volume-create":
		kind, act, _ := strings.Cut(words[0], "-")
		return v.try("podman", kind, act, last)
	default:
		return errors.New(words[0] + ": no act")
	}
	return nil
}

// endContainer has podman stop or remove one, and returns once the unit that ran the container has heard of it,
// which takes a moment.
func (v *Machine) endContainer(command ...string) error {
	v.t.Helper()
	name := command[len(command)-1]
	unit := strings.TrimSpace(v.Run("podman", "container", "inspect", `--format={{index .Config.Labels "PODMAN_SYSTEMD_UNIT"}}`, name))
	if r := v.Exec(append([]string{"podman"}, command...)...); r.Code != 0 {
		return errors.New(r.Stderr)
	}
	if unit != "" {
		v.Await(unit+" is down", func() bool { return v.Show(unit, "ActiveState")["ActiveState"] == "inactive" })
	}
	return nil
}

func (v *played) try(args ...string) error {
	if r := v.Exec(args...); r.Code != 0 {
		return errors.New(r.Stderr)
	}
	return nil
}

func (v *played) switchTo(body string, release ...string) error {
	v.WriteManifest(scenario.Manifest(body))
	command := []string{"meshgen", "switch", "--json"}
	if len(release) > 0 {
		command = append([]string{"meshgen", "release", "--json"}, release...)
	}
	r := v.Exec(command...)
	var doc struct {
		Transitions []struct{ Kind, Resource string } `json:"transitions"`
	}
	if err := json.Unmarshal([]byte(r.Stdout), &doc); err != nil {
		return errors.New(r.Stdout + r.Stderr)
	}
	v.transitions = nil
	for _, t := range doc.Transitions {
		v.transitions = append(v.transitions, t.Kind+" "+t.Resource)
	}
	if r.Code != 0 {
		return errors.New(r.Stdout + r.Stderr)
	}
	return nil
}

// lines are those of a command's output, in order.
func (v *played) lines(args ...string) []string {
	out := strings.Split(strings.TrimSpace(v.Run(args...)), "\n")
	out = slices.DeleteFunc(out, func(line string) bool { return line == "" || line == "podman" })
	slices.Sort(out)
	return out
}

func (v *played) Containers() []string {
	list := v.lines("podman", "ps", "--all", "--format={{.Names}} {{.Image}} {{.State}}")
	for i, line := range list {
		words := strings.Fields(line)
		if words[2] != "running" {
			words[2] = "dead"
		}
		list[i] = strings.Join(words, " ")
	}
	return list
}

func (v *played) Container(name string) (id, restart string) {
	r := v.Exec("podman", "container", "inspect", "--format={{.ID}} {{.HostConfig.RestartPolicy.Name}}", name)
	id, restart, _ = strings.Cut(strings.TrimSpace(r.Stdout), " ")
	return id, restart
}

func (v *played) Networks() []string { return v.lines("podman", "network", "ls", "--format={{.Name}}") }

func (v *played) Volumes() []string { return v.lines("podman", "volume", "ls", "--format={{.Name}}") }

func (v *played) Unit(name string) string {
	var state map[string]string
	v.Await(name+" is at rest", func() bool {
		state = v.Show(name, "LoadState", "ActiveState")
		return state["ActiveState"] != "deactivating" && state["ActiveState"] != "activating"
	})
	return state["LoadState"] + " " + state["ActiveState"]
}

func (v *played) File(path string) string { return v.Exec("cat", path).Stdout }

func (v *played) Transitions() []string { return v.transitions }
