package apply_test

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"meshgen/internal/simulated"
	"meshgen/state"
	"meshgen/units"
)

// found is what came by hand and is not of meshgen.
type found struct {
	serial     int
	containers map[string]simulated.Container
	networks   map[string]string // ids
	volumes    map[string]int
	files      map[string]string // contents, by path; unit files and Quadlets too
	units      map[string]bool   // services that they define
	masks      map[string]bool   // units
}

func newFound() found {
	return found{
		containers: map[string]simulated.Container{}, networks: map[string]string{}, volumes: map[string]int{},
		files: map[string]string{}, units: map[string]bool{}, masks: map[string]bool{},
	}
}

// none reports whether nothing was found that could be in the way.
func (f found) none() bool {
	return len(f.containers)+len(f.networks)+len(f.volumes)+len(f.files)+len(f.units) == 0
}

// reboot notes that what was found does not run any more, unless it comes by
// itself.
func (f found) reboot(h *simulated.Host) {
	for _, c := range h.Containers() {
		if was, ok := f.containers[c.Name]; ok && was.ID == c.ID {
			f.containers[c.Name] = c
		}
	}
}

// astray ends the name of a container of ours that was renamed by hand.
const astray = "-astray"

// happen is a step that is not of meshgen.
func (p *play) happen(words []string) {
	name := words[len(words)-1]
	if words[0] == "reboot" {
		p.reboot()
		return
	}
	p.boots = true
	defer func() { p.boots = false }()
	were := map[string]bool{}
	for _, d := range p.inForce() {
		were[d.base()] = p.isUp(d)
	}
	switch words[0] {
	case "hand", "gone":
		p.hand(words[0], words[1], name)
	case "rename": // one of ours, by podman
		c := slices.IndexFunc(p.host.Containers(), func(c simulated.Container) bool { return c.Name == name && p.isKept(c.ID) })
		if _, found := p.found.containers[name]; !found && c < 0 {
			_ = p.host.RenameContainer(name, name+astray) // it may not be there
		}
	case "edit", "delete":
		p.meddle(words[0], name)
	case "stop":
		_ = p.host.Stop(name) // it may be down
	case "start":
		_ = p.host.Start(name) // it may not be there
		delete(p.down, strings.TrimSuffix(name, ".service"))
	case "die":
		p.host.Exit(name)
	case "fail":
		p.host.Fail(name)
	case "mask":
		if p.found.files["/etc/systemd/system/"+name] == "" {
			p.found.masks[name] = p.host.Mask(name) == nil || p.found.masks[name]
		}
	case "unmask":
		p.must(p.host.Unmask(name))
		delete(p.found.masks, name)
	case "restart":
		if c, found := p.found.containers[name]; found && c.Unit == "" {
			p.must(p.host.UpdateContainer(name, "always"))
			c.Restart = "always"
			p.found.containers[name] = c
		}
	default:
		p.Fatalf("no step: %q", words)
	}
	p.noteDown(func(d declaration) bool { return were[d.base()] && !p.died })
	p.noteOwners()
	p.always()
}

// noteOwners notes what the owner's own services run by now.
func (p *play) noteOwners() {
	maps.DeleteFunc(p.found.containers, func(_ string, c simulated.Container) bool { return c.Unit != "" })
	for _, c := range p.host.Containers() {
		if p.found.units[c.Unit] && c.Labels[units.MarkLabel] == "" {
			p.found.containers[c.Name] = c
		}
	}
}

// hand has something come, by verb hand, or go, by verb gone.
func (p *play) hand(verb, kind, name string) {
	comes := verb == "hand"
	switch kind {
	case "container":
		if _, ok := p.found.containers[name]; ok && !comes {
			p.host.RemoveContainer(name)
			delete(p.found.containers, name)
		}
		if comes && p.host.RunContainer(name, "localhost/probe:2") == nil {
			i := slices.IndexFunc(p.host.Containers(), func(c simulated.Container) bool { return c.Name == name })
			p.found.containers[name] = p.host.Containers()[i]
		}
	case "network":
		if _, ok := p.found.networks[name]; ok && !comes && p.host.RemoveNetwork(name) == nil {
			delete(p.found.networks, name)
		}
		if comes && p.host.CreateNetwork(name, "") == nil {
			for _, n := range p.host.Networks() {
				if n.Name == name {
					p.found.networks[name] = strconv.Itoa(n.Born)
				}
			}
		}
	case "volume":
		if _, ok := p.found.volumes[name]; ok && !comes && p.host.RemoveVolume(name) == nil {
			delete(p.found.volumes, name)
			delete(p.born, name)
		}
		if comes && p.host.CreateVolume(name) == nil {
			for _, v := range p.host.Volumes() {
				if v.Name == name {
					p.found.volumes[name] = v.Born
				}
			}
		}
	case "file":
		p.handFile(verb, name, "found "+name+p.another()+"\n")
	case "unit":
		p.ends(verb, name)
		p.handFile(verb, "/etc/systemd/system/"+name, "# unit"+p.another()+"\n[Service]\nExecStart=/usr/bin/sleep inf\n")
		p.define(name)
	case "quadlet":
		p.ends(verb, name+".service")
		p.handFile(verb, "/etc/containers/systemd/"+name+".container", "# quadlet"+p.another()+"\n[Container]\nImage=localhost/probe:2\nContainerName=found-"+name+"\n")
		p.define(name + ".service")
	}
}

