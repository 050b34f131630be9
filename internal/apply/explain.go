package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"meshgen/internal/hint"
	"meshgen/state"
	"meshgen/units"
)

// Story is all that happened to a target, or to the targets of a resource.
type Story struct {
	Target   units.Target // "" where a resource was asked for
	Resource units.Address
	Events   []Telling
	// Now says of each target what it is, Next what comes of it.
	Now, Next []string
	// Damage is what is wrong with an older log; what a later one kept of it is
	// told instead.
	Damage error
}

// Telling is one event in words.
type Telling struct {
	Time       time.Time         `json:"time"`
	Generation int               `json:"generation,omitempty"`
	Switch     int               `json:"switch,omitempty"` // the generation that the switch under way was to bring
	Event      string            `json:"event"`
	Target     units.Target      `json:"target,omitempty"`
	Detail     string            `json:"detail"`
	Policy     string            `json:"policy,omitempty"`
	PolicySum  string            `json:"policySum,omitempty"` // sha256 of its program, in hexadecimal
	Facts      map[string]string `json:"facts,omitempty"`
}

// Explain tells the story of what a word means: a target, or the address of a
// resource, also an earlier one. It is from the ledger and all logs that were set
// aside; only what is now is looked up on the machine.
func (n *Node) Explain(ctx context.Context, word string) (Story, error) {
	if n.Ledger == nil {
		return Story{}, fmt.Errorf("%s: nothing is recorded here yet", word)
	}
	var s Story
	var events []state.Event
	for e, err := range state.Events(n.Layout, n.machineID) {
		if err != nil {
			if _, damaged := errors.AsType[*state.DamageError](err); !damaged {
				return s, err
			}
			s.Damage = err
			continue
		}
		events = append(events, e)
	}
	current, err := n.InForce()
	if err != nil {
		return s, err
	}
	t := teller{events: events, held: current.Held}
	if a, err := units.ParseAddress(word); err == nil && t.knows(a) {
		s.Resource = a
		t.of = t.addresses(a)
	} else if s, err = n.meant(word, s, t); err != nil {
		return s, err
	} else if t.target = s.Target; t.target == "" {
		t.of = t.addresses(s.Resource)
	}
	s.Events = t.tell()
	return s, n.presently(ctx, &s, t)
}

// meant finds the target that a word means, or the resource where it is the name
// of several of its targets.
func (n *Node) meant(word string, s Story, t teller) (Story, error) {
	several, known := n.matches(word)
	var targets []units.Target
	for _, r := range several {
		targets = append(targets, r.Target)
	}
	choice := choices(targets, func(t units.Target) units.Address {
		r, _ := n.ledgerRecord(t)
		return r.Resource
	})
	switch {
	case len(several) == 1:
		s.Target, s.Resource = several[0].Target, several[0].Resource
		return s, nil
	case len(choice) == 1:
		s.Resource = several[0].Resource
		return s, nil
	case len(choice) > 1:
		return s, hint.Add(errors.New(word+ambiguous), either("meshgen explain", choice))
	}
	return s, t.nearest(word, unknown(word, known))
}

// nearest has an error name the address that is most like a word which looks like
// one.
func (t *teller) nearest(word string, err error) error {
	var known []string
	for a := range t.all() {
		known = append(known, a.String())
	}
	if near := units.Nearest(word, known); near != "" && strings.Count(word, "/") == 2 && !strings.Contains(word, ":") {
		return hint.Add(fmt.Errorf("%s: the ledger has no such address", word), "nearest: "+near)
	}
	return err
}

// teller picks what belongs to a story, and puts it in words.
type teller struct {
	events  []state.Event
	held    []state.Holding        // now
	target  units.Target           // asked for, or
	of      map[units.Address]bool // the resource, by all its addresses
	targets []units.Target         // that the story came upon, in their order
}

// all returns every address that a target ever was of.
func (t *teller) all() map[units.Address]bool {
	found := map[units.Address]bool{}
	for _, h := range t.held {
		found[h.Resource] = true
	}
	for _, e := range t.events {
		if e.Kind == state.EventEmit {
			found[e.Resource] = true
		}
		if e.Kind == state.EventRecord {
			for _, a := range append(e.Record.Earlier, e.Record.Resource) {
				found[a] = a != units.Address{}
			}
		}
		for _, tr := range e.Transitions {
			found[tr.Resource] = true
		}
	}
	return found
}

func (t *teller) knows(a units.Address) bool { return t.all()[a] }

