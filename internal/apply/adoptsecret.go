package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"meshgen/internal/durable"
	"meshgen/internal/hint"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// podman can neither rename a secret nor label one that exists: one that is adopted is
// copied, and ours is made in its place. It is given back by making it anew of the
// copy, so that it has another id then. What stands under the name and is as the ledger
// has it is always the found one, before or after: nothing is lost with it, and podman,
// which syncs nothing, may have it again after a power cut.

// secret adopts a secret, as far as what it holds can be copied.
func (a *adoption) secret(ctx context.Context, t state.Transition, o host.Object) error {
	s, _, err := a.node.Podman.InspectSecret(ctx, o.ID)
	if err != nil {
		a.fault(t, "what it holds cannot be copied: "+err.Error(), undeclared+", "+holdIt)
		return nil //nolint:nilerr // the fault has it
	}
	was, err := a.node.adoptedSecret(s)
	if err != nil {
		return err
	}
	same := was.Digest == a.resource[t.Resource].Secret.Digest
	a.add(t, state.Adoption{What: wasSecret, ID: o.ID, Secret: &was}, same)
	return nil
}

// adoptedSecret returns what the ledger has of a secret.
func (n *Node) adoptedSecret(s host.Secret) (state.AdoptedSecret, error) {
	digest, err := n.secretDigest(s.Content)
	return state.AdoptedSecret{Digest: digest, Labels: s.Labels, Options: s.Options}, err
}

// secretCopies returns the names of the files that have what a secret held, and what
// podman said of it. No other copy has a colon in its name and such an end.
func secretCopies(t units.Target) (content, said string) {
	name := string(t)
	if len(name) > 200 { // see copyName
		name = name[:100] + "…" + state.TextDigest(name)
	}
	return name + ".content", name + ".inspect.json"
}

// copySecret stages the copy of a secret.
func (m *move) copySecret(ctx context.Context, a Adoption) (staged []durable.Staged, err error) {
	s, said, err := m.node.Podman.InspectSecret(ctx, a.Was.ID)
	if err != nil {
		return nil, fmt.Errorf("%s: copy: %w", a.Target, err)
	}
	is, err := m.node.adoptedSecret(s)
	if err != nil {
		return nil, err
	}
	if !sameSecret(is, *a.Was.Secret) {
		return nil, changedSince(string(a.Target))
	}
	content, inspected := secretCopies(a.Target)
	for _, f := range []struct {
		name string
		data []byte
	}{{content, s.Content}, {inspected, said}} {
		s, err := durable.Stage(m.node.Layout.State, filepath.Join(a.Was.Dir, f.name), f.data, 0o600, -1, -1)
		if err != nil {
			return staged, err
		}
		staged = append(staged, s)
	}
	return staged, nil
}

func sameSecret(a, b state.AdoptedSecret) bool {
	return a.Digest == b.Digest && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Options, b.Options)
}

// isAdoptedSecret reports whether a secret is the one that was adopted under its name,
// or was made of its copy.
func (n *Node) isAdoptedSecret(ctx context.Context, o host.Object, r state.Record) (bool, error) {
	if r.Adoption == nil || r.Adoption.What != wasSecret || o.Driver != host.FileDriver {
		return false, nil
	}
	s, _, err := n.Podman.InspectSecret(ctx, o.ID)
	if err != nil {
		return false, fmt.Errorf("%s: %w", r.Target, err)
	}
	is, err := n.adoptedSecret(s)
	return sameSecret(is, *r.Adoption.Secret), err
}

// formerSecret stands for the digest of a secret that is as it was before it was
// adopted: no content has it.
const formerSecret = "adopted"

// heldSame reports whether what has the name of a secret before ours is made holds
// what is declared: who has a copy of that needs no other.
func (p *planner) heldSame(r units.Resource, record state.Record) bool {
	t := units.Object(r)
	if p.seen.secrets[t] == formerSecret {
		return record.Adoption.Secret.Digest == r.Secret.Digest
	}
	return slices.ContainsFunc(p.plan.Adopt, func(a Adoption) bool { return a.Target == t && a.Same })
}

