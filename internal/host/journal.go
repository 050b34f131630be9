package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Journal returns the last lines that a unit logged since a moment, oldest
// first: what its processes wrote, and what systemd had to say of it that is
// more than routine. It has none where the journal cannot be read: a report
// without log lines is still a report.
func (s *Systemd) Journal(ctx context.Context, unit string, since time.Time, lines int) []string {
	return lastTelling(readJournal(ctx, "--unit="+unit, fmt.Sprintf("--since=@%d.%06d", since.Unix(), since.Nanosecond()/1000), "--boot"), lines)
}

// LastRun returns the last lines of a unit's last run, as Journal does, by its
// invocation id: what its processes wrote before what systemd had to say, since how
// a unit ended is known. With no id, the unit never ran, they are those of this
// boot.
func (s *Systemd) LastRun(ctx context.Context, unit, invocation string, lines int) []string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // a report does not wait for a slow disk
	defer cancel()
	of := []string{"_SYSTEMD_INVOCATION_ID=" + invocation, "+", "INVOCATION_ID=" + invocation}
	if invocation == "" {
		of = []string{"--unit=" + unit, "--boot"}
	}
	return lastWords(readJournal(ctx, of...), lines)
}

// readJournal returns the last entries that match, as JSON, one a line.
func readJournal(ctx context.Context, of ...string) []byte {
	out, err := exec.CommandContext(ctx, "journalctl", append(of,
		"--lines=100", "--output=json", "--output-fields=MESSAGE,MESSAGE_ID,PRIORITY,SYSLOG_IDENTIFIER,PODMAN_EVENT",
		"--no-pager", "--quiet")...).Output()
	if err != nil {
		return nil
	}
	return out
}

// lastTelling returns the last messages of a journal, each once: a unit that systemd
// starts again and again would tell of nothing but that.
func lastTelling(journal []byte, lines int) []string {
	var found []string
	for line := range bytes.Lines(journal) {
		if text, _ := telling(line); text != "" {
			found = append(slices.DeleteFunc(found, func(earlier string) bool { return earlier == text }), text)
		}
	}
	return found[max(0, len(found)-lines):]
}

// lastWords is lastTelling with systemd's words where there are too few others.
func lastWords(journal []byte, lines int) []string {
	var own []byte
	for line := range bytes.Lines(journal) {
		if _, systemds := telling(line); !systemds {
			own = append(own, line...)
		}
	}
	words := lastTelling(own, lines)
	if len(words) == lines {
		return words
	}
	all := lastTelling(journal, 100)
	theirs := slices.DeleteFunc(slices.Clone(all), func(text string) bool { return slices.Contains(words, text) })
	theirs = theirs[max(0, len(theirs)-lines+len(words)):]
	return slices.DeleteFunc(all, func(text string) bool { return !slices.Contains(words, text) && !slices.Contains(theirs, text) })
}

// telling returns the message of a journal entry; "" where it is routine: an
// event of podman's, the id that podman run prints, what conmon says of cgroups,
// or a word of systemd's below a warning. It tells whether systemd says it. See
// systemd.journal-fields(7).
func telling(line []byte) (text string, systemds bool) {
	var entry struct {
		Message    any    `json:"MESSAGE"` // a list of bytes where it is no text
		ID         string `json:"MESSAGE_ID"`
		Priority   string `json:"PRIORITY"`
		Identifier string `json:"SYSLOG_IDENTIFIER"`
		Event      string `json:"PODMAN_EVENT"`
	}
	if err := json.Unmarshal(line, &entry); err != nil {
		return "", false
	}
	systemds = entry.Identifier == "systemd"
	text, _ = entry.Message.(string)
	routine := entry.Event != "" || entry.Identifier == "conmon" ||
		(systemds && entry.Priority > "4" && entry.ID != processExit)
	if routine || isContainerID(text) {
		return "", systemds
	}
	return text, systemds
}

// processExit is systemd's SD_MESSAGE_UNIT_PROCESS_EXIT: how a unit's process
// ended.
const processExit = "98e322203f7a4ed290d09fe03c09fe15"

func isContainerID(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}
