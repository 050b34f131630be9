//go:build systemd

package vmtests

import (
	"fmt"
	"strings"
	"testing"
)

// password declares a secret by the name that it is to have, and a container that
// is given it.
func password(name, content string) string {
	return single(fmt.Sprintf(`secrets: pass: {name: %q, content: %q}
	containers: x: {name: "ant", Container: {Image: "localhost/probe:1", Network: "none", Secret: "pass,type=env,target=PASS"}}`, name, content))
}

// secretIs returns what podman has under the name of a secret; "" where it has none.
func (v *Machine) secretIs(name string) string {
	v.t.Helper()
	return strings.TrimSpace(v.Exec("podman", "secret", "inspect", "--showsecret", "--format={{.SecretData}}", name).Stdout)
}

// mustHaveSecrets sees which secrets there are, and what the container was given.
func (v *Machine) mustHaveSecrets(given string, names ...string) {
	v.t.Helper()
	got := strings.Fields(v.Run("podman", "secret", "ls", "--format={{.Name}}"))
	if strings.Join(got, " ") != strings.Join(names, " ") {
		v.t.Errorf("the secrets are %q, want %q", got, names)
	}
	if given == "" {
		return
	}
	pid := strings.TrimSpace(v.Run("podman", "inspect", "--format={{.State.Pid}}", "ant"))
	if env := strings.Split(v.ReadFile("/proc/"+pid+"/environ"), "\x00"); !strings.Contains(strings.Join(env, " ")+" ", "PASS="+given+" ") {
		v.t.Errorf("the container was not given %q: %q", given, env)
	}
}

// mustBeUntold sees that a content is nowhere but where it has to be.
func (v *Machine) mustBeUntold(content string) {
	v.t.Helper()
	v.mustBeUntoldBut(content, "/nowhere")
}

// mustBeUntoldBut is mustBeUntold where a copy has it, for root alone.
func (v *Machine) mustBeUntoldBut(content, kept string) {
	v.t.Helper()
	found := v.Exec("grep", "--recursive", "--files-with-matches", "--fixed-strings", content,
		"/etc/meshgen/generations", "/var/lib/meshgen", "/run/systemd").Stdout
	for path := range strings.Lines(found) {
		path = strings.TrimSpace(path)
		dir := path[:strings.LastIndexByte(path, '/')]
		due := strings.HasSuffix(dir, "/files") || strings.HasSuffix(path, kept)
		if !due || v.Run("stat", "--format=%a", path, dir) != "600\n700\n" {
			v.t.Errorf("%s has the content", path)
		}
	}
	if log := v.Run("journalctl", "--boot", "--no-pager", "--output=export"); strings.Contains(log, content) {
		v.t.Error("the journal has the content")
	}
	for _, digests := range v.digestsOf(content) {
		if r := v.Exec("grep", "--recursive", digests, "/etc/meshgen/generations", "/var/lib/meshgen"); r.Code == 0 {
			v.t.Errorf("a plain digest of the content: %s", r.Stdout)
		}
	}
}

func (v *Machine) digestsOf(content string) []string {
	v.t.Helper()
	v.WriteFile("/run/content", content)
	sum, _, _ := strings.Cut(v.Run("sha256sum", "/run/content"), " ")
	v.Run("rm", "/run/content")
	return []string{sum}
}

// A secret comes, changes with its users, gets another name, is brought back and
// goes, and nothing shows what it holds.
func TestSecretComesChangesAndGoes(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(password("db", "hunter-one"))
	if shown := v.Run("meshgen", "plan") + v.Run("meshgen", "plan", "--json"); strings.Contains(shown, "hunter") || !strings.Contains(shown, "secret:db") {
		t.Errorf("plan:\n%s", shown)
	}
	v.Switch()
	v.mustHaveSecrets("hunter-one", "db")
	v.mustAskNothing()
	v.mustBeUntold("hunter-one")

	before := v.invocation("ant")
	v.WriteManifest(password("db", "hunter-two"))
	v.Switch()
	v.mustHaveSecrets("hunter-two", "db")
	if v.invocation("ant") == before {
		t.Error("the container has the former secret")
	}
	v.Run("meshgen", "rollback")
	v.mustHaveSecrets("hunter-one", "db")
	v.WriteManifest(password("pass", "hunter-two"))
	v.Switch()
	v.mustHaveSecrets("hunter-two", "pass")
	v.mustBeUntold("hunter-two")
	v.mustHaveNothingToDo()

	before = v.invocation("ant")
	v.Run("podman", "secret", "rm", "pass")
	if plan := v.Run("meshgen", "plan"); !strings.Contains(plan, "is gone") {
		t.Errorf("plan:\n%s", plan)
	}
	v.Switch()
	v.mustHaveSecrets("hunter-two", "pass")
	if v.invocation("ant") != before {
		t.Error("the container was restarted for a secret that it has")
	}
	v.Run("sh", "-c", "podman secret rm pass; printf other | podman secret create pass -")
	if plan := v.Run("meshgen", "plan"); !strings.Contains(plan, "was made anew by other hands") {
		t.Errorf("plan:\n%s", plan)
	}
	v.WriteManifest("package mesh\n")
	v.Switch("--allow-empty")
	if got := v.secretIs("pass"); got != "other" {
		t.Errorf("what other hands made is %q", got)
	}
	v.Run("podman", "secret", "rm", "pass")

	v.WriteManifest(password("db", "hunter-one"))
	v.Switch()
	v.WriteManifest(one("ant"))
	v.Switch()
	v.mustHaveSecrets("")
	v.mustBeSwept()
}

