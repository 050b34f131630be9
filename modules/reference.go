package modules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"meshgen/units"
)

// resolve brings what resources say of one another into the form that Quadlet
// and systemd read, and notes whom each of them uses.
func (l *loader) resolve(d *declarations) {
	for _, r := range d.all {
		x := &resolver{loader: l, declarations: d, from: r}
		x.rewrite("Container", "Volume", x.volume)
		x.rewrite("Container", "Mount", x.mount)
		x.rewrite("Container", "Network", x.network)
		x.rewrite("Container", "Image", x.image)
		x.rewrite("Container", "Pod", x.pod)
		x.rewrite("Container", "Secret", x.secret)
		x.rewrite("Pod", "Volume", x.volume)
		x.rewrite("Pod", "Network", x.network)
		x.rewrite("Volume", "Image", x.image)
		for _, key := range dependencies() {
			x.rewrite("Unit", key, x.units)
		}
		x.enablement()
		for _, section := range []string{"Service", "Socket", "Mount", "Swap"} {
			x.rewrite(section, "Slice", x.units)
		}
		x.rewrite("Service", "Sockets", x.units)
		x.rewrite("Timer", "Unit", x.units)
		x.rewrite("Path", "Unit", x.units)
		x.rewrite("Socket", "Service", x.units)
		x.triggers()
		x.notifications()
		slices.SortFunc(r.Uses, units.Address.Compare)
		r.Uses = slices.Compact(r.Uses)
	}
}

// dependencies are the keys of [Unit] whose words name units.
func dependencies() []string {
	return []string{
		"After", "Before", "BindsTo", "Conflicts", "JoinsNamespaceOf", "OnFailure", "OnSuccess", "PartOf",
		"PropagatesReloadTo", "PropagatesStopTo", "ReloadPropagatedFrom", "Requires", "Requisite",
		"StopPropagatedFrom", "Upholds", "Wants",
	}
}

// enablement resolves the units that want this one. It does not use them.
func (x *resolver) enablement() {
	uses := x.from.Uses
	for _, key := range []string{"WantedBy", "RequiredBy", "UpheldBy"} {
		x.rewrite("Install", key, x.units)
	}
	x.from.Uses = uses
}

// A resolver resolves the references of one resource.
type resolver struct {
	*loader
	declarations *declarations
	from         *declared
	// at is the place of the value under way, for the sake of faults.
	at func() (units.Position, path)
}

// rewrite replaces each value of a key by what resolve makes of it.
func (x *resolver) rewrite(section, key string, resolve func(string) string) {
	for _, s := range x.from.Sections {
		if s.Name != section {
			continue
		}
		i, found := slices.BinarySearchFunc(s.Entries, key, func(e units.Entry, key string) int {
			return strings.Compare(e.Key, key)
		})
		if !found {
			return
		}
		for n, value := range s.Entries[i].Values {
			x.at = func() (units.Position, path) { return x.valuePlace(x.from, section, key, n) }
			s.Entries[i].Values[n] = resolve(value)
		}
	}
}

// use notes that the resource refers to another.
func (x *resolver) use(r *declared) { x.from.Uses = append(x.from.Uses, r.Address) }

// find returns the resource of that kind that a word refers to: an id of the
// same module, module/id, or a Quadlet file. One that is not there is a fault.
func (x *resolver) find(kind units.Kind, word string) (*declared, bool) {
	a := units.Address{Module: x.from.Address.Module, Kind: kind, ID: word}
	if module, id, ok := strings.Cut(word, "/"); ok {
		a.Module, a.ID = module, id
	}
	r, ok := x.declarations.byAddress[a]
	if !ok && strings.HasSuffix(word, "."+string(kind)) {
		r, ok = x.declarations.byFile[word]
	}
	if !ok {
		x.dangling(kind, word)
		return nil, false
	}
	x.use(r)
	return r, true
}

// dangling faults a word that names no resource of the kind.
func (x *resolver) dangling(kind units.Kind, word string) {
	var known []string
	for _, r := range x.declarations.all {
		switch {
		case r.Address.Kind != kind:
		case r.Address.Module == x.from.Address.Module:
			known = append(known, r.Address.ID)
		default:
			known = append(known, r.Address.Module+"/"+r.Address.ID)
		}
	}
	at, p := x.at()
	x.fault(at, p, fmt.Sprintf("no %s %q is declared", kind, word), choices(word, known))
}

