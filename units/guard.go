package units

import (
	"path"
	"strings"
)

// GuardName is the name of the program that looks, at the start of a container's
// service, whether the container's name is free.
const GuardName = "meshgen-guard"

// noReplace undoes the --replace that Quadlet writes.
const noReplace = "--replace=false"

// Guarded returns the text of a Quadlet as a converter is to have it. That of a
// container of ours gets two keys that a reader has no need of:
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
	name := containerName(quadlet)
	if !ok || a.Kind != KindContainer || name == "" {
		return quadlet
	}
	return quadlet +
		"\n[" + ownSection(KindContainer) + "]\nPodmanArgs=" + noReplace + "\n" +
		"\n[Unit]\n" +
		"\n[Service]\nExecStartPre=" + program + " " + name + " " + a.String() + " %n\n"
}

// containerName returns the name that a Quadlet gives its container.
func containerName(quadlet string) (name string) {
	section := ""
	for line := range strings.Lines(quadlet) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
		}
		if value, ok := strings.CutPrefix(line, "ContainerName="); ok && section == "["+ownSection(KindContainer)+"]" {
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
// it: the first that reads so, since the program and its arguments come after.
func withoutNoReplace(line string) string {
	if !strings.HasPrefix(line, "ExecStart=") {
		return line
	}
	return strings.Replace(line, " "+noReplace+" ", " ", 1)
}
