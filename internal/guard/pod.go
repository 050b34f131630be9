package guard

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// pod is one as podman pod ps tells it.
type pod struct {
	ID     string `json:"Id"`
	Name   string
	Status string
	Labels map[string]string
}

// clearPod is Clear for a pod. One that a power cut left is still there at the boot,
// other than a container that has --rm. podman has pods in a database alone, so that
// it is asked each time.
//
// The pod's own container goes with it; without the pod it is somebody else's.
func clearPod(ctx context.Context, c Claim) error {
	has, there, err := findPod(ctx, c.Name)
	if err != nil {
		return err
	}
	own := c
	own.Name += "-infra" // as Quadlet calls it
	if there {
		if err := c.mayRemove(ctx, has); err != nil {
			return err
		}
		if err := clearUnbornOwn(ctx, own.Name); err != nil {
			return err
		}
		// As Quadlet's ExecStopPost= does, by the id that was judged.
		if _, err := podman(ctx, "pod", "rm", "--force", "--ignore", "--", has.ID); err != nil {
			return err
		}
	}
	return clearContainer(ctx, own)
}

// clearUnbornOwn removes what a podman pod create that was killed halfway left of the
// pod's own container, a name in the storage that bears no mark. It is known for that
// by the pod, which is made before it and so has to go after it.
func clearUnbornOwn(ctx context.Context, name string) error {
	left, _, _ := lookup("/", name) // where it is not as expected, podman pod create says what is in the way
	has, there, err := find(ctx, name)
	if err != nil || !there {
		return err
	}
	_, _, err = clearUnborn(ctx, left, has)
	return err
}

// mayRemove returns nil where the pod that has the name is ours and so is all that is
// in it: no container can leave its pod.
func (c Claim) mayRemove(ctx context.Context, has pod) error {
	if !c.marked(has.Labels) && !c.wrote(has.ID) {
		return fmt.Errorf("pod %s (%.12s, %s) is not of meshgen, and is left as it is: %s needs the name. Remove it (podman pod rm), then start %s",
			has.Name, has.ID, strings.ToLower(has.Status), c.Unit, c.Unit)
	}
	in, err := containersOf(ctx, has.ID)
	if err != nil {
		return err
	}
	for _, guest := range in {
		if guest.IsInfra {
			continue
		}
		ours, err := guest.marked(ctx)
		if err != nil {
			return err
		}
		if !ours {
			return fmt.Errorf("pod %s (%.12s) was left behind, and container %s (%.12s of image %s, %s) in it is not of meshgen, and is left as it is: %s has to make the pod anew. Remove the container (podman rm), then start %s",
				has.Name, has.ID, strings.Join(guest.Names, " "), guest.ID, guest.Image, guest.State, c.Unit, c.Unit)
		}
	}
	return nil
}

// wrote reports whether the service made the pod of that id since the boot.
func (c Claim) wrote(id string) bool {
	file := filepath.Join("/run", strings.TrimSuffix(c.Unit, ".service")+".pod-id") // Quadlet's place for it
	text, err := os.ReadFile(file)                                                  //nolint:gosec // as named
	return err == nil && strings.TrimSpace(string(text)) == id
}

// findPod returns the pod that podman has under a name.
func findPod(ctx context.Context, name string) (p pod, there bool, err error) {
	out, err := podman(ctx, "pod", "ps", "--filter=name=^"+regexp.QuoteMeta(name)+"$", "--format=json")
	if err != nil {
		return pod{}, false, err
	}
	var all []pod
	if err := json.Unmarshal(out, &all); err != nil {
		return pod{}, false, fmt.Errorf("podman pod ps: %w", err)
	}
	for _, p := range all {
		if p.Name == name {
			return p, true, nil
		}
	}
	return pod{}, false, nil
}

// containersOf returns the containers in a pod, its own included.
func containersOf(ctx context.Context, pod string) (all []container, err error) {
	out, err := podman(ctx, "ps", "--all", "--filter=pod="+pod, "--format=json")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(out, &all); err != nil {
		return nil, fmt.Errorf("podman ps: %w", err)
	}
	return all, nil
}