// choices returns a hint that names the nearest of what is known.
func choices(word string, known []string) string {
	const most = 6
	if near := units.Nearest(word, known); near != "" {
		return "nearest: " + near
	}
	switch {
	case len(known) == 0:
		return ""
	case len(known) > most:
		known = append(known[:most:most], "…")
	}
	return "declared: " + strings.Join(known, ", ")
}

// volume resolves SOURCE:/TARGET[:OPTIONS]. A path, a specifier and a variable
// are left as they are.
func (x *resolver) volume(value string) string {
	source, rest, ok := strings.Cut(value, ":")
	if !ok || isPath(source) {
		return value
	}
	if r, ok := x.find(units.KindVolume, source); ok {
		return units.QuadletFile(r.Resource) + ":" + rest
	}
	return value
}

func isPath(source string) bool {
	return source == "" || strings.ContainsRune("/.~%$", rune(source[0]))
}

// mountOption matches one option of a mount, which stands between commas and,
// as a word of a unit file, may be quoted.
var mountOption = regexp.MustCompile(`(^|[,"'\s])(type|source|src)=([^,"'\s]*)`)

// mount resolves the source of type=volume,source=SOURCE,….
func (x *resolver) mount(value string) string {
	kind := ""
	for _, m := range mountOption.FindAllStringSubmatch(value, -1) {
		if m[2] == "type" && kind == "" {
			kind = m[3]
		}
	}
	return mountOption.ReplaceAllStringFunc(value, func(option string) string {
		before, source, _ := strings.Cut(option, "=")
		if strings.HasSuffix(before, "type") || isPath(source) {
			return option
		}
		switch kind {
		case "image":
			x.image(source)
		case "volume":
			if r, ok := x.find(units.KindVolume, source); ok {
				return before + "=" + units.QuadletFile(r.Resource)
			}
		}
		return option
	})
}

// network resolves NETWORK[:OPTIONS], where it is none of the modes of
// podman-run(1).
func (x *resolver) network(value string) string {
	name, options, hasOptions := strings.Cut(value, ":")
	if isMode(name, hasOptions) {
		x.ambiguous(name)
		return value
	}
	if isPath(name) {
		return value
	}
	kind := units.KindNetwork
	if strings.HasSuffix(name, ".container") {
		kind = units.KindContainer
	}
	r, ok := x.find(kind, name)
	if !ok {
		return value
	}
	file := units.QuadletFile(r.Resource)
	if !hasOptions {
		return file
	}
	if kind == units.KindContainer {
		at, p := x.at()
		x.fault(at, p, fmt.Sprintf("%q takes no options", name), "another container's network is joined as it is")
	}
	return file + ":" + options
}

// ambiguous faults a mode that is the id of a network of the module as well.
func (x *resolver) ambiguous(mode string) {
	a := units.Address{Module: x.from.Address.Module, Kind: units.KindNetwork, ID: mode}
	if _, declared := x.declarations.byAddress[a]; declared {
		at, p := x.at()
		x.fault(at, p, fmt.Sprintf("%q is a network of podman's own, and the id of %s", mode, a), fmt.Sprintf("want %q for what is declared, or another id for that", a.Module+"/"+mode))
	}
}

func isMode(name string, hasOptions bool) bool {
	switch name {
	case "bridge", "none", "host", "private", "slirp4netns", "pasta", "default", "pod",
		"podman": // the network that podman makes by itself
		return true
	case "ns", "container":
		return hasOptions
	}
	return false
}

// image faults a reference to a Quadlet that cannot be declared.
func (x *resolver) image(value string) string {
	for _, suffix := range []string{".image", ".build"} {
		if strings.HasSuffix(value, suffix) {
			at, p := x.at()
			x.fault(at, p, fmt.Sprintf("no %s %q is declared", suffix[1:], value), "want the name of an image")
		}
	}
	return value
}

// pod resolves the pod that a container is in.
func (x *resolver) pod(value string) string {
	if value == "" {
		return value
	}
	r, ok := x.find(units.KindPod, value)
	if !ok {
		return value
	}
	if len(x.from.Values("Container", "PublishPort")) > 0 && len(x.from.Values("Container", "Network")) == 0 {
		at, p := x.valuePlace(x.from, "Container", "PublishPort", 0)
		x.fault(at, p, "the container is in a pod, which has the ports", fmt.Sprintf("want it in PublishPort of %s", r.Address))
	}
	return units.QuadletFile(r.Resource)
}

