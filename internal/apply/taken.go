package apply

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"

	"meshgen/generator"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// taken says of each name that is new to the ledger whether something on the
// machine holds it, and what.
func (n *Node) taken(
	ctx context.Context, desired state.Generation, fresh []units.Target, held map[units.Target]state.Record, seen sight,
) (map[units.Target]state.Occupant, error) {
	taken := map[units.Target]state.Occupant{}
	files, dirs := map[units.Target]units.File{}, map[units.Target]units.Dir{}
	for _, r := range desired.Resources {
		if r.File != nil {
			files[units.Of(units.TargetFile, r.File.Path)] = *r.File
		}
		if r.Dir != nil {
			dirs[units.Of(units.TargetDir, r.Dir.Path)] = *r.Dir
		}
	}
	for _, t := range fresh {
		var by state.Occupant
		switch t.Kind() {
		case units.TargetUnit:
			by = n.unitHolder(t.Name(), seen.units[t.Name()])
		case units.TargetFile:
			if s, there := seen.observed.Files[t]; there && held[t].Target == "" {
				by = fileHolder(n.Layout.Path(t.Name()), s)
				by.Same = s == stateOf(files[t])
			}
		case units.TargetDir:
			if s, there := seen.observed.Dirs[t]; there && (held[t].Target == "" || s.Is != "") {
				by = dirHolder(n.Layout.Path(t.Name()), s, dirs[t])
			}
		case units.TargetContainer, units.TargetPod, units.TargetVolume, units.TargetNetwork, units.TargetSecret:
			object, there, err := n.object(ctx, t)
			if err != nil {
				return nil, err
			}
			if there && (held[t].Target == "" || !marked(object, held[t])) {
				by = occupant(t, object)
			}
			if pod, err := n.podHolds(ctx, t); err != nil {
				return nil, err
			} else if pod {
				by = state.Occupant{Words: "a pod of that name exists", What: units.TargetPod, Pod: t.Name()}
			}
			if t.Kind() == units.TargetPod && by.Words == "" {
				if by, err = n.containerHolds(ctx, t); err != nil {
					return nil, err
				}
			}
		}
		if r, ours := n.givesWay(t, by); ours {
			by.Words += ", and it is of " + r.Resource.String()
			by.Unfit, by.Instead = "a file and a directory take turns at a path in two switches", "leave "+t.Name()+" undeclared for one switch, in which what is there goes"
			taken[t] = by
		} else if by.Words != "" {
			by.Words += ", and it is not of meshgen"
			by.Unfit, by.Instead = n.unfit(t, by)
			if n.Ledger != nil {
				r, _ := n.Ledger.Record(t)
				by.Released = r.State == state.Found && r.Origin == state.OriginReleased && r.Why == state.ByHand
			}
			taken[t] = by
		}
	}
	return taken, nil
}

// givesWay returns what the ledger has of the file of ours that is where a directory
// is to be, or of the directory where a file is.
func (n *Node) givesWay(t units.Target, by state.Occupant) (state.Record, bool) {
	other := units.Target("")
	switch {
	case t.Kind() == units.TargetDir && by.What == wasFile:
		other = units.Of(units.TargetFile, t.Name())
	case t.Kind() == units.TargetFile && by.What == wasDir:
		other = units.Of(units.TargetDir, t.Name())
	}
	r, known := n.ledgerRecord(other)
	return r, known && r.State == state.Live
}

// podHolds reports whether a pod that is not ours has the name of a container: podman
// lets both have it, and a command by hand would mean either.
func (n *Node) podHolds(ctx context.Context, t units.Target) (bool, error) {
	if n.objects == nil || t.Kind() != units.TargetContainer {
		return false, nil
	}
	if r, known := n.ledgerRecord(units.Of(units.TargetPod, t.Name())); known && r.State == state.Live {
		return false, nil
	}
	containers, err := n.objects.get(ctx, units.TargetContainer)
	for _, o := range containers {
		if o.PodName == t.Name() {
			return true, err
		}
	}
	return false, err
}

// containerHolds describes the container that is not ours and has the name of a pod.
func (n *Node) containerHolds(ctx context.Context, pod units.Target) (state.Occupant, error) {
	t := units.Of(units.TargetContainer, pod.Name())
	o, there, err := n.object(ctx, t)
	if err != nil || !there || o.Labels[units.MarkLabel] != "" {
		return state.Occupant{}, err
	}
	return occupant(t, o), nil
}

func (n *Node) unitHolder(name string, u host.Unit) state.Occupant {
	by := state.Occupant{What: "unit", Unit: name, Running: u.Up()}
	if path := generator.Definition(n.Layout.Root, name); path != "" {
		by.Path = relative(n.Layout, path)
		by.Words = "defined by " + path
		switch {
		case isMask(path):
			by.What, by.Words = "mask", "masked by "+path
		case isQuadlet(path):
			by.What = "quadlet"
		}
		if text, err := os.ReadFile(path); err == nil { //nolint:gosec // a unit file of the machine
			by.Digest = state.TextDigest(string(text))
		}
		return by
	}
	switch {
	case u.Load == "masked":
		by.What, by.Words = "mask", "masked"
	case u.Up() && u.Load == "loaded":
		by.Words = "a unit of that name is " + u.Active
	case u.Up():
		by.Words = "a unit of that name is " + u.Active + " and its definition is gone"
	default:
		n.dropInHolder(name, &by)
	}
	return by
}

// dropInHolder says whether its owner changes a unit that is not there. What changes
// one that was ours once was made for ours.
func (n *Node) dropInHolder(name string, by *state.Occupant) {
	if r, known := n.ledgerRecord(units.Of(units.TargetUnit, name)); known && r.State != state.Found {
		return
	}
	if paths := dropIns(n.Layout, name); len(paths) > 0 {
		by.What, by.Path, by.Words = wasDropIn, paths[0], "changed by "+n.Layout.Path(paths[0])
	}
}

// isQuadlet reports whether podman's generator, and not systemd, reads a file.
func isQuadlet(path string) bool { return !isUnitName(path) }

func fileHolder(path string, s state.FileState) state.Occupant {
	if len(s.Digest) == sha256.Size*2 {
		return state.Occupant{Words: "a file is at " + path, What: "file", Path: path, Digest: s.Digest}
	}
	what := strings.TrimPrefix(s.Digest, "a ")
	switch what {
	case "symbolic link":
		what = "symlink"
	case "special file":
		what = "special"
	}
	return state.Occupant{Words: s.Digest + " is at " + path, What: what, Path: path}
}

// occupant describes the podman object that has a name.
func occupant(t units.Target, o host.Object) state.Occupant {
	return state.Occupant{
		Words: objectHolder(t, o), What: t.Kind(), Running: o.Running, ID: o.ID, Image: o.Image, ImageID: o.ImageID, Labels: o.Labels,
		Ports: slices.Sorted(slices.Values(o.Ports)), Networks: o.Networks, Created: o.Created, Pod: o.PodName, Unit: o.Unit, Driver: o.Driver,
	}
}

func objectHolder(t units.Target, o host.Object) string {
	if t.Kind() != units.TargetContainer {
		return "a " + t.Kind() + " of that name exists"
	}
	does := "exists"
	if o.Running {
		does = "runs"
	}
	by := ""
	if o.Unit != "" {
		by = ", by " + o.Unit
	}
	return fmt.Sprintf("container %.12s of image %s %s%s", o.ID, o.Image, does, by)
}
