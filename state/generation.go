package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"meshgen/internal/durable"
	"meshgen/units"
)

// generationSchema is the version of desired.json that is written and read.
const generationSchema = 1

// desired is the file of a generation that holds its [Generation].
const desired = "desired.json"

// staging is the directory beside the generations in which one is made, and
// to which one goes that is on its way out.
const staging = ".staging"

// Generation is one complete compiled set: what the node is told, and how that
// was decided. It stands for itself: nothing in it is looked up in the manifest
// again.
type Generation struct {
	Schema    int       `json:"schema"`
	Number    int       `json:"number"`
	Time      time.Time `json:"time"`
	Manifest  string    `json:"manifest"` // digest of the inputs it was compiled from
	Node      string    `json:"node"`
	Adopted   bool      `json:"adopted,omitempty"`
	Of        int       `json:"of,omitempty"`        // the generation that it brings back; 0 where it is the manifest's
	Converter string    `json:"converter,omitempty"` // fingerprint of the quadlet that made out/; "" where none ran

	Resources []units.Resource `json:"resources"`
	Moved     units.Moves      `json:"moved,omitzero"` // former addresses
	Units     []Unit           `json:"units"`          // what out/normal gives systemd, sorted by name
	// Held are declared resources that are left out, or left as they were, since
	// what they are to be is somebody else's or needs what is.
	Held []Holding `json:"held,omitempty"`
	// Released are names that the switch to it gives back, with why.
	Released  map[units.Target]string `json:"released,omitempty"`
	Decisions []Transition            `json:"decisions"`
}

// Unit is one unit that a generation gives systemd. Where no converter has made
// it yet, Text is "" and Digest is that of its Quadlet.
type Unit struct {
	Name     string        `json:"name"`
	Resource units.Address `json:"resource"`
	Digest   string        `json:"digest"` // its units.RunDigest
	Text     string        `json:"text"`   // sha256 of its text, in hexadecimal
	Wanted   bool          `json:"wanted,omitempty"`
	Links    []string      `json:"links,omitempty"` // enablement links, relative to out/normal
}

// Tree is the files of a generation besides desired.json, by their paths
// relative to its directory.
type Tree struct {
	Files map[string][]byte
	Links map[string]string // the text of each symbolic link
	Same  []string          // files that are as they were in the previous generation
}

// WriteGeneration writes a generation with everything in it, and returns once
// it is on the disk. It shows up complete or not at all. Files in t.Same are
// shared with generation previous by hard link, or copied where the file system
// refuses that. A generation of that number which a cut-short switch left
// behind is replaced; one that is current or pending never is.
func WriteGeneration(l Layout, g Generation, t Tree, previous int) error {
	g.Schema = generationSchema
	if err := writeGeneration(l, g, t, previous); err != nil {
		return fmt.Errorf("generation %d: %w", g.Number, err)
	}
	return nil
}

func writeGeneration(l Layout, g Generation, t Tree, previous int) error {
	if g.Number < 1 {
		return errors.New("numbers count from 1")
	}
	inUse, err := linked(l)
	if err != nil {
		return err
	}
	if slices.Contains(inUse, g.Number) {
		return errors.New("is in use and is never changed")
	}
	if err := os.MkdirAll(l.Generations(), 0o755); err != nil { //nolint:gosec // systemd's tools read it as anyone
		return err
	}
	if err := discard(l, g.Number); err != nil {
		return err
	}
	dir := filepath.Join(l.Generations(), staging)
	if err := fill(dir, g, t, l.Generation(previous)); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	if err := durable.Sync(dir); err != nil {
		return err
	}
	return durable.Rename(dir, l.Generation(g.Number))
}

