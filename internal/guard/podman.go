package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// container is one as podman ps tells it.
type container struct {
	ID      string `json:"Id"`
	Names   []string
	Image   string
	ImageID string
	State   string
	IsInfra bool // it is a pod's own
	Labels  map[string]string
}

// unitLabel is the label in which podman says which unit ran it.
const unitLabel = "PODMAN_SYSTEMD_UNIT"

// unborn reports whether podman's storage has the container, and its database
// not: it is about to be made, was not made to its end, or is no podman's.
func (c container) unborn() bool { return c.State == "storage" }

// find returns the container that podman has under a name.
func find(ctx context.Context, name string) (c container, there bool, err error) {
	out, err := podman(ctx, "ps", "--all", "--external", "--filter=name=^"+regexp.QuoteMeta(name)+"$", "--format=json")
	if err != nil {
		return container{}, false, err
	}
	var all []container
	if err := json.Unmarshal(out, &all); err != nil {
		return container{}, false, fmt.Errorf("podman ps: %w", err)
	}
	i := slices.IndexFunc(all, func(c container) bool { return slices.Contains(c.Names, name) })
	if i < 0 {
		return container{}, false, nil
	}
	return all[i], true, nil
}

func imageLabels(ctx context.Context, id string) (labels map[string]string, err error) {
	out, err := podman(ctx, "image", "inspect", "--format={{json .Labels}}", "--", id)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(out, &labels); err != nil {
		return nil, fmt.Errorf("podman image inspect: %w", err)
	}
	return labels, nil
}

// remove does what Quadlet's ExecStopPost= does, by the id that was judged.
func remove(ctx context.Context, c container) error {
	_, err := podman(ctx, "rm", "--volumes", "--force", "--ignore", "--", c.ID)
	return err
}

// podman runs the program that the service is about to run.
func podman(ctx context.Context, args ...string) ([]byte, error) {
	path, err := exec.LookPath("podman")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	// What it would tell systemd is for the container's podman to tell.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "NOTIFY_SOCKET=") })
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("podman %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}
