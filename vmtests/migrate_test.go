//go:build systemd

package vmtests

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// keeper is two containers that share a volume, which may be migrated, and a
// third with one of its own. Each says where it is before it sleeps.
func keeper(name string) string {
	return single(fmt.Sprintf(`
	policy: rename: "migrate"
	volumes: data: name: %q
	volumes: other: {}
	containers: {for id in ["x", "y"] {(id): Container: {Image: "localhost/probe:1", Network: "none", Volume: "data:/data"}}}
	containers: z: Container: {Image: "localhost/probe:1", Network: "none", Volume: "other:/data"}`, name))
}

func mountpoint(volume string) string {
	return "/var/lib/containers/storage/volumes/" + volume + "/_data"
}

// furnish puts every odd kind of file into a volume.
func (v *Machine) furnish(volume string) {
	v.t.Helper()
	v.Run("sh", "-euc", `cd "$1"
		echo hello >plain; ln plain hard; mkdir dir; ln plain dir/hard; ln -s ../gone dir/sym
		mkdir -m 1777 empty; mkfifo fifo; mknod device c 1 3
		echo suid >suid; chown 1234:5678 suid; chmod 6755 suid
		truncate -s 64M sparse; printf x | dd of=sparse bs=1 seek=30000000 conv=notrunc status=none
		touch "$(printf 'line\nbreak')" ./-rf 'a b'
		perl -e '
			my ($file, $name, $value) = ("plain", "user.meshgen", "value\0x");
			syscall(188, $file, $name, $value, length $value, 0) == 0 or die "setxattr: $!";
			($file, $name, $value) = ("a b", "system.posix_acl_access", pack("L(SSL)5", 2, 1,6,0xffffffff, 2,4,4242, 4,4,0xffffffff, 16,4,0xffffffff, 32,0,0xffffffff));
			syscall(188, $file, $name, $value, length $value, 0) == 0 or die "acl: $!";
			use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un("socket")) or die'
		touch -h -d '2001-02-03 04:05:06.123456789' dir/sym suid
		chown 77:78 .; chmod 0710 .; touch -d '2002-02-02 02:02:02.222' dir .`, "sh", mountpoint(volume))
}

// print returns a digest of all that is in a volume, as tar(1) sees it.
func (v *Machine) print(volume string) string {
	v.t.Helper()
	return v.Run("sh", "-c", `tar --sort=name --format=posix --pax-option=delete=atime,delete=ctime --xattrs --xattrs-include='*' --acls \
		-C "$1" -c . 2>/dev/null | sha256sum; stat -c '%F %a %u:%g' "$1"/socket 2>/dev/null; true`, "sh", mountpoint(volume))
}

// mustHave sees that containers have a volume at /data.
func (v *Machine) mustHave(volume string, containers ...string) {
	v.t.Helper()
	for _, c := range containers {
		if got := v.Run("podman", "inspect", "--format={{range .Mounts}}{{.Name}}{{end}}", c); got != volume+"\n" {
			v.t.Errorf("%s has %q, want %s", c, got, volume)
		}
	}
}

func (v *Machine) volumes() string {
	v.t.Helper()
	names := strings.Fields(v.Run("podman", "volume", "ls", "--format={{.Name}}"))
	slices.Sort(names)
	return strings.Join(names, " ")
}

