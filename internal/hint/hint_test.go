package hint

import (
	"errors"
	"fmt"
	"testing"
)

func TestTheHintNearestToTheFaultStays(t *testing.T) {
	fault := errors.New("disk full")
	inner := fmt.Errorf("append: %w", Add(fault, "make room"))
	for _, err := range []error{Add(inner, "run it again"), Add(errors.Join(errors.New("other"), inner), "run it again")} {
		if Of(err) != "make room" || !errors.Is(err, fault) {
			t.Errorf("the hint is %q of %v", Of(err), err)
		}
	}
	if got := Add(inner, "run it again").Error(); got != "append: disk full\nhint: make room" {
		t.Errorf("told as %q", got)
	}
	if Of(fault) != "" || Add(nil, "x") != nil {
		t.Error("a hint from nowhere")
	}
}
