package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"meshgen/generator"
	"meshgen/state"
	"meshgen/units"
)

// Input is what the manifest says, for one node.
type Input struct {
	Node      string
	Adopted   bool
	Digest    string // of all that the manifest was read from
	Resources []units.Resource
	Moved     units.Moves
	Of        int // the generation that they were in; 0 where they are the manifest's
	// Held are the resources of the manifest that are left out of Resources, or
	// stand there as they were, in the order of their addresses.
	Held []state.Holding
	// Adopt are the operator's words for what is to be adopted, whatever a policy says:
	// targets, addresses, or names alone. Released are the names that are given back,
	// with why.
	Adopt    []string
	Released map[units.Target]string
}

// convertDeadline bounds the converter, which takes 0.1 s for 1,000 units.
const convertDeadline = time.Minute

// Compiled is a generation that is not on the disk yet, and its files.
type Compiled struct {
	Generation state.Generation
	Tree       state.Tree
}

// Compile renders the resources and has the machine's own converter make units
// of them; what is just as in the previous generation is taken over from it.
// What the converter refuses comes back as units.Faults. Below --root there may
// be no converter, nil: the generator then converts at boot.
func Compile(ctx context.Context, l state.Layout, converter Converter, in Input, previous state.Generation) (Compiled, error) {
	resources, err := resolveOwners(l, in.Resources)
	if err != nil {
		return Compiled{}, err
	}
	g := state.Generation{
		Time: time.Now().UTC().Round(time.Second), Manifest: in.Digest, Node: in.Node, Adopted: in.Adopted,
		Converter: fingerprint(converter), Resources: resources, Moved: in.Moved, Held: in.Held, Of: in.Of, Released: in.Released,
	}
	c := Compiled{Generation: g, Tree: state.Tree{
		Files: map[string][]byte{}, Links: map[string]string{},
	}}
	kept := c.keep(previous)
	had := contents(previous)
	texts := map[string]string{} // of the units that systemd is given, by name
	for _, r := range resources {
		path, same := "", kept[r.Address]
		switch r.Address.Kind {
		case units.KindContainer, units.KindPod, units.KindVolume, units.KindNetwork:
			path = filepath.Join("quadlet", units.QuadletFile(r))
		case units.KindUnit:
			path = filepath.Join(generator.NormalDir, r.Name)
			texts[r.Name] = units.Render(r)
			c.add(r, texts[r.Name], enablement(r))
		case units.KindFile:
			path = filepath.Join("files", r.File.Digest)
			same = had[r.File.Digest] && intact(filepath.Join(l.Generation(previous.Number), path), r.File.Content)
		case units.KindDir: // has no content
		case units.KindSecret:
			path = filepath.Join("files", r.Secret.Digest)
			same = had[r.Secret.Digest] && intact(filepath.Join(l.Generation(previous.Number), path), r.Secret.Content)
		}
		switch {
		case path == "":
		case same:
			c.Tree.Same = append(c.Tree.Same, path)
		case r.File != nil:
			c.Tree.Files[path] = r.File.Content
		case r.Secret != nil:
			c.Tree.Files[path] = r.Secret.Content
		default:
			c.Tree.Files[path] = []byte(units.Render(r))
		}
		if r.Wasm != nil {
			c.policy(l, *r.Wasm, had, previous)
		}
	}
	if converter != nil {
		err = c.convert(ctx, l, converter, kept, previous, texts)
	} else {
		c.unconverted()
	}
	c.give(texts)
	return c, err
}

// intact reports whether the copy of a content in a generation is as it was
// written; where the content itself is not at hand, it is taken to be.
func intact(path string, content []byte) bool {
	if content == nil {
		return true
	}
	text, err := os.ReadFile(path) //nolint:gosec // of a generation
	return err == nil && bytes.Equal(text, content)
}

// policy keeps a policy by its digest, so that it can be asked for as long as the
// generation is there: when its module goes, and in a rollback.
func (c *Compiled) policy(l state.Layout, w units.Wasm, had map[string]bool, previous state.Generation) {
	path := filepath.Join("files", w.Digest)
	switch {
	case c.Tree.Files[path] != nil || slices.Contains(c.Tree.Same, path): // another resource has it
	case had[w.Digest] && intact(filepath.Join(l.Generation(previous.Number), path), w.Content):
		c.Tree.Same = append(c.Tree.Same, path)
	default:
		c.Tree.Files[path] = w.Content
	}
}

// fingerprint returns that of a converter and of what is added to its input; ""
// where there is none.
func fingerprint(c Converter) string {
	if c == nil {
		return ""
	}
	return generator.Maker(c.Fingerprint())
}

