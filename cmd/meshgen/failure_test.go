package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"meshgen/policy"
	"meshgen/state"
)

// trouble is what a command may run into.
type trouble struct {
	name string
	flag string
	stir func(t *testing.T, root string)
}

var troubles = []trouble{
	{name: "none", stir: func(*testing.T, string) {}},
	{name: "nothing to do", stir: func(t *testing.T, root string) { manifest(t, root, second) }},
	{name: "no such flag", flag: "--no-such-flag", stir: func(*testing.T, string) {}},
	{name: "no such root", flag: "--root=/nowhere", stir: func(*testing.T, string) {}},
	{name: "manifest with a fault", stir: func(t *testing.T, root string) { manifest(t, root, "package mesh\nmodules: m: files: f: path: 1\n") }},
	{name: "no manifest", stir: func(t *testing.T, root string) { must(t, os.RemoveAll(root+"/etc/meshgen/manifest")) }},
	{name: "name is taken", stir: func(t *testing.T, root string) { put(t, root+"/etc/new", "found") }},
	{name: "the place of units is elsewhere", stir: func(t *testing.T, root string) {
		must(t, os.MkdirAll(root+"/etc/systemd", 0o755))
		must(t, os.Symlink("/nowhere", root+"/etc/systemd/system"))
	}},
	{name: "locked", stir: func(t *testing.T, root string) {
		lock, err := state.Acquire(state.NewLayout(root, ""))
		must(t, err)
		t.Cleanup(func() { must(t, lock.Close()) })
	}},
	{name: "ledger is damaged", stir: func(t *testing.T, root string) {
		text, err := os.ReadFile(root + "/var/lib/meshgen/ledger")
		must(t, err)
		put(t, root+"/var/lib/meshgen/ledger", "x"+string(text))
	}},
	{name: "ledger is gone", stir: func(t *testing.T, root string) { must(t, os.Remove(root+"/var/lib/meshgen/ledger")) }},
	{name: "ledger is a directory", stir: func(t *testing.T, root string) {
		must(t, os.Remove(root+"/var/lib/meshgen/ledger"))
		must(t, os.Mkdir(root+"/var/lib/meshgen/ledger", 0o700))
	}},
	{name: "ledger of another machine", stir: func(t *testing.T, root string) { put(t, root+"/etc/machine-id", strings.Repeat("2", 32)) }},
	{name: "a file where the state is to be", stir: func(t *testing.T, root string) {
		must(t, os.RemoveAll(root+"/var/lib/meshgen"))
		put(t, root+"/var/lib/meshgen", "")
	}},
	{name: "a file where a directory is to be", stir: func(t *testing.T, root string) { put(t, root+"/etc/dir", "") }},
	{name: "generations are gone", stir: func(t *testing.T, root string) { must(t, os.RemoveAll(root+"/etc/meshgen/generations")) }},
	{name: "generation is damaged", stir: func(t *testing.T, root string) { put(t, root+"/etc/meshgen/generations/2/desired.json", "{") }},
	{name: "read-only", stir: func(t *testing.T, root string) {
		must(t, unix.Mount("", filepath.Dir(root), "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	}},
	{name: "disk is full", stir: func(t *testing.T, root string) { fill(t, root+"/full") }},
	{name: "disk of the state is full", stir: func(t *testing.T, root string) { apart(t, root, 0) }},
	{name: "disk of the state is read-only", stir: func(t *testing.T, root string) { apart(t, root, unix.MS_RDONLY) }},
	{name: "nowhere to write state", stir: func(t *testing.T, root string) {
		must(t, os.RemoveAll(root+"/var/lib/meshgen"))
		must(t, os.RemoveAll(root+"/etc/meshgen/generations"))
		must(t, os.Remove(root+"/etc/meshgen/current"))
		fill(t, root+"/full")
	}},
}

// arguments have each command do what it can below a root.
var arguments = map[string][]string{
	"adopt":    {"adopt", "file:/etc/found"},
	"audit":    {"audit"},
	"build":    {"build", "--output=OUT"},
	"check":    {"check"},
	"eject":    {"eject", "--yes"},
	"explain":  {"explain", "volume:m-data"},
	"forget":   {"forget", "volume:m-data"},
	"gc":       {"gc", "--yes", "--keep=1"},
	"history":  {"history"},
	"plan":     {"plan", "--exit-code"},
	"rebuild":  {"rebuild", "--yes"},
	"recover":  {"recover"},
	"release":  {"release", "file:/etc/old"},
	"rollback": {"rollback", "1"},
	"status":   {"status"},
	"switch":   {"switch"},
	"version":  {"version"},

	"policy show": {"policy", "show", "ROOT/etc/meshgen/manifest/m.wasm"},
	"policy test": {"policy", "test", "builtin", "ROOT/etc/meshgen/manifest/m.txtar"},
}

const (
	first  = "package mesh\nmodules: m: files: conf: {path: \"/etc/m.conf\", content: \"1\"}\nmodules: m: volumes: data: {}\n" + old
	second = "package mesh\nmodules: m: files: conf: {path: \"/etc/m.conf\", content: \"2\"}\n" + old
	old    = "modules: m: files: old: {path: \"/etc/old\", content: \"0\", policy: takeover: \"adopt\"}\n"
	third  = second + "modules: m: files: found: {path: \"/etc/found\", content: \"5\", policy: takeover: \"hold\"}\n" +
		"modules: m: files: {new: {path: \"/etc/new\", content: \"3\"}, low: {path: \"/etc/dir/low\", content: \"4\"}}\n"
)

// Each command in each trouble. It ends with a code that its help names, says what
// to do once at most, and after a refusal that nothing was touched. With --json
// there is one document of its schema on stdout, whole, or nothing.
func TestCommandsInTrouble(t *testing.T) {
	if os.Getuid() != 0 {
		skip(t, "a switch gives files to their owners, which needs root")
	}
	node := made(t)
	seen := map[string]map[int]bool{}
	for _, trouble := range troubles {
		t.Run(trouble.name, func(t *testing.T) {
			for _, cmd := range below(newRoot(&options{})) {
				if cmd.HasSubCommands() {
					continue
				}
				name := nameOf(cmd)
				args, ok := arguments[name]
				if !ok {
					t.Fatalf("%s: nothing is known of it here", name)
				}
				plain := in(t, node, trouble, args)
				plain.mustBeTold(t)
				doc := in(t, node, trouble, append(args, "--json"))
				doc.mustBeADocument(t, schema(cmd))
				if doc.code != plain.code {
					t.Errorf("%s: exit %d, and %d with --json", name, plain.code, doc.code)
				}
				if seen[name] == nil {
					seen[name] = map[int]bool{}
				}
				seen[name][plain.code] = true
			}
		})
	}
	for name, codes := range seen {
		for _, e := range endings[name] {
			// What needs units that fail is in vmtests; version has nothing that fails.
			if e.code != exitIncomplete && e.code != exitRolledBack && (name != "version" || e.code != exitFailed) && !codes[e.code] {
				t.Errorf("%s: nothing ends with exit %d, which its help names", name, e.code)
			}
			delete(codes, e.code)
		}
		for code := range codes {
			t.Errorf("%s: exit %d is not in its help", name, code)
		}
	}
}

// ended is how a command ended.
type ended struct {
	args           []string
	code           int
	stdout, stderr string
}

// made returns a root that went through two switches, and has a manifest for a
// third.
func made(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	put(t, root+"/etc/machine-id", strings.Repeat("1", 32))
	put(t, root+"/etc/old", "found")
	put(t, root+"/etc/found", "found")
	for _, text := range []string{first, second} {
		manifest(t, root, text)
		if code := run(t.Context(), []string{"switch", "--root", root}, io.Discard, os.Stderr); code != 0 {
			t.Fatalf("switch: exit %d", code)
		}
	}
	third := third
	for i := range 60 { // more than fits into the page that the ledger has
		third += fmt.Sprintf("modules: m: files: \"%d\": {path: \"/etc/dir/%[1]d\", content: \"\"}\n", i)
	}
	manifest(t, root, third)
	put(t, root+"/etc/meshgen/manifest/m.wasm", string(policy.Builtin().Code))
	put(t, root+"/etc/meshgen/manifest/m.txtar", "-- it goes --\ntransition = remove\n=> remove\n")
	return root
}

// skip skips a test, and fails where none may be: in CI.
func skip(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("MESHGEN_REQUIRE_MACHINE") == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// in runs a command in a trouble, on a copy of a root.
func in(t *testing.T, node string, trouble trouble, args []string) (e ended) {
	t.Helper()
	t.Run(strings.Join(args, " "), func(t *testing.T) {
		mount := t.TempDir()
		if err := unix.Mount("node", mount, "tmpfs", 0, "size=2m"); err != nil {
			skip(t, fmt.Sprintf("mount a tmpfs: %v", err))
		}
		t.Cleanup(func() { must(t, unix.Unmount(mount, unix.MNT_DETACH)) })
		root := mount + "/root"
		must(t, exec.CommandContext(t.Context(), "cp", "-a", node, root).Run())
		must(t, os.Chmod(root, 0o755))
		trouble.stir(t, root)
		e.args = slices.Clone(args)
		for i := range e.args {
			e.args[i] = strings.Replace(strings.Replace(e.args[i], "OUT", root+"/out", 1), "ROOT", root, 1)
		}
		e.args = append(e.args, "--root="+root)
		if trouble.flag != "" {
			e.args = append(e.args, trouble.flag)
		}
		var stdout, stderr bytes.Buffer
		e.code = run(t.Context(), e.args, &stdout, &stderr)
		e.stdout, e.stderr = stdout.String(), stderr.String()
	})
	return e
}

func (e ended) mustBeTold(t *testing.T) {
	t.Helper()
	// What is held is told before, each with what to do about it.
	told := e.stderr[max(0, strings.LastIndex(e.stderr, "meshgen: ")):]
	if n := strings.Count(told, "hint:"); n > 1 && e.code != 0 {
		t.Errorf("%q: %d hints:\n%s", e.args, n, e.stderr)
	}
	if told := e.stderr != ""; (e.code == exitFailed || e.code == exitUsage || e.code == exitLocked) && !told {
		t.Errorf("%q: exit %d without a word", e.args, e.code)
	}
	if said := strings.HasSuffix(e.stderr, "\n"+untouched+"\n"); said != (e.code == exitRejected) {
		t.Errorf("%q: exit %d:\n%s", e.args, e.code, e.stderr)
	}
}

func (e ended) mustBeADocument(t *testing.T, schema string) {
	t.Helper()
	if e.code == exitUsage {
		if e.stdout != "" || e.stderr == "" {
			t.Errorf("%q: stdout %q, stderr %q", e.args, e.stdout, e.stderr)
		}
		return
	}
	var doc map[string]any
	d := json.NewDecoder(strings.NewReader(e.stdout))
	if err := d.Decode(&doc); err != nil {
		t.Errorf("%q: exit %d: %v\n%s\n%s", e.args, e.code, err, e.stdout, e.stderr)
		return
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		t.Errorf("%q: more than a document:\n%s", e.args, e.stdout)
	}
	if doc["schema"] != schema {
		t.Errorf("%q: schema %q, want %q", e.args, doc["schema"], schema)
	}
	for key, value := range doc {
		if value == nil {
			t.Errorf("%q: %s is null", e.args, key)
		}
	}
	text, _ := doc["error"].(string)
	faults := append(list(doc["rejected"]), list(doc["faults"])...)
	if failed := e.code != 0 && e.code != exitChanges; failed != (text != "" || len(faults) > 0) || strings.Count(text, "hint:") > 1 {
		t.Errorf("%q: exit %d:\n%s", e.args, e.code, e.stdout)
	}
	if said := doc["verdict"] == untouched; said != (e.code == exitRejected) {
		t.Errorf("%q: exit %d, verdict %v", e.args, e.code, doc["verdict"])
	}
	if e.code == exitRejected && e.stderr != "" {
		t.Errorf("%q: told twice:\n%s", e.args, e.stderr)
	}
}

func list(value any) []any {
	l, _ := value.([]any)
	return l
}

// The README's table has every code of every command, and no other.
func TestExitCodesAreThoseOfTheReadme(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	must(t, err)
	_, table, _ := strings.Cut(string(text), "| exit | means |")
	var told, known []int
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(table, -1) {
		code, err := strconv.Atoi(row[1])
		must(t, err)
		told = append(told, code)
	}
	for _, list := range endings {
		for _, e := range list {
			known = append(known, e.code)
		}
	}
	slices.Sort(known)
	if known = slices.Compact(known); !slices.Equal(told, known) {
		t.Errorf("the README has %v, the commands have %v", told, known)
	}
}

// The help of each command has its codes, and the scripts want no others.
func TestHelpTellsTheExitCodes(t *testing.T) {
	root := newRoot(&options{})
	for _, cmd := range append(below(root), root) {
		if name := nameOf(cmd); len(endings[name]) == 0 || !strings.HasSuffix(cmd.Long, exitHelp(name)) {
			t.Errorf("%s: no exit codes in its help:\n%s", name, cmd.Long)
		}
	}
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	must(t, err)
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		must(t, err)
		for _, line := range regexp.MustCompile(`(?m)^exit (\d+) (policy (?:show|test)|[a-z]+)`).FindAllStringSubmatch(string(text), -1) {
			code, err := strconv.Atoi(line[1])
			must(t, err)
			if list, ok := endings[line[2]]; ok && !slices.ContainsFunc(list, func(e ending) bool { return e.code == code }) {
				t.Errorf("%s: %s: not in its help", script, line[0])
			}
		}
	}
}

// What a command has to say on stdout cannot be said.
func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	for _, flag := range []string{"--quiet", "--json"} {
		var stderr strings.Builder
		if code := run(t.Context(), []string{"version", flag}, shut{}, &stderr); code != exitFailed || stderr.String() != "meshgen: no space left on device\n" {
			t.Errorf("%s: exit %d, %q", flag, code, &stderr)
		}
	}
}

type shut struct{}

func (shut) Write([]byte) (int, error) { return 0, unix.ENOSPC }

func manifest(t *testing.T, root, text string) {
	t.Helper()
	put(t, root+"/etc/meshgen/manifest/m.cue", text)
}

func put(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

// apart has the state lie on a disk of its own, which is full.
func apart(t *testing.T, root string, flags uintptr) {
	t.Helper()
	dir := root + "/var/lib/meshgen"
	text, err := os.ReadFile(dir + "/ledger")
	must(t, err)
	must(t, unix.Mount("state", dir, "tmpfs", 0, "size=64k"))
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	put(t, dir+"/lock", "1\n")
	put(t, dir+"/ledger", string(text))
	fill(t, dir+"/full")
	must(t, unix.Mount("", dir, "", unix.MS_REMOUNT|flags, ""))
}

// fill takes all room that is left.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	must(t, f.Close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
