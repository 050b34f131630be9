package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Lock keeps every other writer off a node. It ends with Close, or with the
// process.
type Lock struct{ file *os.File }

// LockedError says that another process holds the lock.
type LockedError struct {
	Path string
	PID  int // 0 where the holder has not written it
}

// Error names the lock's file and its holder.
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return e.Path + ": another switch is running\nhint: " + e.Next()
	}
	return e.Path + ": another switch is running, process " + strconv.Itoa(e.PID) + "\nhint: " + e.Next()
}

// Next returns what to do.
func (e *LockedError) Next() string { return "wait for its end" }

// cause is what is wrong with a file, in words that do not name it: the message
// begins with its path.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// Acquire takes the lock without waiting, making the state directory where it
// is missing. It returns a [LockedError] where another process has the lock.
func Acquire(l Layout) (*Lock, error) {
	if err := os.MkdirAll(l.State, 0o700); err != nil {
		return nil, unwritable(l.State, fmt.Errorf("%s: make directory: %w", l.State, cause(err)))
	}
	f, err := os.OpenFile(l.Lock(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unwritable(l.State, fmt.Errorf("%s: open: %w", l.Lock(), cause(err)))
	}
	if err = lock(f); errors.Is(err, unix.EWOULDBLOCK) {
		err = &LockedError{Path: l.Lock(), PID: holder(f)}
	} else if err != nil {
		err = fmt.Errorf("%s: lock: %w", l.Lock(), err)
	}
	if err != nil {
		_ = f.Close() // read-only
		return nil, err
	}
	// The pid only serves the message: the lock holds without it.
	_ = f.Truncate(0)
	_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return &Lock{file: f}, nil
}

// lock takes the lock of a file, past those who only ask for its holder: they share it
// for an instant, as no holder does.
func lock(f *os.File) error {
	for tries := 100; ; tries-- {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || tries == 0 {
			return err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
			return err
		}
		<-time.After(time.Millisecond)
	}
}

// Holder returns the process that holds the lock; held is false where none does
// or that cannot be told.
func Holder(l Layout) (pid int, held bool) {
	f, err := os.Open(l.Lock())
	if err != nil {
		return 0, false
	}
	defer func() { _ = f.Close() }() // read-only
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return 0, false
	}
	return holder(f), true
}

func holder(f *os.File) int {
	text, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}

// Close gives the lock up.
func (k *Lock) Close() error {
	if err := k.file.Close(); err != nil {
		return fmt.Errorf("%s: %w", k.file.Name(), err)
	}
	return nil
}
