package host

import (
	"strings"
	"testing"
)

func TestUnitAndContainerOfACgroup(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	pod := "/machine.slice/machine-libpod_pod_" + strings.Repeat("f", 64) + ".slice"
	for cgroup, want := range map[string]struct{ unit, container string }{
		// A service, what systemd ran for it, and what it made itself.
		"/system.slice/ant.service":                                             {"ant.service", ""},
		"/system.slice/ant.service/.control":                                    {"ant.service", ""},
		"/system.slice/ant.service/system.slice/x.scope":                        {"ant.service", ""},
		"/system.slice/system-ant.slice/ant@a.b.service":                        {"ant@a.b.service", ""},
		"/system.slice/_cpu.service":                                            {"cpu.service", ""},
		`/system.slice/dev-disk-by\x2dlabel-a.swap`:                             {`dev-disk-by\x2dlabel-a.swap`, ""},
		"/system.slice/ant.socket":                                              {"ant.socket", ""},
		"/init.scope":                                                           {"init.scope", ""},
		"/user.slice/user-1000.slice/session-3.scope":                           {"session-3.scope", ""},
		"/user.slice/user-1000.slice/user@1000.service":                         {"user@1000.service", ""},
		"/a.slice/user@1.service/app.slice/a.service":                           {"user@1.service", ""},
		"/system.slice/ant.service/libpod-payload-" + id:                        {"ant.service", id},
		"/system.slice/ant.service/runtime":                                     {"ant.service", ""},
		"/machine.slice/libpod-" + id + ".scope/container":                      {"libpod-" + id + ".scope", id},
		"/machine.slice/libpod-conmon-" + id + ".scope":                         {"libpod-conmon-" + id + ".scope", id},
		pod + "/libpod-" + id + ".scope/container":                              {"libpod-" + id + ".scope", id},
		"/libpod_parent/libpod-" + id:                                           {"", id}, // --cgroup-manager=cgroupfs
		"/user.slice/user-1000.slice/user@1000.service/libpod-" + id + ".scope": {"user@1000.service", ""},
		// Containers within a container are its own.
		"/machine.slice/libpod-" + id + ".scope/libpod-" + strings.Repeat("f", 64): {"libpod-" + id + ".scope", id},
		// No unit and no container.
		"":                                  {"", ""},
		"/":                                 {"", ""},
		"/system.slice":                     {"", ""},
		"/shell":                            {"", ""},
		"/shell/system.slice/ant.service":   {"", ""},
		"/../system.slice/ant.service":      {"", ""},
		"/system.slice/ant@.service":        {"", ""},
		"/system.slice/@ant.service":        {"", ""},
		"/system.slice/.service":            {"", ""},
		"/system.slice/a b.service":         {"", ""},
		"/system.slice/ant.timer":           {"", ""},
		"/machine.slice/libpod-" + id[:12]:  {"", ""},
		"/machine.slice/libpod-" + id + "0": {"", ""},
		pod:                                 {"", ""},
	} {
		if unit, container := UnitOf(cgroup), ContainerOf(cgroup); unit != want.unit || container != want.container {
			t.Errorf("%s: unit %q, container %q; want %q, %q", cgroup, unit, container, want.unit, want.container)
		}
	}
}
