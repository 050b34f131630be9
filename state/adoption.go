package state

import (
	"time"

	"meshgen/units"
)

// OriginAdopted is the origin of what was found and is ours by a decision,
// OriginReleased that of what was given back.
const (
	OriginAdopted  = "adopted"
	OriginReleased = "released"
)

// ByHand is why something was released that its owner asked for: a policy that
// adopts would take it again at the next switch, and is not heard.
const ByHand = "given back at its owner's word"

// Adoption is what a target was before it became ours, as far as it takes to give
// it back. All of it is known before anything is done, so that a switch that was
// cut short anywhere can be undone.
type Adoption struct {
	// Generation is the one whose switch adopted it.
	Generation int `json:"generation"`
	// Dir has the copies. It lies below the state directory, and its path is
	// relative to that; "" where nothing had to be copied.
	Dir string `json:"dir,omitempty"`
	// What it was: container, pod, volume, network, secret, file, directory, unit, quadlet, mask, dropin.
	What string `json:"what"`
	// ID is podman's id of a container, a pod or a secret, the time at which a volume or a network was
	// made, which tells it from a later one of its name, or the sha256 of a file.
	ID string `json:"id,omitempty"`
	// Aside is the name that a container has while it is not in force.
	Aside string `json:"aside,omitempty"`
	// Restart is the container's restart policy, as podman has it.
	Restart string `json:"restart,omitempty"`
	// Running says that it ran, and is started again when it is given back.
	Running bool `json:"running,omitempty"`
	// Unit ran the container or the pod.
	Unit string `json:"unit,omitempty"`
	// Pod is the one that the container is in, that had the name, or that the unit ran;
	// nil where there is none.
	Pod *AdoptedPod `json:"pod,omitempty"`
	// Secret is what it takes to know and make a secret, beside what it holds; nil of
	// all else.
	Secret *AdoptedSecret `json:"secret,omitempty"`
	// With are the other names that go back together with this one: one unit ran
	// them, or podman starts one with another.
	With []units.Target `json:"with,omitempty"`
	// Files are what was taken from its place, or written over.
	Files []AdoptedFile `json:"files,omitempty"`
	// Directory is what a directory was, which is used as it is; nil of all else.
	Directory *AdoptedDir `json:"directory,omitempty"`
}

// AdoptedDir is a directory as it was, without what is in it.
type AdoptedDir struct {
	Meta string `json:"meta"` // its mode and owner: see [MetaOf]
	// Attributes are its extended attributes, xattr(7), by name.
	Attributes map[string][]byte `json:"attributes,omitempty"`
}

// AdoptedPod is a pod that was adopted with all of its containers, and each of their
// adoptions has all of this. It stays, stopped and under its name; one that a unit
// makes anew at each start goes with the stop, and comes back with the unit.
type AdoptedPod struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Infra is the id of the pod's own container, which holds its ports; "" where it
	// has none. Restart and Running are of that one, as in [Adoption].
	Infra   string `json:"infra,omitempty"`
	Restart string `json:"restart,omitempty"`
	Running bool   `json:"running,omitempty"`
	// Unit makes the pod anew at each start, and removes it at each stop; "" where none does.
	Unit string `json:"unit,omitempty"`
}

// AdoptedSecret is a secret of podman's own driver. What it holds, and what podman
// said of it, is in the directory of the adoption.
type AdoptedSecret struct {
	Digest  string            `json:"digest"` // of what it holds, keyed as those of declared ones
	Labels  map[string]string `json:"labels,omitempty"`
	Options map[string]string `json:"options,omitempty"` // of the driver
}

// AdoptedFile is a file or a link as it was at Path.
type AdoptedFile struct {
	Path string `json:"path"` // on the node
	// Link is where a link leads; "" for a file, whose content is in Copy, a name
	// in the directory of the adoption, with mode, owner and extended attributes.
	Link string `json:"link,omitempty"`
	// Owner and Time are those of a link: its user and group, by their numbers.
	Owner  [2]int    `json:"owner,omitzero"`
	Time   time.Time `json:"time,omitzero"`
	Copy   string    `json:"copy,omitempty"`
	Digest string    `json:"digest,omitempty"` // sha256 of the content, in hexadecimal
}
