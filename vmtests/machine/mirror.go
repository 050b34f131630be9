package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mirror returns where the host, a Debian, gets its own packages from: the
// first source of apt for its own suite, see sources.list(5).
func mirror() (string, error) {
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", err
	}
	suite := ""
	for line := range strings.Lines(string(release)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok {
			suite = name
		}
	}
	files, err := filepath.Glob("/etc/apt/sources.list.d/*")
	if err != nil {
		return "", err
	}
	for _, file := range append([]string{"/etc/apt/sources.list"}, files...) {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // apt may have only one of the two
		}
		for stanza := range strings.SplitSeq(string(text), "\n\n") {
			if uri := source(stanza, suite); uri != "" {
				return uri, nil
			}
		}
	}
	return "", fmt.Errorf("apt has no source for the suite %q", suite)
}

// source returns the address of a suite in a stanza of apt's sources, or in
// one of its lines in the older style; "" where the suite is not there.
func source(stanza, suite string) string {
	uri, found := "", false
	for line := range strings.Lines(stanza) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "URIs:":
			uri = fields[1]
		case "Suites:":
			found = slices.Contains(fields[1:], suite)
		case "deb":
			at := slices.Index(fields, suite)
			if at > 1 {
				return fields[at-1]
			}
		}
	}
	if !found {
		return ""
	}
	return uri
}
