// Command bootreport boots real machines with podman's generator and with ours, on the
// same units, and prints what systemd itself counts of each boot: how long its
// generators ran, how long it loaded units, and when it was up. The figures are
// medians, with the least and the most behind them.
//
//	go run ./vmtests/cmd/bootreport [-sizes 10,100,1000] [-boots 5]
//
// No container is started: they would take longer than all that is measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"

	"meshgen/vmtests/machine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bootreport:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bootreport", flag.ContinueOnError)
	flags.SetOutput(stderr)
	sizes := flags.String("sizes", "10,100,1000", "`N,…` units")
	boots := flags.Int("boots", 5, "`N` boots of each kind")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := machine.Check(); err != nil {
		return fmt.Errorf("this host boots no machine: %w", err)
	}
	parts, err := machine.Prepare(ctx)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "units\tgenerator\tgenerators ran\tunits were loaded\tup after") // told by Flush
	for text := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(stderr, "%d units\n", n) // only to be looked at
		if err := measure(ctx, parts, n, *boots, table); err != nil {
			return fmt.Errorf("%d units: %w", n, err)
		}
	}
	return table.Flush()
}

// way is one manner of giving systemd the units.
type way struct {
	name string
	to   string // a script that has the machine boot so from now on
}

// ways come in turn, so that what else the host does befalls all alike.
//
//nolint:gochecknoglobals // a constant table
var ways = []way{
	{"none", "rm -rf /etc/containers/systemd; mv -T /etc/meshgen/current /etc/meshgen/.aside 2>/dev/null || true"},
	{"podman's", "rm -rf /etc/containers/systemd; cp -r /etc/meshgen/generations/1/quadlet /etc/containers/systemd; mv -T /etc/meshgen/current /etc/meshgen/.aside 2>/dev/null || true"},
	{"meshgen's", "rm -rf /etc/containers/systemd; mv -T /etc/meshgen/.aside /etc/meshgen/current"},
}

// measure boots a machine of n units, each way in turn.
func measure(ctx context.Context, parts machine.Parts, n, boots int, table io.Writer) (err error) {
	m, err := machine.New(parts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := m.Boot(ctx); err != nil {
		return err
	}
	if err := m.WriteFile(ctx, "/etc/meshgen/manifest/fleet.cue", []byte(fleet(n)), 0o644); err != nil {
		return err
	}
	// A boot without a generation would make the first switch.
	if _, err := m.Run(ctx, "sh", "-c", "meshgen switch --quiet && systemctl mask meshgen-switch"); err != nil {
		return err
	}
	counted := map[string][][3]float64{}
	for range boots {
		for _, w := range ways {
			if _, err := m.Run(ctx, "sh", "-ec", w.to); err != nil {
				return err
			}
			c, err := boot(ctx, m)
			if err != nil {
				return err
			}
			counted[w.name] = append(counted[w.name], c)
		}
	}
	for _, w := range ways {
		_, _ = fmt.Fprintf(table, "%d\t%s", n, w.name) // told by Flush
		for i := range 3 {
			var values []float64
			for _, c := range counted[w.name] {
				values = append(values, c[i])
			}
			slices.Sort(values)
			_, _ = fmt.Fprintf(table, "\t%.0f ms (%.0f–%.0f)", values[len(values)/2], values[0], values[len(values)-1]) // as above
		}
		_, _ = fmt.Fprintln(table) // as above
	}
	return nil
}

// boot boots the machine anew and returns what systemd counts, in milliseconds.
func boot(ctx context.Context, m *machine.Machine) (counted [3]float64, err error) {
	if err := m.PowerCut(); err != nil {
		return counted, err
	}
	if err := m.Boot(ctx); err != nil {
		return counted, err
	}
	out, err := m.Run(ctx, "systemctl", "show")
	if err != nil {
		return counted, err
	}
	at := map[string]float64{}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if name, ok := strings.CutSuffix(name, "TimestampMonotonic"); ok {
			if at[name], err = strconv.ParseFloat(value, 64); err != nil {
				return counted, err
			}
		}
	}
	for i, span := range [3][2]string{{"GeneratorsStart", "GeneratorsFinish"}, {"UnitsLoadStart", "UnitsLoadFinish"}, {"Userspace", "Finish"}} {
		if at[span[0]] == 0 || at[span[1]] < at[span[0]] {
			return counted, fmt.Errorf("systemd counts no time from %s to %s", span[0], span[1])
		}
		counted[i] = (at[span[1]] - at[span[0]]) / 1000
	}
	return counted, nil
}

// fleet is a manifest of n containers that nothing starts.
func fleet(n int) string {
	var s strings.Builder
	s.WriteString("package mesh\n")
	for i := range n {
		fmt.Fprintf(&s, `
modules: m%d: containers: app%d: {
	name: "app-%d"
	Container: {Image: "localhost/probe:1", Network: "none", Environment: APP_ID: "%d"}
	Install: WantedBy: []
}
`, i/10, i, i, i)
	}
	return s.String()
}
