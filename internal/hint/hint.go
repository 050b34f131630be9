// Package hint says of an error what to do next.
//
// An error is told with one hint at most. What is nearest to the fault knows
// best what to do about it, so that [Add] leaves an error alone that has one.
package hint

import "errors"

// hinter is an error that says itself what to do next.
type hinter interface {
	error
	Next() string
}

// Add returns err with what to do next on a line of its own; err as it is where
// something that it wraps says that already, and nil where it is nil.
func Add(err error, next string) error {
	if err == nil || Of(err) != "" {
		return err
	}
	return &hinted{err, next}
}

// Of returns what an error says to do next; "" where it does not.
func Of(err error) string {
	if h, ok := errors.AsType[hinter](err); ok {
		return h.Next()
	}
	return ""
}

type hinted struct {
	error
	next string
}

func (h *hinted) Error() string { return h.error.Error() + "\nhint: " + h.next }

func (h *hinted) Unwrap() error { return h.error }

// Next returns the hint.
func (h *hinted) Next() string { return h.next }
