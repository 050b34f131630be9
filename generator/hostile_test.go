package generator

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"meshgen/state"
)

// wrongs are what may lie where something else is expected. Each is made at a path
// whose directory is there and that is free.
var wrongs = map[string]func(path string) error{
	"nothing":       func(string) error { return nil },
	"an empty file": func(path string) error { return os.WriteFile(path, nil, 0o644) },
	"zeros":         func(path string) error { return os.WriteFile(path, make([]byte, 5000), 0o644) },
	"garbage": func(path string) error {
		return os.WriteFile(path, []byte("a.service 5\n\xff\xfe\n[Service\x00"), 0o644)
	},
	"one long line":      func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("x", 1<<17)), 0o644) },
	"a file unbounded":   func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, 1<<40)) },
	"an unreadable file": func(path string) error { return os.WriteFile(path, []byte("x"), 0) },
	"a directory":        func(path string) error { return os.Mkdir(path, 0o755) },
	"a full directory": func(path string) error {
		return errors.Join(os.Mkdir(path, 0o755), os.WriteFile(path+"/x.container", nil, 0o644), os.Mkdir(path+"/y.container", 0o755))
	},
	"a pipe": func(path string) error { return unix.Mkfifo(path, 0o644) },
	"a socket": func(path string) error {
		short, err := os.MkdirTemp("", "s")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(short) }()
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short + "/s"})
		if err != nil {
			return err
		}
		l.SetUnlinkOnClose(false)
		return errors.Join(l.Close(), os.Rename(short+"/s", path))
	},
	"an endless device": func(path string) error {
		err := unix.Mknod(path, unix.S_IFCHR|0o644, int(unix.Mkdev(1, 5))) // null(4): zero
		if errors.Is(err, unix.EPERM) {
			return os.Symlink("/dev/zero", path)
		}
		return err
	},
	"a dangling link":     func(path string) error { return os.Symlink("nowhere", path) },
	"a link to itself":    func(path string) error { return os.Symlink(filepath.Base(path), path) },
	"a link to all above": func(path string) error { return os.Symlink("..", path) },
	"a link to a pipe": func(path string) error {
		return errors.Join(unix.Mkfifo(path+".pipe", 0o644), os.Symlink(filepath.Base(path)+".pipe", path))
	},
}

// readPlaces are all paths that the generator reads, below the root, with one of the
// directories of each kind.
func readPlaces() []string {
	places := []string{
		"etc/meshgen", "etc/meshgen/current", "etc/meshgen/pending", "etc/meshgen/manifest", "etc/meshgen/manifest/mesh.cue",
		"etc/meshgen/generations", "etc/meshgen/generations/1", "etc/meshgen/generations/2",
		"run/meshgen", "run/meshgen/bridge", "run/meshgen/bridge/old", "run/meshgen/bridge/new",
		"usr/libexec/podman", "usr/libexec/podman/quadlet", "usr/lib/systemd/system-generators/podman-system-generator",
		"var/lib/meshgen", "var",
	}
	for _, name := range []string{"out", UnitsFile, FencesFile, RetiredFile, BeforeFile, ConvertedFile, NormalDir, NormalDir + "/a.service", "desired.json", "quadlet", "quadlet/q.container"} {
		places = append(places, "etc/meshgen/generations/2/"+name)
	}
	for _, dir := range quadletDirs[1:2] {
		places = append(places, dir, dir+"/web", dir+"/web/web", dir+"/q.container", dir+"/gone.container", dir+"/users", dir+"/x.pod")
	}
	for _, dir := range unitDirs[3:4] {
		places = append(places, dir, dir+"/a.service", dir+"/p.service", dir+"/gone.service", dir+"/c.service.d")
	}
	return places
}

// writtenPlaces are all paths that it writes, in the directories of a generator.
var writtenPlaces = []string{
	"normal", "early", "normal/a.service", "normal/c.service", "normal/c.service.d", "normal/c.service.d/50-meshgen-fence.conf",
	"normal/multi-user.target.d", "normal/multi-user.target.d/50-meshgen-wants.conf", "normal/multi-user.target.d/50-meshgen-recover.conf",
	"normal/meshgen-recover.service.d", "early/gone.service",
}