// discard takes generation n and the staging directory away, so that no part
// of n shows under its number.
func discard(l Layout, n int) error {
	dir := filepath.Join(l.Generations(), staging)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	err := os.Rename(l.Generation(n), dir) //nolint:forbidigo // a removal, which may come back after a power cut
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

func fill(dir string, g Generation, t Tree, previous string) error {
	data, err := json.Marshal(g)
	if err != nil {
		return err
	}
	w := treeWriter{dir: dir, made: map[string]bool{}}
	w.file(desired, append(data, '\n'))
	for _, path := range slices.Sorted(maps.Keys(t.Files)) {
		w.file(path, t.Files[path])
	}
	for _, path := range slices.Sorted(maps.Keys(t.Links)) {
		w.link(path, t.Links[path])
	}
	for _, path := range slices.Compact(slices.Sorted(slices.Values(t.Same))) {
		w.same(path, filepath.Join(previous, path))
	}
	return w.err
}

// treeWriter writes below a directory until something fails.
type treeWriter struct {
	dir  string
	made map[string]bool
	err  error
}

// place makes the directories above a path and returns where the path lies;
// "" after a fault.
func (w *treeWriter) place(path string) string {
	if w.err == nil && !filepath.IsLocal(path) {
		w.err = fmt.Errorf("%s: not a path below the generation", path)
	}
	if w.err != nil {
		return ""
	}
	full := filepath.Join(w.dir, path)
	if dir := filepath.Dir(full); !w.made[dir] {
		w.err = w.makeDirs(dir)
		w.made[dir] = true
	}
	return full
}

// makeDirs makes a directory with those above it. What lies in files/ is
// configuration with modes of its own, which may be secret.
func (w *treeWriter) makeDirs(dir string) error {
	private := filepath.Join(w.dir, "files")
	if dir == private || strings.HasPrefix(dir, private+"/") {
		return os.MkdirAll(dir, 0o700)
	}
	return os.MkdirAll(dir, 0o755) //nolint:gosec // systemd's tools read it as anyone
}

// file writes a file that anyone may read, but for contents and for desired.json,
// which has their digests: a short content could be guessed by its digest.
func (w *treeWriter) file(path string, data []byte) {
	full := w.place(path)
	mode := fs.FileMode(0o644)
	if path == desired || strings.HasPrefix(path, "files/") {
		mode = 0o600
	}
	if w.err == nil {
		w.err = os.WriteFile(full, data, mode) //nolint:gosec,forbidigo // in staging, synced as a whole
	}
}

func (w *treeWriter) link(path, text string) {
	full := w.place(path)
	if w.err == nil {
		w.err = os.Symlink(text, full)
	}
}

func (w *treeWriter) same(path, previous string) {
	full := w.place(path)
	if w.err != nil || os.Link(previous, full) == nil {
		return
	}
	data, err := os.ReadFile(previous) //nolint:gosec // a path of the layout's
	if err != nil {
		w.err = err
		return
	}
	w.file(path, data)
}

// ReadGeneration reads generation n.
func ReadGeneration(l Layout, n int) (Generation, error) {
	path := filepath.Join(l.Generation(n), desired)
	data, err := os.ReadFile(path) //nolint:gosec // a path of the layout's
	if err != nil {
		return Generation{}, fmt.Errorf("generation %d: %w", n, err)
	}
	var g Generation
	if err := json.Unmarshal(data, &g); err != nil {
		return Generation{}, fmt.Errorf("%s: %w", path, err)
	}
	if g.Schema != generationSchema {
		return Generation{}, fmt.Errorf("%s: schema %d, and this meshgen reads %d", path, g.Schema, generationSchema)
	}
	if g.Number != n {
		return Generation{}, fmt.Errorf("%s: says that it is generation %d", path, g.Number)
	}
	return g, nil
}

// Numbers returns the numbers of the generations on the disk, ascending.
func Numbers(l Layout) ([]int, error) {
	entries, err := os.ReadDir(l.Generations())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Generations(), err)
	}
	var numbers []int
	for _, e := range entries {
		if n, ok := parseNumber(e.Name()); ok && e.IsDir() {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// parseNumber reads what [Layout.Generation] writes, and nothing else.
func parseNumber(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 1 && strconv.Itoa(n) == s
}

// Prune removes what [Surplus] returns. It does not sync: a generation that
// comes back after a power cut is pruned by the next switch.
func Prune(l Layout, keep int, never ...int) error {
	numbers, err := Surplus(l, keep, never...)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		if err := discard(l, n); err != nil {
			return fmt.Errorf("generation %d: remove: %w", n, err)
		}
	}
	return nil
}

// Surplus returns all generations on the disk but the newest keep, those in never,
// the current, the pending and the ejected one.
func Surplus(l Layout, keep int, never ...int) ([]int, error) {
	numbers, err := Numbers(l)
	if err != nil {
		return nil, err
	}
	inUse, err := linked(l)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(numbers[:max(0, len(numbers)-keep)], func(n int) bool {
		return slices.Contains(inUse, n) || slices.Contains(never, n)
	}), nil
}

// linked returns the current, the pending and the ejected generation, as far as there
// are.
func linked(l Layout) ([]int, error) {
	var numbers []int
	for _, link := range []string{l.Current(), l.Pending(), l.Ejected()} {
		n, ok, err := readLink(link)
		if err != nil {
			return nil, err
		}
		if ok {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

// Tidy removes what a switch that was cut short left of a generation on its way in
// or out.
func Tidy(l Layout) error { return os.RemoveAll(filepath.Join(l.Generations(), staging)) }

// Current returns the number of the generation in force; ok is false where
// there is none.
func Current(l Layout) (n int, ok bool, err error) { return readLink(l.Current()) }

// Pending returns the number of the generation that a switch is moving to; ok
// is false where no switch is under way.
func Pending(l Layout) (n int, ok bool, err error) { return readLink(l.Pending()) }

func readLink(path string) (n int, ok bool, err error) {
	text, err := os.Readlink(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("%s: %w", path, err)
	}
	number, ok := strings.CutPrefix(text, "generations/")
	if ok {
		n, ok = parseNumber(number)
	}
	if !ok {
		return 0, false, fmt.Errorf("%s: leads to %q, which is no generation", path, text)
	}
	return n, true, nil
}

// SetCurrent puts generation n in force, and returns once that is on the disk.
func SetCurrent(l Layout, n int) error { return setLink(l, l.Current(), n) }

// SetPending records on the disk that a switch is moving to generation n.
func SetPending(l Layout, n int) error { return setLink(l, l.Pending(), n) }

// setLink refuses to point at what is not there: nothing would boot from it.
func setLink(l Layout, path string, n int) error {
	if _, err := os.Stat(filepath.Join(l.Generation(n), desired)); err != nil {
		return fmt.Errorf("generation %d: %w", n, err)
	}
	return durable.Symlink("generations/"+strconv.Itoa(n), path)
}

// ClearPending records on the disk that no switch is under way.
func ClearPending(l Layout) error { return durable.Remove(l.Pending()) }

// Eject takes the generation in force out of force, in one step, and returns once
// that is on the disk. From then on [Ejected] has it. Where nothing is in force
// nothing is done.
func Eject(l Layout) error {
	if _, ok, err := Current(l); err != nil || !ok {
		return err
	}
	return durable.Rename(l.Current(), l.Ejected())
}

// Ejected returns the number of the generation that was in force when the node was
// ejected; ok is false where it was not, or where a switch has come to its end since.
func Ejected(l Layout) (n int, ok bool, err error) { return readLink(l.Ejected()) }

// ClearEjected records on the disk that the node is meshgen's again.
func ClearEjected(l Layout) error {
	if _, ejected, err := Ejected(l); err != nil || !ejected {
		return err
	}
	return durable.Remove(l.Ejected())
}
