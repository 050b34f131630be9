package hint

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Command returns the line that is typed into a shell for a command with these words.
func Command(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Quote(w)
	}
	return strings.Join(quoted, " ")
}

// Quote returns a word as any shell takes it for one: sh(1). Nothing in it moves a
// terminal's cursor. Of a newline at its end the shell makes nothing.
func Quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("@%_+=:,./-", r)
	}
	switch {
	case s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0:
		return s
	case shows(s):
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var octal strings.Builder
	for i := range len(s) {
		if r := rune(s[i]); plain(r) && r != '%' {
			octal.WriteByte(s[i])
		} else {
			fmt.Fprintf(&octal, `\%03o`, s[i])
		}
	}
	return `"$(printf '` + octal.String() + `')"`
}

// shows reports whether all of a text can be shown and typed.
func shows(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}
