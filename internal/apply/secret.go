package apply

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"meshgen/internal/durable"
	"meshgen/internal/hint"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// A secret is podman's, and no unit makes it: a switch does, beside the config files,
// before the link flips. Its content is in the generation, for root alone, so that
// it can be brought back. What else is written or shown has a digest that is keyed
// with a number of the node's own: a password could be guessed by a plain one.

// keyLength is that of the key, in bytes.
const keyLength = 32

// key returns the key of the node. One that is not on the disk yet is made up, and
// kept by [Node.keepSecretKey].
func (n *Node) key() ([]byte, error) {
	if n.secretKey != nil {
		return n.secretKey, nil
	}
	key, err := os.ReadFile(n.Layout.SecretKey())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		key = make([]byte, keyLength)
		_, _ = rand.Read(key) // never fails
	case err != nil:
		return nil, err
	case len(key) != keyLength:
		return nil, hint.Add(fmt.Errorf("%s: has %d bytes, and not %d", n.Layout.SecretKey(), len(key), keyLength),
			"take it away: the next switch makes another, and each secret anew")
	}
	n.secretKey = key
	return key, nil
}

// keepSecretKey writes the key, where a secret needed one and it is not there.
func (n *Node) keepSecretKey() error {
	if n.secretKey == nil {
		return nil
	}
	if _, err := os.Lstat(n.Layout.SecretKey()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.WriteFile(n.Layout.SecretKey(), n.secretKey, 0o600)
}

// sealed returns the resources with the digests of their secrets.
func (n *Node) sealed(resources []units.Resource) ([]units.Resource, error) {
	resources = slices.Clone(resources)
	for i, r := range resources {
		if r.Secret == nil || r.Secret.Content == nil {
			continue
		}
		digest, err := n.secretDigest(r.Secret.Content)
		if err != nil {
			return nil, err
		}
		resources[i].Secret = &units.Secret{Digest: digest, Content: r.Secret.Content}
	}
	return resources, nil
}

// secretDigest returns the digest of what a secret holds, keyed with the node's key.
func (n *Node) secretDigest(content []byte) (string, error) {
	key, err := n.key()
	if err != nil {
		return "", err
	}
	h := hmac.New(sha256.New, key)
	_, _ = h.Write(content) // a hash does not fail
	return hex.EncodeToString(h.Sum(nil)), nil
}

// secret returns the content of a secret of a generation.
func (n *Node) secret(generation int, r units.Resource) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(n.Layout.Generation(generation), "files", r.Secret.Digest))
	if err != nil {
		return nil, fmt.Errorf("generation %d: content of %s: %w", generation, units.Object(r), err)
	}
	return content, nil
}

// lookForSecrets finds what the secrets hold that are declared and ours, and those
// that other hands removed or made anew. Where podman's index has each as it was made
// podman is not asked.
func (n *Node) lookForSecrets(ctx context.Context, desired state.Generation, b *before) error {
	b.seen.secrets = map[units.Target]string{}
	found := &b.seen.observed
	record := map[units.Target]state.Record{}
	for _, r := range b.records {
		record[r.Target] = r
	}
	index := sync.OnceValue(func() map[string]host.Object {
		if n.Store == nil {
			return nil
		}
		byName, _ := n.Store.Secrets() // else nothing is in it
		return byName
	})
	for _, r := range desired.Resources {
		t := units.Object(r)
		if _, ours := record[t]; r.Secret == nil || !ours || n.objects == nil || n.Podman == nil {
			continue
		}
		if o := index()[r.Name]; marked(o, record[t]) && o.Labels[units.DigestLabel] == r.Secret.Digest {
			b.seen.secrets[t] = r.Secret.Digest
			continue
		}
		o, there, err := n.object(ctx, t)
		if err != nil {
			return err
		}
		if found.Missing == nil {
			found.Missing, found.Foreign = map[units.Target]string{}, map[units.Target]string{}
		}
		switch {
		case !there:
			found.Missing[t] = "is gone"
		case !marked(o, record[t]):
			is, err := n.isAdoptedSecret(ctx, o, record[t])
			if err != nil {
				return err
			}
			if is { // the power went, and podman's record of ours with it
				b.seen.secrets[t] = formerSecret
				continue
			}
			found.Foreign[t] = madeAnew
		default:
			b.seen.secrets[t] = o.Labels[units.DigestLabel]
		}
	}
	return nil
}

// secrets finds the secrets to make, and who has to be started anew with them: podman
// gives a container a copy when it is made.
func (p *planner) secrets() {
	for _, r := range p.desired.Resources {
		t := units.Object(r)
		record := p.record[t]
		if r.Secret == nil || p.kept[t] || p.seen.observed.Foreign[t] != "" ||
			(p.seen.secrets[t] == r.Secret.Digest && record.State == state.Live) {
			continue
		}
		p.plan.Make = append(p.plan.Make, r)
		if record.Digest == r.Secret.Digest && record.State == state.Live && p.seen.secrets[t] == "" {
			continue // it is gone, and its users have their copies
		}
		if p.heldSame(r, record) {
			continue
		}
		for _, user := range p.desired.Resources {
			if slices.Contains(user.Uses, r.Address) && p.of[user.Address] != "" {
				p.notify(p.of[user.Address], "restart", string(t))
			}
		}
	}
}

// mayRemake refuses to remove a secret that is neither ours nor as it was adopted.
func (m *move) mayRemake(ctx context.Context, t units.Target, o host.Object) error {
	record, _ := m.node.Ledger.Record(t)
	if marked(o, record) {
		return nil
	}
	is, err := m.node.isAdoptedSecret(ctx, o, record)
	if err == nil && !is {
		err = hint.Add(fmt.Errorf("%s: came up while the switch was under way, and is not of meshgen", t), leaveIt)
	}
	return err
}

// makeSecrets makes the secrets of the plan. What has the name and is not ours stops
// the switch.
func (m *move) makeSecrets(ctx context.Context) error {
	if len(m.plan.Make) == 0 {
		return nil
	}
	m.node.forget()
	for _, r := range m.plan.Make {
		t := units.Object(r)
		o, there, err := m.node.object(ctx, t)
		if err != nil {
			return err
		}
		if there {
			if err := m.mayRemake(ctx, t, o); err != nil {
				return err
			}
		}
		content, err := m.node.secret(m.to.Number, r)
		if err != nil {
			return err
		}
		if there {
			if err := m.node.Podman.RemoveSecret(ctx, o.ID); err != nil {
				return fmt.Errorf("%s: remove: %w", t, err)
			}
		}
		labels := map[string]string{units.MarkLabel: r.Address.String(), units.DigestLabel: r.Secret.Digest}
		if err := m.node.Podman.CreateSecret(ctx, host.Secret{Name: r.Name, Labels: labels, Content: content}); err != nil {
			return fmt.Errorf("%s: make: %w", t, err)
		}
		m.progress(Event{Step: Step{Op: "make", Target: t}, Ended: true})
	}
	m.node.forget()
	return nil
}
