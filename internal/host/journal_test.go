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

// How a unit failed is known besides: what its program said of it is not.
func TestLastWordsAreTheProgramsOwn(t *testing.T) {
	journal := `{"MESSAGE":"one","SYSLOG_IDENTIFIER":"app"}
{"MESSAGE":"two","SYSLOG_IDENTIFIER":"app"}
{"MESSAGE":"exited","PRIORITY":"4","SYSLOG_IDENTIFIER":"systemd"}
{"MESSAGE":"with result","PRIORITY":"4","SYSLOG_IDENTIFIER":"systemd"}
`
	for lines, want := range map[int][]string{1: {"two"}, 2: {"one", "two"}, 3: {"one", "two", "with result"}, 9: {"one", "two", "exited", "with result"}} {
		if got := lastWords([]byte(journal), lines); !slices.Equal(got, want) {
			t.Errorf("%d lines: %q, want %q", lines, got, want)
		}
	}
}
