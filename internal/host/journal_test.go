package host

import (
	"slices"
	"strings"
	"testing"
)

// A unit that systemd starts again and again says the same each time: the line that
// tells why it fails is not lost among the others.
func TestJournalTellsEachLineOnce(t *testing.T) {
	again := `{"MESSAGE":"the guard says why","SYSLOG_IDENTIFIER":"ant-pod"}
{"MESSAGE":"exited","PRIORITY":"4","SYSLOG_IDENTIFIER":"systemd"}
`
	journal := strings.Repeat(again, 5) + `{"MESSAGE":"too quickly","PRIORITY":"4","SYSLOG_IDENTIFIER":"systemd"}` + "\n"
	if got, want := lastTelling([]byte(journal), 3), []string{"the guard says why", "exited", "too quickly"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := lastTelling([]byte(journal), 2), []string{"exited", "too quickly"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
