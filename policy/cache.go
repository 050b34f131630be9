package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	cacheVersion = "meshgen compiled policy 1\n"
	sealFile     = "seal"
	sealSize     = 2 * sha256.Size // in hexadecimal digits
	newPrefix    = "new-"
	kept         = 32 // programs
	abandoned    = time.Hour
)

// cache keeps what wazero compiled, a directory for each program, by its sha256.
//
// wazero's own files say nothing of the program that they were made from, and
// have a checksum over a part of themselves only: one that is damaged can crash
// the process, one that was put in another's place answers for it. So beside
// them lies a seal, the digest of the program's sha256 with the names and
// contents of all files there. Where it does not fit nothing of the directory is
// used. The seal keeps out damage and mistakes; it is no secret, and who may
// write there may forge one.
type cache struct{ dir string }

// entry returns the directory in which a program's compiled form is, or false
// where there is none that can be used.
func (c cache) entry(program string) (dir string, ok bool) {
	if c.dir == "" {
		return "", false
	}
	dir = filepath.Join(c.dir, program)
	path := filepath.Join(dir, sealFile)
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() || info.Size() != sealSize {
		return "", false
	}
	had, err := os.ReadFile(path) //nolint:gosec // below our own directory
	if err != nil {
		return "", false
	}
	has, err := seal(dir, program)
	return dir, err == nil && has == string(had)
}

// begin returns an empty directory for a program that is about to be compiled;
// "" where nothing can be kept, which is no reason not to go on.
func (c cache) begin() string {
	if c.dir == "" || os.MkdirAll(c.dir, 0o700) != nil {
		return ""
	}
	c.sweep()
	dir, err := os.MkdirTemp(c.dir, newPrefix)
	if err != nil {
		return ""
	}
	return dir
}

// finish puts a directory that begin returned in the place of the program's, or
// removes it where that cannot be.
func (c cache) finish(dir, program string) {
	if dir == "" {
		return
	}
	sum, err := seal(dir, program)
	if err == nil {
		err = writeNew(filepath.Join(dir, sealFile), sum)
	}
	place := filepath.Join(c.dir, program)
	if err == nil {
		err = os.RemoveAll(place)
	}
	if err == nil {
		err = os.Rename(dir, place) //nolint:forbidigo // a cache: what a power cut leaves of it has no seal that fits
	}
	if err != nil {
		c.drop(dir)
	}
}

// sweep removes what killed processes left behind, and of more programs than are
// kept the oldest.
func (c cache) sweep() {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	type program struct {
		path string
		made time.Time
	}
	var programs []program
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue
		}
		path := filepath.Join(c.dir, e.Name())
		if !strings.HasPrefix(e.Name(), newPrefix) {
			programs = append(programs, program{path, info.ModTime()})
		} else if time.Since(info.ModTime()) > abandoned {
			c.drop(path)
		}
	}
	slices.SortFunc(programs, func(a, b program) int { return b.made.Compare(a.made) })
	for _, p := range programs[min(len(programs), kept-1):] {
		c.drop(p.path)
	}
}

func (c cache) drop(dir string) {
	if dir != "" {
		_ = os.RemoveAll(dir) // best effort: nothing reads it
	}
}

func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // below our own directory
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	return errors.Join(err, f.Close())
}

// seal returns the digest of all that is in a program's directory.
func seal(dir, program string) (string, error) {
	h := sha256.New()
	_, _ = io.WriteString(h, cacheVersion+program+"\n") // a hash takes all
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == filepath.Join(dir, sealFile) {
			return err
		}
		if !d.Type().IsRegular() {
			return errors.New(path + ": no regular file")
		}
		files++
		content, err := digestOf(path)
		_, _ = io.WriteString(h, content+" "+path[len(dir):]+"\n") // likewise
		return err
	})
	if err == nil && files == 0 {
		err = errors.New(dir + ": empty")
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

func digestOf(path string) (string, error) {
	f, err := os.Open(path) //nolint:gosec // below our own directory
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // read-only
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}
