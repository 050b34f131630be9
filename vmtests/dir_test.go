//go:build systemd

package vmtests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mounting declares a container that mounts a directory, and what body says.
func mounting(path, body string) string {
	return single(body + `
containers: x: {name: "ant", Container: {Image: "localhost/probe:1", Exec: "probe sleep", Network: "none", Volume: "` + path + `:/data"}}`)
}

// access returns the mode and the owner of what is at a path.
func (v *Machine) access(path string) string {
	v.t.Helper()
	return strings.TrimSpace(v.Run("stat", "--format=%F %a %u:%g", path))
}

func (v *Machine) mustHaveAccess(path, want string) {
	v.t.Helper()
	if got := v.access(path); got != want {
		v.t.Errorf("%s is a %s, want %s", path, got, want)
	}
}

func (v *Machine) mustSwitchWith(code int, says string, args ...string) {
	v.t.Helper()
	if r := v.Exec(append([]string{"meshgen", "switch"}, args...)...); r.Code != code || !strings.Contains(r.Stderr+r.Stdout, says) {
		v.t.Errorf("switch: %+v; want %d and %q", r, code, says)
	}
}

// A directory is made, has its mode put right, gets another one and another path while it
// is empty, and goes; what uses it runs on it from its first start on.
func TestDirectoryComesChangesAndGoes(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(mounting("/srv/a/data", `dirs: data: {path: "/srv/a/data", mode: "0750", owner: "www-data", group: 12}`))
	v.Switch()
	v.mustHaveAccess("/srv/a/data", "directory 750 33:12")
	v.mustHaveAccess("/srv/a", "directory 755 0:0")
	v.mustRun("ant")
	v.mustHaveNothingToDo()

	before := v.invocation("ant")
	v.Run("sh", "-c", "chmod 777 /srv/a/data; chown 0:0 /srv/a/data")
	if plan := v.Run("meshgen", "plan"); !strings.Contains(plan, "restore: is 0777 0:0, should be 0750 33:12") {
		t.Errorf("plan:\n%s", plan)
	}
	v.Switch()
	v.mustHaveAccess("/srv/a/data", "directory 750 33:12")
	v.WriteManifest(mounting("/srv/a/data", `dirs: data: {path: "/srv/a/data", mode: "0700", owner: "www-data"}`))
	v.Switch()
	v.mustHaveAccess("/srv/a/data", "directory 700 33:0")
	if v.invocation("ant") != before {
		t.Error("a mode had the container started anew")
	}

	v.WriteManifest(mounting("/srv/b/data", `dirs: data: {path: "/srv/b/data", mode: "0700", owner: "www-data"}`))
	v.Switch()
	v.mustHaveAccess("/srv/b/data", "directory 700 33:0")
	if v.Exists("/srv/a") {
		t.Error("/srv/a is left")
	}
	v.mustHaveNothingToDo()
	v.WriteManifest(one("bat"))
	v.Switch()
	if v.Exists("/srv/b") {
		t.Error("/srv/b is left")
	}
	v.mustHaveNothingToDo()
	v.mustBeSwept()
}

// What a directory holds stays where it is, whatever is declared, and the plan says so.
func TestDirectoryThatHoldsSomethingStays(t *testing.T) {
	v := Boot(t)
	const declared = "dirs: data: {path: \"/srv/data\", mode: \"0700\"}\nfiles: f: {path: \"/srv/data/app.ini\", content: \"x\"}"
	v.WriteManifest(mounting("/srv/data", declared))
	v.Switch()
	v.Run("sh", "-c", "echo precious > /srv/data/db")
	v.WriteManifest(mounting("/srv/other", strings.Replace(declared, `"/srv/data", mode`, `"/srv/other", mode`, 1)))
	v.mustSwitchWith(3, "move it with mv /srv/data /srv/other, then meshgen adopt dir:/srv/other")
	// By another address, it is the container that would begin empty.
	v.WriteManifest(mounting("/srv/other", `dirs: more: path: "/srv/other"`))
	v.mustSwitchWith(3, "would find dir:/srv/other at /data, where it has its data in dir:/srv/data")
	if v.Exists("/srv/other") {
		t.Error("a switch that was refused made something")
	}

	v.WriteManifest(one("bat"))
	if plan := v.Run("meshgen", "plan"); !strings.Contains(plan, "keep: it holds data") || !strings.Contains(plan, "hold       dir:/srv/data") {
		t.Errorf("plan:\n%s", plan)
	}
	v.Switch()
	if got := v.Run("sh", "-c", "cd /srv/data; ls -A; cat db"); got != "db\nprecious\n" {
		t.Errorf("/srv/data has %q", got)
	}
	v.mustHaveAccess("/srv/data", "directory 700 0:0")
	v.mustHaveNothingToDo()
	// It is taken up again; by what its policy says it is not removed either.
	v.WriteManifest(mounting("/srv/data", `dirs: data: {path: "/srv/data", mode: "0755", policy: remove: "remove"}`))
	v.Switch()
	v.mustHaveAccess("/srv/data", "directory 755 0:0")
	v.WriteManifest(one("bat"))
	v.Switch()
	if got := v.ReadFile("/srv/data/db"); got != "precious\n" {
		t.Errorf("db has %q", got)
	}
	v.Run("meshgen", "forget", "dir:/srv/data")
	v.mustHaveNothingToDo()
}

