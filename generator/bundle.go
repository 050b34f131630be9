package generator

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// UnitsFile has every unit of a generation one behind the other, so that a boot
// opens one file and not as many as there are units. The same texts lie in
// [NormalDir], each in a file of its own, for all else.
const UnitsFile = "out/units"

// Given is a unit that systemd is to be given.
type Given struct {
	Name  string
	Links []string // of its enablement: multi-user.target.wants/NAME
	Text  string
}

// FormatUnits returns the text that [ReadUnits] reads: before each unit a line
// with its name, its length in bytes and its links.
func FormatUnits(units []Given) []byte {
	var b strings.Builder
	for _, u := range units {
		b.WriteString(u.Name + " " + strconv.Itoa(len(u.Text)))
		for _, link := range u.Links {
			b.WriteString(" " + link)
		}
		b.WriteString("\n" + u.Text + "\n")
	}
	return []byte(b.String())
}

// ErrUnits says that a file of units is not as it was written.
var ErrUnits = errors.New("damaged")

// ReadUnits reads the units of a generation. With an [ErrUnits] come those before
// the place where the file is not as it should be.
func ReadUnits(path string) ([]Given, error) {
	data, err := os.ReadFile(path) //nolint:gosec // of a generation
	if err != nil {
		return nil, err
	}
	var units []Given
	for rest := string(data); rest != ""; {
		head, body, _ := strings.Cut(rest, "\n")
		words := strings.Fields(head)
		if len(words) < 2 {
			return units, fmt.Errorf("%s: %w: %q is not the head of a unit", path, ErrUnits, head)
		}
		size, err := strconv.Atoi(words[1])
		if err != nil || size < 0 || size >= len(body) || body[size] != '\n' {
			return units, fmt.Errorf("%s: %w: %s: its length is wrong", path, ErrUnits, words[0])
		}
		units = append(units, Given{Name: words[0], Links: words[2:], Text: body[:size]})
		rest = body[size+1:]
	}
	return units, nil
}