// givesSecretsBack has those start anew that name a secret and are given another
// content by it when it is given back. One that is undone they may never have had.
func (p *planner) givesSecretsBack() {
	if p.undoes() {
		return
	}
	for _, t := range p.plan.Release {
		record := p.record[t]
		if t.Kind() != units.TargetSecret || record.Adoption == nil || record.Digest == record.Adoption.Secret.Digest {
			continue
		}
		for _, user := range p.desired.Resources {
			if namesSecret(user, t.Name()) && p.of[user.Address] != "" {
				p.notify(p.of[user.Address], "restart", string(t))
			}
		}
	}
}

// namesSecret reports whether a container is given the secret of that name.
func namesSecret(r units.Resource, name string) bool {
	return slices.ContainsFunc(r.Values("Container", "Secret"), func(value string) bool {
		word, _, _ := strings.Cut(value, ",")
		return word == name
	})
}

// keptSecret returns what a secret held that was adopted, or says what its copy lacks.
func (n *Node) keptSecret(r state.Record) (content []byte, lacks string) {
	name, _ := secretCopies(r.Target)
	kept := filepath.Join(n.Layout.State, r.Adoption.Dir, name)
	content, err := os.ReadFile(kept) //nolint:gosec // of the state directory
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "the copy of what it held is gone from " + kept
	case err != nil:
		return nil, "the copy of what it held cannot be read: " + err.Error()
	}
	digest, err := n.secretDigest(content)
	switch {
	case err != nil:
		return nil, err.Error()
	case digest != r.Adoption.Secret.Digest:
		return nil, fmt.Sprintf("the copy of what it held was changed, or %s was: %s", n.Layout.SecretKey(), kept)
	}
	return content, ""
}

// goneSecret says that the copy of a secret is gone which is not in its place again.
func (n *Node) goneSecret(ctx context.Context, r state.Record) (string, error) {
	name, _ := secretCopies(r.Target)
	kept := filepath.Join(n.Layout.State, r.Adoption.Dir, name)
	if _, err := os.Lstat(kept); !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	o, there, err := n.object(ctx, r.Target)
	if err != nil {
		return "", err
	}
	if there {
		if is, err := n.isAdoptedSecret(ctx, o, r); err != nil || is {
			return "", err
		}
	}
	return "the copy of what it held is gone from " + kept, nil
}

// secretTaken says that a secret of other hands has the name that one is to be given
// back by; "" where none has.
func (n *Node) secretTaken(ctx context.Context, r state.Record) (string, error) {
	o, there, err := n.object(ctx, r.Target)
	if err != nil || !there || marked(o, r) {
		return "", err
	}
	if is, err := n.isAdoptedSecret(ctx, o, r); err != nil || is {
		return "", err
	}
	return "somebody else has made a secret of that name", nil
}

// secretBack makes a secret anew as it was adopted, where it is not there, in the
// place of ours.
func (m *move) secretBack(ctx context.Context, r state.Record) error {
	n := m.node
	if n.Podman == nil {
		return hint.Add(fmt.Errorf("%s: not given back: podman cannot be asked below --root", r.Target), "switch on the machine itself")
	}
	n.forget()
	o, there, err := n.object(ctx, r.Target)
	if err != nil {
		return err
	}
	if there && !marked(o, r) {
		is, err := n.isAdoptedSecret(ctx, o, r)
		if err == nil && !is {
			err = hint.Add(fmt.Errorf("%s: not given back: somebody else has made a secret of that name", r.Target), "remove that, then switch again")
		}
		return err
	}
	content, lacks := n.keptSecret(r)
	if lacks != "" {
		return hint.Add(fmt.Errorf("%s: not given back: %s", r.Target, lacks), "put that back as it was, then switch again")
	}
	if there {
		if err := m.removeMarked(ctx, r.Target, o); err != nil {
			return err
		}
	}
	was := r.Adoption.Secret
	s := host.Secret{Name: r.Target.Name(), Labels: was.Labels, Driver: host.FileDriver, Options: was.Options, Content: content}
	if err := n.Podman.CreateSecret(ctx, s); err != nil {
		return fmt.Errorf("%s: not given back: %w", r.Target, err)
	}
	n.forget()
	return nil
}
