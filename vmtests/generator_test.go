//go:build systemd

package vmtests

import (
	"strings"
	"testing"
)

const (
	generators = "/usr/lib/systemd/system-generators/"
	quadletOwn = generators + "podman-system-generator"
)

// otherQuadlet replaces the machine's converter by one that is a script around it,
// which begins with body.
func (v *Machine) otherQuadlet(body string) {
	v.t.Helper()
	v.Run("sh", "-c", "[ -e /opt/quadlet ] || mv $(readlink -f "+quadletOwn+") /opt/quadlet; rm -f "+quadletOwn)
	v.WriteFile(quadletOwn, "#!/bin/sh\n"+body+"\n")
	v.Run("chmod", "755", quadletOwn)
}

// podman is upgraded between two boots, and its quadlet makes other units: the boot
// runs those. Where it hangs, dies or says nothing, the boot runs what is stored, and
// is not kept waiting.
func TestBootWithAnotherQuadlet(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(pair("ant", "bat"))
	v.Switch()
	stored := v.Run("systemctl", "cat", "ant")
	for _, c := range []struct{ what, body, says string }{
		{"another", `/opt/quadlet "$@" && sed -i 's/^ExecStart=/Environment=BY=another\n&/' "$2"/*.service`, ""},
		{"one that hangs", `[ "$1" = -no-kmsg-log ] || exit 0; exec sleep 600`, "given as it is stored"},
		{"one that dies", `[ "$1" = -no-kmsg-log ] || exit 0; kill -SEGV $$`, "given as it is stored"},
		{"one that makes nothing", "exit 0", "ant.service: given as it is stored"},
	} {
		t.Log(c.what)
		v.otherQuadlet(c.body)
		v.PowerCut()
		v.Boot()
		v.awaitUp("ant")
		v.awaitUp("bat")
		now := v.Run("systemctl", "cat", "ant")
		if another := strings.Contains(now, "BY=another"); another != (c.what == "another") {
			t.Errorf("ant is %s", now)
		} else if !another && now != stored {
			t.Errorf("ant is %s, stored is %s", now, stored)
		}
		if !strings.Contains(now, "meshgen-guard ant") || v.Show("ant", "SourcePath")["SourcePath"] == "" {
			t.Errorf("ant is %s", now)
		}
		v.mustReport(c.says)
	}
	v.otherQuadlet(`exec /opt/quadlet "$@"`)
	v.Switch()
	before := v.invocation("ant")
	if out := v.Switch(); !strings.Contains(out, "nothing to do") || v.invocation("ant") != before {
		t.Errorf("the second switch: %s", out)
	}
}

// mustReport sees what the generator says at a reload: in the kernel's log, for which a
// pipe stands here.
func (v *Machine) mustReport(says string) {
	v.t.Helper()
	log := v.Run("sh", "-c", `rm -f /dev/kmsg && mkfifo /dev/kmsg && exec 3<>/dev/kmsg && systemctl daemon-reload &&
printf "\nend\n" >&3 && sed /^end/q <&3; rm /dev/kmsg`)
	told := strings.Contains(log, "meshgen-generator[")
	if says == "" && told || !strings.Contains(log, says) {
		v.t.Errorf("the kernel's log has %q, want %q", log, says)
	}
}

// The generation in force is damaged: the boot runs it all the same where what is left
// says how it was, and else the one before, and the next switch mends it.
func TestBootOfABrokenGeneration(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(pair("ant", "bat"))
	v.Switch()
	v.WriteManifest(pair("cow", "dog"))
	v.Switch()
	v.Run("truncate", "--size=100", "/etc/meshgen/current/out/units")
	v.PowerCut()
	v.Boot()
	v.awaitUp("cow")
	v.awaitUp("dog")
	v.mustRun("cow", "dog")
	v.mustReport("out/units")

	v.Run("rm", "-r", "/etc/meshgen/generations/2")
	v.PowerCut()
	v.Boot()
	v.awaitUp("ant")
	v.awaitUp("bat")
	v.mustRun("ant", "bat")
	v.mustReport("<27>meshgen-generator[")
	v.mustReport("generation 1: in its place: generation 2 is broken")
	v.Switch()
	v.mustRun("cow", "dog")
}

// A backup of /etc brings a Quadlet back that was taken over and is retired: it is
// masked, and the old container does not come up beside the new one.
func TestBootMasksWhatABackupBringsBack(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(pair("ant", "bat"))
	v.Switch()
	v.Run("cp", "-rL", "/etc/meshgen/current/quadlet", "/root/backup")
	v.WriteManifest(pair("cow", "bat"))
	v.Switch()
	v.WriteManifest(pair("cow", "dog"))
	v.Switch()
	v.Run("mkdir", "-p", quadlets)
	v.Run("sh", "-c", "cp /root/backup/ant.container /root/backup/bat.container "+quadlets)
	v.WriteFile(quadlets+"mine.container", quadlet("mine")+"[Install]\nWantedBy=multi-user.target\n")
	v.PowerCut()
	v.Boot()
	v.awaitUp("cow")
	v.awaitUp("dog")
	v.awaitUp("mine")
	v.mustRun("cow", "dog", "mine")
	for _, unit := range []string{"ant", "bat"} {
		if load := v.Show(unit, "LoadState")["LoadState"]; load != "masked" {
			t.Errorf("%s.service is %s", unit, load)
		}
	}
	v.mustReport("<28>meshgen-generator[")
	v.mustReport("ant.service: masked: /etc/containers/systemd/ant.container is of a generation that is not in force")
	before := v.invocation("cow")
	if out := v.Switch(); !strings.Contains(out, "nothing to do") || v.invocation("cow") != before {
		t.Errorf("the switch after: %s", out)
	}
}

// A generator that gets no memory, or dies of it, costs its units and never the boot.
func TestBootGoesOnWithoutTheGenerator(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(pair("ant", "bat"))
	v.Switch()
	const ours = generators + "meshgen-generator"
	v.Run("mv", ours, "/opt/ours")
	for what, body := range map[string]string{
		"no memory for a runtime": "ulimit -v 20000; exec /opt/ours \"$@\"",
		"no memory at all":        "ulimit -v 2000; exec /opt/ours \"$@\"",
		"it is killed":            "kill -KILL $$",
		"it hangs up":             "exit 3",
	} {
		t.Log(what)
		v.WriteFile(ours, "#!/bin/sh\n"+body+"\n")
		v.Run("chmod", "755", ours)
		v.PowerCut()
		v.Boot()
		v.mustRun()
	}
	v.Run("mv", "/opt/ours", ours)
	v.Run("systemctl", "daemon-reload")
	v.Run("systemctl", "start", "multi-user.target")
	v.awaitUp("ant")
	v.awaitUp("bat")
}
