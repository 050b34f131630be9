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
