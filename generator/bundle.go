package generator

import (
	"errors"
	"fmt"
	"hash/crc32"
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

// unitsHead begins the first line of a file of units. Their number and the CRC-32C
// of all that comes after the line follow.
const unitsHead = "meshgen-units/1"

// FormatUnits returns the text that [ReadUnits] reads: a line that tells a file that
// is whole, then before each unit one with its name, its length in bytes and its
// links.
func FormatUnits(units []Given) []byte {
	var b strings.Builder
	for _, u := range units {
		b.WriteString(u.Name + " " + strconv.Itoa(len(u.Text)))
		for _, link := range u.Links {
			b.WriteString(" " + link)
		}
		b.WriteString("\n" + u.Text + "\n")
	}
	return []byte(fmt.Sprintf("%s %d %08x\n", unitsHead, len(units), checksum(b.String())) + b.String())
}

func checksum(text string) uint32 {
	return crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli))
}

// ErrUnits says that a file of units is not as it was written.
var ErrUnits = errors.New("damaged")

// ReadUnits reads the units of a generation. With an [ErrUnits] come those that can
// be read. A file without the first line is of a meshgen that wrote none, and is
// taken as it is; what is no file is damaged as well.
func ReadUnits(path string) ([]Given, error) {
	data, err := readFile(path, mostOfUnits)
	if errors.Is(err, ErrFile) {
		return nil, fmt.Errorf("%w: %w", err, ErrUnits)
	}
	if err != nil {
		return nil, err
	}
	head, body, _ := strings.Cut(string(data), "\n")
	words := strings.Fields(head)
	if len(data) == 0 {
		return nil, fmt.Errorf("%s: %w: it is empty", path, ErrUnits)
	}
	if len(words) == 0 || words[0] != unitsHead {
		return parseUnits(path, string(data))
	}
	units, err := parseUnits(path, body)
	want := fmt.Sprintf("%s %d %08x", unitsHead, len(units), checksum(body))
	if err == nil && head != want {
		err = fmt.Errorf("%s: %w: it is not as it was written", path, ErrUnits)
	}
	return units, err
}

func parseUnits(path, text string) ([]Given, error) {
	var units []Given
	for rest := text; rest != ""; {
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
