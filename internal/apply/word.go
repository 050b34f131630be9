package apply

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"meshgen/internal/hint"
	"meshgen/state"
	"meshgen/units"
)

// A word of the operator's is a target, an address, or a name alone, where only one
// thing has it.

// meanings returns those targets that a word may mean, one where it says exactly which.
func meanings(word string, all []units.Target) (meant []units.Target) {
	for _, t := range all {
		if string(t) == word || (t.Name() == word && shownBare(t)) {
			return []units.Target{t}
		}
		if t.Name() == word || (t.Kind() == units.TargetUnit && t.Name() == word+".service") {
			meant = append(meant, t)
		}
	}
	return meant
}

// addressIn returns the address that a word is by its form; false where it is none.
func addressIn(word string) (units.Address, bool) {
	a, err := units.ParseAddress(word)
	return a, err == nil && !strings.Contains(word, ":")
}

// choices returns what can be typed to say which of several targets is meant: the
// addresses of their resources, where they have one.
func choices(several []units.Target, of func(units.Target) units.Address) []string {
	var names []string
	for _, t := range several {
		name := string(t)
		if a := of(t); a != (units.Address{}) {
			name = a.String()
		}
		names = appendNew(names, name)
	}
	return names
}

// either is what to type where a word may be one of several things.
func either(command string, choice []string) string {
	lines := make([]string, len(choice))
	for i, c := range choice {
		lines[i] = command + " " + hint.Quote(c)
	}
	return strings.Join(lines, ", or ")
}

// ambiguous is what is wrong with such a word.
const ambiguous = ": may be one of several"

// nearest returns the name that a word was most likely meant to be; "" where none is
// like it. People leave the kind out.
func nearest(word string, known []string) string {
	names := slices.Clone(known)
	for _, k := range known {
		names = append(names, units.Target(k).Name())
	}
	near := units.Nearest(word, names)
	for _, k := range known {
		if near != "" && units.Target(k).Name() == near {
			return k
		}
	}
	return near
}

// asked is what the operator would have adopted, by name.
type asked struct {
	taken []units.Target // in the way of something declared
	idle  []units.Target // not so
}

// asked returns what the words mean that are to be adopted, and the faults of those
// that mean nothing, or too much. The transitions are those before anything is held.
func (in Input) asked(transitions []state.Transition) (a asked, faults units.Faults) {
	var taken, declared []units.Target
	owner := map[units.Target]units.Address{}
	for _, r := range in.Resources {
		for _, t := range units.Targets(r) {
			owner[t] = r.Address
			declared = append(declared, t)
		}
	}
	for _, t := range transitions {
		if t.Kind == state.Takeover {
			taken = append(taken, t.To)
			owner[t.To] = t.Resource
		}
	}
	of := func(t units.Target) units.Address { return owner[t] }
	for _, word := range in.Adopt {
		if address, is := addressIn(word); is {
			i := slices.IndexFunc(in.Resources, func(r units.Resource) bool { return r.Address == address })
			if i < 0 {
				faults = append(faults, in.noAddress(word))
				continue
			}
			a.add(slices.DeleteFunc(slices.Clone(taken), func(t units.Target) bool { return owner[t] != address }), units.Targets(in.Resources[i])[0])
			continue
		}
		meant := meanings(word, taken)
		if choice := choices(meant, of); len(choice) > 1 {
			faults = append(faults, units.Fault{Message: word + ambiguous, Hint: either("meshgen adopt", choice)})
			continue
		}
		a.add(meant, append(meanings(word, declared), units.Target(word))[0])
	}
	return a, faults
}

// add adds what is in the way, or what is not where that is nothing.
func (a *asked) add(taken []units.Target, idle units.Target) {
	if a.taken = append(a.taken, taken...); len(taken) == 0 {
		a.idle = append(a.idle, idle)
	}
}

func (in Input) noAddress(word string) units.Fault {
	var known []string
	for _, r := range in.Resources {
		known = append(known, r.Address.String())
	}
	f := units.Fault{Message: word + ": no resource of that address is declared", Hint: "declare it first"}
	if near := units.Nearest(word, known); near != "" {
		f.Hint = "nearest: " + near
	}
	return f
}

// toGiveBack returns what was adopted and is meant by a word: a target, or all that
// was adopted for a resource.
func (n *Node) toGiveBack(word string) ([]state.Record, error) {
	adopted := n.adopted()
	if a, is := addressIn(word); is {
		return n.adoptedFor(a, adopted)
	}
	of := map[units.Target]state.Record{}
	var targets []units.Target
	for _, r := range adopted {
		of[r.Target] = r
		targets = append(targets, r.Target)
	}
	meant := meanings(word, targets)
	switch choice := choices(meant, func(t units.Target) units.Address { return of[t].Resource }); len(choice) {
	case 0:
		r, err := n.named(word)
		if err == nil {
			err = n.neverAdopted(r)
		}
		return nil, err
	case 1:
		var records []state.Record
		for _, t := range meant {
			records = append(records, of[t])
		}
		return records, nil
	default:
		return nil, hint.Add(errors.New(word+ambiguous), either("meshgen release", choice))
	}
}

// adoptedFor returns what was adopted for the resource of an address.
func (n *Node) adoptedFor(a units.Address, adopted []state.Record) ([]state.Record, error) {
	all := slices.DeleteFunc(slices.Clone(adopted), func(r state.Record) bool { return r.Resource != a })
	if len(all) > 0 {
		return all, nil
	}
	var known []string
	for _, r := range n.records() {
		if r.Resource == a {
			return nil, fmt.Errorf("%s: was not adopted: there is nothing to give back", a)
		}
		known = append(known, r.Resource.String())
	}
	return nil, noSuchAddress(a.String(), known)
}

// noSuchAddress says that the ledger has no resource of an address, and which is like
// it.
func noSuchAddress(word string, known []string) error {
	err := fmt.Errorf("%s: the ledger has no such address", word)
	if near := units.Nearest(word, known); near != "" {
		return hint.Add(err, "nearest: "+near)
	}
	return hint.Add(err, showsAll)
}

// showsAll is what to do where a name is like none.
const showsAll = "meshgen status shows what there is"
