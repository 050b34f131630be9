//go:build systemd

package vmtests

import (
	"strings"
	"testing"
)

// disks are directories that each lie on an ext4 of their own, of 8 MiB.
func disks(dirs ...string) string {
	return `
# The kernel may hand out any loop device, and /dev has those alone that are
# made here.
for n in $(seq 0 63); do [ -e /dev/loop$n ] || mknod /dev/loop$n b 7 $n; done
for dir in ` + strings.Join(dirs, " ") + `; do
	mkdir -p $dir
	image=/root/$(echo $dir | tr / -)
	truncate --size=8M $image
	mkfs.ext4 -q -m 0 $image
	mount -o loop $image $dir
done`
}

// trouble is one thing that is wrong with a disk.
type trouble struct {
	what       string
	make, mend string // scripts, with $new and $old for the names of the sides
	code       int    // that the switch exits with
	says       []string
}

// A switch on a disk that is full, read-only or holds an immutable file says
// what it is and does not leave one set for half of another; once that is mended
// the next one ends where an unbroken one would have.
func TestSwitchOnATroubledDisk(t *testing.T) {
	r := newRig(t, disks("/var/lib/meshgen", "/etc/meshgen", "/etc/gitea"))
	for _, x := range []trouble{
		{
			what: "the state directory is full",
			make: fill("/var/lib/meshgen"), mend: "rm /var/lib/meshgen/fill",
			code: 1, says: []string{"/var/lib/meshgen/ledger: append: ", "no space left on device", "\nhint: "},
		},
		{
			what: "the generations' disk is full",
			make: fill("/etc/meshgen"), mend: "rm /etc/meshgen/fill",
			code: 1, says: []string{"/etc/meshgen/generations/", "no space left on device", "\nhint: "},
		},
		{
			what: "the target's disk is full",
			make: fill("/etc/gitea"), mend: "rm /etc/gitea/fill",
			code: 1, says: []string{"/etc/gitea/", "write: no space left on device", "as before", "\nhint: "},
		},
		{
			what: "the state directory is read-only",
			make: "mount -o remount,ro /var/lib/meshgen", mend: "mount -o remount,rw /var/lib/meshgen",
			code: 1, says: []string{"/var/lib/meshgen/lock: ", "read-only file system", "\nhint: "},
		},
		{
			what: "the generations' disk is read-only",
			make: "mount -o remount,ro /etc/meshgen", mend: "mount -o remount,rw /etc/meshgen",
			code: 1, says: []string{"/etc/meshgen/generations", "read-only file system", "\nhint: "},
		},
		{
			what: "the target's disk is read-only",
			make: "mount -o remount,ro /etc/gitea", mend: "mount -o remount,rw /etc/gitea",
			code: 3, says: []string{"mesh.cue:", "/etc/gitea is on a read-only file system", "mount that for writing"},
		},
		{
			what: "a file that is to change is immutable",
			make: "chattr +i /etc/gitea/kept.ini", mend: "chattr -i /etc/gitea/kept.ini",
			code: 3, says: []string{"mesh.cue:", "/etc/gitea/kept.ini is immutable", "`chattr -i /etc/gitea/kept.ini`"},
		},
		{
			what: "a file that is to change has another mounted over it",
			make: "cp -a /etc/gitea/kept.ini /root/over; mount --bind /root/over /etc/gitea/kept.ini", mend: "umount /etc/gitea/kept.ini",
			code: 3, says: []string{"mesh.cue:", "/etc/gitea/kept.ini is a mount point", "`umount /etc/gitea/kept.ini`"},
		},
		{
			what: "a file that is to go is immutable",
			make: "chattr +i /etc/gitea/$old.ini", mend: "chattr -i /etc/gitea/$old.ini",
			code: 3, says: []string{"no longer declared, and cannot be removed: /etc/gitea/", " is immutable", "`chattr -i "},
		},
		{
			what: "the target's directory is immutable",
			make: "chattr +i /etc/gitea", mend: "chattr -i /etc/gitea",
			code: 3, says: []string{"mesh.cue:", "/etc/gitea is immutable", "`chattr -i /etc/gitea`"},
		},
		{
			what: "a directory lies where a file is to come",
			make: "mkdir -p /etc/gitea/$new.ini/sub", mend: "rm -r /etc/gitea/$new.ini",
			code: 3, says: []string{"mesh.cue:", "/etc/gitea/", "directory"},
		},
		{
			what: "a directory lies where a file of ours was",
			make: "mv /etc/gitea/kept.ini /root/aside; mkdir /etc/gitea/kept.ini", mend: "rmdir /etc/gitea/kept.ini; mv /root/aside /etc/gitea/kept.ini",
			code: 3, says: []string{"mesh.cue:", "/etc/gitea/kept.ini", "directory"},
		},
	} {
		t.Run(x.what, func(t *testing.T) {
			r.t = t
			r.troubled(x)
		})
	}
	r.t = t
}