// A volume gets another name: what uses it is down while its data is copied, and
// runs with the copy, which has all that the old one has. That one stays.
func TestVolumeIsMigrated(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(keeper("old"))
	v.Switch()
	v.furnish("old")
	before, bystander := v.print("old"), v.invocation("m-z")
	v.WriteManifest(keeper("new"))
	plan := v.Run("meshgen", "plan")
	for _, want := range []string{"migrate: its data is copied, and volume:old stays as it is, held", "copy", "of volume:old"} {
		if !strings.Contains(plan, want) {
			t.Errorf("the plan does not say %q:\n%s", want, plan)
		}
	}
	v.Switch()
	v.mustRun("m-x", "m-y", "m-z")
	v.mustHave("new", "m-x", "m-y")
	if got := v.print("new"); got != before {
		t.Errorf("the copy is another: %s, was %s", got, before)
	}
	if got := v.print("old"); got != before {
		t.Errorf("the old volume is another: %s, was %s", got, before)
	}
	if blocks := strings.TrimSpace(v.Run("stat", "-c%b", mountpoint("new")+"/sparse")); len(blocks) > 3 {
		t.Errorf("the sparse file has %s blocks", blocks)
	}
	if v.invocation("m-z") != bystander {
		t.Error("a container that has no part in it was restarted")
	}
	if label := v.Run("podman", "volume", "inspect", `--format={{index .Labels "io.meshgen.resource"}}`, "new"); label != "m/volume/data\n" {
		t.Errorf("the new volume's label is %q", label)
	}
	v.mustBeSwept()
	if r := v.Exec("meshgen", "plan", "--exit-code"); r.Code != 0 {
		t.Errorf("plan after the switch: %+v", r)
	}

	// The way back is closed: the old one has older data.
	v.Run("sh", "-c", "echo more > "+mountpoint("new")+"/more")
	v.WriteManifest(keeper("old"))
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "volume:old is there, held, with data of its own (migrated to new; it has the data as it was then)") {
		t.Errorf("the way back: %+v", r)
	}
	v.mustHave("new", "m-x", "m-y")
	// Until it is gone: then it is a name like any other.
	newer := v.print("new")
	v.Run("podman", "volume", "rm", "old")
	v.Switch()
	v.mustHave("old", "m-x", "m-y")
	if got := v.print("old"); got != newer {
		t.Errorf("the copy back is another: %s, was %s", got, newer)
	}
}

// The name of the volume alone changes, and its unit keeps its name.
func TestVolumeIsMigratedUnderItsUnit(t *testing.T) {
	v := Boot(t)
	manifest := func(name string) string {
		return single(fmt.Sprintf(`
	volumes: data: {policy: rename: "migrate", Volume: {VolumeName: %q, Label: "its=own"}}
	containers: x: Container: {Image: "localhost/probe:1", Network: "none", Mount: "type=volume,source=data,destination=/data"}`, name))
	}
	v.WriteManifest(manifest("old"))
	v.Switch()
	v.furnish("old")
	before := v.print("old")
	v.WriteManifest(manifest("new"))
	v.Switch()
	v.mustRun("m-x")
	v.mustHave("new", "m-x")
	if got := v.print("new"); got != before {
		t.Errorf("the copy is another: %s, was %s", got, before)
	}
	if label := v.Run("podman", "volume", "inspect", `--format={{.Labels.its}}`, "new"); label != "own\n" {
		t.Errorf("the label is %q", label)
	}
	v.mustBeSwept()
}

// A module gets another name, and with it all that is in it: two volumes are
// migrated, with what uses them, and the containers renamed, in one switch.
func TestVolumesAreMigratedWithTheirModule(t *testing.T) {
	v := Boot(t)
	manifest := func(module, more string) string {
		return fmt.Sprintf(`package mesh

modules: %s: {
	policy: rename: "migrate"
	volumes: {data: {}, cache: {}}
	networks: net: {}
	containers: {
		x: Container: {Image: "localhost/probe:1", Network: "net", Volume: ["data:/data", "cache:/cache"]}
		y: Container: {Image: "localhost/probe:1", Network: "none", Volume: "cache:/data"}
	}
}
%s
`, module, more)
	}
	v.WriteManifest(manifest("m", ""))
	v.Switch()
	v.furnish("m-data")
	v.Run("touch", mountpoint("m-cache")+"/cached")
	data, cache := v.print("m-data"), v.print("m-cache")
	v.WriteManifest(manifest("n", `moved: [{from: "m", to: "n"}]`))
	v.Switch()
	v.mustRun("n-x", "n-y")
	v.mustHave("n-cache", "n-y")
	if v.print("n-data") != data || v.print("m-data") != data || v.print("n-cache") != cache || v.print("m-cache") != cache {
		t.Error("the data is another")
	}
	v.mustBeGone("m-x.service", "m-y.service", "m-data-volume.service", "m-cache-volume.service")
	v.mustBeSwept()
	if r := v.Exec("meshgen", "plan", "--exit-code"); r.Code != 0 {
		t.Errorf("plan after the switch: %+v", r)
	}
}