// enablement returns the links that systemctl enable would make of the [Install]
// of a plain unit, with what they lead to.
func enablement(r units.Resource) map[string]string {
	links := map[string]string{}
	for key, dir := range map[string]string{"WantedBy": ".wants", "RequiredBy": ".requires", "UpheldBy": ".upholds"} {
		for _, value := range r.Values("Install", key) {
			for by := range strings.FieldsSeq(value) {
				links[filepath.Join(by+dir, r.Name)] = "../" + r.Name
			}
		}
	}
	return links
}

// add has the generation give systemd a unit, with those of the links that enable
// it.
func (c *Compiled) add(r units.Resource, text string, links map[string]string) {
	u := state.Unit{Name: units.Unit(r), Resource: r.Address, Digest: units.RunDigest(text), Text: state.TextDigest(text)}
	for link, to := range links {
		if filepath.Base(link) == u.Name {
			u.Wanted = true
			u.Links = append(u.Links, link)
			c.Tree.Links[filepath.Join(generator.NormalDir, link)] = to
		}
	}
	slices.Sort(u.Links)
	c.Generation.Units = append(c.Generation.Units, u)
}

// give sorts the units, and writes those of which there is a text into the one
// file that a boot reads.
func (c *Compiled) give(texts map[string]string) {
	slices.SortFunc(c.Generation.Units, func(a, b state.Unit) int { return strings.Compare(a.Name, b.Name) })
	var given []generator.Given
	for _, u := range c.Generation.Units {
		if text, ok := texts[u.Name]; ok {
			given = append(given, generator.Given{Name: u.Name, Links: u.Links, Text: text})
		}
	}
	c.Tree.Files[generator.UnitsFile] = generator.FormatUnits(given)
}

// unconverted names the units that the generator is to make of the Quadlets.
func (c *Compiled) unconverted() {
	for _, r := range c.Generation.Resources {
		if name := units.Unit(r); units.QuadletFile(r) != "" {
			c.Generation.Units = append(c.Generation.Units, state.Unit{
				Name: name, Resource: r.Address, Digest: state.TextDigest(units.Render(r)),
			})
		}
	}
}

// contents returns the digests of the files and policies that a generation holds.
func contents(g state.Generation) map[string]bool {
	digests := map[string]bool{}
	for _, r := range g.Resources {
		if r.File != nil {
			digests[r.File.Digest] = true
		}
		if r.Wasm != nil {
			digests[r.Wasm.Digest] = true
		}
		if r.Secret != nil {
			digests[r.Secret.Digest] = true
		}
	}
	return digests
}

// keep returns the resources that are as they were in the previous generation,
// in all but their positions, and so become what they became there.
func (c *Compiled) keep(previous state.Generation) map[units.Address]bool {
	kept := map[units.Address]bool{}
	if previous.Number == 0 || previous.Converter != c.Generation.Converter {
		return kept
	}
	before := make(map[units.Address]units.Resource, len(previous.Resources))
	for _, r := range previous.Resources {
		before[r.Address] = r
	}
	for _, r := range c.Generation.Resources {
		if b, ok := before[r.Address]; ok && sameResource(b, r) {
			kept[r.Address] = true
		}
	}
	// What Quadlet makes of a pod depends on the containers that refer to it.
	was, is := pulled(previous.Resources), pulled(c.Generation.Resources)
	for a := range kept {
		kept[a] = kept[a] && slices.Equal(was[a], is[a])
	}
	// What Quadlet makes of a unit depends on those that it refers to.
	for changed := true; changed; {
		changed = false
		for _, r := range c.Generation.Resources {
			if kept[r.Address] && slices.ContainsFunc(r.Uses, func(a units.Address) bool { return !kept[a] }) {
				kept[r.Address] = false
				changed = true
			}
		}
	}
	return kept
}

// pulled returns what each pod pulls in when it starts.
func pulled(resources []units.Resource) map[units.Address][]string {
	pulled := map[units.Address][]string{}
	for pod, containers := range members(resources) {
		for _, r := range containers {
			pulled[pod] = append(pulled[pod], units.Unit(r)+" "+r.Value("Container", "StartWithPod"))
		}
		slices.Sort(pulled[pod])
	}
	return pulled
}

func sameResource(a, b units.Resource) bool {
	return reflect.DeepEqual(unplaced(a), unplaced(b))
}

