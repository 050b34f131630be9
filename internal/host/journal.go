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
	out, err := exec.CommandContext(ctx, "journalctl", "--unit="+unit, fmt.Sprintf("--since=@%d.%06d", since.Unix(), since.Nanosecond()/1000),
		"--lines=100", "--output=json", "--output-fields=MESSAGE,MESSAGE_ID,PRIORITY,SYSLOG_IDENTIFIER,PODMAN_EVENT",
		"--no-pager", "--quiet", "--boot").Output()
	if err != nil {
		return nil
	}
	return lastTelling(out, lines)
}

// lastTelling returns the last messages of a journal, each once: a unit that systemd
// starts again and again would tell of nothing but that.
func lastTelling(journal []byte, lines int) []string {
	var found []string
	for line := range bytes.Lines(journal) {
		if text := telling(line); text != "" {
			found = append(slices.DeleteFunc(found, func(earlier string) bool { return earlier == text }), text)
		}
	}
	return found[max(0, len(found)-lines):]
}

// telling returns the message of a journal entry; "" where it is routine: an
// event of podman's, the id that podman run prints, what conmon says of cgroups,
// or a word of systemd's below a warning. See systemd.journal-fields(7).
func telling(line []byte) string {
	var entry struct {
		Message    any    `json:"MESSAGE"` // a list of bytes where it is no text
		ID         string `json:"MESSAGE_ID"`
		Priority   string `json:"PRIORITY"`
		Identifier string `json:"SYSLOG_IDENTIFIER"`
		Event      string `json:"PODMAN_EVENT"`
	}
	if err := json.Unmarshal(line, &entry); err != nil {
		return ""
	}
	text, _ := entry.Message.(string)
	routine := entry.Event != "" || entry.Identifier == "conmon" ||
		(entry.Identifier == "systemd" && entry.Priority > "4" && entry.ID != processExit)
	if routine || isContainerID(text) {
		return ""
	}
	return text
}

// processExit is systemd's SD_MESSAGE_UNIT_PROCESS_EXIT: how a unit's process
// ended.
const processExit = "98e322203f7a4ed290d09fe03c09fe15"

func isContainerID(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}
