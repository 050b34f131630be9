//go:build nix

// Package nix_test holds what can be known of the files beside where there is Nix,
// and no nixpkgs: the language, an evaluation against a stand-in, and hashes.
package nix_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// run runs a command in the checkout, which must exit with 0, and returns its stdout.
func run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := try(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// try runs a command in the checkout, with a store of the test's own for Nix.
func try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	if strings.HasPrefix(args[0], "nix") {
		mustHaveNix(t)
	}
	own := t.TempDir()
	t.Cleanup(func() { _ = exec.CommandContext(context.Background(), "chmod", "-R", "u+w", own).Run() }) // whoever removes it tells of it
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "NIX_STORE_DIR="+own+"/store", "NIX_STATE_DIR="+own+"/state", "NIX_LOG_DIR="+own+"/log")
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

func mustHaveNix(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("nix-instantiate"); err != nil {
		lacking(t, err)
	}
}

// lacking skips a test, and fails where none may be: in CI.
func lacking(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("MESHGEN_REQUIRE_MACHINE") == "1" {
		t.Fatal(err)
	}
	t.Skip(err)
}

func files(t *testing.T) []string {
	t.Helper()
	all := []string{"flake.nix"}
	for _, pattern := range []string{"*.nix", "standin/*.nix"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) < 3 {
			t.Fatalf("%s: %q, %v", pattern, found, err)
		}
		for _, name := range found {
			all = append(all, "nix/"+name)
		}
	}
	return all
}

func TestEveryFileParses(t *testing.T) {
	for _, file := range files(t) {
		run(t, "nix-instantiate", "--parse", file)
	}
}

// The module, and the machine of each test, have what they should have: check.nix.
func TestMachinesAreAsExpected(t *testing.T) {
	var all []struct {
		Name      string
		Got, Want any
	}
	out := run(t, "nix-instantiate", "--eval", "--strict", "--json", "nix/check.nix")
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("only %d expectations", len(all))
	}
	for _, e := range all {
		if diff := gocmp.Diff(e.Want, e.Got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", e.Name, diff)
		}
	}
}

// A manifest of Nix values becomes one of CUE, and one that the machine would refuse is
// refused where its system is built: by meshgen, and by Quadlet. This builds it.
func TestManifestIsChecked(t *testing.T) {
	cache := cmp.Or(os.Getenv("MESHGEN_CACHE"), "/var/cache/meshgen-vmtests")
	quadlets, _ := filepath.Glob(cache + "/root-*/usr/libexec/podman/quadlet") // the pattern is sound
	quadlets = append(quadlets, "/usr/libexec/podman/quadlet")
	if _, err := os.Stat(quadlets[0]); err != nil {
		lacking(t, err)
	}
	dir := t.TempDir()
	run(t, "go", "build", "-o", dir+"/bin/meshgen", "./cmd/meshgen")
	run(t, "install", "-D", quadlets[0], dir+"/libexec/podman/quadlet")
	build := func(values, flags string) (string, error) {
		return try(t, "nix-build", "--no-out-link", "--option", "sandbox", "false", "--option", "build-users-group", "",
			"--argstr", "programs", dir, "--argstr", "values", values, "--argstr", "flags", flags, "nix/standin/manifest.nix")
	}
	container := func(keys string) string {
		return `{"modules": {"m": {"containers": {"x": {"Container": {` + keys + `}}}}}}`
	}
	for _, c := range []struct{ values, flags, has, fails string }{
		{values: container(`"Image": "localhost/probe:1"`), has: "localhost/probe:1"},
		{values: container(`"Imag": "localhost/probe:1"`), fails: "no such key"},
		{values: container(`"Image": "localhost/probe:1", "RemapUsers": "nonsense"`), fails: "RemapUsers"},
		{values: `{}`, fails: "--allow-empty"},
		{values: `{}`, flags: `["--allow-empty"]`, has: "{}"},
	} {
		out, err := build(c.values, cmp.Or(c.flags, "[]"))
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v", c.values, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.values, err)
			continue
		}
		text, err := os.ReadFile(filepath.Join(out, "mesh.cue"))
		if err != nil || !strings.HasPrefix(string(text), "package mesh\n\n{") || !strings.Contains(string(text), c.has) {
			t.Errorf("%s: the manifest is %q, %v", c.values, text, err)
		}
	}
}

