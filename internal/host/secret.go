package host

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Secret is a secret of podman's with what it holds. It has no text form that shows
// that.
type Secret struct {
	Name   string
	Labels map[string]string
	// Driver has the content, as Options tell it; where it is "" the machine's default
	// does: containers.conf(5).
	Driver  string
	Options map[string]string
	Content []byte
}

// String returns the name.
func (s Secret) String() string { return "secret " + s.Name }

// GoString returns what String does.
func (s Secret) GoString() string { return s.String() }

// FileDriver is the driver that podman has of its own: what it holds is in a file.
const FileDriver = "file"

// inspectedSecret is what podman secret inspect says of one.
type inspectedSecret struct {
	ID        string
	CreatedAt time.Time
	Spec      struct {
		Name   string
		Driver struct {
			Name    string
			Options map[string]string
		}
		Labels map[string]string
	}
}

// Secrets lists all secrets, without what they hold.
func (p Podman) Secrets(ctx context.Context) ([]Object, error) {
	ids, err := p.run(ctx, "secret", "ls", "--quiet")
	if err != nil || len(bytes.TrimSpace(ids)) == 0 {
		return nil, err
	}
	var list []inspectedSecret
	// podman 5.4 lists no labels.
	if err := p.list(ctx, &list, append([]string{"secret", "inspect", "--"}, strings.Fields(string(ids))...)...); err != nil {
		return nil, err
	}
	found := make([]Object, len(list))
	for i, s := range list {
		found[i] = Object{
			Name: s.Spec.Name, ID: s.ID, Labels: s.Spec.Labels, Created: s.CreatedAt, Driver: s.Spec.Driver.Name, Options: s.Spec.Driver.Options,
		}
	}
	return found, nil
}

// InspectSecret returns the secret of that id with what it holds, and what podman
// says of it, which has none of that. A driver that is not podman's own may run a
// command for it.
func (p Podman) InspectSecret(ctx context.Context, id string) (s Secret, said []byte, err error) {
	said, err = p.run(ctx, "secret", "inspect", "--", id)
	if err != nil {
		return s, nil, err
	}
	var list []inspectedSecret
	if err := json.Unmarshal(said, &list); err != nil || len(list) != 1 {
		return s, nil, errors.Join(fmt.Errorf("podman secret inspect %s: %d secrets", id, len(list)), err)
	}
	spec := list[0].Spec
	s = Secret{Name: spec.Name, Labels: spec.Labels, Driver: spec.Driver.Name, Options: spec.Driver.Options}
	// The JSON form is for text: it would change bytes that are none.
	content, err := p.run(ctx, "secret", "inspect", "--showsecret", "--format={{.SecretData}}", "--", id)
	if err != nil {
		return s, nil, err
	}
	s.Content, _ = bytes.CutSuffix(content, []byte("\n")) // of the template
	return s, said, nil
}

// CreateSecret makes a secret. The content is in no argument and no error.
func (p Podman) CreateSecret(ctx context.Context, s Secret) error {
	args := []string{"secret", "create"}
	for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
		args = append(args, "--label", key+"="+s.Labels[key])
	}
	if s.Driver != "" {
		args = append(args, "--driver", s.Driver)
	}
	if len(s.Options) > 0 {
		options, err := driverOptions(s.Options)
		if err != nil {
			return err
		}
		args = append(args, "--driver-opts", options)
	}
	_, err := p.feed(ctx, bytes.NewReader(s.Content), nil, append(args, "--", s.Name, "-")...)
	return err
}

// driverOptions returns options as podman reads them: a line of CSV, but as it stands
// where there is one equals sign, as github.com/spf13/pflag has a map of strings.
func driverOptions(options map[string]string) (string, error) {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(options)) {
		pairs = append(pairs, key+"="+options[key])
	}
	if len(pairs) == 1 && strings.Count(pairs[0], "=") == 1 {
		return pairs[0], nil
	}
	var b strings.Builder
	w := csv.NewWriter(&b)
	err := w.Write(pairs)
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n"), errors.Join(err, w.Error())
}

// RemoveSecret removes the secret of that id. Containers keep their copies.
func (p Podman) RemoveSecret(ctx context.Context, id string) error {
	_, err := p.run(ctx, "secret", "rm", "--", id)
	return err
}