// unplaced returns the resource without its positions, contents and policy,
// which make no difference to what becomes of it.
func unplaced(r units.Resource) units.Resource {
	r.Position, r.Policy, r.Wasm = units.Position{}, nil, nil
	r.Sections = slices.Clone(r.Sections)
	for i, s := range r.Sections {
		entries := slices.Clone(s.Entries)
		for j := range entries {
			entries[j].Position = units.Position{}
		}
		r.Sections[i].Entries = entries
	}
	if r.File != nil {
		f := *r.File
		f.Content = nil
		r.File = &f
	}
	if r.Secret != nil {
		r.Secret = &units.Secret{Digest: r.Secret.Digest}
	}
	return r
}

// convert runs the converter over the Quadlets that are not kept, and what they
// refer to, and adds the texts of all.
func (c *Compiled) convert(
	ctx context.Context, l state.Layout, converter Converter, kept map[units.Address]bool, previous state.Generation, texts map[string]string,
) error {
	quadlets, fresh := c.toConvert(kept)
	out := generator.Output{}
	if len(quadlets) > 0 {
		ctx, cancel := context.WithTimeout(ctx, convertDeadline)
		defer cancel()
		var refused []generator.Refusal
		var err error
		out, refused, err = converter.Convert(ctx, quadlets, filepath.Join("/", relative(l, l.Current()), "quadlet"))
		if err != nil {
			return err
		}
		if faults := c.faults(ctx, converter, refused, fresh, out); len(faults) > 0 {
			return faults
		}
	}
	c.Tree.Files[generator.ConvertedFile] = []byte(fingerprint(converter) + "\n")
	isKept := func(u state.Unit) bool { return kept[u.Resource] && u.Resource.Kind != units.KindUnit }
	if slices.ContainsFunc(previous.Units, isKept) {
		before, err := generator.ReadUnits(filepath.Join(l.Generation(previous.Number), generator.UnitsFile))
		if err != nil {
			return err
		}
		was := map[string]string{}
		for _, u := range before {
			was[u.Name] = u.Text
		}
		for _, u := range previous.Units {
			if isKept(u) {
				texts[u.Name] = was[u.Name]
				c.keepUnit(u)
			}
		}
	}
	for _, r := range fresh {
		text := out.Units[units.Unit(r)]
		if r.Address.Kind == units.KindContainer {
			text = units.WithFragment(text)
		}
		texts[units.Unit(r)] = text
		c.Tree.Files[filepath.Join(generator.NormalDir, units.Unit(r))] = []byte(text)
		c.add(r, text, out.Links)
	}
	return nil
}

func (c *Compiled) keepUnit(u state.Unit) {
	c.Tree.Same = append(c.Tree.Same, filepath.Join(generator.NormalDir, u.Name))
	for _, link := range u.Links {
		c.Tree.Links[filepath.Join(generator.NormalDir, link)] = "../" + u.Name
	}
	c.Generation.Units = append(c.Generation.Units, u)
}

// relative returns path as it is seen below the layout's root.
func relative(l state.Layout, path string) string {
	return strings.TrimPrefix(path, strings.TrimSuffix(l.Root, "/"))
}

// toConvert returns the Quadlets that the converter has to see, and the
// resources whose units are wanted of it.
func (c *Compiled) toConvert(kept map[units.Address]bool) (quadlets map[string]string, fresh []units.Resource) {
	quadlets = map[string]string{}
	byAddress := map[units.Address]units.Resource{}
	in := members(c.Generation.Resources)
	for _, r := range c.Generation.Resources {
		byAddress[r.Address] = r
	}
	// Quadlet looks up what a unit refers to, and what that refers to in turn; of a
	// pod, the containers in it.
	var reach func(a units.Address)
	reach = func(a units.Address) {
		used := byAddress[a]
		name := units.QuadletFile(used)
		if _, seen := quadlets[name]; seen || name == "" {
			return // a plain unit refers to services, not to Quadlets
		}
		quadlets[name] = units.Guarded(units.Render(used), generator.GuardProgram)
		for _, container := range in[a] {
			reach(container.Address)
		}
		for _, next := range used.Uses {
			reach(next)
		}
	}
	for _, r := range c.Generation.Resources {
		if units.QuadletFile(r) == "" || kept[r.Address] {
			continue
		}
		fresh = append(fresh, r)
		reach(r.Address)
	}
	return quadlets, fresh
}

var unsupportedKey = regexp.MustCompile(`unsupported key '([^']+)' in group '([^']+)'`)