// A migration that cannot be is refused, and nothing is stopped for it.
func TestVolumeIsNotMigrated(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(keeper("old"))
	v.Switch()
	v.Run("podman", "volume", "create", "found")
	runs := v.invocation("m-x")
	refused := func(manifest, says string) {
		t.Helper()
		v.WriteManifest(manifest)
		if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, says) {
			t.Errorf("want %q: %+v", says, r)
		}
	}
	refused(strings.Replace(keeper("new"), `policy: rename: "migrate"`, "", 1), `or have it copied with policy: rename: "migrate"`)
	refused(strings.Replace(keeper("new"), `policy: rename: "migrate"`, `policy: rename: "follow"`, 1), `policy "follow" would leave its data behind`)
	refused(keeper("found"), "volume:found is taken")
	refused(strings.Replace(keeper("m-other"), `volumes: other: {}`, `volumes: other: name: "old"`, 1), "migration of volume:old to volume:m-other: volume:m-other is that of m/volume/other")
	refused(strings.Replace(keeper("m-other"), `volumes: other: {}`, `volumes: other: name: "new"`, 1), "migration of volume:old to volume:m-other: volume:m-other is that of m/volume/other")
	refused(strings.Replace(keeper("new"), `name: "new"`, `{name: "new", Volume: {Device: "tmpfs", Type: "tmpfs"}}`, 1), "it has Device")

	v.Run("podman", "run", "--detach", "--name=found", "--network=none", "--volume=old:/d", "localhost/probe:1")
	refused(keeper("new"), "container found has it, which is not of meshgen")
	v.Run("podman", "stop", "--time=0", "found")
	refused(keeper("new"), "container found has it, which is not of meshgen")
	v.Run("podman", "rm", "found")

	v.Run("sh", "-c", "mkdir "+mountpoint("old")+"/below && mount -t tmpfs none "+mountpoint("old")+"/below")
	refused(keeper("new"), "another file system is mounted there")
	v.Run("umount", mountpoint("old")+"/below")

	if v.invocation("m-x") != runs {
		t.Error("a container was stopped")
	}
	if got := v.volumes(); got != "found m-other old" {
		t.Errorf("the volumes are %s", got)
	}
}

// A container of the new set does not come up: the old set runs with the old
// volume, and the new one, to which it may have written, stays as well.
func TestMigrationIsRolledBack(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(keeper("old"))
	v.Switch()
	v.furnish("old")
	before := v.print("old")
	v.WriteManifest(strings.Replace(keeper("new"), `Volume: "data:/data"`, `Volume: "data:/data", Exec: "sh -c 'echo wrote >/data/wrote; exit 1'"`, 1))
	if r := v.Exec("meshgen", "switch"); r.Code != 5 || !strings.Contains(r.Stderr, "did not stay in force; it is a copy of volume:old, with what was written since") {
		t.Errorf("switch: %+v", r)
	}
	v.mustRun("m-x", "m-y", "m-z")
	v.mustHave("old", "m-x", "m-y")
	if got := v.print("old"); got != before {
		t.Errorf("the old volume is another: %s, was %s", got, before)
	}
	if !v.Exists(mountpoint("new") + "/wrote") {
		t.Error("what was written to the new volume is lost")
	}
	v.mustBeSwept()

	v.WriteManifest(keeper("new"))
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "volume:new is there, held, with data of its own (did not stay in force") {
		t.Errorf("the same name again: %+v", r)
	}
	v.WriteManifest(keeper("newer"))
	v.Switch()
	v.mustHave("newer", "m-x", "m-y")
	if got := v.print("newer"); got != before {
		t.Errorf("the copy is another: %s, was %s", got, before)
	}
}

