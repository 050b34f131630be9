package apply

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"meshgen/internal/hint"
	"meshgen/state"
	"meshgen/units"
)

// Earlier returns what an earlier generation was made from, with the contents of
// its files, to be switched to like any other input; 0 is the generation that
// was in force before the present one. Its number is in the input.
//
// The positions are those of the manifest that it was made from, and so is the
// digest: the next switch finds that the manifest is another.
func (n *Node) Earlier(number int) (Input, error) {
	if number == 0 {
		var err error
		if number, err = n.before(); err != nil {
			return Input{}, err
		}
	}
	numbers, err := state.Numbers(n.Layout)
	if err != nil {
		return Input{}, err
	}
	if !slices.Contains(numbers, number) {
		return Input{}, hint.Add(fmt.Errorf("generation %d: not on the disk", number), n.choice(numbers))
	}
	g, err := state.ReadGeneration(n.Layout, number)
	if err != nil {
		return Input{}, err
	}
	in := Input{Node: g.Node, Adopted: g.Adopted, Digest: g.Manifest, Resources: slices.Clone(g.Resources), Held: g.Held, Of: number, Released: n.adoptedSince(g)}
	if in.Moved, err = n.movesBack(number, numbers); err != nil {
		return Input{}, err
	}
	if err := n.contents(number, in.Resources); err != nil {
		return Input{}, err
	}
	return in, nil
}

// Of returns which generation another one brings back; 0 where it is the manifest's,
// or not on the disk any more.
func (n *Node) Of(number int) int {
	g, err := state.ReadGeneration(n.Layout, number)
	if err != nil {
		return 0 // what cannot be read is told where it is needed
	}
	return g.Of
}

// contents gives the resources of a generation the contents of their files and
// their policies.
func (n *Node) contents(generation int, resources []units.Resource) error {
	programs := map[string][]byte{} // which many resources share
	for i, r := range resources {
		var err error
		if r.File != nil {
			f := *r.File
			if f.Content, err = n.content(generation, f.Digest, f.Path); err != nil {
				return err
			}
			resources[i].File = &f
		}
		if r.Secret != nil {
			s := *r.Secret
			if s.Content, err = n.secret(generation, r); err != nil {
				return err
			}
			resources[i].Secret = &s
		}
		if r.Wasm != nil {
			w := *r.Wasm
			if programs[w.Digest] == nil {
				if programs[w.Digest], err = n.content(generation, w.Digest, w.Path); err != nil {
					return err
				}
			}
			w.Content = programs[w.Digest]
			resources[i].Wasm = &w
		}
	}
	return nil
}

// movesBack returns where what moved since a generation was before that.
func (n *Node) movesBack(number int, numbers []int) (units.Moves, error) {
	back := units.Moves{Resources: map[units.Address]units.Address{}, Modules: map[string]string{}}
	for _, later := range numbers {
		if later <= number {
			continue
		}
		g, err := state.ReadGeneration(n.Layout, later)
		if err != nil {
			return back, err
		}
		inverse := g.Moved.Inverse()
		maps.Copy(back.Resources, inverse.Resources)
		maps.Copy(back.Modules, inverse.Modules)
	}
	return back, nil
}

// before returns the generation that was in force before the present one.
func (n *Node) before() (int, error) {
	current, _, err := state.Current(n.Layout)
	if err != nil {
		return 0, err
	}
	if current == 0 {
		return 0, fmt.Errorf("%s: nothing is in force, and so nothing was before", n.Layout.Current())
	}
	if from, ok := n.predecessor(current); ok && from > 0 {
		return from, nil
	} else if ok {
		return 0, hint.Add(fmt.Errorf("generation %d: nothing was in force before it", current), "an empty manifest and meshgen switch --allow-empty take everything away")
	}
	numbers, err := state.Numbers(n.Layout)
	if err != nil {
		return 0, err
	}
	return 0, hint.Add(fmt.Errorf("generation %d: the ledger does not say what was in force before it", current), n.choice(numbers))
}

// predecessor returns what was in force before a generation, as the last switch
// that brought it into force has it.
func (n *Node) predecessor(number int) (from int, ok bool) {
	for _, s := range slices.Backward(n.Switches()) {
		stood := s.Result == state.Done || s.Result == state.Failed
		if s.Generation == number && s.From != number && stood {
			return s.From, true
		}
	}
	return 0, false
}

// choice says which generations can be brought back.
func (n *Node) choice(numbers []int) string {
	current, _, err := state.Current(n.Layout)
	numbers = slices.DeleteFunc(slices.Clone(numbers), func(number int) bool { return err == nil && number == current })
	if len(numbers) == 0 {
		return "there is no other; switch to a manifest that says what is wanted"
	}
	words := make([]string, len(numbers))
	for i, number := range numbers {
		words[i] = strconv.Itoa(number)
	}
	return "meshgen rollback N, of these: " + strings.Join(words, ", ")
}

// content returns what a generation has on the disk under a digest: the content of
// the config file at a path, or the policy that the manifest has there.
func (n *Node) content(generation int, digest, of string) ([]byte, error) {
	path := filepath.Join(n.Layout.Generation(generation), "files", digest)
	content, err := os.ReadFile(path) //nolint:gosec // a path of the layout's
	if err != nil {
		return nil, fmt.Errorf("generation %d: content of %s: %w", generation, of, err)
	}
	if state.TextDigest(string(content)) != digest {
		return nil, fmt.Errorf("generation %d: %s: not the content of %s that was stored there", generation, path, of)
	}
	return content, nil
}
