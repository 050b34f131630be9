package apply

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"meshgen/state"
	"meshgen/units"
)

func secret(id, name, digest string) units.Resource {
	return units.Resource{Address: address(units.KindSecret, id), Name: name, Secret: &units.Secret{Digest: digest, Content: []byte("hunter2")}}
}

// The digest of a content is the same as long as the node has its key, another on
// each node, and never the plain one; and nothing prints the content.
func TestSecretsAreSealedWithTheKeyOfTheNode(t *testing.T) {
	layout := state.NewLayout(t.TempDir(), "")
	if err := os.MkdirAll(layout.State, 0o700); err != nil {
		t.Fatal(err)
	}
	seal := func(n *Node) string {
		t.Helper()
		sealed, err := n.sealed([]units.Resource{secret("s", "s", "")})
		if err != nil {
			t.Fatal(err)
		}
		if shown := fmt.Sprintf("%v %+v %#v", sealed, *sealed[0].Secret, sealed[0].Secret); strings.Contains(shown, "hunter2") {
			t.Errorf("it is printed: %s", shown)
		}
		return sealed[0].Secret.Digest
	}
	first := &Node{Layout: layout}
	digest := seal(first)
	if _, err := os.Lstat(layout.SecretKey()); err == nil {
		t.Error("the key was written before a switch")
	}
	if err := first.keepSecretKey(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(layout.SecretKey()); err != nil || info.Mode().Perm() != 0o600 || info.Size() != keyLength {
		t.Errorf("the key: %v, %v", info, err)
	}
	if again := seal(&Node{Layout: layout}); again != digest {
		t.Errorf("%s with the same key, and %s before", again, digest)
	}
	if other := seal(&Node{Layout: state.NewLayout(t.TempDir(), "")}); other == digest || digest == state.TextDigest("hunter2") {
		t.Error("whoever knows the content knows the digest")
	}
	if err := os.WriteFile(layout.SecretKey(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Node{Layout: layout}).sealed([]units.Resource{secret("s", "s", "")}); err == nil {
		t.Error("an empty key is taken")
	}
}

// Who is started anew for a secret that is adopted or given back: who is given another
// content by it.
func TestSecretPlanOfATakeover(t *testing.T) {
	const name = units.Target("secret:s")
	user := container("a", "a")
	user.Uses = []units.Address{address(units.KindSecret, "s")}
	naming := container("a", "a", "Secret=s,type=env")
	for _, test := range []struct {
		name     string
		held     string // digest of what was found; "1" is declared
		restarts bool
	}{{"another content", "2", true}, {"the same content", "1", false}} {
		t.Run(test.name, func(t *testing.T) {
			was := state.Adoption{Generation: 1, What: wasSecret, Secret: &state.AdoptedSecret{Digest: test.held}}
			adopts := running(generation(1, user))
			adopts.adopt = []Adoption{{Target: name, Was: was, Same: test.held == "1"}}
			back := running(generation(2, user, secret("s", "s", "1")))
			for i, r := range back.records {
				if r.Target == name {
					back.records[i].Digest, back.records[i].Adoption = "1", &was
					back.adopted = append(back.adopted, back.records[i])
				}
			}
			back.begins = true
			released := generation(3, naming)
			released.Released = map[units.Target]string{name: state.ByHand}
			lost := back
			lost.seen.secrets = map[units.Target]string{name: formerSecret}
			for what, plan := range map[string]Plan{
				"adopted":                     makePlan(adopts, generation(2, user, secret("s", "s", "1"))),
				"as it was after a power cut": makePlan(lost, generation(2, user, secret("s", "s", "1"))),
				"given back to who names it":  makePlan(back, released),
			} {
				if got := slices.Contains(plan.Notified, "a.service"); got != test.restarts {
					t.Errorf("%s: has it started anew: %v", what, got)
				}
				if made := len(plan.Make) > 0; made == slices.Contains(plan.Release, name) {
					t.Errorf("%s: makes %v, gives back %v", what, plan.Make, plan.Release)
				}
			}
		})
	}
}

// What is made, and who is started anew for it, by what is there.
func TestSecretPlan(t *testing.T) {
	user := container("a", "a")
	user.Uses = []units.Address{address(units.KindSecret, "s")}
	const name = units.Target("secret:s")
	for _, test := range []struct {
		name     string
		digest   string // declared; "1" is recorded
		there    string // digest on the secret; "" where it is gone
		foreign  bool
		make     bool
		restarts bool
	}{
		{"as it was", "1", "1", false, false, false},
		{"another content", "2", "1", false, true, true},
		{"gone, and the same content", "1", "", false, true, false},
		{"gone, and another content", "2", "", false, true, true},
		{"the other set's, after a switch that was cut short", "1", "2", false, true, true},
		{"somebody else's", "2", "", true, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := running(generation(1, user, secret("s", "s", "1")))
			for i, r := range b.records {
				if r.Target == name {
					b.records[i].Digest = "1"
				}
			}
			b.seen.secrets = map[units.Target]string{}
			if test.there != "" {
				b.seen.secrets[name] = test.there
			}
			if test.foreign {
				b.seen.observed.Foreign = map[units.Target]string{name: "was made anew by other hands"}
			}
			plan := makePlan(b, generation(2, user, secret("s", "s", test.digest)))
			if got := len(plan.Make) > 0; got != test.make {
				t.Errorf("made: %v", got)
			}
			if got := len(plan.Restart) > 0; got != test.restarts {
				t.Errorf("restarts: %v", plan.Restart)
			}
		})
	}
}