// An empty directory stays for a container that mounts it, and would not start without:
// one that was declared, and one that was made on the way to a file.
func TestDirectoryStaysForWhatMountsIt(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(mounting("/srv/made", `files: f: {path: "/srv/made/f", content: "1"}`))
	v.Switch()
	v.WriteManifest(mounting("/srv/made", ""))
	v.Switch()
	v.Run("systemctl", "restart", "ant")
	v.mustRun("ant")

	v.WriteManifest(mounting("/srv/data", `dirs: data: path: "/srv/data"`))
	v.Switch()
	if v.Exists("/srv/made") {
		t.Error("/srv/made is left, and nothing mounts it any more")
	}
	v.WriteManifest(mounting("/srv/data", ""))
	if plan := v.Run("meshgen", "plan"); !strings.Contains(plan, "it stays for m/container/x, which does not start without") {
		t.Errorf("plan:\n%s", plan)
	}
	v.Switch()
	v.Run("systemctl", "restart", "ant")
	v.mustRun("ant")
	v.mustHaveNothingToDo()
}

// One that is moved by hand is followed, with what it holds.
func TestDirectoryIsMovedByHand(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(mounting("/srv/data", `dirs: data: {path: "/srv/data", mode: "0700", owner: 33}`))
	v.Switch()
	v.Run("sh", "-c", "echo precious > /srv/data/db; systemctl stop ant; mv /srv/data /srv/other")
	v.WriteManifest(mounting("/srv/other", `dirs: data: {path: "/srv/other", mode: "0700", owner: 33}`))
	v.mustSwitchWith(3, "dir:/srv/other is taken: a directory that holds something")
	v.Run("meshgen", "adopt", "dir:/srv/other")
	v.mustRun("ant")
	if got := v.Run("podman", "exec", "ant", "cat", "/data/db"); got != "precious\n" {
		t.Errorf("the container finds %q", got)
	}
	v.mustHaveNothingToDo()
}

// What other hands do to a directory that was in force: gone with what it held, and
// another thing in its place.
func TestDirectoryThatIsGoneIsNotMadeAnewUnasked(t *testing.T) {
	v := Boot(t)
	const declared = `dirs: data: {path: "/srv/data", mode: "0700"`
	v.WriteManifest(mounting("/srv/data", declared+"}"))
	v.Switch()
	v.Run("sh", "-c", "echo precious > /srv/data/db; mv /srv/data /srv/moved")
	v.mustSwitchWith(3, `bring it back with what it held, or make it with mkdir /srv/data; or have an empty one with policy: drift: "restore"`)
	v.Run("ln", "-s", "/srv/moved", "/srv/data")
	v.mustSwitchWith(3, "is a symbolic link, and what was found is not overwritten")
	v.WriteManifest(mounting("/srv/data", declared+`, policy: drift: "keep"}`))
	v.Switch()
	v.mustHaveAccess("/srv/data", "symbolic link 777 0:0")
	v.WriteManifest(mounting("/srv/data", declared+"}"))
	v.Run("sh", "-c", "rm /srv/data; echo x > /srv/data")
	v.mustSwitchWith(3, "is a file, and what was found is not overwritten")
	v.Run("sh", "-c", "rm /srv/data; mv /srv/moved /srv/data")
	v.Switch()
	v.mustHaveNothingToDo()

	before := v.invocation("ant")
	v.Run("rm", "-r", "/srv/data")
	v.WriteManifest(mounting("/srv/data", declared+`, policy: drift: "restore"}`))
	v.mustSwitchWith(0, "")
	v.mustHaveAccess("/srv/data", "directory 700 0:0")
	if v.invocation("ant") == before {
		t.Error("the container has the directory that is gone")
	}
	v.mustHaveNothingToDo()
}

