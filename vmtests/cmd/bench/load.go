package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"meshgen/vmtests/machine"
)

const manifest = "/etc/meshgen/manifest"

// boot returns a running machine with this program on it.
func (b *bench) boot(ctx context.Context) (*machine.Machine, error) {
	m, err := machine.New(b.parts)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	program, err := os.ReadFile(self)
	if err == nil {
		err = m.Boot(ctx)
	}
	if err == nil {
		err = m.WriteFile(ctx, there, program, 0o755)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// fleet is a manifest of n containers as owners write them, in modules of ten.
// service is what stands in each one's [Service].
func fleet(n int, service string) string {
	var s strings.Builder
	s.WriteString("package mesh\n")
	for i := range n {
		fmt.Fprintf(&s, `
modules: m%d: containers: app%d: {
	name: "app-%d"
	Container: {
		Image:       "localhost/probe:1"
		Network:     "none"
		StopTimeout: 5
		Environment: {
			APP_ID:   "%d"
			APP_MODE: "production"
			APP_URL:  "https://app%d.example.org/"
		}
	}
	Service: {%s}
}
`, i/10, i, i, i, i, service)
	}
	return s.String()
}

// watchedService is the one container that is renamed, which answers.
func watchedService(name string) string {
	return fmt.Sprintf(`package mesh

modules: watched: containers: it: {
	name: %q
	Container: {
		Image:       "localhost/probe:1"
		Exec:        "probe serve %s"
		Network:     "host"
		StopTimeout: 5
	}
	Service: Restart: "always"
	holds: [3000]
}
`, name, watchedAddress)
}

// writeManifest writes the files of a manifest.
func writeManifest(ctx context.Context, m *machine.Machine, files map[string]string) error {
	for name, text := range files {
		if err := m.WriteFile(ctx, manifest+"/"+name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// syncsOf runs a command under strace(1) and counts what waits for the disk.
func syncsOf(ctx context.Context, m *machine.Machine, command ...string) (float64, error) {
	trace := []string{"strace", "-f", "-y", "--seccomp-bpf", "-qq", "-e", "trace=fsync,fdatasync,sync,syncfs", "-e", "signal=none", "-o", "/run/syncs"}
	if _, err := m.Run(ctx, append(trace, command...)...); err != nil {
		return 0, err
	}
	trail, err := m.ReadFile(ctx, "/run/syncs")
	calls := 0.0
	for line := range strings.Lines(trail) {
		// What another thread interrupts in the trail has two lines, the
		// second without the name. On a tmpfs there is no disk to wait for.
		call := strings.Contains(line, "sync(") || strings.Contains(line, "syncfs(")
		if call && !strings.Contains(line, "</tmp/") && !strings.Contains(line, "</run/") && !strings.Contains(line, "</dev/shm/") {
			calls++
		}
	}
	return calls, err
}
