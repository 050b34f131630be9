package hint

import (
	"os/exec"
	"strings"
	"testing"
	"unicode"
)

// A shell takes what is quoted for one word, and that for what it was; nothing in it
// is more than a terminal can show.
func TestQuote(t *testing.T) {
	for s, want := range map[string]string{
		"":              "''",
		"/etc/m/a.conf": "/etc/m/a.conf",
		"a b":           "'a b'",
		"it's":          `'it'\''s'`,
		"-x":            "-x",
		"~root":         "'~root'",
		"größe":         "'größe'",
		"$(reboot)`x`":  "'$(reboot)`x`'",
		"a\nb":          `"$(printf 'a\012b')"`,
		"\x1b[2J%s'\\":  `"$(printf '\033\1332J\045s\047\134')"`,
		"\xff":          `"$(printf '\377')"`,
		"a\u202eb":      `"$(printf 'a\342\200\256b')"`,
	} {
		if got := Quote(s); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}

func FuzzQuote(f *testing.F) {
	f.Add("a b")
	f.Add("it's \x1b[31m\n%n\\")
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.TrimRight(strings.ReplaceAll(s, "\x00", ""), "\n")
		quoted := Quote(s)
		if i := strings.IndexFunc(quoted, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Fatalf("%q has what cannot be shown, at %d", quoted, i)
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s. "+quoted).Output()
		if err != nil || string(out) != s+"." {
			t.Fatalf("%q is %s, of which a shell makes %q (%v)", s, quoted, out, err)
		}
	})
}
