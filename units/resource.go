// Package units holds what a node is told to have: resources, the targets they
// hold on the machine, and the unit files they become.
//
// It is made of plain values and pure functions: it reads no manifest, touches
// no machine and remembers nothing. [Render] turns a resource into Quadlet
// text, [Targets] lists the names it holds, [RunDigest] tells whether two
// versions of a service run alike.
package units

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Kind is the kind of a resource, the middle part of its [Address].
type Kind string

// The kinds of resource.
const (
	KindContainer Kind = "container"
	KindPod       Kind = "pod"
	KindVolume    Kind = "volume"
	KindNetwork   Kind = "network"
	KindUnit      Kind = "unit" // of systemd's own, without Quadlet
	KindFile      Kind = "file"
	KindDir       Kind = "dir"
	KindSecret    Kind = "secret" // of podman, made by a switch and not by a unit
)

// Address names a resource as module/kind/id. It never depends on the names
// that the resource holds on the machine.
type Address struct {
	Module string
	Kind   Kind
	ID     string
}

// ParseAddress reads what [Address.String] writes.
func ParseAddress(s string) (Address, error) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return Address{}, fmt.Errorf("%q is not an address: want module/kind/id", s)
	}
	return Address{Module: parts[0], Kind: Kind(parts[1]), ID: parts[2]}, nil
}

// String returns module/kind/id.
func (a Address) String() string {
	return a.Module + "/" + string(a.Kind) + "/" + a.ID
}

// Compare orders addresses by module, kind and id.
func (a Address) Compare(b Address) int {
	return cmp.Or(
		strings.Compare(a.Module, b.Module),
		strings.Compare(string(a.Kind), string(b.Kind)),
		strings.Compare(a.ID, b.ID),
	)
}

// MarshalText writes the address as module/kind/id.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads module/kind/id.
func (a *Address) UnmarshalText(text []byte) (err error) {
	*a, err = ParseAddress(string(text))
	return err
}

// Position is a place in the manifest. File is relative to the manifest
// directory; lines and columns count from 1.
type Position struct {
	File   string
	Line   int
	Column int
}

// String returns file:line:col.
func (p Position) String() string {
	return p.File + ":" + strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Column)
}

// Compare orders positions by file, line and column.
func (p Position) Compare(q Position) int {
	return cmp.Or(
		strings.Compare(p.File, q.File),
		cmp.Compare(p.Line, q.Line),
		cmp.Compare(p.Column, q.Column),
	)
}

// MarshalText writes file:line:col, or nothing for the zero position.
func (p Position) MarshalText() ([]byte, error) {
	if p == (Position{}) {
		return nil, nil
	}
	return []byte(p.String()), nil
}

// UnmarshalText reads file:line:col.
func (p *Position) UnmarshalText(text []byte) error {
	*p = Position{}
	if len(text) == 0 {
		return nil
	}
	rest, column, ok := cutColon(string(text))
	file, line, ok2 := cutColon(rest)
	if !ok || !ok2 {
		return fmt.Errorf("%q is not a position: want file:line:col", text)
	}
	l, err := strconv.Atoi(line)
	if err != nil {
		return fmt.Errorf("%q is not a position: line: %w", text, err)
	}
	c, err := strconv.Atoi(column)
	if err != nil {
		return fmt.Errorf("%q is not a position: column: %w", text, err)
	}
	*p = Position{File: file, Line: l, Column: c}
	return nil
}

