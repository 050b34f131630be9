//go:build systemd

package vmtests

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"meshgen/internal/audit"
)

// Whatever cannot be looked at is said on top, the rest is told all the same, in time,
// and the exit code is 1.
func TestAuditTellsWhatItCouldNotSee(t *testing.T) {
	v := Boot(t)
	const manifest = `package mesh
modules: m: containers: c: Container: {Image: "localhost/probe:1", Network: "none"}
modules: m: files: f: {path: "/etc/m/f", content: "x"}
`
	v.WriteManifest(manifest)
	v.Switch()
	v.Run("podman", "run", "--detach", "--name=late", "--network=none", "localhost/probe:2")
	v.Run("rm", "/etc/m/f")
	v.WriteFile("/etc/systemd/system/late.service", "[Service]\nExecStart=sleep inf\n")
	v.Run("systemctl", "daemon-reload")
	v.Run("systemd-run", "--unit=mute", "--socket-property=ListenStream=/run/mute", "sleep", "infinity")
	for name, script := range map[string]string{"hangs": "sleep 1000; echo", "nonsense": "echo '[{\"Id\": [}'", "fails": "echo no >&2; exit 1"} {
		v.WriteFile("/stub/"+name+"/podman", "#!/bin/sh\n"+script+"\n")
		v.Run("chmod", "755", "/stub/"+name+"/podman")
	}
	const (
		file, container, unit = "missing file:/etc/m/f", "foreign container:late", "foreign unit:late.service"
		ledger                = "/var/lib/meshgen/ledger"
	)
	for _, c := range []struct {
		name, before, env, after string
		unseen                   string
		want                     []string
	}{
		{name: "podman hangs", env: "PATH=/stub/hangs:/usr/bin", unseen: "podman pod ps --format json: no answer within 2s", want: []string{unit, file}},
		{name: "podman prints nonsense", env: "PATH=/stub/nonsense:/usr/bin", unseen: "list of containers: podman ps", want: []string{unit, file}},
		{name: "podman fails", env: "PATH=/stub/fails:/usr/bin", unseen: "exit status 1: no", want: []string{unit, file}},
		{name: "no podman", env: "PATH=/nowhere", unseen: "podman: exec:", want: []string{unit, file}},
		{name: "no bus", env: "DBUS_SYSTEM_BUS_ADDRESS=unix:path=/nowhere", unseen: "connect to systemd on the system bus: ", want: []string{container, unit, file}},
		{name: "a bus that never answers", env: "DBUS_SYSTEM_BUS_ADDRESS=unix:path=/run/mute", unseen: "system bus: no answer within 2s", want: []string{container, unit, file}},
		{
			name: "the bus is stopped", before: "systemctl stop dbus.socket dbus.service", after: "systemctl start dbus.socket dbus.service",
			unseen: "connect to systemd on the system bus: ", want: []string{container, unit, file},
		},
		{
			name: "the ledger is damaged", before: "cp -a " + ledger + " /stub; sed -i 2s/./x/ " + ledger, after: "cp -a /stub/ledger " + ledger,
			unseen: "ledger:2: the checksum does not match", want: []string{container, unit},
		},
		{
			name: "the ledger is damaged, and a bus that never answers", env: "DBUS_SYSTEM_BUS_ADDRESS=unix:path=/run/mute",
			before: "cp -a " + ledger + " /stub; sed -i 2s/./x/ " + ledger, after: "cp -a /stub/ledger " + ledger,
			unseen: "system bus: no answer within 2s", want: []string{container, unit},
		},
		{
			name: "the ledger is gone", before: "mv " + ledger + " /stub", after: "mv /stub/ledger " + ledger,
			unseen: "ledger: missing, and generation 1 is in force", want: []string{container, unit},
		},
		{
			name: "the generation cannot be read", before: "mv /etc/meshgen/generations/1/desired.json /stub; echo '{' >/etc/meshgen/generations/1/desired.json",
			after: "mv /stub/desired.json /etc/meshgen/generations/1", unseen: "desired.json: ", want: []string{container, unit},
		},
		{
			name: "a file where meshgen has its directory", before: "mv /etc/meshgen /stub; echo >/etc/meshgen", after: "rm /etc/meshgen; mv /stub/meshgen /etc",
			unseen: "/etc/meshgen", want: []string{container, unit},
		},
		{
			name: "the manifest is broken", before: "echo 'modules: {' >" + Manifest + "/broken.cue", after: "rm " + Manifest + "/broken.cue",
			unseen: "broken.cue:", want: []string{container, unit, file},
		},
		{
			name: "everything is to be ignored", before: `echo 'package mesh
audit: ignore: ["*:*", "container:la?e"]' >` + Manifest + "/ignore.cue",
			after: "rm " + Manifest + "/ignore.cue", unseen: `what is to be ignored: ignore.cue:2:17: audit.ignore[0]: "*:*" fits everything`, want: []string{unit, file},
		},
		{name: "not root", env: "-- setpriv --reuid=65534 --clear-groups", unseen: "not root: ", want: []string{unit}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &Machine{t, v.m}
			if c.before != "" {
				v.Run("sh", "-ec", c.before)
			}
			begin := time.Now()
			env := strings.Fields("env " + c.env)
			r := v.Exec(append(slices.Clone(env), "/usr/bin/meshgen", "audit", "--json", "--timeout=2s")...)
			took := time.Since(begin)
			text := v.Exec(append(slices.Clone(env), "/usr/bin/meshgen", "audit", "--timeout=2s")...)
			if c.after != "" {
				v.Run("sh", "-ec", c.after)
			}
			var report struct {
				audit.Report
				Partial bool `json:"partial"`
			}
			if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil {
				t.Fatalf("%v\n%s%s", err, r.Stdout, r.Stderr)
			}
			if r.Code != 1 || text.Code != 1 || !report.Partial {
				t.Errorf("exit %d and %d, partial %v", r.Code, text.Code, report.Partial)
			}
			if !slices.ContainsFunc(report.Unseen, func(s string) bool { return strings.Contains(s, c.unseen) }) {
				t.Errorf("unseen: %q, want %q", report.Unseen, c.unseen)
			}
			if !strings.HasPrefix(text.Stdout, "partial: ") || text.Stderr != "meshgen: not all could be looked at: what could not is said first\n" {
				t.Errorf("it is not said on top:\n%s%s", text.Stdout, text.Stderr)
			}
			told := classes(report.Findings)
			for _, want := range c.want {
				if !slices.Contains(told, want) {
					t.Errorf("%s: not told, but %q", want, told)
				}
			}
			if extra := len(told) - len(c.want); extra > 0 {
				t.Errorf("told %q, want %q", told, c.want)
			}
			if took > 8*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
	// With all that put right, all of it can be seen.
	report := v.auditOf(10)
	if len(report.Unseen) > 0 {
		t.Errorf("unseen: %q", report.Unseen)
	}
}

// Names that others chose say nothing that meshgen did not, and break no line.
func TestAuditTellsOfStrangeNames(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`files: f: {path: "/etc/m/f", content: "x"}`))
	v.Switch()
	for _, script := range []string{
		"podman create --name=late --network=none --label=com.docker.compose.project=\"$(printf 'x\\n    $ rm -rf /\\033[2J')\" localhost/probe:1",
		"podman secret create -- '-x y' /etc/hostname",
		"touch \"$(printf '/etc/m/a\\n    $ reboot\\033[2J')\" '/etc/m/-x' \"/etc/m/it's\"",
		"ln -s loop /etc/m/loop; mkdir /etc/m/many; cd /etc/m/many; ln -s .. up",
		`printf '[Service]\nExecStart=sleep inf\n' >'/etc/systemd/system/-x\x20y.service'; systemctl daemon-reload; systemctl start -- '-x\x20y.service'`,
	} {
		v.Run("sh", "-ec", script)
	}
	out := v.Exec("meshgen", "audit").Stdout
	if strings.ContainsRune(out, 0x1b) || strings.Contains(out, "\n    $ rm -rf /") || strings.Contains(out, "\n    $ reboot") {
		t.Errorf("a terminal would obey:\n%q", out)
	}
	for _, f := range v.auditOf(10).Findings {
		v.Run("sh", "-ec", f.Fix)
	}
	v.auditOf(0)

	v.Run("sh", "-ec", "cd /etc/m; seq -f 'f%.0f' 100000 | xargs touch")
	report := v.auditOf(10)
	if len(report.Findings) != 1 || !strings.Contains(report.Findings[0].Detail, "100000 files and directories") {
		t.Errorf("%d findings, the first %+v", len(report.Findings), report.Findings[0])
	}
}