// addresses returns a resource's address with those that it had before, by the
// transfers that led to it.
func (t *teller) addresses(a units.Address) map[units.Address]bool {
	of := map[units.Address]bool{a: true}
	for _, e := range slices.Backward(t.events) {
		for _, tr := range e.Transitions {
			if tr.Kind != state.Transfer || !of[tr.Resource] {
				continue
			}
			if was, ok := t.ownerBefore(tr.From, e); ok {
				of[was] = true
			}
		}
	}
	return of
}

// ownerBefore returns the resource that had a target when a switch began.
func (t *teller) ownerBefore(target units.Target, begin state.Event) (a units.Address, ok bool) {
	for _, e := range t.events {
		if e.Kind == begin.Kind && e.Time.Equal(begin.Time) && e.Generation == begin.Generation {
			return a, ok
		}
		switch {
		case e.Kind == state.EventEmit && e.Target == target:
			a, ok = e.Resource, true
		case e.Kind == state.EventRecord && e.Record.Target == target:
			a, ok = e.Record.Resource, true
		}
	}
	return a, ok
}

// tell returns the story, oldest first.
func (t *teller) tell() []Telling {
	var told []Telling
	owner := map[units.Target]units.Address{}
	last := map[units.Target]state.Event{} // that was told of it
	touched := false                       // by the switch under way,
	under := 0                             // which is to this generation
	for _, e := range t.events {
		was := owner[e.Target]
		switch e.Kind {
		case state.EventBegin:
			touched, under = false, e.Generation
			for _, tr := range e.Transitions {
				if t.concerns(tr) {
					told = append(told, transition(e, tr))
					told[len(told)-1].Switch = under
					touched = true
				}
			}
			continue
		case state.EventEnd:
			if touched && e.Result != state.Done {
				told = append(told, Telling{Time: e.Time, Generation: e.Generation, Switch: under, Event: string(e.Kind), Detail: endings[e.Result]})
			}
			under = 0
			continue
		case state.EventRecord:
			e.Target, e.Resource = e.Record.Target, e.Record.Resource
			owner[e.Target] = e.Resource
		case state.EventEmit:
			owner[e.Target] = e.Resource
		case state.EventBind, state.EventEject:
			continue
		case state.EventDue, state.EventStarted, state.EventHold, state.EventFind, state.EventForget, state.EventRetire,
			state.EventAdopt, state.EventRelease, state.EventDiscard:
		}
		if e.Target != t.target && !t.of[owner[e.Target]] && !t.of[was] {
			continue
		}
		if !slices.Contains(t.targets, e.Target) {
			t.targets = append(t.targets, e.Target)
		}
		touched = true
		detail := inWords(e, last[e.Target], was)
		if e.Generation > 0 && e.Generation < under { // the switch is going back
			detail += fmt.Sprintf(", as of generation %d", e.Generation)
		}
		told = append(told, Telling{
			Time: e.Time, Generation: e.Generation, Switch: under, Event: string(e.Kind), Target: e.Target, Detail: detail,
		})
		last[e.Target] = e
	}
	return told
}

func (t *teller) concerns(tr state.Transition) bool {
	if t.target != "" {
		return tr.From == t.target || tr.To == t.target
	}
	return t.of[tr.Resource]
}

// awaits reports whether a holding is of the story.
func (t *teller) awaits(h state.Holding) bool {
	return t.of[h.Resource] || slices.ContainsFunc(h.Taken, func(tr state.Transition) bool { return tr.To == t.target })
}

//nolint:gochecknoglobals // a constant table
var endings = map[state.Result]string{
	state.Undone:     "the switch was undone before it was in force",
	state.RolledBack: "the switch was rolled back: something of it did not come up",
	state.Failed:     "the switch is in force, and something of it failed",
}

func transition(e state.Event, tr state.Transition) Telling {
	told := Telling{Time: e.Time, Generation: e.Generation, Event: string(tr.Kind), Policy: tr.Policy, PolicySum: tr.PolicySum, Facts: tr.Facts}
	told.Detail = string(tr.Kind) + " " + string(cmp.Or(tr.To, tr.From))
	if tr.From != "" && tr.To != "" && tr.From != tr.To {
		told.Detail = fmt.Sprintf("%s %s to %s", tr.Kind, tr.From, tr.To.Name())
	}
	if tr.Decision != "" {
		told.Detail += ": " + string(tr.Decision)
	}
	if why := tr.Why(); why != "" {
		told.Detail += "; " + why
	}
	return told
}

