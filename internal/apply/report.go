package apply

import (
	"context"
	"time"
)

// awaitEnd gives systemd a moment to log how a unit that is on its way down came
// to its end.
func (m *move) awaitEnd(ctx context.Context, name string) {
	deadline := time.After(2 * time.Second)
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		found, err := m.node.Systemd.Units(ctx, []string{name})
		if u := found[name]; err != nil || !u.Up() || u.Sub == "auto-restart" {
			return
		}
		select {
		case <-deadline:
			return
		case <-look.C:
		}
	}
}

// reports says of each unit that did not come up what is wrong, with the last
// lines of its log.
func (m *move) reports(ctx context.Context) []string {
	var reports []string
	for _, name := range m.failed {
		report := name
		if err := m.faults[name]; err != nil {
			report = err.Error()
		}
		m.awaitEnd(ctx, name)
		for _, line := range m.node.Systemd.Journal(ctx, name, m.begun, 8) {
			report += "\n    " + line
		}
		reports = append(reports, report)
	}
	return reports
}
