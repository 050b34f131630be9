package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
	"golang.org/x/sys/unix"

	"meshgen/internal/apply"
	"meshgen/policy"
	"meshgen/units"
)

// display shows a switch while it runs. On a terminal the units that are moving
// stand below what has ended, with the time that each has taken; elsewhere each
// is a line once it has ended. As a unit of systemd, whose stderr is the journal,
// it logs an entry with fields instead of a line.
type display struct {
	out   io.Writer
	quiet bool
	log   bool
	live  bool
	color bool
	width int

	mu     sync.Mutex
	moving []movement
	drawn  int // lines below what has ended
	stop   chan struct{}
}

type movement struct {
	step  apply.Step
	begun time.Time
}

func (o *options) newDisplay(out io.Writer) *display {
	d := &display{out: out, quiet: o.quiet, stop: make(chan struct{})}
	if f, ok := out.(*os.File); ok && !o.quiet {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
			d.live, d.width = os.Getenv("TERM") != "dumb", int(size.Col)
			if d.width < 20 { // a serial line tells 0
				d.width = 80
			}
			d.color = d.live && os.Getenv("NO_COLOR") == ""
		}
	}
	if d.live {
		go d.tick()
	}
	if out == os.Stderr {
		d.log, _ = journal.StderrIsJournalStream() // where that is not known, it is not
	}
	return d
}

// tick redraws the times while units move.
func (d *display) tick() {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-d.stop:
			return
		case <-ticker.C:
			d.mu.Lock()
			if len(d.moving) > 0 {
				d.erase()
				d.draw()
			}
			d.mu.Unlock()
		}
	}
}

// end leaves the terminal as it should be found. It may be called again.
func (d *display) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.erase()
	select {
	case <-d.stop:
	default:
		close(d.stop)
	}
}

// line shows text that stands on its own.
func (d *display) line(text string) { d.show(lines(text)) }

// show shows what is printable, but for our own colours.
func (d *display) show(text string) {
	if d.quiet {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.erase()
	_, _ = fmt.Fprintln(d.out, text) // what cannot be shown is not worth the switch
	d.draw()
}

// event shows a step that is begun or has ended.
func (d *display) event(e apply.Event) {
	if !e.Ended {
		d.mu.Lock()
		d.moving = append(d.moving, movement{e.Step, time.Now()})
		notifyMoving(d.moving)
		d.mu.Unlock()
		return
	}
	d.mu.Lock()
	for i, m := range d.moving {
		if m.step == e.Step {
			d.moving = append(d.moving[:i:i], d.moving[i+1:]...)
			break
		}
	}
	notifyMoving(d.moving)
	d.mu.Unlock()
	if d.log {
		d.entry(e)
		return
	}
	d.show(d.ended(e))
}

// entry logs a step with fields to search by: systemd.journal-fields(7).
func (d *display) entry(e apply.Event) {
	priority := journal.PriInfo
	text := strings.TrimSpace(fmt.Sprintf("%s %s", e.Op, shown(e.Target)))
	fields := map[string]string{
		"MESHGEN_OP": string(e.Op), "MESHGEN_TARGET": string(e.Target), "MESHGEN_REASON": e.Reason,
		"MESHGEN_TOOK_USEC": strconv.FormatInt(e.Took.Microseconds(), 10),
	}
	if e.Target.Kind() == units.TargetUnit {
		fields["OBJECT_SYSTEMD_UNIT"] = e.Target.Name() // so that systemctl status shows it
	}
	if e.Err != nil {
		priority = journal.PriErr
		text += ": " + e.Err.Error()
	}
	if err := journal.Send(lines(text), priority, fields); err != nil {
		d.show(d.ended(e))
	}
}

// ended returns the line of a step that has ended: what was done to what, the
// time that it took, and why, or what went wrong.
func (d *display) ended(e apply.Event) string {
	took := ""
	if e.Took > 0 {
		took = fmt.Sprintf("%.2fs", e.Took.Seconds())
	}
	text := policy.Line(e.Reason)
	if e.Err != nil {
		mark := "failed"
		if d.color {
			mark = "\x1b[31mfailed\x1b[0m"
		}
		text = mark + ": " + lines(e.Err.Error())
	}
	return strings.TrimRight(fmt.Sprintf("%-9s  %-30s  %6s  %s", e.Op, policy.Line(shown(e.Target)), took, text), " ")
}

// draw writes the units that are moving; erase takes them away.
func (d *display) draw() {
	if !d.live {
		return
	}
	for _, m := range d.moving {
		took := fmt.Sprintf("  %.1fs", time.Since(m.begun).Seconds())
		text := []rune(fmt.Sprintf("%-9s  %s", m.step.Op, policy.Line(shown(m.step.Target))))
		if room := d.width - len(took) - 3; len(text) > room {
			text = append(text[:max(room-1, 0)], '…')
		}
		_, _ = fmt.Fprintf(d.out, "%s%s …\n", string(text), took) // as in line
		d.drawn++
	}
}

func (d *display) erase() {
	if d.drawn > 0 {
		_, _ = fmt.Fprintf(d.out, "\x1b[%dA\x1b[J", d.drawn) // as in line
		d.drawn = 0
	}
}