// A secret that is found is not replaced.
func TestSecretThatIsFoundStays(t *testing.T) {
	v := Boot(t)
	v.Run("sh", "-c", "printf theirs | podman secret create db -")
	v.WriteManifest(password("db", "hunter-one"))
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "secret:db is taken: a secret of that name exists, and it is not of meshgen") {
		t.Errorf("switch: %+v", r)
	}
	if got := v.secretIs("db"); got != "theirs" {
		t.Errorf("it holds %q", got)
	}
	v.WriteManifest(strings.Replace(password("db", "hunter-one"), `content:`, `policy: takeover: "hold", content:`, 1))
	v.Switch()
	if got := v.secretIs("db"); got != "theirs" {
		t.Errorf("it holds %q", got)
	}
	// One that is not declared is used as it is.
	v.WriteManifest(single(`containers: x: {name: "ant", Container: {Image: "localhost/probe:1", Network: "none", Secret: "db,type=env,target=PASS"}}`))
	v.Switch()
	v.mustHaveSecrets("theirs", "db")
}

// adopting declares what password does, to be adopted.
func adopting(name, content string) string {
	return strings.Replace(password(name, content), `content:`, `policy: takeover: "adopt", content:`, 1)
}

// A secret that is found is adopted, with who is given it, and given back; nothing
// shows what it held or holds.
func TestSecretIsAdoptedAndGivenBack(t *testing.T) {
	v := Boot(t)
	v.Run("sh", "-c", "printf hunter-theirs | podman secret create --label=app=x db -")
	said := func() string {
		return v.Run("podman", "secret", "inspect", "--format={{.Spec}}", "db") + v.secretIs("db")
	}
	was := said()
	undeclared := single(`containers: x: {name: "ant", Container: {Image: "localhost/probe:1", Network: "none", Secret: "db,type=env,target=PASS"}}`)
	v.WriteManifest(undeclared)
	v.Switch()
	ran := v.invocation("ant")

	// What is equal is made anew for its mark alone.
	v.WriteManifest(adopting("db", "hunter-theirs"))
	shown := v.Run("meshgen", "plan") + v.Run("meshgen", "plan", "--json")
	if !strings.Contains(shown, "it holds what is declared, and is made anew for meshgen's mark alone") || strings.Contains(shown, "hunter") {
		t.Errorf("plan:\n%s", shown)
	}
	v.Switch()
	v.mustHaveSecrets("hunter-theirs", "db")
	if v.invocation("ant") != ran {
		t.Error("the container was restarted for a secret that it has")
	}
	v.mustHaveNothingToDo()
	v.Run("meshgen", "rollback", "1")
	v.mustHaveSecrets("hunter-theirs", "db")
	if now := said(); now != was {
		t.Errorf("it is %s, was %s", now, was)
	}
	if v.invocation("ant") != ran {
		t.Error("the container was restarted for a secret that it has")
	}

	// What is not has its users start anew, both ways.
	v.WriteManifest(adopting("db", "hunter-ours"))
	v.Switch()
	v.mustHaveSecrets("hunter-ours", "db")
	for _, command := range [][]string{{"explain", "secret:db"}, {"explain", "secret:db", "--json"}, {"status", "--json"}, {"history", "--json"}} {
		if shown := v.Run(append([]string{"meshgen"}, command...)...); strings.Contains(shown, "hunter") {
			t.Errorf("%v:\n%s", command, shown)
		}
	}
	if shown := v.Run("meshgen", "explain", "secret:db"); !strings.Contains(shown, "from a secret, which is kept in adopted/") {
		t.Errorf("explain:\n%s", shown)
	}
	v.mustBeUntold("hunter-ours")
	v.mustBeUntoldBut("hunter-theirs", "/secret:db.content")
	v.Run("meshgen", "rollback", "1")
	v.mustHaveSecrets("hunter-theirs", "db")
	if now := said(); now != was {
		t.Errorf("it is %s, was %s", now, was)
	}

	v.Switch()
	v.mustAskNothing()
	v.PowerCut()
	v.Boot()
	v.mustRun("ant")
	v.mustAskNothing()

	// One that is removed from the manifest, or by hand, is given back all the same.
	v.Run("podman", "secret", "rm", "db")
	v.WriteManifest(one("wasp"))
	v.Switch()
	v.mustHaveSecrets("")
	v.Run("meshgen", "release", "secret:db")
	if now := said(); now != was {
		t.Errorf("it is %s, was %s", now, was)
	}
}

