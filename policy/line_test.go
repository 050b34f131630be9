package policy

import "testing"

func TestWhatIsShownInALine(t *testing.T) {
	for _, c := range []struct{ text, line string }{
		{"  its image is ours", "  its image is ours"},
		{"two\nlines\t", "two lines "},
		{"\x1b]0;title\x1b\\", "\ufffd]0;title\ufffd\\"},
		{"over\rwritten", "over\ufffdwritten"},
		{"a\xffb\xc0\xafc\x9b2J", "a\ufffdb\ufffd\ufffdc\ufffd2J"},
		{"\u009b2J\u0085", "\ufffd2J\ufffd"},
		{"exe\u202egpj\u2066\u2028", "exe\ufffdgpj\ufffd\ufffd"},
		{"a\x00b\u200bc\x7f", "a\ufffdb\ufffdc\ufffd"},
		{"größer → später …", "größer → später …"},
	} {
		if got := Line(c.text); got != c.line {
			t.Errorf("%q is shown as %q, want %q", c.text, got, c.line)
		}
	}
}
