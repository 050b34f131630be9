package apply_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"meshgen/units"
)

// declaration is one resource of a manifest in a history: its address and what
// is said of it, by keys. Of a container: unit, name, env, deaf, volume, network
// and port; of a network: unit, name and subnet; of a volume: unit and name; of a
// file: path, content and notify. volume, network and notify are ids of the same
// module. Each may say what a takeover comes to.
type declaration struct {
	address units.Address
	keys    map[string]string
}

func (d declaration) get(key string) string { return d.keys[key] }

// base is the base of the unit's name.
func (d declaration) base() string {
	return cmp.Or(d.keys["unit"], d.address.Module+"-"+d.address.ID)
}

// object is the name that podman has it by.
func (d declaration) object() string { return cmp.Or(d.keys["name"], d.base()) }

// subnet is that of a network; "" where podman chooses one.
func (d declaration) subnet() string {
	if s := d.get("subnet"); s != "" {
		return "10.99." + s + ".0/24"
	}
	return ""
}

// fails reports whether it does not come up.
func (d declaration) fails() bool { return strings.HasPrefix(d.get("env"), "FAIL") }

func (d declaration) with(kind units.Kind, id string) units.Address {
	return units.Address{Module: d.address.Module, Kind: kind, ID: id}
}

// manifest is what a history has declared so far.
type manifest map[units.Address]declaration

// sound returns the manifest as the loader would take it: of two resources that
// want one name, one port or one volume the later goes without, and so does a
// reference to what is not declared.
func (m manifest) sound() manifest {
	out := manifest{}
	held := map[string]bool{}
	order := slices.SortedFunc(maps.Keys(m), func(a, b units.Address) int {
		return cmp.Or(-cmp.Compare(turn(a.Kind), turn(b.Kind)), a.Compare(b))
	})
	for _, a := range order {
		d := declaration{a, maps.Clone(m[a].keys)}
		for key, kind := range map[string]units.Kind{"volume": units.KindVolume, "network": units.KindNetwork} {
			if _, ok := out[d.with(kind, d.get(key))]; !ok {
				delete(d.keys, key)
			}
		}
		if used := "use of " + d.with(units.KindVolume, d.get("volume")).String(); d.get("volume") != "" && held[used] {
			delete(d.keys, "volume")
		} else {
			held[used] = true
		}
		names := []string{string(a.Kind) + " file " + d.base()}
		for _, t := range units.Targets(resource(d, out)) {
			names = append(names, string(t))
		}
		if a.Kind == units.KindFile {
			names = names[1:]
		}
		if s := d.get("subnet"); s != "" {
			names = append(names, "subnet "+s)
		}
		if slices.ContainsFunc(names, func(n string) bool { return held[n] }) || (a.Kind == units.KindFile && d.get("path") == "") {
			continue
		}
		for _, n := range names {
			held[n] = true
		}
		out[a] = d
	}
	for _, d := range out {
		if _, ok := out[d.with(units.KindContainer, d.get("notify"))]; !ok {
			delete(d.keys, "notify")
		}
	}
	return out
}

// turn has what others refer to come before them.
func turn(k units.Kind) int {
	switch k {
	case units.KindNetwork, units.KindVolume:
		return 2
	case units.KindFile:
		return 1
	case units.KindContainer, units.KindPod, units.KindUnit, units.KindDir, units.KindSecret:
	}
	return 0
}

// fails reports whether a container does not come up.
func (m manifest) fails() bool {
	for _, d := range m {
		if d.fails() {
			return true
		}
	}
	return false
}

func (m manifest) sorted() []declaration {
	return slices.SortedFunc(maps.Values(m), func(a, b declaration) int { return a.address.Compare(b.address) })
}

// resources returns what the loader makes of the manifest, but for positions.
func (m manifest) resources() []units.Resource {
	var out []units.Resource
	for _, d := range m.sorted() {
		out = append(out, resource(d, m))
	}
	return out
}

func (m manifest) digest() string {
	var b strings.Builder
	for _, d := range m.sorted() {
		b.WriteString(d.String() + "\n")
	}
	return digest(b.String())
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// String returns the line of a history that declares it.
func (d declaration) String() string {
	s := string(d.address.Kind) + " " + d.address.Module + "/" + d.address.ID
	for _, key := range slices.Sorted(maps.Keys(d.keys)) {
		s += " " + key + "=" + d.keys[key]
	}
	return s
}

func resource(d declaration, m manifest) units.Resource {
	r := units.Resource{Address: d.address}
	if to := d.get("takeover"); to != "" {
		r.Policy = map[string]string{"takeover": to}
	}
	if d.address.Kind == units.KindFile {
		r.File = file(d)
		return r
	}
	r.Name = d.base()
	own := strings.ToUpper(string(d.address.Kind[:1])) + string(d.address.Kind[1:])
	s := units.Section{Name: own, Entries: []units.Entry{entry(own+"Name", d.object())}}
	refer := func(key string, kind units.Kind, suffix string) {
		used := d.with(kind, d.get(strings.ToLower(key)))
		if d.get(strings.ToLower(key)) != "" {
			r.Uses = append(r.Uses, used)
			s.Entries = append(s.Entries, entry(key, m[used].base()+"."+string(kind)+suffix))
		}
	}
	switch d.address.Kind {
	case units.KindContainer:
		if env := d.get("env"); env != "" {
			name, value, _ := strings.Cut(env, ":")
			s.Entries = append(s.Entries, units.Entry{Key: "Environment", Pairs: []units.Pair{{Name: name, Value: value}}})
		}
		if d.get("deaf") != "" {
			s.Entries = append(s.Entries, entry("Exec", "busybox sleep 1000"))
		}
		s.Entries = append(s.Entries, entry("Image", "localhost/probe:1"))
		refer("Network", units.KindNetwork, "")
		if port := d.get("port"); port != "" {
			s.Entries = append(s.Entries, entry("PublishPort", port+":80"))
		}
		refer("Volume", units.KindVolume, ":/data")
	case units.KindNetwork:
		if subnet := d.get("subnet"); subnet != "" {
			s.Entries = append(s.Entries, entry("Subnet", fmt.Sprintf("10.99.%s.0/24", subnet)))
		}
	case units.KindPod, units.KindVolume, units.KindFile, units.KindDir, units.KindUnit, units.KindSecret:
	}
	r.Sections = []units.Section{s, {Name: "Install", Entries: []units.Entry{entry("WantedBy", "multi-user.target")}}}
	return r
}

func entry(key, value string) units.Entry { return units.Entry{Key: key, Values: []string{value}} }

func file(d declaration) *units.File {
	content := "content " + d.get("content") + "\n"
	f := &units.File{
		Path: d.get("path"), Mode: 0o644, Owner: "root", Group: "root", Digest: digest(content), Content: []byte(content),
	}
	if id := d.get("notify"); id != "" {
		f.Notify = []units.Notification{{Resource: d.with(units.KindContainer, id), Action: "restart"}}
	}
	return f
}