// hostileMachine has all that the generator looks at: two generations, the later of
// which is in force and begun with again; a converter; a fence; a retired name that is
// back.
func hostileMachine(t *testing.T) machine {
	m := newMachine(t)
	const gone = "[Service]\nExecStart=/bin/gone\n"
	m.generation(1, []string{"a.service"})
	m.generation(2, []string{"a.service", "c.service"}, Fence{"c.service", []string{"p.service"}})
	m.retired("2", Retired{"gone.service", []string{state.TextDigest(gone)}})
	m.write("etc/meshgen/generations/2/"+BeforeFile, "1\n")
	m.write("etc/meshgen/generations/2/quadlet/q.container", "[Container]\n")
	m.write("etc/systemd/system/gone.service", gone)
	m.write("etc/meshgen/manifest/mesh.cue", "")
	m.converter("exit 0")
	c, _ := FindConverter(m.layout.Root)
	m.write("etc/meshgen/generations/2/"+ConvertedFile, Maker(c.Fingerprint())+"\n") // which saves a thousand processes
	m.current(2)
	m.pending(2)
	return m
}

// misplace puts what is wrong at a path in place of what is there, has the test look
// at it, and puts all back.
func misplace(t *testing.T, path, wrong string, look func()) {
	t.Helper()
	kept := t.TempDir() + "/kept"
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.Rename(path, kept)
	}
	if err == nil || errors.Is(err, os.ErrNotExist) {
		err = wrongs[wrong](path)
	}
	if err != nil {
		t.Fatal(err)
	}
	look()
	err = errors.Join(os.RemoveAll(path), os.RemoveAll(path+".pipe"))
	if _, missing := os.Lstat(kept); missing == nil {
		err = errors.Join(err, os.Rename(kept, path))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// within runs the generator, which has to come to its end: a minute is for a host
// with much else to do.
func within(t *testing.T, l state.Layout, d Dirs) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- Replay(l, d) }()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		t.Fatal("it waits")
		return nil
	}
}

// Whatever lies where it reads, the generator comes to its end, and a unit that both
// sets have is given where any set can be found; where it is not given, or the set is
// another, that is told.
func TestReplayMeetsAnythingWhereItReads(t *testing.T) {
	// Without these there is no set, or none is told of: nothing is in force.
	none := []string{"etc/meshgen", "etc/meshgen/current", "etc/meshgen/generations"}
	m := hostileMachine(t)
	for _, path := range readPlaces() {
		t.Run(path, func(t *testing.T) {
			for wrong := range wrongs {
				misplace(t, m.layout.Path(path), wrong, func() {
					dirs := generatorDirs(t)
					err := within(t, m.layout, dirs)
					text, missing := os.ReadFile(dirs.Normal + "/a.service")
					switch {
					case slices.Contains(none, path):
					case missing != nil:
						t.Errorf("%s: a.service is not given; told: %v", wrong, err)
					case !strings.HasSuffix(string(text), "# 2") && err == nil:
						t.Errorf("%s: another set is given, and nothing told", wrong)
					}
					if path == "etc/meshgen/current" && wrong != "nothing" && (err == nil || missing != nil) {
						t.Errorf("%s: told %v, a.service: %v", wrong, err, missing)
					}
				})
			}
		})
	}
}