// faults turns what the converter refused into faults at the owner's lines.
func (c *Compiled) faults(ctx context.Context, converter Converter, refused []generator.Refusal, fresh []units.Resource, out generator.Output) units.Faults {
	var faults units.Faults
	named := map[string]bool{}
	byFile := map[string]units.Resource{}
	for _, r := range c.Generation.Resources {
		if file := units.QuadletFile(r); file != "" {
			byFile[file] = r
		}
	}
	for _, refusal := range refused {
		r, ok := byFile[refusal.File]
		if !ok {
			faults = append(faults, units.Fault{Message: "quadlet: " + refusal.Message})
			continue
		}
		named[refusal.File] = true
		f := units.Fault{Position: r.Position, Message: r.Address.String() + ": this machine's quadlet refuses it: " + refusal.Message}
		if m := unsupportedKey.FindStringSubmatch(refusal.Message); m != nil {
			f = keyFault(ctx, converter, r, m[2], m[1], f)
		}
		faults = append(faults, f)
	}
	for _, r := range fresh {
		if _, made := out.Units[units.Unit(r)]; !made && !named[units.QuadletFile(r)] {
			faults = append(faults, units.Fault{Position: r.Position, Message: r.Address.String() + ": this machine's quadlet made no " + units.Unit(r) + " of it"})
		}
	}
	slices.SortFunc(faults, func(a, b units.Fault) int { return a.Position.Compare(b.Position) })
	return faults
}

// keyFault places a fault at the key that the converter does not know.
func keyFault(ctx context.Context, converter Converter, r units.Resource, section, key string, f units.Fault) units.Fault {
	for _, s := range r.Sections {
		for _, e := range s.Entries {
			if s.Name != section || e.Key != key {
				continue
			}
			f.Position = e.Position
			f.Message = r.Address.String() + ": " + section + "." + key + ": unknown to this machine's quadlet"
			if version, err := converter.Version(ctx); err == nil {
				f.Message += ", which is of podman " + version
			}
			if e.Since != "" {
				f.Hint = "it came with podman " + e.Since
			}
		}
	}
	return f
}

// resolveOwners returns the resources with the owners of files and directories as numbers, as
// the machine's passwd(5) and group(5) have them.
func resolveOwners(l state.Layout, resources []units.Resource) ([]units.Resource, error) {
	tables := map[string]map[string]string{}
	resolve := func(table, name string) (string, error) {
		if _, err := strconv.ParseUint(name, 10, 32); err == nil {
			return name, nil
		}
		if tables[table] == nil {
			var err error
			if tables[table], err = readIDs(l.Path(table)); err != nil {
				return "", err
			}
		}
		id, ok := tables[table][name]
		if !ok {
			return "", fmt.Errorf("%q is not in %s", name, table)
		}
		return id, nil
	}
	resolved := slices.Clone(resources)
	var faults units.Faults
	for i, r := range resolved {
		var owner, group *string
		switch {
		case r.File != nil:
			f := *r.File
			resolved[i].File, owner, group = &f, &f.Owner, &f.Group
		case r.Dir != nil:
			d := *r.Dir
			resolved[i].Dir, owner, group = &d, &d.Owner, &d.Group
		default:
			continue
		}
		var errOwner, errGroup error
		*owner, errOwner = resolve("/etc/passwd", *owner)
		*group, errGroup = resolve("/etc/group", *group)
		if err := errors.Join(errOwner, errGroup); err != nil {
			faults = append(faults, units.Fault{
				Position: r.Position, Message: r.Address.String() + ": owner: " + strings.ReplaceAll(err.Error(), "\n", "; "),
				Hint: "a number is taken as it stands",
			})
		}
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return resolved, nil
}

// readIDs returns the names and numbers of passwd(5) or group(5); root is 0
// where there is no such file.
func readIDs(path string) (map[string]string, error) {
	ids := map[string]string{"root": "0"}
	text, err := os.ReadFile(path) //nolint:gosec // passwd or group
	if errors.Is(err, os.ErrNotExist) {
		return ids, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) > 2 {
			ids[fields[0]] = fields[2]
		}
	}
	return ids, nil
}

// fences returns, for each unit of the generation, the unit names that its
// resource had before, that may still be up and that nothing declared has now. A
// name that was seen gone needs none: it may be another's by now.
func fences(g state.Generation, records []state.Record) []generator.Fence {
	taken := map[string]bool{}
	unit := map[units.Address]string{}
	for _, u := range g.Units {
		taken[u.Name] = true
		unit[u.Resource] = u.Name
	}
	predecessors := map[string][]string{}
	for _, r := range records {
		name := r.Target.Name()
		if successor := unit[r.Resource]; r.Target.Kind() == units.TargetUnit && r.State == state.Live && successor != "" && !taken[name] {
			predecessors[successor] = append(predecessors[successor], name)
		}
	}
	var found []generator.Fence
	for _, name := range slices.Sorted(maps.Keys(predecessors)) {
		found = append(found, generator.Fence{Unit: name, Predecessors: predecessors[name]})
	}
	return found
}