// inWords says what an event did to its target. last is what was told of the
// target before, and was the resource that had it.
func inWords(e, last state.Event, was units.Address) string {
	switch e.Kind {
	case state.EventEmit:
		return emitted(e, last, was)
	case state.EventDue:
		if e.Why == state.Again {
			return "is due: it is to be restarted, since a file that it reads changes"
		}
		return "is due: it is about to be stopped or started"
	case state.EventStarted:
		if e.Container != "" {
			return fmt.Sprintf("was started, with container %.12s", e.Container)
		}
		return "was started"
	case state.EventHold:
		return because("is left where it is", e.Why)
	case state.EventFind:
		return because("was found, and is not meshgen's", e.Why)
	case state.EventForget:
		return because("is no longer meshgen's", e.Why)
	case state.EventAdopt:
		return adoptedWords(e.Adoption)
	case state.EventRelease:
		if len(e.Left) > 0 {
			return because("is its owner's again, who has put something else there; what it was is in "+strings.Join(e.Left, ", ")+" of the state directory", e.Why)
		}
		return because("is its owner's again, as it was before it was adopted", e.Why)
	case state.EventDiscard:
		return because("has no copy any more of what it was before it was adopted", e.Why)
	case state.EventRetire:
		return because("was seen gone", e.Why)
	case state.EventRecord:
		return fmt.Sprintf("was %s: so much is kept of a log that is gone", e.Record.State)
	case state.EventBegin, state.EventEnd, state.EventEject, state.EventBind:
	}
	return string(e.Kind)
}

func emitted(e, last state.Event, was units.Address) string {
	switch {
	case e.Origin == rebuilt:
		return fmt.Sprintf("was recorded for %s when the ledger was made anew", e.Resource)
	case e.Origin == originPartial:
		return fmt.Sprintf("was recorded for %s, as a copy of %s that is to be made", e.Resource, e.Definition)
	case e.Origin == originCopy:
		return "is in use from here on, as a copy of " + e.Definition
	case e.Origin == state.OriginAdopted:
		return fmt.Sprintf("was recorded for %s, before what had the name is put aside", e.Resource)
	case e.Origin != "written":
		return fmt.Sprintf("was recorded as meshgen's, for %s, being %s", e.Resource, e.Origin)
	case was != units.Address{} && was != e.Resource:
		return fmt.Sprintf("passed from %s to %s", was, e.Resource)
	case last.Kind == "" || last.Kind == state.EventRetire || last.Kind == state.EventFind:
		return fmt.Sprintf("was recorded for %s, before it came to be", e.Resource)
	}
	return "was recorded anew, as it is to be from here on"
}

// adoptedWords says what an adoption did.
func adoptedWords(was *state.Adoption) string {
	return "was adopted from " + formerly(was)
}

// keptWords says what there is of what was adopted, once ours has gone.
func keptWords(r state.Record) string {
	if itsUnitMakes(r.Adoption) {
		return fmt.Sprintf("of what it was there is what podman said of it; meshgen release %s has %s make one again", r.Target, r.Adoption.Unit)
	}
	return fmt.Sprintf("what it was is kept; meshgen release %s gives it back", r.Target)
}

// itsUnitMakes reports whether nothing is kept of what was adopted but what makes it again:
// the files of its unit.
func itsUnitMakes(was *state.Adoption) bool {
	return (was.What == wasContainer && was.Aside == "") || was.What == wasPod
}