// A switch that adopts a secret, or gives it back, is killed at its calls, every other
// time with the power cut as well: in the end it is the one or the other, and who is
// given it has it.
func TestSecretTakeoverKilled(t *testing.T) {
	for _, verb := range []string{"adopt", "release"} {
		t.Run(verb, func(t *testing.T) {
			v := Boot(t)
			v.Run("sh", "-c", "printf theirs | podman secret create --label=app=x db -; podman run --detach --name=ant --restart=always --secret=db,type=env,target=PASS --network=none localhost/probe:1")
			v.Run("systemctl", "enable", "--quiet", "podman-restart.service")
			before := func() string {
				return v.secretIs("db") + v.Run("sh", "-c", `podman secret inspect --format='{{.Spec}}' db
tr '\0' '\n' < /proc/$(podman inspect --format={{.State.Pid}} ant)/environ | grep ^PASS=
podman inspect --format='{{.Name}} {{index .Config.Labels "io.meshgen.resource"}}' ant
true`)
			}
			v.WriteManifest(single(`policy: takeover: "hold"
	secrets: pass: {name: "db", content: "ours"}
	containers: x: {name: "ant", Container: {Image: "localhost/probe:1", Network: "none", Secret: "pass,type=env,target=PASS"}}`))
			adopted := func() string {
				if is := before(); !strings.HasPrefix(is, "ours") || !strings.Contains(is, "PASS=ours\nant m/container/x") || !strings.Contains(is, "m/secret/pass") {
					return is
				}
				return ""
			}
			takeover{v, []string{"secret:db", "container:ant"}, before(), before, adopted}.killed(verb, 7)
		})
	}
}

// What another driver has is not read, and not adopted.
func TestSecretOfAnotherDriverIsNotAdopted(t *testing.T) {
	v := Boot(t)
	v.Run("sh", "-ec", `podman secret create --driver=shell --driver-opts=list=true,lookup='touch /run/asked; echo x',store='cat > /dev/null',delete=true db /etc/hostname`)
	v.WriteManifest(adopting("db", "hunter-one"))
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "secret:db cannot be adopted: its driver is shell, and only what podman keeps in a file of its own is copied") {
		t.Errorf("switch: %+v", r)
	}
	v.WriteManifest(strings.Replace(password("db", "hunter-one"), `content:`, `policy: takeover: "hold", content:`, 1))
	v.Switch()
	if status := v.Run("meshgen", "status", "--verbose") + v.Run("meshgen", "status", "--json"); !strings.Contains(status, "secret:db cannot be adopted: its driver is shell") || strings.Contains(status, "meshgen adopt secret:db") {
		t.Errorf("status:\n%s", status)
	}
	if v.Exec("stat", "/run/asked").Code == 0 {
		t.Error("the driver was asked")
	}
}

// A set that does not come up takes its secret with it.
func TestSecretOfASetThatFailsIsBroughtBack(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(password("db", "hunter-one"))
	v.Switch()
	v.WriteManifest(strings.Replace(password("db", "hunter-two"), `Network: "none"`, `Network: "none", Exec: "nothing-of-that-name"`, 1))
	if r := v.Exec("meshgen", "switch"); r.Code != 5 || strings.Contains(r.Stderr, "hunter") {
		t.Errorf("switch: %+v", r)
	}
	v.mustHaveSecrets("hunter-one", "db")
}

// Where the power goes around the flip, the boot runs a whole set: the old with the
// old secret, or the new with the new.
func TestSecretAcrossAPowerCut(t *testing.T) {
	v := Boot(t)
	if v.Exec("stat", "/usr/bin/nth").Code != 0 {
		t.Skip("nth is for amd64")
	}
	v.WriteManifest(password("db", "hunter-0"))
	v.Switch()
	seen := map[string]bool{}
	for n, at := range []string{"current 1", "current 2", "current 3", "ledger 1", "ledger 2", "ledger 3", "ledger 4", "ledger 5", "ledger 6"} {
		only, kill, _ := strings.Cut(at, " ")
		content := fmt.Sprintf("hunter-%d", n+1)
		was := v.secretIs("db")
		v.WriteManifest(password("db", content))
		v.Exec("nth", "-log=/run/nth.log", "-only="+only, "-kill="+kill, "meshgen", "switch")
		made := v.secretIs("db")
		v.PowerCut()
		v.Boot()
		v.Await("the container is up", func() bool { return strings.Join(v.Containers(), " ") == "ant" })
		declared := v.Exec("meshgen", "plan", "--exit-code").Code == 0
		want := map[bool]string{true: content, false: was}[declared]
		v.mustHaveSecrets(want, "db")
		if got := v.secretIs("db"); got != want {
			t.Errorf("killed at %s: %q, want %q", at, got, want)
		}
		seen[fmt.Sprintf("made %v, in force %v", made == content, declared)] = true
		v.Switch()
		v.mustHaveSecrets(content, "db")
	}
	for _, state := range []string{"made false, in force false", "made true, in force false", "made true, in force true"} {
		if !seen[state] {
			t.Errorf("no kill met %s, but %v", state, seen)
		}
	}
}