// fill takes all the room there is on a disk, to the last block.
func fill(dir string) string {
	return "{ dd if=/dev/zero of=" + dir + "/fill bs=64k; dd if=/dev/zero bs=512 >>" + dir + "/fill; } 2>/dev/null || true"
}

func (r *rig) troubled(x trouble) {
	r.t.Helper()
	old := r.turn()
	aim := r.sides[r.now]
	script := func(text string) {
		r.Run("sh", "-ec", strings.NewReplacer("$old", old.name, "$new", aim.name).Replace(text))
	}
	before := r.invocation(old.name)
	script(x.make)
	res := r.Exec("meshgen", "switch")
	r.t.Logf("exit %d\n%s", res.Code, indent(res.Stderr))
	if res.Code != x.code {
		r.t.Errorf("exit %d, want %d", res.Code, x.code)
	}
	for _, want := range x.says {
		if !strings.Contains(res.Stderr, want) {
			r.t.Errorf("the message lacks %q", want)
		}
	}
	if left := r.unnamed(); len(left) > 0 {
		r.t.Errorf("not in the ledger: %q", left)
	}
	if x.code != 4 && r.invocation(old.name) != before {
		r.t.Error("the container was touched")
	}
	script(x.mend)
	if res := r.Exec("meshgen", "switch"); res.Code != 0 {
		r.t.Errorf("the next switch: %+v", res)
	}
	r.mustBeWhole(r.t.Errorf)
}

// oneFile declares a container and a config file.
func oneFile(path, mode string) string {
	return single(`
	containers: x: {name: "yak", Container: {Image: "localhost/probe:1", Network: "none"}}
	files: f: {path: "` + path + `", mode: "` + mode + `", content: "ours\n"}`)
}

// Where what boot needs and the state lie on other file systems than the
// targets, all is the same.
func TestRenameWithEtcOnADiskOfItsOwn(t *testing.T) {
	r := newRig(t, "mount -t tmpfs tmpfs /mnt; cp -a /etc/. /mnt; mount --move /mnt /etc")
	if etc, state := r.Run("stat", "--format=%d", "/etc/meshgen"), r.Run("stat", "--format=%d", "/var/lib/meshgen"); etc == state {
		t.Fatal("it is one disk")
	}
	r.turn()
	r.Switch()
	r.mustBeWhole(t.Errorf)
}

// fat mounts a file system without hard links, symbolic links and modes, and
// whose rename replaces nothing. It is FAT in a process, since a kernel may come
// without its own.
func fat(dir string) string {
	return `mkdir -p ` + dir + `; truncate --size=8M /root/fat; mkfs.vfat /root/fat; fusefat -o rw+ /root/fat ` + dir
}

