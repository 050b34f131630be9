package main

import (
	"cmp"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/clipperhouse/displaywidth"
	"golang.org/x/sys/unix"

	"meshgen/policy"
)

// screen is what a command is read on. On a terminal what is too wide is cut or
// wrapped, at the size that COLUMNS and LINES have, else the terminal; elsewhere nothing is,
// whatever COLUMNS says: what reads a pipe or a file wants all of it.
type screen struct {
	width  int // in columns; 0 where nothing is cut
	height int // in lines, of a terminal
	color  bool
}

// screenOf returns the screen behind a writer. NO_COLOR, of whatever value but
// none, and TERM=dumb have it without colour: https://no-color.org.
func screenOf(w io.Writer) screen {
	if out, ok := w.(*output); ok {
		w = out.Writer
	}
	f, ok := w.(*os.File)
	if !ok {
		return screen{}
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return screen{}
	}
	s := screen{width: int(size.Col), color: os.Getenv("TERM") != "dumb" && os.Getenv("NO_COLOR") == ""}
	s.width = max(sizeOr("COLUMNS", s.width, 80), 20)
	s.height = sizeOr("LINES", int(size.Row), 24)
	return s
}

// sizeOr returns a size from the environment, else from the terminal, else, where
// that is a serial line and tells none, the usual one.
func sizeOr(name string, told, usual int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return cmp.Or(told, usual)
}

// tone is the colour of a word. It says nothing that the word does not say.
type tone string

// All colours that there are.
const (
	toneNone  tone = ""
	toneBad   tone = "31" // red: it is broken, or it goes away
	toneLook  tone = "33" // yellow: it waits for somebody to look at it
	toneNew   tone = "32" // green: it comes
	toneAside tone = "2"  // faint: detail, for who wants it
)

// paint returns printable text in its colour.
func (s screen) paint(text string, t tone) string {
	if !s.color || t == toneNone || text == "" {
		return text
	}
	return "\x1b[" + string(t) + "m" + text + "\x1b[0m"
}

// wide returns how many columns a line of printable text takes.
func wide(text string) int { return displaywidth.String(text) }

// visible returns text as it can be shown in a line, and seen.
func visible(text string) string {
	text = policy.Line(text)
	if text != "" && wide(text) == 0 { // combining marks, with nothing to combine with
		return "\uFFFD"
	}
	return text
}

// how says in which way text gives way to the width of a screen.
type how int

const (
	cutNot    how = iota // stays whole: a state, a number, what is to be typed
	cutEnd               // loses its end
	cutMiddle            // loses its middle: a name, whose two ends tell the most
	cutWrap              // goes on in a further line
	cutDrop              // is left out, with its whole column
)

// give returns printable text as it gives way to a room of so many columns: in
// lines where it is wrapped, else in one.
func (s screen) give(text string, room int, by how) []string {
	switch {
	case s.width == 0 || wide(text) <= room:
		return []string{text}
	case by == cutWrap:
		return wrapTo(text, room)
	case by == cutMiddle:
		return []string{cutMid(text, room)}
	case by == cutEnd:
		text = displaywidth.TruncateString(text, max(room-1, 0), "")
		return []string{strings.TrimRight(text, " ") + "…"}
	}
	return []string{text}
}

// cutMid returns text that is wider than a width without its middle.
func cutMid(text string, width int) string {
	var parts []string
	var widths []int
	for g := displaywidth.StringGraphemes(text); g.Next(); {
		parts, widths = append(parts, g.Value()), append(widths, g.Width())
	}
	begin, end := 0, len(parts)
	left, right := width/2, (width-1)/2 // the … takes one
	for begin < end && widths[begin] <= left {
		left -= widths[begin]
		begin++
	}
	for right += left; begin < end && widths[end-1] <= right; {
		end--
		right -= widths[end]
	}
	return strings.Join(parts[:begin], "") + "…" + strings.Join(parts[end:], "")
}

// wrapTo returns printable text in lines within a width, broken between words,
// and within one only where it is wider than a line. The lines after the first
// are as far in as the first is, and no width is below tableLeast.
func wrapTo(text string, width int) []string {
	width = max(width, tableLeast)
	in := text[:len(text)-len(strings.TrimLeft(text, " "))]
	if wide(in) > width/2 {
		in = ""
	}
	var all []string
	line := in
	for word := range strings.FieldsSeq(text) {
		if line != in && wide(line)+1+wide(word) > width {
			all, line = append(all, line), in
		}
		if line != in {
			line += " "
		}
		for line += word; wide(line) > width; {
			head, rest := splitAt(line, width)
			all, line = append(all, head), in+rest
		}
	}
	return append(all, line)
}

// list returns words with commas between them, in lines that fit.
func (s screen) list(head string, words []cell) string {
	text, at := head, wide(head)
	for i, w := range words {
		comma := ","
		if i == len(words)-1 {
			comma = ""
		}
		if s.width > 0 && i > 0 && at+1+wide(w.text+comma) > s.width {
			text, at = text+"\n  ", 2
		} else if i > 0 {
			text, at = text+" ", at+1
		}
		text, at = text+s.paint(w.text, w.tone)+comma, at+wide(w.text+comma)
	}
	return text
}

// splitAt splits text where a width is full.
func splitAt(text string, width int) (head, rest string) {
	n, full := 0, 0
	for g := displaywidth.StringGraphemes(text); g.Next(); {
		if full += g.Width(); full > width && n > 0 {
			break
		}
		n += len(g.Value())
	}
	return text[:n], text[n:]
}

// emit writes text whose every part is printable by now, but for our own
// colours.
func emit(w io.Writer, text string) error {
	if out, ok := w.(*output); ok {
		out.told = true
		w = out.Writer
	}
	_, err := io.WriteString(w, text)
	return err
}

// writeText prints free text, wrapped: a paragraph for each of its lines. Whatever
// it holds, no terminal obeys it.
func writeText(w io.Writer, text string) error {
	s := screenOf(w)
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		for _, part := range s.give(visible(line), s.width, cutWrap) {
			b.WriteString(part + "\n")
		}
	}
	return emit(w, b.String())
}