// secret resolves SECRET[,OPTIONS]. A plain word that no secret of the module has for
// its id is a secret's name, declared or not: podman's secrets are often made by
// hand, and out of the manifest's sight.
func (x *resolver) secret(value string) string {
	word, options, hasOptions := strings.Cut(value, ",")
	a := units.Address{Module: x.from.Address.Module, Kind: units.KindSecret, ID: word}
	r, ok := x.declarations.byAddress[a]
	id, isID := strings.CutSuffix(word, ".secret")
	switch {
	case ok:
		x.use(r)
	case isID || strings.Contains(word, "/"):
		if r, ok = x.find(units.KindSecret, id); !ok {
			return value
		}
	default:
		i := slices.IndexFunc(x.declarations.all, func(d *declared) bool { return d.Secret != nil && d.Name == word })
		if i < 0 {
			return value
		}
		r = x.declarations.all[i]
		x.use(r)
	}
	if !hasOptions {
		return r.Name
	}
	return r.Name + "," + options
}

// units resolves the addresses among the names of units.
func (x *resolver) units(value string) string {
	words := strings.Fields(value)
	for i, word := range words {
		switch {
		case strings.Contains(word, "/") && !isPath(word):
			words[i] = x.unit(word)
		default:
			x.mistaken(word)
		}
	}
	return strings.Join(words, " ")
}

// mistaken faults a word that would be read as a unit's name, and that is the id of a unit
// of the module with another name: systemd would look for a unit of nobody's.
func (x *resolver) mistaken(word string) {
	a := units.Address{Module: x.from.Address.Module, Kind: units.KindUnit, ID: word}
	r, ok := x.declarations.byAddress[a]
	if !ok || units.Unit(r.Resource) == word || x.declarations.byUnit[word] != nil {
		return
	}
	at, p := x.at()
	x.fault(at, p, fmt.Sprintf("%q is the id of a unit that is called %q", word, units.Unit(r.Resource)),
		fmt.Sprintf("want %q, or another id for that unit where one of the machine's is meant", "unit/"+word))
}

// unit returns the service of kind/id or module/kind/id.
func (x *resolver) unit(word string) string {
	full := word
	if strings.Count(word, "/") == 1 {
		full = x.from.Address.Module + "/" + word
	}
	a, err := units.ParseAddress(full)
	if err != nil {
		at, p := x.at()
		x.fault(at, p, fmt.Sprintf("%q is neither a unit nor an address", word), "want kind/id or module/kind/id")
		return word
	}
	r, ok := x.declarations.byAddress[a]
	switch {
	case !ok:
		var known []string
		for _, r := range x.declarations.all {
			known = append(known, r.Address.String())
		}
		at, p := x.at()
		x.fault(at, p, fmt.Sprintf("no %s is declared", a), choices(full, known))
		return word
	case a.Kind == units.KindFile || a.Kind == units.KindDir || a.Kind == units.KindSecret:
		at, p := x.at()
		x.fault(at, p, fmt.Sprintf("%s is a %s and has no unit", a, a.Kind), "")
		return word
	}
	x.use(r)
	return units.Unit(r.Resource)
}

// notifications faults those that nothing can obey, and tells units from
// containers.
func (x *resolver) notifications() {
	if x.from.File == nil {
		return
	}
	notify := x.from.path.to("notify")
	for i, n := range x.from.File.Notify {
		p := notify.to(n.Resource.ID)
		x.at = func() (units.Position, path) { return x.placeBelow(x.from, "notify", n.Resource.ID), p }
		r, ok := x.declarations.byAddress[n.Resource]
		plain := n.Resource
		plain.Kind = units.KindUnit
		if unit, also := x.declarations.byAddress[plain]; also {
			if ok {
				at, _ := x.at()
				x.fault(at, p, fmt.Sprintf("%q is a container and a unit", n.Resource.ID), "want another id for one of them")
			}
			r, ok = unit, true
			x.from.File.Notify[i].Resource = plain
		}
		switch {
		case !ok:
			x.dangling(notified(n.Resource.ID), n.Resource.ID)
		case n.Action == "reload" && r.sound && !reloads(r):
			at, _ := x.at()
			x.fault(at, p, fmt.Sprintf("%s does not know how to reload", r.Address),
				`want Service: ExecReload there, or "restart" here`)
		}
	}
}

// notified returns the kind that an id is most likely meant to be of.
func notified(id string) units.Kind {
	if isUnitType(unitType(id)) {
		return units.KindUnit
	}
	return units.KindContainer
}

func reloads(r *declared) bool {
	return r.Value("Service", "ExecReload")+r.Value("Container", "ReloadCmd")+r.Value("Container", "ReloadSignal") != ""
}