// No room for the copy is seen before anything stops; a disk that fills up while
// it is made ends the switch as if it had not been.
func TestMigrationFindsNoRoom(t *testing.T) {
	v := Boot(t)
	// podman's database and the ledger are on that disk as well.
	const disk = "/var/lib/containers/storage"
	v.Run("sh", "-euc", `cp -a "$1" /var/storage; mount -t tmpfs -o size=400M none "$1"; cp -a /var/storage/. "$1"
		mkdir -p "$1/state" /var/lib/meshgen; mount --bind "$1/state" /var/lib/meshgen
		mount -o "remount,size=$(($(du -sk "$1" | cut -f1) + 160 * 1024))k" "$1"`, "sh", disk)
	v.WriteManifest(keeper("old"))
	v.Switch()
	v.Run("sh", "-c", "head -c 100M /dev/urandom > "+mountpoint("old")+"/big")
	runs, before := v.invocation("m-x"), v.print("old")
	v.WriteManifest(keeper("new"))
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "no room beside "+mountpoint("old")+": the copy needs 100.0 MiB in 2 files, and") {
		t.Errorf("switch: %+v", r)
	}
	if v.invocation("m-x") != runs {
		t.Error("a container was stopped")
	}

	v.Run("sh", "-euc", `mount -o "remount,size=$(($(df -k --output=size "$1" | tail -1) + 60 * 1024))k" "$1"`, "sh", disk)
	fill := v.Command("sh", "-c", "until [ -e "+mountpoint("new")+"/big ]; do :; done; fallocate -l 70M "+disk+"/fill")
	if err := fill.Start(); err != nil {
		t.Fatal(err)
	}
	if r := v.Exec("meshgen", "switch"); r.Code != 1 || !strings.Contains(r.Stderr, "volume:new: copy of volume:old: copy "+mountpoint("old")+": exit status 1") ||
		!strings.Contains(r.Stderr, "No space left on device") {
		t.Errorf("switch on a disk that fills up: %+v", r)
	}
	if err := fill.Wait(); err != nil {
		t.Errorf("fill: %v", err)
	}
	v.mustRun("m-x", "m-y", "m-z")
	v.mustHave("old", "m-x", "m-y")
	if got := v.volumes(); got != "m-other old" {
		t.Errorf("the volumes are %s", got)
	}
	v.mustBeSwept()

	v.Run("rm", disk+"/fill")
	v.Switch()
	v.mustHave("new", "m-x", "m-y")
	if v.print("old") != before || v.print("new") != before {
		t.Error("the data is another")
	}
}

// What writes to the data while it is copied is found out, and the switch undone.
func TestMigrationSeesAWriter(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(keeper("old"))
	v.Switch()
	v.Run("sh", "-c", "head -c 100M /dev/urandom > "+mountpoint("old")+"/big; echo 1 > "+mountpoint("old")+"/a")
	v.WriteManifest(keeper("new"))
	write := v.Command("sh", "-c", "until [ -e "+mountpoint("new")+"/big ]; do :; done; echo 2 > "+mountpoint("old")+"/a")
	if err := write.Start(); err != nil {
		t.Fatal(err)
	}
	if r := v.Exec("meshgen", "switch"); r.Code != 1 || !strings.Contains(r.Stderr, "volume:new: copy of volume:old: ") {
		t.Errorf("switch: %+v", r)
	}
	_ = write.Wait() // it has done its work
	v.mustRun("m-x", "m-y", "m-z")
	v.mustHave("old", "m-x", "m-y")
	if got := v.volumes(); got != "m-other old" {
		t.Errorf("the volumes are %s", got)
	}
}

