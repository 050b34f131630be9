// Package guard sees, at each start of a container's or a pod's service, that the
// name is free: [Clear]. What a service of ours left behind under it goes; what is
// anybody else's stays, and the service does not start.
//
// It is the whole of cmd/meshgen-guard, which systemd runs before podman run and
// podman pod create. Both have --replace=false: what comes up between the two has
// the start fail. Neither the ledger nor the manifest is read: a name is judged by what
// podman has under it now, so that a boot, a restart by systemd and a start by
// hand are guarded like a switch.
package guard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"meshgen/units"
)

// Claim is the name that a service is about to start its container, or make its
// pod, with.
type Claim struct {
	Name     string
	Resource units.Address // as in [units.MarkLabel]
	Unit     string
}

// Clear returns nil where nothing has the name that is of the resource's kind, or
// nothing any more: what the service, or an earlier one of the resource, left behind
// is removed by its id. The error names any other, which is not touched. podman lets
// a container and a pod have one name.
func Clear(ctx context.Context, c Claim) error {
	if c.Resource.Kind == units.KindPod {
		return clearPod(ctx, c)
	}
	return clearContainer(ctx, c)
}

// clearContainer is Clear for a container.
//
// Where the index of podman's storage has nothing under the name podman is not run,
// since that takes longer than all else. An index that is wrong about it does no
// harm: podman run then fails.
func clearContainer(ctx context.Context, c Claim) error {
	const root = "/"
	left, taken, err := lookup(root, c.Name)
	if err == nil && !taken {
		return nil
	}
	has, there, err := find(ctx, c.Name)
	if err != nil || !there { // podman's first run after a boot has removed it
		return err
	}
	if left.Flags.Volatile {
		if has, there, err = clearUnborn(ctx, left, has); err != nil || !there {
			return err
		}
	}
	ours, err := c.made(ctx, root, has)
	if err != nil {
		return err
	}
	if !ours {
		return fmt.Errorf("container %s (%.12s of image %s, %s) is not of meshgen, and is left as it is: %s needs the name. Rename it (podman rename), or remove it, then start %s",
			c.Name, has.ID, has.Image, has.State, c.Unit, c.Unit)
	}
	return remove(ctx, has)
}

// clearUnborn removes the container that has a name, if it was never born; left is
// what the storage has under that name. It returns what has the name then.
func clearUnborn(ctx context.Context, left entry, has container) (container, bool, error) {
	if !has.unborn() || left.ID != has.ID {
		return has, true, nil
	}
	has, there, err := await(ctx, has, left.Created)
	if err != nil || !there || !has.unborn() || left.ID != has.ID {
		return has, there, err
	}
	return container{}, false, remove(ctx, has)
}

// birth is more than the time for which podman run has a container in its storage
// and not in its database: some milliseconds.
const birth = 10 * time.Second

// await looks again at a container that was made at that time, once it must have
// been born. A podman run that was killed halfway leaves one that never will: it
// has no labels, never ran, and holds nothing.
func await(ctx context.Context, c container, made time.Time) (container, bool, error) {
	wait := time.NewTimer(min(birth, birth-time.Since(made))) // the clock may have been set back
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
		return container{}, false, ctx.Err()
	}
	return find(ctx, c.Names[0])
}

// made reports whether a container is of the service, or of one that the resource
// had before. A mark that the image has as well says nothing: podman commit gives
// an image the labels of its container.
func (c Claim) made(ctx context.Context, root string, has container) (bool, error) {
	cid, err := os.ReadFile(filepath.Join(root, "run", strings.TrimSuffix(c.Unit, ".service")+".cid")) //nolint:gosec // Quadlet's place for it
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if strings.TrimSpace(string(cid)) == has.ID {
		return true, nil
	}
	if !c.marked(has.Labels) {
		return false, nil
	}
	// Our units are below /run. A copy of one, with all that is in it, is its owner's.
	if by := has.Labels[units.FragmentLabel]; by != "" && !strings.HasPrefix(by, "/run/") {
		return false, nil
	}
	return has.marked(ctx)
}

// marked reports whether labels tell that something was made by the service, or for
// the resource.
func (c Claim) marked(labels map[string]string) bool {
	mark := labels[units.MarkLabel]
	return mark != "" && (mark == c.Resource.String() || labels[unitLabel] == c.Unit)
}

// marked reports whether a container bears a mark of its own.
func (c container) marked(ctx context.Context) (bool, error) {
	mark := c.Labels[units.MarkLabel]
	if mark == "" || c.ImageID == "" {
		return mark != "", nil // without an image it is of a Rootfs=
	}
	labels, err := imageLabels(ctx, c.ImageID)
	return err == nil && labels[units.MarkLabel] != mark, err
}
