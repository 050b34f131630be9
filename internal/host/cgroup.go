package host

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// PayloadEnded reports whether the container of a service has ended: whether
// nothing runs in the cgroup that podman makes for it below the service's, as it
// does with --cgroups=split, which Quadlet sets. The service outlives it by as
// long as podman takes to clean up, a tenth of a second or more.
func (s *Systemd) PayloadEnded(controlGroup string) bool {
	service := filepath.Join(cgroupMount, controlGroup)
	payloads, err := filepath.Glob(filepath.Join(service, "libpod-payload-*"))
	if err != nil {
		return false
	}
	for _, payload := range payloads {
		events, err := os.ReadFile(filepath.Join(payload, "cgroup.events")) //nolint:gosec // of the kernel's
		if err != nil || strings.Contains(string(events), "populated 1") {
			return false // cgroups(7)
		}
	}
	if len(payloads) > 0 {
		return true
	}
	// The container's cgroup goes before that of conmon, which sees to the rest.
	_, err = os.Stat(filepath.Join(service, "runtime"))
	return err == nil
}

// ProcessesIn returns what runs in a cgroup and below, given its path below the cgroup2
// mount, by PID; none where there is no such cgroup, or where the path is "".
func ProcessesIn(controlGroup string) []Process {
	var found []Process
	if controlGroup == "" {
		return found
	}
	_ = filepath.WalkDir(filepath.Join(cgroupMount, controlGroup), func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil //nolint:nilerr // what went in the meantime has none
		}
		text, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs")) //nolint:gosec // of the kernel's
		for word := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil && pid > 0 { // 0 is of another PID namespace
				found = append(found, process(pid))
			}
		}
		return nil
	})
	found = slices.DeleteFunc(found, func(p Process) bool { return p.PID == 0 }) // it has ended
	slices.SortFunc(found, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return found
}

// cgroupMount is where systemd has its cgroups: cgroups(7), version 2.
const cgroupMount = "/sys/fs/cgroup"

// OwnUnit returns the service of the system manager that this process runs in, by its
// cgroup; "" where that is none, as in a user's session.
func OwnUnit() string { return serviceOf("self") }

// serviceOf is OwnUnit of another process.
func serviceOf(pid string) string {
	unit := UnitOf(cgroupOf(pid))
	if !strings.HasSuffix(unit, ".service") || strings.HasPrefix(unit, "user@") {
		return "" // what runs in user@.service is of the user's own manager
	}
	return unit
}

// cgroupOf returns the cgroup of a process below the cgroup2 mount, from its "/" on.
func cgroupOf(pid string) string {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "cgroup")) //nolint:gosec // of the kernel's
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return strings.TrimSuffix(path, " (deleted)")
		}
	}
	return ""
}

// UnitOf returns the unit of the system manager that a cgroup is of, given its path
// below the cgroup2 mount, as sd_pid_get_unit(3) does: the first below the slices.
// What lies below that is of the unit's own making. It is "" where that is none, as
// for what no unit was started for.
//
// What a user's manager runs is of user@1000.service, and what was logged in of
// session-1.scope.
func UnitOf(cgroup string) string {
	for name := range strings.SplitSeq(strings.TrimPrefix(cgroup, "/"), "/") {
		// systemd puts a _ before a name that the kernel could take for its own.
		name = strings.TrimPrefix(name, "_")
		if strings.HasSuffix(name, ".slice") && len(name) > len(".slice") {
			continue
		}
		if isUnit(name) {
			return name
		}
		break
	}
	return ""
}

// isUnit reports whether a name is one of a unit that can have a cgroup, by the rules
// of systemd.unit(5).
func isUnit(name string) bool {
	dot := strings.LastIndexByte(name, '.')
	if dot < 1 || len(name) > 255 || name[0] == '@' || name[dot-1] == '@' {
		return false
	}
	switch name[dot+1:] {
	case "service", "scope", "socket", "mount", "swap":
	default:
		return false
	}
	return strings.Trim(name, unitCharacters) == ""
}

const unitCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789:-_.\\@"

// ContainerOf returns the id of the container that podman made a cgroup for, given its
// path below the cgroup2 mount: that of the container's processes or that of its conmon,
// which has what listens for its published ports. Of containers within one another it is
// the outermost. It is "" for a conmon of one that Quadlet runs, which is in a cgroup of
// the service: there [UnitOf] says whose it is. It is "" below user@.service too: the
// user makes the cgroups there, and can give them any name.
func ContainerOf(cgroup string) string {
	if strings.HasPrefix(UnitOf(cgroup), "user@") {
		return ""
	}
	for name := range strings.SplitSeq(cgroup, "/") {
		id, ok := strings.CutPrefix(strings.TrimSuffix(name, ".scope"), "libpod-")
		if !ok {
			continue
		}
		id = strings.TrimPrefix(strings.TrimPrefix(id, "payload-"), "conmon-")
		if len(id) == 64 && strings.Trim(id, "0123456789abcdef") == "" {
			return id
		}
	}
	return ""
}
