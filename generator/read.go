package generator

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// The most that is read of one file: many times what any of them holds.
const (
	mostOfQuadlet = 1 << 20
	mostOfUnits   = 256 << 20
)

// ErrFile says that what lies at a path is no file that one could read to its end.
var ErrFile = errors.New("not a file")

// readFile returns the content of a regular file of at most so many bytes. Whatever
// lies at the path it does not wait: a pipe has nobody who writes, and to open some
// devices is to use them.
func readFile(path string, most int64) ([]byte, error) {
	f, size, err := openFile(path, most)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read-only
	data := make([]byte, size)
	_, err = io.ReadFull(f, data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}

// openFile opens what [readFile] reads, and returns its size. The caller closes it.
func openFile(path string, most int64) (*os.File, int64, error) {
	if err := regular(path, most); err != nil {
		return nil, 0, err
	}
	// It may have become a pipe since.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0) //nolint:gosec // of a generation, or a Quadlet on the machine
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil {
		err = fit(path, info, most)
	}
	if err != nil {
		_ = f.Close() // read-only
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// regular returns what is wrong with the file that lies at a path or that a link
// there leads to.
func regular(path string, most int64) error {
	info, err := os.Stat(path) //nolint:gosec // of a generation, or a Quadlet on the machine
	if err != nil {
		return err
	}
	return fit(path, info, most)
}

func fit(path string, info os.FileInfo, most int64) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: %w", path, ErrFile)
	}
	if info.Size() > most {
		return fmt.Errorf("%s: %w of at most %d bytes", path, ErrFile, most)
	}
	return nil
}
