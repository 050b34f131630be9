package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"meshgen/generator"
	"meshgen/internal/hint"
	"meshgen/state"
	"meshgen/units"
)

// A node is ejected in this order, in which no reload and no boot ever finds a unit
// undefined: what lies in /etc goes before what the generator gives, and the generator
// leaves a name to a Quadlet that is there.
//
//   - The ledger records that generation N is being ejected. From then on no switch
//     comes before the ejection has ended.
//   - Plain units go to /etc/systemd/system, with the links that enable them.
//   - The Quadlets are put in their place by one rename of a directory, since what
//     podman makes of one depends on the others; then each gets its own place.
//   - The link current becomes ejected, in one step: meshgen's generator has nothing
//     to give any more.
//   - systemd reads its units again. Nothing is started and nothing stopped.
//   - Each name is let go, and the ejection has ended.

// Where plain files go, on the node, and where they are before: in directories that
// systemd does not look into, and podman not until all is in it.
const (
	quadletsDir      = "/etc/containers/systemd"
	quadletsStaging  = "/etc/containers/.meshgen-eject"
	quadletsTogether = quadletsDir + "/meshgen-eject"
	unitsDir         = "/etc/systemd/system"
	unitsStaging     = unitsDir + "/.meshgen-eject"
)

// Ejection is what it takes for a node to do without meshgen.
type Ejection struct {
	Generation int         `json:"generation"`
	Files      []PlainFile `json:"files"`
	// Stays is what is there and what no file says how to make.
	Stays []Remainder `json:"stays"`
	// Done tells that the node was ejected before.
	Done bool `json:"-"`

	resumed bool
	names   []string // of the units
}

// PlainFile is a definition as its owner would have written it.
type PlainFile struct {
	Path     string        `json:"path"` // on the node
	Resource units.Address `json:"resource"`
	Links    []string      `json:"links,omitempty"` // that enable it

	text    string
	quadlet bool
}

// Remainder is something that an ejection leaves as it is.
type Remainder struct {
	Target units.Target `json:"target"`
	What   string       `json:"what"`
}

// beingEjected refuses what cannot be done while an ejection is unfinished.
func (n *Node) beingEjected() error {
	if words := n.ejecting(); words != "" {
		return hint.Add(errors.New(words), "meshgen eject finishes it")
	}
	return nil
}

// ejecting says that an ejection is unfinished; "" where none is.
func (n *Node) ejecting() string {
	if n.Ledger == nil {
		return ""
	}
	if generation, open := n.Ledger.Ejecting(); open {
		return fmt.Sprintf("the ejection of generation %d was cut short", generation)
	}
	return ""
}

// Ejection says what an ejection would do, and writes nothing. The error is
// units.Faults where something is in the way of it.
func (n *Node) Ejection(ctx context.Context) (Ejection, error) {
	g, resumed, err := n.toEject()
	if err != nil {
		return Ejection{}, err
	}
	if g.Number == 0 {
		number, done, err := state.Ejected(n.Layout)
		if err == nil && !done {
			err = errors.New("nothing is in force: there is nothing to eject")
		}
		return Ejection{Generation: number, Done: done}, err
	}
	e := Ejection{Generation: g.Number, Files: plainFiles(g), resumed: resumed}
	for _, u := range g.Units {
		e.names = append(e.names, u.Name)
	}
	e.Stays = n.remainders()
	faults := append(n.undeclaredUp(g), n.inThePlaceOf(e)...)
	if len(faults) == 0 && !resumed {
		more, err := n.converted(ctx, g, e)
		if err != nil {
			return e, err
		}
		faults = more
	}
	return e, faults.Err()
}