// What a file system cannot do is said, and nothing is left half-done.
func TestSwitchOnAFileSystemWithoutModesAndLinks(t *testing.T) {
	for _, x := range []struct{ dir, says string }{
		{"/etc/fat", "/etc/fat/x.ini: set owner: function not implemented"},
		{"/etc/meshgen/generations", "/etc/meshgen/generations"},
		{"/var/lib/meshgen", "/var/lib/meshgen/ledger"},
	} {
		t.Run(x.dir, func(t *testing.T) {
			v := Boot(t)
			v.Run("sh", "-ec", fat(x.dir))
			v.WriteManifest(oneFile("/etc/fat/x.ini", "0640"))
			res := v.Exec("meshgen", "switch")
			t.Logf("exit %d\n%s", res.Code, indent(res.Stderr))
			if res.Code != 1 || !strings.Contains(res.Stderr, x.says) || !strings.Contains(res.Stderr, "\nhint: ") {
				t.Errorf("exit %d, want 1 and %q with a hint", res.Code, x.says)
			}
			v.mustRun()
			v.mustBeGone("yak.service")
			left := v.Run("sh", "-c", "ls -A /etc/fat /var/lib/meshgen /etc/meshgen 2>/dev/null; true")
			for _, half := range []string{".meshgen-", "x.ini", "current", "pending"} {
				if strings.Contains(left, half) {
					t.Errorf("left behind: %s", left)
				}
			}
			v.Run("umount", x.dir)
			v.Switch()
			v.mustRun("yak")
			if mode := v.Run("stat", "--format=%a", "/etc/fat/x.ini"); mode != "640\n" {
				t.Errorf("the mode is %s", mode)
			}
		})
	}
}

// A target that is reached by a symbolic link is refused, and so is one that
// became so since: nothing is written where the link leads, or removed there.
func TestSwitchThroughALinkedDirectory(t *testing.T) {
	v := Boot(t)
	v.Run("sh", "-ec", "mkdir /srv/there; ln -s /srv/there /etc/linked")
	v.WriteManifest(oneFile("/etc/linked/sub/x.ini", "0640"))
	refused := func(at string) {
		t.Helper()
		res := v.Exec("meshgen", "switch")
		t.Logf("exit %d\n%s", res.Code, indent(res.Stderr))
		if res.Code != 3 || !strings.Contains(res.Stderr, "mesh.cue:") || !strings.Contains(res.Stderr, at+" is a symbolic link") {
			t.Errorf("exit %d, want 3 and the link", res.Code)
		}
		if left := v.Run("find", "/srv/there"); strings.Contains(left, "meshgen") || strings.Contains(left, "sub") {
			t.Errorf("left behind: %s", left)
		}
	}
	refused("/etc/linked")
	v.mustRun()
	v.Run("rm", "/etc/linked")
	v.Switch()
	v.mustRun("yak")

	// The owner moves the directory away and links it.
	before := v.invocation("yak")
	v.Run("sh", "-ec", "mv /etc/linked/sub /srv/there/moved; ln -s /srv/there/moved /etc/linked/sub")
	v.WriteManifest(strings.Replace(oneFile("/etc/linked/sub/x.ini", "0640"), "ours", "new", 1))
	res := v.Exec("meshgen", "switch")
	t.Logf("exit %d\n%s", res.Code, indent(res.Stderr))
	if res.Code != 3 || !strings.Contains(res.Stderr, "/etc/linked/sub is a symbolic link") {
		t.Errorf("exit %d, want 3 and the link", res.Code)
	}
	if text := v.ReadFile("/srv/there/moved/x.ini"); text != "ours\n" || v.invocation("yak") != before {
		t.Errorf("something was touched: the file is %q", text)
	}
	v.Run("sh", "-ec", "rm /etc/linked/sub; mv /srv/there/moved /etc/linked/sub")
	v.Switch()
	if text := v.ReadFile("/etc/linked/sub/x.ini"); text != "new\n" {
		t.Errorf("the file is %q", text)
	}
}