// cutColon cuts s around its last colon.
func cutColon(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// Fault is one thing wrong with what the owner wrote: where it stands, what it
// is and, where known, what would be right.
type Fault struct {
	Position Position `json:"position"`
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"`
}

// Error returns file:line:col: message, and the hint indented on its own line.
// A line end in either, as a name may have it, is a space.
func (f Fault) Error() string {
	s := f.Message
	if f.Position != (Position{}) {
		s = f.Position.String() + ": " + s
	}
	s = strings.ReplaceAll(s, "\n", " ")
	if f.Hint != "" {
		s += "\n    " + strings.ReplaceAll(f.Hint, "\n", " ")
	}
	return s
}

// Faults is everything that is wrong with a manifest, in the order of the
// positions.
type Faults []Fault

// Err returns the faults as an error; nil where there are none.
func (f Faults) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// Error returns one fault a line, hints indented below theirs.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

// Resource is one declared thing. It is what the manifest says once names,
// defaults and references are resolved, and is complete: nothing later reads
// the manifest again.
type Resource struct {
	Address  Address  `json:"address"`
	Position Position `json:"position"`

	// Name is the base of the unit's file name and of the podman object's
	// name. Of KindUnit it is the whole name, with its type; of KindSecret it is
	// podman's. A file and a directory have none.
	Name string `json:"name,omitempty"`
	// Sections are the unit's, in the order in which they are written.
	// A file, a directory and a secret have none.
	Sections []Section `json:"sections,omitempty"`
	// Holds are the ports taken beyond what PublishPort says.
	Holds []Port `json:"holds,omitempty"`
	// Uses are the declared resources that this one refers to.
	Uses []Address `json:"uses,omitempty"`

	// Policy is what the manifest says of how changes are decided, by
	// transition: rename, transfer, remove, takeover, drift, and whatever else
	// Wasm takes. It makes no difference to what the resource is.
	Policy map[string]string `json:"policy,omitempty"`
	// Wasm is the policy of the module's own that decides; nil stands for the
	// built-in one. It makes no difference to what the resource is either.
	Wasm *Wasm `json:"wasm,omitempty"`

	// File is set for KindFile alone, Dir for KindDir, Secret for KindSecret.
	File   *File   `json:"file,omitempty"`
	Dir    *Dir    `json:"dir,omitempty"`
	Secret *Secret `json:"secret,omitempty"`
}

// Section is a section of a unit file: [Container], [Service] and so on.
type Section struct {
	Name    string  `json:"name"`
	Entries []Entry `json:"entries"`
}

// Entry is one key of a section, with either Values, which are written as they
// stand, one line each, or Pairs, which are written quoted and literal.
type Entry struct {
	Key      string   `json:"key"`
	Position Position `json:"position"`
	Values   []string `json:"values,omitempty"`
	Pairs    []Pair   `json:"pairs,omitempty"`
	// Since is the podman version that brought the key, where that is newer
	// than the oldest podman that the schema covers.
	Since string `json:"since,omitempty"`
}

// Pair is a name and its value, as in Environment or Label.
type Pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// File is a config file at a path of its own.
type File struct {
	Path  string `json:"path"`  // absolute and clean
	Mode  uint32 `json:"mode"`  // permission bits
	Owner string `json:"owner"` // user name or number
	Group string `json:"group"` // group name or number
	// Digest is the sha256 of the content, in hexadecimal.
	Digest string `json:"digest"`
	// Content is not part of the JSON form: a generation stores it by digest.
	Content []byte `json:"-"`
	// Notify are the resources that must act when the file changes.
	Notify []Notification `json:"notify,omitempty"`
}

// Dir is a directory at a path of its own. What is in it is no part of it.
type Dir struct {
	Path  string `json:"path"`  // absolute and clean
	Mode  uint32 `json:"mode"`  // permission bits
	Owner string `json:"owner"` // user name or number
	Group string `json:"group"` // group name or number
}

// Secret is a secret of podman's. It has no text form that shows the content.
type Secret struct {
	// Digest tells one content from another, in hexadecimal, to whoever has the key
	// of the node; "" until the node has set it.
	Digest string `json:"digest"`
	// Content is not part of the JSON form: a generation stores it by digest.
	Content []byte `json:"-"`
}

// String keeps the content out of whatever is printed.
func (s Secret) String() string { return "secret " + s.Digest }

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// Notification is what a resource does when a file of its module changes.
type Notification struct {
	Resource Address `json:"resource"`
	Action   string  `json:"action"` // "restart" or "reload"
}

// Wasm is a policy that a module brings, a WebAssembly program.
type Wasm struct {
	Path     string   `json:"path"` // below the manifest directory, with slashes
	Position Position `json:"position"`
	// Digest is the sha256 of the program, in hexadecimal.
	Digest string `json:"digest"`
	// Content is not part of the JSON form: a generation stores it by digest.
	Content []byte `json:"-"`
}

// Port is a port on the host.
type Port struct {
	Protocol string `json:"protocol"`       // "tcp", "udp" or "sctp"
	Host     string `json:"host,omitempty"` // address listened on; "" is all of them
	Number   int    `json:"number"`
}

// Values returns all values of a key of a section, in their order; nil where
// there is none. Pairs count as name=value.
func (r Resource) Values(section, key string) []string {
	var values []string
	for _, s := range r.Sections {
		if s.Name != section {
			continue
		}
		for _, e := range s.Entries {
			if e.Key != key {
				continue
			}
			values = append(values, e.Values...)
			for _, p := range e.Pairs {
				values = append(values, p.Name+"="+p.Value)
			}
		}
	}
	return values
}

// Value returns the last value of a key of a section, which is the one that
// counts for a key that may stand once; "" where there is none.
func (r Resource) Value(section, key string) string {
	values := r.Values(section, key)
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}