// A dependency that changes is another hash: what the package fetches has to be what
// go.mod says.
func TestVendorHash(t *testing.T) {
	text, err := os.ReadFile("package.nix")
	if err != nil {
		t.Fatal(err)
	}
	has := regexp.MustCompile(`vendorHash = "(.*)";`).FindSubmatch(text)
	if has == nil {
		t.Fatal("package.nix: no vendorHash")
	}
	vendor := filepath.Join(t.TempDir(), "vendor")
	run(t, "go", "mod", "vendor", "-o", vendor)
	sum, err := hex.DecodeString(run(t, "nix-hash", "--type", "sha256", vendor))
	if err != nil {
		t.Fatal(err)
	}
	if want := "sha256-" + base64.StdEncoding.EncodeToString(sum); string(has[1]) != want {
		t.Errorf("package.nix: vendorHash is %q, and has to be %q", has[1], want)
	}
}

// A scenario that is added is played on NixOS, too.
func TestEveryScenarioIsPlayed(t *testing.T) {
	played := slices.Sorted(maps.Keys(scripts(t)))
	var scenarios []struct{ Name string }
	if err := json.Unmarshal([]byte(run(t, "go", "run", "./vmtests/cmd/scenario", "list", "--json")), &scenarios); err != nil {
		t.Fatal(err)
	}
	want := []string{"declared"} // which is NixOS' own
	for _, s := range scenarios {
		want = append(want, s.Name)
	}
	slices.Sort(want)
	if diff := gocmp.Diff(want, played); diff != "" {
		t.Errorf("the checks (-scenarios +checks):\n%s", diff)
	}
}

// scripts returns the script of each check's driver.
func scripts(t *testing.T) map[string]string {
	t.Helper()
	var all map[string]string
	out := run(t, "nix-instantiate", "--eval", "--strict", "--json", "nix/standin/checks.nix")
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) == 0 {
		t.Fatalf("%v, %v", all, err)
	}
	return all
}

// The pin is of the branch that the flake asks for.
func TestLockIsOfTheFlake(t *testing.T) {
	type source struct{ Owner, Repo, Ref, Rev, NarHash, Type string }
	var lock struct {
		Version int
		Root    string
		Nodes   map[string]struct {
			Inputs           map[string]string
			Locked, Original source
		}
	}
	text, err := os.ReadFile("../flake.lock")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		t.Fatal(err)
	}
	node := lock.Nodes[lock.Nodes[lock.Root].Inputs["nixpkgs"]]
	url := run(t, "nix-instantiate", "--eval", "--strict", "--json", "--expr", "(import ./flake.nix).inputs.nixpkgs.url")
	if o := node.Original; lock.Version != 7 || url != `"`+o.Type+":"+o.Owner+"/"+o.Repo+"/"+o.Ref+`"` {
		t.Errorf("flake.nix asks for %s, and flake.lock, version %d, has %+v", url, lock.Version, o)
	}
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(node.Locked.NarHash, "sha256-"))
	if l := node.Locked; err != nil || len(sum) != 32 || len(l.Rev) != 40 || l.Owner != node.Original.Owner || l.Repo != node.Original.Repo {
		t.Errorf("flake.lock: %+v: %v", l, err)
	}
}

// What the package runs lays everything where the module expects it.
func TestInstallLaysWhatTheModuleExpects(t *testing.T) {
	out := t.TempDir()
	const guard = "/run/current-system/sw/lib/meshgen/meshgen-guard"
	run(t, "make", "install", "PREFIX="+out, "GUARD="+guard, "VERSION=0123456")
	for _, name := range []string{"bin/meshgen", "lib/systemd/system-generators/meshgen-generator", "lib/meshgen/meshgen-guard"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	packaged, err := os.ReadDir("../systemd")
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range packaged {
		text, err := os.ReadFile(filepath.Join(out, "lib/systemd/system", unit.Name()))
		if err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "Exec") && !strings.Contains(line, "="+out+"/bin/") {
				t.Errorf("%s: %s", unit.Name(), line)
			}
		}
	}
	for _, program := range []string{"bin/meshgen", "lib/systemd/system-generators/meshgen-generator"} {
		text, err := os.ReadFile(filepath.Join(out, program))
		if err != nil || !strings.Contains(string(text), guard) {
			t.Errorf("%s does not know the guard's place: %v", program, err)
		}
	}
	if v := run(t, filepath.Join(out, "bin/meshgen"), "version"); !strings.Contains(v, "0123456") {
		t.Errorf("version: %s", v)
	}
}

// The driver of a NixOS test is Python.
func TestTestScriptsAreOfPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		lacking(t, err)
	}
	for name, script := range scripts(t) {
		file := filepath.Join(t.TempDir(), name+".py")
		if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, python, "-m", "py_compile", file)
	}
}
