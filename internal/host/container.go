package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Inspection is all that podman says of one container.
type Inspection struct {
	// Text is podman's own, in JSON.
	Text []byte
	// Restart is the restart policy, as podman update takes it: "no", "always",
	// "on-failure:5".
	Restart string
	// Remove says that podman removes it as it stops: podman-run(1), --rm.
	Remove bool
	// Writes are the volumes, by name, and the paths on the host that are mounted in it
	// and that it may write to.
	Writes []string
}

// InspectContainer asks podman for all that it has of the container of that id.
func (p Podman) InspectContainer(ctx context.Context, id string) (Inspection, error) {
	out, err := p.run(ctx, "container", "inspect", "--", id)
	if err != nil {
		return Inspection{}, err
	}
	var list []struct {
		Mounts []struct {
			Name, Source string
			RW           bool
		}
		HostConfig struct {
			AutoRemove    bool
			RestartPolicy struct {
				Name              string
				MaximumRetryCount int
			}
		}
	}
	if err := json.Unmarshal(out, &list); err != nil {
		return Inspection{}, fmt.Errorf("podman container inspect %s: %w", id, err)
	}
	if len(list) != 1 {
		return Inspection{}, fmt.Errorf("podman container inspect %s: %w", id, errCount)
	}
	policy := list[0].HostConfig.RestartPolicy
	i := Inspection{Text: out, Restart: policy.Name, Remove: list[0].HostConfig.AutoRemove}
	if policy.MaximumRetryCount > 0 {
		i.Restart += ":" + strconv.Itoa(policy.MaximumRetryCount)
	}
	for _, m := range list[0].Mounts {
		if m.RW {
			i.Writes = append(i.Writes, cmp.Or(m.Name, m.Source))
		}
	}
	return i, nil
}

// InspectPod returns all that podman has of the pod of that id, in JSON.
func (p Podman) InspectPod(ctx context.Context, id string) ([]byte, error) {
	return p.run(ctx, "pod", "inspect", "--", id)
}

// Tie is what a container hangs on.
type Tie struct {
	// Needs are the containers, by id, that podman starts before it, whose network or
	// other namespace it is in or that it requires; and, as its owner wrote them, those
	// whose volumes it has.
	Needs []string
	// Unit is the systemd unit whose control group its monitor is in; "" where that
	// is none, as where it does not run.
	Unit string
}

// Ties asks podman what the containers of those ids hang on.
func (p Podman) Ties(ctx context.Context, ids []string) (map[string]Tie, error) {
	ties := make(map[string]Tie, len(ids))
	if len(ids) == 0 {
		return ties, nil
	}
	var list []struct {
		ID           string `json:"Id"`
		Dependencies []string
		State        struct{ ConmonPid int }
		HostConfig   struct{ VolumesFrom []string }
	}
	if err := p.list(ctx, &list, append([]string{"container", "inspect", "--"}, ids...)...); err != nil {
		return nil, err
	}
	for _, c := range list {
		t := Tie{Needs: c.Dependencies}
		for _, from := range c.HostConfig.VolumesFrom {
			of, _, _ := strings.Cut(from, ":")
			t.Needs = append(t.Needs, of)
		}
		if c.State.ConmonPid > 0 {
			t.Unit = serviceOf(strconv.Itoa(c.State.ConmonPid))
		}
		ties[c.ID] = t
	}
	return ties, nil
}

var errCount = errors.New("an answer that is not of one container")

// StopContainer has podman stop the container of that id, which stays, unless it
// was made to be removed then. One that does not run is left as it is.
func (p Podman) StopContainer(ctx context.Context, id string) error {
	_, err := p.run(ctx, "stop", "--", id)
	return err
}

// StartContainer has podman start the container of that id. One that runs is left
// as it is. It runs on when the unit ends that this program runs in.
func (p Podman) StartContainer(ctx context.Context, id string) error {
	// By these podman takes itself for a unit's, and leaves the container's monitor
	// in the control group of ours, which systemd kills as that ends.
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "INVOCATION_ID=") || strings.HasPrefix(v, "NOTIFY_SOCKET=")
	})
	_, err := p.runWith(ctx, env, "start", "--", id)
	return err
}

// RenameContainer gives the container of that id a name. One that is taken is an
// error.
func (p Podman) RenameContainer(ctx context.Context, id, name string) error {
	_, err := p.run(ctx, "rename", "--", id, name)
	return err
}

// SetRestart gives the container of that id a restart policy. Podman can do that
// from version 5.1 on.
func (p Podman) SetRestart(ctx context.Context, id, policy string) error {
	_, err := p.run(ctx, "update", "--restart="+policy, "--", id)
	return err
}