// another tells what comes by hand from what came before.
func (p *play) another() string {
	p.found.serial++
	return " " + strconv.Itoa(p.found.serial)
}

func (p *play) handFile(verb, path, text string) {
	comes := verb == "hand"
	at := p.host.Layout.Path(path)
	if p.found.files[path] != "" && !comes {
		p.must(os.Remove(at))
		delete(p.found.files, path)
	}
	if _, err := os.Lstat(at); comes && os.IsNotExist(err) {
		p.must(os.MkdirAll(filepath.Dir(at), 0o755))
		p.must(os.WriteFile(at, []byte(text), 0o644))
		if l := p.ledgerOrNone(); l != nil {
			if r, ok := l.Record(units.Of(units.TargetFile, path)); ok && r.State == state.Live {
				return // one of ours, by other hands
			}
		}
		p.found.files[path] = text
	}
}

// ends stops a service of the owner's whose definition goes.
func (p *play) ends(verb, service string) {
	if verb == "gone" && p.found.units[service] {
		p.must(p.host.Stop(service))
	}
}

// define has systemd read its units again, after one of the owner's came or went.
func (p *play) define(service string) {
	base := strings.TrimSuffix(service, ".service")
	delete(p.found.units, service)
	if p.found.files["/etc/systemd/system/"+service] != "" || p.found.files["/etc/containers/systemd/"+base+".container"] != "" {
		p.found.units[service] = true
	}
	p.must(p.host.Reload())
}

// meddle changes or removes a file of ours.
func (p *play) meddle(how, path string) {
	at := p.host.Layout.Path(path)
	if _, err := os.Lstat(at); err != nil || p.found.files[path] != "" {
		return
	}
	if how == "delete" {
		p.must(os.Remove(at))
		return
	}
	p.must(os.WriteFile(at, []byte(byOtherHands), 0o644))
}

const byOtherHands = "by other hands\n"

// wants reports whether a found thing has a name that a resource wants, as far
// as the kind of target goes.
func (p *play) holds(t units.Target) string {
	switch t.Kind() {
	case units.TargetContainer:
		if _, ok := p.found.containers[t.Name()]; ok {
			return "a container"
		}
	case units.TargetNetwork:
		if _, ok := p.found.networks[t.Name()]; ok {
			return "a network"
		}
	case units.TargetVolume:
		if _, ok := p.found.volumes[t.Name()]; ok {
			return "a volume"
		}
	case units.TargetFile:
		if p.found.files[t.Name()] != "" {
			return "a file"
		}
	case units.TargetUnit:
		load, _ := p.host.UnitState(t.Name())
		if p.found.units[t.Name()] || load == "masked" {
			return "a definition"
		}
	}
	return ""
}

// untouched sees that what was found is as it was.
func (p *play) untouched() {
	now := map[string]simulated.Container{}
	for _, c := range p.host.Containers() {
		now[c.Name] = c
	}
	for name, c := range p.found.containers {
		if is := now[name]; is.ID != c.ID || is.Running != c.Running || cmp.Or(is.Restart, "no") != cmp.Or(c.Restart, "no") {
			p.Errorf("found container %s is another, or does not run, or not at boot", name)
		}
	}
	networks, volumes := map[string]string{}, map[string]int{}
	for _, n := range p.host.Networks() {
		networks[n.Name] = strconv.Itoa(n.Born)
	}
	for _, v := range p.host.Volumes() {
		volumes[v.Name] = v.Born
	}
	for name, id := range p.found.networks {
		if networks[name] != id {
			p.Errorf("found network %s is another or gone", name)
		}
	}
	for name, born := range p.found.volumes {
		if volumes[name] != born {
			p.Errorf("found volume %s is another or gone", name)
		}
	}
	for path, text := range p.found.files {
		now, err := os.ReadFile(p.host.Layout.Path(path))
		if err != nil || string(now) != text {
			p.Errorf("found file %s holds %q (%v)", path, now, err)
		}
	}
	for name := range p.found.masks {
		if to, err := os.Readlink(p.host.Layout.Path("/etc/systemd/system/" + name)); err != nil || to != os.DevNull {
			p.Errorf("the mask of %s is gone (%v)", name, err)
		}
	}
	for name, born := range p.born {
		if volumes[name] != born {
			p.Errorf("volume %s is lost", name)
		}
	}
	maps.Copy(p.born, volumes)
}