// toEject returns the generation to eject, and whether that was begun before; Number
// 0 where there is none.
func (n *Node) toEject() (g state.Generation, resumed bool, err error) {
	if n.Ledger == nil {
		return g, false, fmt.Errorf("%s: nothing was ever switched to here", n.Layout.Ledger())
	}
	if number, open := n.Ledger.Ejecting(); open {
		g, err = state.ReadGeneration(n.Layout, number)
		return g, true, err
	}
	unfinished, err := n.Unfinished()
	if err == nil && unfinished != "" {
		err = hint.Add(errors.New(unfinished), "meshgen recover, or meshgen switch, first")
	}
	if err != nil {
		return g, false, err
	}
	g, err = n.InForce()
	if err == nil && g.Number == 0 && n.hadSet() {
		err = hint.Add(fmt.Errorf("%s: what was in force is gone", n.Layout.Current()), "meshgen switch makes it anew")
	}
	return g, false, err
}

// plainFiles returns the definitions of a generation.
func plainFiles(g state.Generation) []PlainFile {
	links := map[string][]string{}
	for _, u := range g.Units {
		links[u.Name] = u.Links
	}
	var files []PlainFile
	for _, r := range g.Resources {
		f := PlainFile{Resource: r.Address, text: units.Plain(r)}
		switch name := units.QuadletFile(r); {
		case name != "":
			f.Path, f.quadlet = filepath.Join(quadletsDir, name), true
		case r.Address.Kind == units.KindUnit:
			f.Path = filepath.Join(unitsDir, r.Name)
			for _, link := range links[r.Name] {
				f.Links = append(f.Links, filepath.Join(unitsDir, link))
			}
		default:
			continue
		}
		files = append(files, f)
	}
	return files
}

// remainders returns what is ours and what nobody makes anew by a plain file.
func (n *Node) remainders() []Remainder {
	var stay []Remainder
	for _, r := range n.records() {
		switch {
		case r.Target.Kind() == units.TargetSecret && r.State == state.Live:
			stay = append(stay, Remainder{r.Target, "stays in podman, and no file makes it anew"})
		case r.State == state.Held && r.Why != "":
			stay = append(stay, Remainder{r.Target, "stays as it is: " + r.Why})
		case r.State == state.Held:
			stay = append(stay, Remainder{r.Target, "stays as it is"})
		}
	}
	for _, r := range n.adopted() {
		if len(n.copies(r)) > 0 {
			stay = append(stay, Remainder{r.Target, "copies of what it was before it was adopted stay in " + filepath.Join(n.Layout.State, r.Adoption.Dir)})
		}
	}
	return stay
}

// undeclaredUp refuses to let go what is ours, runs and is not declared: nobody could
// find it again.
func (n *Node) undeclaredUp(g state.Generation) units.Faults {
	declared := holders(g)
	var faults units.Faults
	for _, r := range n.records() {
		_, is := declared[r.Target]
		kind := r.Target.Kind()
		if is || r.State != state.Live || kind != units.TargetUnit && kind != units.TargetContainer && kind != units.TargetPod {
			continue
		}
		faults = append(faults, units.Fault{
			Message: fmt.Sprintf("%s: is no longer declared, and was not seen gone", r.Target),
			Hint:    "meshgen switch tries again; " + hint.Command("meshgen", "forget", string(r.Target)) + " lets go of it",
		})
	}
	return faults
}