// formerly says what had a name before it was adopted, and where that is kept.
func formerly(was *state.Adoption) string {
	kept := ", which is kept in " + was.Dir + " of the state directory"
	switch was.What {
	case wasContainer:
		if was.Aside == "" {
			return fmt.Sprintf("container %.12s, which %s had made", was.ID, was.Unit)
		}
		if was.Pod != nil {
			return fmt.Sprintf("container %.12s, which is kept as %s, in the pod %s", was.ID, was.Aside, was.Pod.Name)
		}
		return fmt.Sprintf("container %.12s, which is kept as %s", was.ID, was.Aside)
	case wasPod:
		return fmt.Sprintf("pod %.12s, which %s had made", was.ID, was.Unit)
	case wasVolume, wasNetwork:
		return "a " + was.What + " made at " + was.ID + ", which is used as it is"
	case wasDir:
		return "a directory, which is used as it is; it was " + was.Directory.Meta
	case wasMask:
		return "a mask"
	case wasSecret:
		return "a secret" + kept
	}
	if was.Dir == "" {
		return "a link to " + was.Files[0].Link
	}
	switch was.What {
	case wasFile:
		return "a file" + kept
	case wasDropIn:
		return "what " + was.Files[0].Path + " changed" + kept
	}
	return "what " + was.Files[0].Path + " defined" + kept
}

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// presently adds what the targets of the story are now.
func (n *Node) presently(ctx context.Context, s *Story, t teller) error {
	current, err := n.InForce()
	if err != nil {
		return err
	}
	active, err := n.active(ctx, t.targets)
	if err != nil {
		return err
	}
	for _, h := range t.held {
		if t.awaits(h) {
			s.Now = append(s.Now, fmt.Sprintf("%s, declared at %s, is held: %s", h.Resource, h.Position, h.Why()))
			s.Next = append(s.Next, "a switch takes it up once nothing is in its way any more")
			if hint := h.Hint(); hint != "" {
				s.Next = append(s.Next, hint)
			}
		}
	}
	declared := declarations(current)
	retired := func(target units.Target) int { // what is, before what was
		if r, ok := n.Ledger.Record(target); ok && r.State == state.Retired {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(t.targets, func(a, b units.Target) int { return cmp.Compare(retired(a), retired(b)) })
	for _, target := range t.targets {
		r, ok := n.Ledger.Record(target)
		switch {
		case !ok: // only an older log knows it
		case t.target == "" && !t.of[r.Resource]:
			s.Now = append(s.Now, fmt.Sprintf("%s is of %s by now", target, r.Resource))
		default:
			now, next := standing(r, declared[target], active[target.Name()])
			for _, c := range n.stillLeft(r) {
				now += "; " + c.is()
				s.Next = append(s.Next, c.goes())
			}
			s.Now = append(s.Now, now)
			if next != "" && (t.target != "" || r.State != state.Retired) {
				s.Next = append(s.Next, next)
			}
		}
	}
	return nil
}

// active returns what systemd says of those targets that are units.
func (n *Node) active(ctx context.Context, targets []units.Target) (map[string]string, error) {
	active := map[string]string{}
	if n.Systemd == nil {
		return active, nil
	}
	var names []string
	for _, t := range targets {
		if t.Kind() == units.TargetUnit {
			names = append(names, t.Name())
		}
	}
	found, err := n.Systemd.Units(ctx, names)
	for name, u := range found {
		active[name] = u.Active
	}
	return active, err
}

// standing says what a target is now and what comes of it. by is the resource
// that declares it, if any.
func standing(r state.Record, by units.Resource, active string) (now, next string) {
	now = fmt.Sprintf("%s is %s", r.Target, r.State)
	switch r.State {
	case state.Live:
		if r.Adoption != nil {
			now += fmt.Sprintf(", adopted in generation %d from %s", r.Adoption.Generation, formerly(r.Adoption))
			next = fmt.Sprintf("meshgen release %s gives it back", r.Target)
			if itsUnitMakes(r.Adoption) {
				next = fmt.Sprintf("meshgen release %s has %s make one again", r.Target, r.Adoption.Unit)
			}
		}
		if by.Address == (units.Address{}) {
			return now + ", and no longer declared", fmt.Sprintf("the next switch tries again to remove %s; meshgen forget %[1]s lets it go", r.Target)
		}
		now += fmt.Sprintf(", declared by %s at %s", by.Address, by.Position)
		if r.Target.Kind() == units.TargetUnit && active != "" {
			now += ", and " + active
		}
		if r.Due {
			next = fmt.Sprintf("the next switch starts %s", r.Target)
		}
	case state.Held:
		now = because(now, r.Why)
		next = fmt.Sprintf("declared again, %s is meshgen's again; meshgen forget %[1]s lets it go", r.Target)
		if r.Target.Kind() == units.TargetVolume {
			next += ", meshgen gc --volumes removes it"
		}
	case state.Retired:
		now += sinceWhen(r.Retired) + because("", r.Why)
		next = "the name is free: something may be declared by it"
		if r.Adoption != nil {
			now += "; before, it was " + formerly(r.Adoption)
			next = fmt.Sprintf("meshgen release %s gives that back", r.Target)
		}
	case state.Found:
		now = because(fmt.Sprintf("%s is not meshgen's%s", r.Target, sinceWhen(r.Found)), r.Why)
		next = fmt.Sprintf("%s is left alone; a resource that is to have the name is held or refused, as its policy says", r.Target)
	}
	return now, next
}

func sinceWhen(m state.Moment) string {
	if m.Time.IsZero() {
		return ""
	}
	return " since " + m.Time.Local().Format(time.DateTime)
}