// Whatever lies where it writes, the generator comes to its end and tells what it
// could not give, and the rest is given.
func TestReplayMeetsAnythingWhereItWrites(t *testing.T) {
	m := hostileMachine(t)
	for _, path := range writtenPlaces {
		t.Run(path, func(t *testing.T) {
			isDir := !strings.HasSuffix(path, ".conf") && !strings.HasSuffix(path, ".service")
			for wrong := range wrongs {
				if wrong == "nothing" || isDir && (strings.HasSuffix(wrong, "directory") || wrong == "a link to all above") {
					continue // is as it should be
				}
				dirs := generatorDirs(t)
				misplace(t, filepath.Join(filepath.Dir(dirs.Normal), path), wrong, func() {
					told := within(t, m.layout, dirs)
					if told == nil || !strings.Contains(told.Error(), filepath.Base(path)) {
						t.Errorf("%s: told is %v", wrong, told)
					}
					for _, unit := range []string{"/a.service", "/c.service"} {
						if _, err := os.Lstat(dirs.Normal + unit); err != nil && path != "normal" {
							t.Errorf("%s: %v", wrong, err)
						}
					}
				})
			}
		})
	}
}

func generatorDirs(t *testing.T) Dirs {
	t.Helper()
	dir := t.TempDir()
	d := Dirs{Normal: dir + "/normal", Early: dir + "/early", Late: dir + "/late"}
	for _, path := range []string{d.Normal, d.Early, d.Late} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// Ten thousand files in each directory that it reads are no matter.
func TestReplayMeetsManyFiles(t *testing.T) {
	m := hostileMachine(t)
	many := map[string]string{".container": t.TempDir(), ".service": t.TempDir(), "": t.TempDir()}
	for suffix, dir := range many {
		for i := range 10_000 {
			if err := unix.Mknod(dir+"/"+strconv.Itoa(i)+suffix, unix.S_IFREG|0o644, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, dir := range quadletDirs {
		m.link(many[".container"], dir+"/web")
	}
	for _, dir := range unitDirs {
		m.remove(dir)
		m.link(many[".service"], dir)
	}
	m.write("etc/systemd/system/gone.service", "[Service]\nExecStart=/bin/gone\n")
	m.link(many[".container"], "etc/meshgen/generations/2/quadlet/many")
	m.remove("etc/meshgen/manifest")
	m.link(many[""], "etc/meshgen/manifest")
	dirs := generatorDirs(t)
	_ = within(t, m.layout, dirs) // what is masked is told
	for _, path := range []string{dirs.Normal + "/a.service", dirs.Normal + "/c.service.d/" + fenceName, dirs.Early + "/gone.service"} {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
}

// A switch that holds the lock holds up no generator, and neither does a machine
// that takes no writes but where systemd wants them.
func TestReplayNeedsNoLockAndWritesNothingElse(t *testing.T) {
	m := hostileMachine(t)
	lock, err := state.Acquire(m.layout)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	before := m.everything()
	if err := within(t, m.layout, generatorDirs(t)); err == nil {
		t.Error("the mask is not told")
	}
	if now := m.everything(); now != before {
		t.Errorf("it wrote: %s, was %s", now, before)
	}
}

// everything lists what is below the root, with the times of its last changes.
func (m machine) everything() string {
	m.Helper()
	var b strings.Builder
	err := filepath.Walk(m.layout.Root, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			b.WriteString(path + " " + strconv.FormatInt(st.Ctim.Nano(), 10) + "\n")
		}
		return nil
	})
	if err != nil {
		m.Fatal(err)
	}
	return b.String()
}

// A unit that cannot be written whole is not there: an empty file would be a mask.
func TestReplayLeavesNoHalfUnit(t *testing.T) {
	if root := os.Getenv("HALF_UNIT_ROOT"); root != "" { // as a process of its own, which the limit is for
		limit := unix.Rlimit{Cur: 10, Max: 10}
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
		err := Replay(state.NewLayout(root, ""), Dirs{Normal: os.Getenv("HALF_UNIT_NORMAL")})
		if !errors.Is(err, unix.EFBIG) && !errors.Is(err, io.ErrShortWrite) {
			os.Exit(3)
		}
		os.Exit(0)
	}
	m := newMachine(t)
	m.generation(1, []string{"a.service"})
	m.current(1)
	dirs := generatorDirs(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "HALF_UNIT_ROOT="+m.layout.Root, "HALF_UNIT_NORMAL="+dirs.Normal)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Lstat(dirs.Normal + "/a.service"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a.service is there: %v", err)
	}
}
