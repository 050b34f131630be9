package units

import (
	"path"
	"strings"
)

// GuardName is the name of the program that looks, at the start of a container's or
// a pod's service, whether the name is free.
const GuardName = "meshgen-guard"

// GuardEdition changes with what [Guarded] adds: what was converted with another is
// converted anew.
const GuardEdition = "2"

// noReplace undoes the --replace that Quadlet writes.
const noReplace = "--replace=false"

// Guarded returns the text of a Quadlet as a converter is to have it. That of a
// container or a pod of ours gets two keys that a reader has no need of:
//
//   - PodmanArgs=--replace=false. It comes behind all other flags, and of one that is
//     given twice podman takes the last.
//   - ExecStartPre= is the program at that path, a [GuardName], after those that are
//     declared: where it refuses, or is not there, the service does not start.
//
// [RunDigest] passes over what they become. It goes by the order of the sections,
// and so an empty [Unit] is there before [Service], as Quadlet has it where neither
// is declared.
func Guarded(quadlet, program string) string {
	a, ok := Mark(quadlet)
	if !ok || a.Kind != KindContainer && a.Kind != KindPod {
		return quadlet
	}
	section := ownSection(a.Kind)
	name := objectName(quadlet, section)
	if name == "" {
		return quadlet
	}
	return quadlet +
		"\n[" + section + "]\nPodmanArgs=" + noReplace + "\n" +
		"\n[Unit]\n" +
		"\n[Service]\nExecStartPre=" + program + " " + name + " " + a.String() + " %n\n"
}

// objectName returns the name that a Quadlet gives its container or pod, by the
// section that is of its kind.
func objectName(quadlet, own string) (name string) {
	key := map[string]string{"Container": "ContainerName=", "Pod": "PodName="}[own]
	section := ""
	for line := range strings.Lines(quadlet) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
		}
		if value, ok := strings.CutPrefix(line, key); ok && section == "["+own+"]" {
			name = value
		}
	}
	return name
}

// isGuard reports whether a line of a service is that of [Guarded].
func isGuard(line string) bool {
	command, ok := strings.CutPrefix(line, "ExecStartPre=")
	program, _, _ := strings.Cut(command, " ")
	return ok && path.Base(program) == GuardName
}

// withoutNoReplace takes from the command of a service the flag that [Guarded] gave
// it. Of podman run it is the first that reads so, since the program and its
// arguments come after; of podman pod create it is the last word.
func withoutNoReplace(line string) string {
	switch {
	case strings.HasPrefix(line, "ExecStart="):
		return strings.Replace(line, " "+noReplace+" ", " ", 1)
	case strings.HasPrefix(line, "ExecStartPre=") && strings.Contains(line, " pod create "):
		return strings.TrimSuffix(line, " "+noReplace)
	}
	return line
}