// A migration is killed at many moments, every other time by a power cut: a part
// of a copy never passes for the whole, and the data is lost at none of them.
func TestMigrationSurvivesKills(t *testing.T) {
	const copies = 12
	v := Boot(t)
	v.WriteManifest(keeper("data-1"))
	v.Switch()
	v.furnish("data-1")
	v.Run("sh", "-c", "head -c 40M /dev/urandom > "+mountpoint("data-1")+"/big")
	v.WriteManifest(keeper("data-2"))
	begin := time.Now()
	v.Switch()
	whole := time.Since(begin)
	v.Run("podman", "volume", "rm", "data-1")
	before := v.print("data-2")
	for i := 3; i < copies+3; i++ {
		from, to := fmt.Sprintf("data-%d", i-1), fmt.Sprintf("data-%d", i)
		v.WriteManifest(keeper(to))
		v.killAfter(whole * time.Duration(i-2) / (copies + 1))
		if v.Exists(mountpoint(from)) && v.print(from) != before {
			t.Errorf("the old volume is another")
		}
		ledger := v.ReadFile("/var/lib/meshgen/ledger")
		for name := range strings.FieldsSeq(v.volumes()) {
			if !strings.Contains(ledger, `"volume:`+name+`"`) {
				t.Errorf("volume %s is here, and the ledger does not know it", name)
			}
		}
		if i%2 == 0 {
			v.PowerCut()
			v.Boot()
			v.mustAgree(before)
		}
		v.Switch()
		v.mustRun("m-x", "m-y", "m-z")
		v.mustHave(to, "m-x", "m-y")
		if v.print(to) != before || v.print(from) != before {
			t.Errorf("the data is another")
		}
		v.mustBeSwept()
		if r := v.Exec("meshgen", "plan", "--exit-code"); r.Code != 0 {
			t.Errorf("plan after the switch: %+v", r)
		}
		if t.Failed() {
			t.Fatalf("moment %d, %s into a switch of %s", i, whole*time.Duration(i-2)/(moments+1), whole)
		}
		v.Run("podman", "volume", "rm", from)
	}
}

// A migration whose new set does not come up is killed at some moments, every
// other time by a power cut: the old volume is used in the end, unless a boot was
// of the new set, and a new one that a container may have written to is never
// removed.
func TestFailingMigrationSurvivesKills(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(keeper("old"))
	v.Switch()
	v.furnish("old")
	base, before := "old", v.print("old")
	failing := func(name string) string {
		return strings.Replace(keeper(name), `Volume: "data:/data"`, `Volume: "data:/data", Exec: "sh -c 'echo wrote >/data/wrote; exit 1'"`, 1)
	}
	begin := time.Now()
	v.WriteManifest(failing("new-0"))
	if r := v.Exec("meshgen", "switch"); r.Code != 5 {
		t.Fatalf("switch: %+v", r)
	}
	whole := time.Since(begin)
	const times = 8
	for i := 1; i <= times; i++ {
		name := fmt.Sprintf("new-%d", i)
		v.WriteManifest(failing(name))
		v.killAfter(whole * time.Duration(i) / (times + 1))
		if i%2 == 0 {
			v.PowerCut()
			v.Boot()
		}
		wrote := v.Exists(mountpoint(name) + "/wrote")
		r := v.Exec("meshgen", "switch")
		if v.print(base) != before {
			t.Errorf("moment %d: the old volume is another", i)
		}
		if !v.Exists(mountpoint(name) + "/wrote") {
			t.Errorf("moment %d: what was written to the new volume is lost; it was there after the kill: %v", i, wrote)
		}
		if r.Code == 4 { // it had come into force, and was gone on with
			v.WriteManifest(keeper(name))
			v.Switch()
			base, before = name, v.print(name)
			v.mustHave(base, "m-x", "m-y")
			continue
		}
		if r.Code != 5 && r.Code != 3 {
			t.Errorf("moment %d: switch: %+v", i, r)
		}
		v.mustRun("m-x", "m-y", "m-z")
		v.mustHave(base, "m-x", "m-y")
		v.WriteManifest(keeper(name))
		if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "held, with data of its own") {
			t.Errorf("moment %d: that name again: %+v", i, r)
		}
		v.mustBeSwept()
	}
}

// mustAgree sees that both containers run with one volume, which is whole.
func (v *Machine) mustAgree(before string) {
	v.t.Helper()
	v.Await("the containers run", func() bool { return len(v.Containers()) == 3 })
	volume := strings.TrimSpace(v.Run("podman", "inspect", "--format={{range .Mounts}}{{.Name}}{{end}}", "m-x"))
	v.mustHave(volume, "m-y")
	if v.print(volume) != before {
		v.t.Errorf("%s is in use, and its data is another", volume)
	}
}
