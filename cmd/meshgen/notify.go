package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"meshgen/policy"
)

// The longest that comes between two words of a switch: a step, whose jobs have
// deadlines, and what comes before the first, where images are pulled, which takes as
// long as the network does.
const (
	stepTakes  = 20 * time.Minute
	stageTakes = 2 * time.Hour
)

// notifyBegin tells systemd, where that runs the switch as a unit, that it has begun,
// and how long to wait for the next word: sd_notify(3).
func notifyBegin() {
	notify("compares the manifest with the machine, and pulls images", fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", stageTakes.Microseconds()))
}

// notifyMoving tells systemd what is moving.
func notifyMoving(moving []movement) {
	if len(moving) == 0 {
		return
	}
	var words []string
	for _, m := range moving {
		words = append(words, strings.TrimSpace(string(m.step.Op)+" "+shown(m.step.Target)))
	}
	if len(words) > mostMoving {
		words = append(words[:mostMoving], fmt.Sprintf("%d more", len(words)-mostMoving))
	}
	notify(strings.Join(words, ", "), fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", stepTakes.Microseconds()))
}

// mostMoving is how many units a status has by their names.
const mostMoving = 4

// notifyEnd tells systemd how a switch ended. A unit that waits for its word is ready
// where it ended well.
func notifyEnd(err error) {
	if err != nil {
		first, _, _ := strings.Cut(textOf(err), "\n")
		notify(first)
		return
	}
	notify("done", "READY=1")
}

func notify(status string, more ...string) {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return
	}
	state := append([]string{"STATUS=" + policy.Line(status)}, more...)
	_, _ = daemon.SdNotify(false, strings.Join(state, "\n")) // who does not listen misses nothing
}
