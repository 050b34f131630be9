package host

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
)

// Journal returns the last lines that a unit logged since the machine booted,
// oldest first; "" where there are none or the journal cannot be read.
func Journal(ctx context.Context, unit string, lines int) string {
	out, err := exec.CommandContext(ctx, "journalctl", "--unit="+unit, "--lines="+strconv.Itoa(lines),
		"--output=cat", "--no-pager", "--quiet", "--boot").Output()
	if err != nil {
		return "" // a report without log lines is still a report
	}
	return strings.TrimSpace(string(out))
}
