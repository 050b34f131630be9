package host

import (
	"os"
	"path/filepath"
	"strings"
)

// PayloadEnded reports whether the container of a service has ended: whether
// nothing runs in the cgroup that podman makes for it below the service's, as it
// does with --cgroups=split, which Quadlet sets. The service outlives it by as
// long as podman takes to clean up, a tenth of a second or more.
func (s *Systemd) PayloadEnded(controlGroup string) bool {
	service := filepath.Join("/sys/fs/cgroup", controlGroup)
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

// OwnUnit returns the unit of the system manager that this process runs in, by its
// cgroup; "" where that is none, as in a user's session.
func OwnUnit() string { return unitOf("self") }

// unitOf is OwnUnit of another process.
func unitOf(pid string) string {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "cgroup")) //nolint:gosec // of the kernel's
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok || strings.HasPrefix(path, "/user.slice/") {
			continue
		}
		for name := range strings.SplitSeq(path, "/") {
			if strings.HasSuffix(name, ".service") {
				return name // what lies below is of its own making
			}
		}
	}
	return ""
}
