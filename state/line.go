package state

import (
	"bytes"
	"fmt"
	"hash/crc32"
)

// A line of the ledger is the CRC-32C of its payload in eight lower-case
// hexadecimal digits, a space, the payload, a line feed. The payload is JSON,
// which holds no line feed of its own.
//
// One append is one line and one write, so a power cut can leave at most one
// line in pieces, and only the last. What a cut leaves is told from damage by
// this rule; damage is never repaired by leaving a record out.
//
//   - A last line that has all but its line feed is whole.
//   - Else, a last line without a line feed is torn, unless it begins with a
//     whole record: then its line feed was there once, and is damaged.
//   - A last line with a line feed is torn where it has a hole. The file's size
//     and its blocks reach the disk apart, and what has not reached it reads as
//     NULs: from the start of the append or of a sector to the end of a sector.
//     JSON has no NULs, and no single bit makes one at either end of a line.
//   - Anything else that does not match its checksum is damage.

// checksumLength is the length of a line's checksum and the space after it.
const checksumLength = 9

// sector is the least that a disk writes as one.
const sector = 512

// castagnoli returns the table of CRC-32C, which the hash package makes once.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// seal returns a payload as a line, with its line feed.
func seal(payload []byte) []byte {
	line := make([]byte, 0, checksumLength+len(payload)+1)
	line = fmt.Appendf(line, "%08x ", crc32.Checksum(payload, castagnoli()))
	line = append(line, payload...)
	return append(line, '\n')
}

// unseal returns the payload of a line without its line feed; ok is false where
// the checksum does not match.
func unseal(line []byte) (payload []byte, ok bool) {
	sum, payload, ok := checksum(line)
	return payload, ok && sum == crc32.Checksum(payload, castagnoli())
}

func checksum(line []byte) (sum uint32, payload []byte, ok bool) {
	if len(line) < checksumLength || line[checksumLength-1] != ' ' {
		return 0, nil, false
	}
	for _, c := range line[:checksumLength-1] {
		switch {
		case '0' <= c && c <= '9':
			sum = sum<<4 | uint32(c-'0')
		case 'a' <= c && c <= 'f':
			sum = sum<<4 | uint32(c-'a'+10)
		default:
			return 0, nil, false
		}
	}
	return sum, line[checksumLength:], true
}

// lines is a ledger's text taken apart.
type lines struct {
	payloads [][]byte
	size     int    // of what counts; a torn tail begins there
	open     bool   // the last line lacks its line feed
	damage   string // what is wrong with the line after the payloads; "" for nothing
}

// split takes a ledger's text apart by the rule above.
func split(data []byte) lines {
	var l lines
	for l.size < len(data) {
		line, rest, terminated := bytes.Cut(data[l.size:], []byte{'\n'})
		payload, ok := unseal(line)
		if !ok && !terminated {
			line = bytes.TrimRight(line, "\x00")
			payload, ok = unseal(line)
		}
		if !ok {
			l.damage = damage(line, l.size, terminated, len(rest))
			return l
		}
		l.payloads = append(l.payloads, payload)
		l.size += len(line)
		if !terminated {
			l.open = true
			return l
		}
		l.size++
	}
	return l
}

// damage says what is wrong with a line that does not match its checksum and
// begins at offset, with rest bytes behind it; "" where it is torn.
func damage(line []byte, offset int, terminated bool, rest int) string {
	switch {
	case rest > 0:
		return "the checksum does not match"
	case beginsWhole(line):
		return "the line feed at the end of a record is damaged"
	case terminated && !hasHole(line, offset):
		return "the checksum does not match"
	}
	return ""
}

// beginsWhole reports whether a line that does not match its checksum as a
// whole does so up to some closing bracket.
func beginsWhole(line []byte) bool {
	want, payload, ok := checksum(line)
	if !ok {
		return false
	}
	var sum uint32
	for len(payload) > 0 {
		end := bytes.IndexAny(payload, "]}")
		if end < 0 {
			return false
		}
		sum = crc32.Update(sum, castagnoli(), payload[:end+1])
		if sum == want {
			return true
		}
		payload = payload[end+1:]
	}
	return false
}

// hasHole reports whether a line that begins at offset has a run of NULs as
// blocks leave it that never reached the disk. One NUL alone is a damaged byte.
func hasHole(line []byte, offset int) bool {
	for i := 0; i < len(line); i++ {
		start := i
		for i < len(line) && line[i] == 0 {
			i++
		}
		aligned := (start == 0 || (offset+start)%sector == 0) && (offset+i)%sector == 0
		if n := i - start; n >= sector || (aligned && n > 1) {
			return true
		}
	}
	return false
}
