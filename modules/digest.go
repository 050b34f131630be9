package modules

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// answer is the version of what Load makes of a manifest. It is raised when
// the same manifest and schema come to mean something else, so that no cached
// answer outlives the change.
const answer = 3

// Digest returns the sha256, in hexadecimal, of all that the answer of [Load]
// depends on: the schema, the options, and the path and content of every
// regular file below dir but for .git, since a file of the manifest may name
// any of them as its source. A symbolic link counts with what it leads to,
// where that is a regular file, and else as the link that it is. Of what is too
// large to be named the size counts alone.
func Digest(dir string, o Options) (string, error) {
	h := sha256.New()
	write(h, fmt.Sprintf("%d %q %q %t", answer, o.Node, o.Hostname, o.AllowEmpty))
	for _, name := range schemaNames() {
		text, err := schemaFiles.ReadFile(name)
		if err != nil {
			return "", err
		}
		write(h, string(text))
	}
	// WalkDir does not follow a link at its root.
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	err = filepath.WalkDir(resolved, func(file string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.Name() == ".git" && file != resolved:
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(resolved, file)
		if err != nil {
			return err
		}
		return digestEntry(h, file, name, e)
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// digestEntry adds one file of the tree.
func digestEntry(h hash.Hash, file, name string, e fs.DirEntry) error {
	if e.Type()&fs.ModeSymlink != 0 {
		to, err := os.Readlink(file)
		if err != nil {
			return err
		}
		write(h, "link")
		write(h, name)
		write(h, to)
		info, err := os.Stat(file)
		if err != nil || !info.Mode().IsRegular() {
			return nil // dangling, as an editor's lock is, or not to be followed
		}
	} else if !e.Type().IsRegular() {
		return nil
	}
	f, err := os.Open(file) //nolint:gosec // walked, not named by anyone
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	info, err := f.Stat()
	if err != nil {
		return err
	}
	write(h, name)
	write(h, fmt.Sprint(info.Size()))
	if info.Size() > mostSource && filepath.Ext(name) != ".cue" {
		return nil
	}
	_, err = io.Copy(h, f)
	return err
}

// write adds a text so that two texts never run into one.
func write(h hash.Hash, text string) {
	_, _ = fmt.Fprintf(h, "%d:%s", len(text), text) // a hash does not fail
}