// A directory that was found is held, adopted as it is, and given back with the mode, the
// owner and the access list that it had; what is no directory is not adopted.
func TestDirectoryThatIsFoundIsAdoptedAndGivenBack(t *testing.T) {
	v := Boot(t)
	v.Run("sh", "-ec", `mkdir /srv/data; echo precious > /srv/data/db; chown 7:8 /srv/data; chmod 2710 /srv/data
python3 -c 'import os; os.setxattr("/srv/data", "user.of", b"its own")' 2>/dev/null || true`)
	look := func() string {
		return v.Run("sh", "-c", `stat --format='%n %a %u:%g %i' /srv/data /srv/data/db; cat /srv/data/db; getfattr -d /srv/data 2>/dev/null; true`)
	}
	was := look()
	const ours = `dirs: data: {path: "/srv/data", mode: "0750", owner: 33`
	v.WriteManifest(mounting("/srv/data", ours+"}"))
	v.mustSwitchWith(3, "dir:/srv/data is taken: a directory that holds something is at /srv/data, and it is not of meshgen")
	v.WriteManifest(mounting("/srv/data", ours+`, policy: takeover: "hold"}`))
	v.Switch()
	if diff := cmp.Diff(was, look()); diff != "" {
		t.Errorf("held (-was +is):\n%s", diff)
	}
	before := v.invocation("ant")
	for _, back := range []string{"release", "rollback"} {
		v.Run("meshgen", "adopt", "dir:/srv/data")
		v.mustHaveAccess("/srv/data", "directory 750 33:0")
		v.mustHaveNothingToDo()
		if back == "release" {
			v.Run("meshgen", "release", "dir:/srv/data")
		} else {
			v.Run("meshgen", "rollback", "1")
		}
		if diff := cmp.Diff(was, look()); diff != "" {
			t.Errorf("after %s (-was +is):\n%s", back, diff)
		}
	}
	// As it is declared, and let go from the manifest: nothing of it is touched.
	same := strings.NewReplacer("0750", "0710", "owner: 33", "owner: 7, group: 8").Replace(ours)
	v.Run("chmod", "g-s", "/srv/data")
	was = look()
	v.WriteManifest(mounting("/srv/data", same+"}"))
	v.Run("meshgen", "adopt", "dir:/srv/data")
	v.WriteManifest(mounting("/srv/data", ""))
	v.mustSwitchWith(0, "it was adopted as it is")
	if diff := cmp.Diff(was, look()); diff != "" {
		t.Errorf("adopted as it is (-was +is):\n%s", diff)
	}
	if v.invocation("ant") != before {
		t.Error("the container was started anew for nothing")
	}

	v.Run("sh", "-ec", "echo x > /srv/file; ln -s /srv/data /srv/link")
	for path, is := range map[string]string{"/srv/file": "file", "/srv/link": "symbolic link", "/srv/link/below": "symbolic link"} {
		v.Run("mkdir", "-p", "/srv/data/below")
		v.WriteManifest(single(fmt.Sprintf(`dirs: other: {path: %q, mode: "0700", policy: takeover: "adopt"}`, path)))
		v.mustSwitchWith(3, "is a "+is)
	}
	v.mustHaveAccess("/srv/data", "directory 710 7:8")
}

// A set that does not come up takes its directories with it, but for what they hold, and
// those that it had changed are as they were.
func TestDirectoryOfASetThatFailsIsBroughtBack(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(mounting("/srv/data", `dirs: data: {path: "/srv/data", mode: "0750", owner: 33}
files: f: {path: "/srv/on/the/way", content: "x"}`))
	v.Switch()
	v.Run("sh", "-c", "mkdir /srv/found; chmod 701 /srv/found")
	failing := mounting("/srv/data", `dirs: {
	data: {path: "/srv/data", mode: "0700"}
	new: {path: "/srv/new/one", mode: "0700"}
	on: {path: "/srv/on/the", mode: "0700", owner: 7}
	found: {path: "/srv/found", policy: takeover: "adopt"}
}
files: f: {path: "/srv/on/the/way", content: "x"}`)
	failing = strings.Replace(failing, "probe sleep", "nothing-of-that-name", 1)
	before := v.Run("sh", "-c", "find /srv -printf '%p %m %U:%G\n' | sort")
	v.WriteManifest(failing)
	v.mustSwitchWith(5, "")
	if diff := cmp.Diff(before, v.Run("sh", "-c", "find /srv -printf '%p %m %U:%G\n' | sort")); diff != "" {
		t.Errorf("-was +is:\n%s", diff)
	}
	v.mustRun("ant")

	// What such a set wrote into a directory of its own is held, whoever owns it by then.
	const own = `dirs: {
	data: {path: "/srv/data", mode: "0750", owner: 33}
	own: path: "/srv/own"
}
containers: writer: {name: "bat", Container: {Image: "localhost/probe:1", Exec: "%s", Network: "none", Volume: "/srv/own:/own"}}`
	v.WriteManifest(mounting("/srv/data", fmt.Sprintf(own, `sh -c 'chown 999 /own; chmod 700 /own; echo precious > /own/x; exit 1'`)))
	v.mustSwitchWith(5, "")
	v.mustHaveAccess("/srv/own", "directory 700 999:0")
	v.WriteManifest(mounting("/srv/data", fmt.Sprintf(own, "probe sleep")))
	v.Switch()
	if got := v.ReadFile("/srv/own/x"); got != "precious\n" {
		t.Errorf("/srv/own/x has %q", got)
	}
	v.mustHaveAccess("/srv/own", "directory 755 0:0")
}