// inThePlaceOf refuses to write where something lies that is not ours, and to define
// what somebody else defines. A mask stays its owner's word.
func (n *Node) inThePlaceOf(e Ejection) units.Faults {
	var faults units.Faults
	for _, dir := range []string{quadletsDir, unitsDir} { // as a whole they may be of a store that nobody writes to
		if _, err := os.Readlink(n.Layout.Path(dir)); err == nil {
			faults = append(faults, units.Fault{Message: n.Layout.Path(dir) + ": is a link, and nothing is written behind it", Hint: "meshgen build -o DIR writes the files elsewhere"})
		}
	}
	ours := map[string]bool{}
	for _, f := range e.Files {
		at := n.Layout.Path(f.Path)
		ours[at] = true
		if f.quadlet {
			ours[n.Layout.Path(filepath.Join(quadletsTogether, filepath.Base(f.Path)))] = true
		}
		if what := occupied(at); what != "" && (!e.resumed || !holds(at, f.text)) {
			faults = append(faults, units.Fault{Message: fmt.Sprintf("%s: %s is there, and it is not of meshgen", at, what), Hint: "move it away"})
		}
		for _, link := range f.Links {
			if what := occupiedLink(n.Layout.Path(link), f.Path); what != "" {
				faults = append(faults, units.Fault{Message: fmt.Sprintf("%s: %s is there, and it is not of meshgen", n.Layout.Path(link), what), Hint: "move it away"})
			}
		}
	}
	defined := generator.Definitions(n.Layout.Root, e.names)
	for _, name := range e.names {
		if path := defined[name]; path != "" && !ours[path] && !isMask(path) {
			faults = append(faults, units.Fault{Message: fmt.Sprintf("%s: is defined by %s, which is not of meshgen", name, path), Hint: "move it away, or take the resource out of the manifest"})
		}
	}
	return faults
}

// occupied says what lies at a path; "" where nothing does.
func occupied(path string) string {
	info, err := os.Lstat(path) //nolint:gosec // a definition's place
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ""
	case err != nil:
		return err.Error()
	case !info.Mode().IsRegular():
		return "something that is no file"
	}
	return "a file"
}

// holds reports whether a file with that text lies at a path.
func holds(path, text string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	there, err := os.ReadFile(path) //nolint:gosec // a definition's place
	return err == nil && string(there) == text
}

// occupiedLink says what lies where a link that enables a unit is to be; "" where
// nothing does, or such a link.
func occupiedLink(path, to string) string {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if there, err := os.Readlink(path); err == nil && (there == to || there == filepath.Join("..", filepath.Base(to))) {
		return ""
	}
	return "something else"
}

// converted refuses what podman's own generator would not make the same services of:
// those that run now.
func (n *Node) converted(ctx context.Context, g state.Generation, e Ejection) (units.Faults, error) {
	quadlets, names := map[string]string{}, map[units.Address]string{}
	for _, f := range e.Files {
		if f.quadlet {
			quadlets[filepath.Base(f.Path)] = f.text
			names[f.Resource] = n.Layout.Path(f.Path)
		}
	}
	if n.Converter == nil || len(quadlets) == 0 || g.Converter == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, convertDeadline)
	defer cancel()
	out, refused, err := n.Converter.Convert(ctx, quadlets, quadletsDir)
	if err != nil {
		return nil, err
	}
	inForce, err := generator.ReadUnits(filepath.Join(n.Layout.Generation(g.Number), generator.UnitsFile))
	if err != nil {
		return nil, hint.Add(err, "meshgen switch mends it")
	}
	was := map[string]string{}
	for _, u := range inForce {
		was[u.Name] = u.Text
	}
	var faults units.Faults
	for _, r := range refused {
		faults = append(faults, units.Fault{Message: strings.TrimPrefix(r.File+": ", ": ") + "this machine's quadlet refuses it: " + r.Message})
	}
	for _, u := range g.Units {
		text, made := out.Units[u.Name]
		switch {
		case names[u.Resource] == "" || len(refused) > 0:
		case !made:
			faults = append(faults, units.Fault{Message: u.Name + ": this machine's quadlet made nothing of " + names[u.Resource]})
		case !units.SameRun(text, was[u.Name]) || !slices.Equal(linksOf(out, u.Name), u.Links):
			faults = append(faults, units.Fault{
				Message: u.Name + ": this machine's quadlet makes another service of it than the one in force",
				Hint:    "meshgen switch first: podman was upgraded since the last one",
			})
		}
	}
	return faults, nil
}

// linksOf returns the links that a converter made to enable a unit.
func linksOf(out generator.Output, name string) []string {
	var links []string
	for link := range out.Links {
		if filepath.Base(link) == name {
			links = append(links, link)
		}
	}
	slices.Sort(links)
	return links
}