// A switch that changes directories in every way is killed at its calls, with the power
// cut every other time: what is there is in the ledger, one set is there whole once that
// is recovered, and the next switch ends where an unbroken one would have.
func TestDirectoriesKilledAtEveryCall(t *testing.T) {
	v := Boot(t)
	if v.Exec("stat", "/usr/bin/nth").Code != 0 {
		t.Skip("nth is for amd64")
	}
	const one = `dirs: {
	data: {path: "/srv/data", mode: "0750", owner: 33}
	empty: {path: "/srv/way/old", mode: "0700"}
	goes: {path: "/srv/goes/all", mode: "0700"}
}
files: {
	f: {path: "/srv/data/app.ini", content: "one"}
	on: {path: "/srv/on/the/way", content: "one"}
}`
	const two = `dirs: {
	data: {path: "/srv/data", mode: "0700", owner: 34, group: 35}
	empty: {path: "/srv/way/new", mode: "0701", owner: 36}
	comes: {path: "/srv/comes/all", mode: "0702"}
	on: {path: "/srv/on/the", mode: "0703", owner: 37}
	found: {path: "/srv/found", mode: "0704", owner: 38, policy: takeover: "adopt"}
}
files: {
	f: {path: "/srv/data/app.ini", content: "two"}
	on: {path: "/srv/on/the/way", content: "two"}
}`
	lies := func() string {
		return v.Run("sh", "-c", "find /srv -printf '%p %m %U:%G\n' | sort; cat /srv/data/app.ini /srv/on/the/way /srv/data/db")
	}
	back := func() {
		v.WriteManifest(single(one))
		v.Switch()
		v.Run("meshgen", "release", "dir:/srv/found")
	}
	v.Run("sh", "-c", "mkdir /srv/found; chmod 705 /srv/found; chown 9:9 /srv/found; echo theirs > /srv/found/x")
	v.WriteManifest(single(one))
	v.Switch()
	v.Run("sh", "-c", "echo precious > /srv/data/db")
	v.WriteManifest(single(two))
	v.Switch()
	want := map[string]string{"two": lies()}
	back()
	want["one"] = lies()
	v.WriteManifest(single(two))
	v.Run("nth", "-log=/run/nth.log", "meshgen", "adopt", "dir:/srv/found")
	total := strings.Count(v.ReadFile("/run/nth.log"), "\n")
	if diff := cmp.Diff(want["two"], lies()); diff != "" {
		t.Fatalf("adopted by hand (-want +is):\n%s", diff)
	}
	back()
	seen := map[string]int{}
	for i, n := range points(t, total, 18) {
		v.WriteManifest(single(two))
		v.Exec("nth", "-log=/run/nth.log", fmt.Sprintf("-kill=%d", n), "meshgen", "adopt", "dir:/srv/found")
		ledger := v.ReadFile("/var/lib/meshgen/ledger")
		for dir := range strings.FieldsSeq(v.Run("find", "/srv", "-mindepth", "1", "-type", "d", "-not", "-path", "/srv/found")) {
			if !strings.Contains(ledger, "dir:"+dir) {
				t.Errorf("%s is here, and the ledger does not know it", dir)
			}
		}
		if i%2 == 0 {
			v.PowerCut()
			v.Boot()
		} else {
			v.Run("meshgen", "recover")
		}
		is := "neither"
		for name, all := range want {
			if lies() == all {
				is = name
			}
		}
		seen[is]++
		if is == "neither" {
			log := strings.Split(strings.TrimSpace(v.ReadFile("/run/nth.log")), "\n")
			t.Errorf("killed at call %d, %s (-one +is):\n%s", n, log[len(log)-1], cmp.Diff(want["one"], lies()))
		}
		if v.Exec("meshgen", "plan", "--exit-code").Code != 0 {
			v.Exec("meshgen", "adopt", "dir:/srv/found")
			v.Switch()
		}
		if diff := cmp.Diff(want["two"], lies()); diff != "" {
			t.Errorf("killed at call %d, and switched again (-want +is):\n%s", n, diff)
		}
		v.mustHaveNothingToDo()
		back()
		if diff := cmp.Diff(want["one"], lies()); diff != "" {
			t.Errorf("killed at call %d, and given back (-want +is):\n%s", n, diff)
		}
		if t.Failed() {
			break
		}
	}
	if seen["one"] == 0 || seen["two"] == 0 {
		t.Errorf("the kills met %v", seen)
	}
}
