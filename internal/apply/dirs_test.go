package apply

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"meshgen/state"
	"meshgen/units"
)

func dir(id, path string, mode uint32, settings ...string) units.Resource {
	r := units.Resource{Address: address(units.KindDir, id), Dir: &units.Dir{Path: path, Mode: mode, Owner: "0", Group: "0"}}
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		if r.Policy == nil {
			r.Policy = map[string]string{}
		}
		r.Policy[key] = value
	}
	return r
}

// mountsPath returns a container that mounts a path.
func mountsPath(id, path string) units.Resource { return container(id, id, "Volume="+path+":/data") }

// told is what is decided, and what a plan does to directories, a line each.
func told(judged []state.Transition, refused units.Faults, p Plan) string {
	var lines []string
	for _, t := range judged {
		if t.Resource.Kind == units.KindDir {
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s: %s", t.Kind, t.From, t.To, t.Decision)))
		}
	}
	if len(refused) > 0 {
		return strings.Join(append(lines, refused[0].Message), "\n")
	}
	for _, d := range p.Dirs {
		lines = append(lines, fmt.Sprintf("%s %s", d.step().Op, d.Path))
	}
	for i, targets := range [][]units.Target{p.Emit, p.Retire, p.Hold} {
		for _, t := range targets {
			if t.Kind() == units.TargetDir {
				lines = append(lines, []string{"emit ", "retire ", "hold "}[i]+t.Name())
			}
		}
	}
	for _, name := range p.Restart {
		lines = append(lines, "restart "+name)
	}
	return strings.Join(lines, "\n")
}

func TestDirectoryPlans(t *testing.T) {
	const d = units.Target("dir:/d")
	bare, data := state.DirState{Meta: "0755 0:0"}, state.DirState{Meta: "0755 0:0", Holds: true}
	tests := []struct {
		name string
		old  []units.Resource
		is   map[units.Target]state.DirState
		edit func(*before)
		now  []units.Resource
		want string
	}{
		{
			name: "as it is", old: set(dir("d", "/d", 0o755)), is: map[units.Target]state.DirState{d: data}, now: set(dir("d", "/d", 0o755)),
		},
		{
			name: "it is new", now: set(dir("d", "/d", 0o755)),
			want: "create  dir:/d:\nmake /d\nemit /d",
		},
		{
			name: "it was made on the way to a file", old: set(file("f", "/d/f", "1")), is: map[units.Target]state.DirState{d: bare},
			edit: func(b *before) { b.onTheWay(d, address(units.KindFile, "f")) },
			now:  set(file("f", "/d/f", "1"), dir("d", "/d", 0o700)),
			want: "create  dir:/d:\nset /d\nemit /d",
		},
		{
			name: "it goes, and a file is in it", old: set(file("f", "/d/f", "1"), dir("d", "/d", 0o755)), is: map[units.Target]state.DirState{d: bare},
			now:  set(file("f", "/d/f", "1")),
			want: "remove dir:/d : remove\nemit /d",
		},
		{
			name: "another mode", old: set(dir("d", "/d", 0o755)), is: map[units.Target]state.DirState{d: data}, now: set(dir("d", "/d", 0o700)),
			want: "update dir:/d dir:/d:\nset /d\nemit /d",
		},
		{
			name: "cut short on the way to another mode", old: set(dir("d", "/d", 0o755)),
			is:   map[units.Target]state.DirState{d: {Meta: "0755 7:0"}},
			now:  set(func() units.Resource { r := dir("d", "/d", 0o700, "drift=refuse"); r.Dir.Owner = "7"; return r }()),
			want: "update dir:/d dir:/d:\nset /d\nemit /d",
		},
		{
			name: "its mode changed by hand", old: set(dir("d", "/d", 0o755)), is: map[units.Target]state.DirState{d: {Meta: "0777 0:0", Holds: true}}, now: set(dir("d", "/d", 0o755)),
			want: "drift dir:/d dir:/d: restore\nset /d",
		},
		{
			name: "its mode changed by hand, and kept", old: set(dir("d", "/d", 0o755)), is: map[units.Target]state.DirState{d: {Meta: "0777 0:0"}},
			now:  set(dir("d", "/d", 0o755, "drift=keep")),
			want: "drift dir:/d dir:/d: keep",
		},
		{
			name: "it is gone", old: set(dir("d", "/d", 0o755)), now: set(dir("d", "/d", 0o755)),
			want: "drift dir:/d dir:/d: refuse\nm/dir/d: /d is gone with what it held, and made anew it is EMPTY: it held data, and an empty one would take its place",
		},
		{
			name: "it is gone, and is to be made anew", old: set(mountsPath("a", "/d/below"), mountsPath("b", "/d"), dir("d", "/d", 0o755)),
			now:  set(mountsPath("a", "/e"), mountsPath("b", "/d"), dir("d", "/d", 0o755, "drift=restore")),
			edit: func(b *before) { b.down("a.service") },
			want: "drift dir:/d dir:/d: restore\nmake /d\nrestart b.service",
		},
		{
			name: "it is gone, and never was in force", now: set(dir("d", "/d", 0o755)),
			edit: func(b *before) {
				b.records = append(b.records, running(generation(2, dir("d", "/d", 0o755))).records...)
			},
			want: "drift dir:/d dir:/d: restore\nmake /d",
		},
		{
			name: "a link has its place", old: set(dir("d", "/d", 0o755)), is: map[units.Target]state.DirState{d: {Is: "a symbolic link", Meta: "0777 0:0"}},
			now:  set(dir("d", "/d", 0o755, "drift=restore")),
			want: "drift dir:/d dir:/d: refuse\nm/dir/d: /d is a symbolic link, and what was found is not overwritten: as its policy says",
		},
		{
			name: "a link has its place, and is kept", old: set(dir("d", "/d", 0o755)), is: map[units.Target]state.DirState{d: {Is: "a symbolic link", Meta: "0777 0:0"}},
			now:  set(dir("d", "/d", 0o755, "drift=keep")),
			want: "drift dir:/d dir:/d: keep",
		},
		{
			name: "it is empty, and gets another path", old: set(dir("d", "/d", 0o755)), is: map[units.Target]state.DirState{d: bare}, now: set(dir("d", "/e", 0o755)),
			want: "rename dir:/d dir:/e: follow\nmake /e\nemit /e\nretire /d",
		},
		{
			name: "it is not empty, and gets another path", old: set(dir("d", "/d", 0o755)), is: map[units.Target]state.DirState{d: data}, now: set(dir("d", "/e", 0o755)),
			want: "rename dir:/d dir:/e: refuse\nm/dir/d: rename of dir:/d to dir:/e: its data would stay behind and an empty directory take its place",
		},
		{
			name: "it is not empty, and goes", old: set(dir("d", "/d", 0o755)), is: map[units.Target]state.DirState{d: data},
			want: "remove dir:/d : keep\nhold /d",
		},
		{
			name: "it is not empty, and its policy says remove", old: set(dir("d", "/d", 0o755, "remove=remove")), is: map[units.Target]state.DirState{d: data},
			want: "remove dir:/d : keep\nhold /d",
		},
		{
			name: "it is empty, and its policy says keep", old: set(dir("d", "/d", 0o755, "remove=keep")), is: map[units.Target]state.DirState{d: bare},
			want: "remove dir:/d : keep\nhold /d",
		},
		{
			name: "it is empty, and goes", old: set(dir("d", "/d", 0o755)), is: map[units.Target]state.DirState{d: bare},
			want: "remove dir:/d : remove\nretire /d",
		},
		{
			name: "it is empty and goes, and a container that stays mounts it", old: set(mountsPath("a", "/d/"), dir("d", "/d", 0o755)),
			is: map[units.Target]state.DirState{d: bare}, now: set(mountsPath("a", "/d/")),
			want: "remove dir:/d : remove\nhold /d",
		},
		{
			name: "it is empty and goes, and a container that stays mounts what is to be in it", old: set(mountsPath("a", "/d/a b"), dir("d", "/d", 0o755)),
			is: map[units.Target]state.DirState{d: bare}, now: set(mountsPath("a", "/d/a b")),
			want: "remove dir:/d : remove\nhold /d",
		},
		{
			name: "it is empty and goes, with the container that mounts it", old: set(mountsPath("a", "/d"), dir("d", "/d", 0o755)),
			is: map[units.Target]state.DirState{d: bare}, now: set(mountsPath("a", "/dd")),
			want: "remove dir:/d : remove\nretire /d\nrestart a.service",
		},
		{
			name: "it is empty and gets another path, and a container that stays mounts it", old: set(mountsPath("a", "/d"), dir("d", "/d", 0o755)),
			is: map[units.Target]state.DirState{d: bare}, now: set(mountsPath("a", "/d"), dir("d", "/e", 0o755)),
			want: "rename dir:/d dir:/e: follow\nmake /e\nemit /e\nhold /d",
		},
		{
			name: "it was made on the way to a file that goes, and a container that stays mounts it", old: set(mountsPath("a", "/d"), file("f", "/d/f", "1")),
			edit: func(b *before) { b.onTheWay(d, address(units.KindFile, "f")) },
			now:  set(mountsPath("a", "/d")),
		},
		{
			name: "it was held, and is declared again", old: set(dir("d", "/d", 0o755)), is: map[units.Target]state.DirState{d: data},
			edit: func(b *before) { b.record(d).State = state.Held },
			now:  set(dir("d", "/d", 0o700)),
			want: "update dir:/d dir:/d:\nset /d\nemit /d",
		},
		{
			name: "it was held, and is declared again with another path", is: map[units.Target]state.DirState{d: data},
			edit: func(b *before) {
				b.records = running(generation(1, dir("d", "/d", 0o755))).records
				b.record(d).State = state.Held
			},
			now:  set(dir("d", "/e", 0o755)),
			want: "rename dir:/d dir:/e: refuse\nm/dir/d: rename of dir:/d to dir:/e: its data would stay behind and an empty directory take its place",
		},
		{
			name: "it is another's in all but its path", old: set(mountsPath("a", "/d"), dir("d", "/d", 0o755)), is: map[units.Target]state.DirState{d: data},
			now:  set(mountsPath("a", "/e"), dir("e", "/e", 0o755)),
			want: "remove dir:/d : keep\ncreate  dir:/e:\nm/container/a: would find dir:/e at /data, where it has its data in dir:/d",
		},
		{
			name: "its address is another", old: set(dir("d", "/d", 0o755)), is: map[units.Target]state.DirState{d: data}, now: set(dir("e", "/d", 0o755)),
			want: "transfer dir:/d dir:/d: transfer\nemit /d",
		},
		{
			name: "it was adopted, and goes", old: set(dir("d", "/d", 0o755, "remove=remove")), is: map[units.Target]state.DirState{d: bare},
			edit: func(b *before) {
				b.record(d).Adoption = &state.Adoption{Generation: 1, What: wasDir, Directory: &state.AdoptedDir{Meta: "0700 0:0"}}
			},
			want: "remove dir:/d : remove\nhold /d",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := running(generation(1, test.old...))
			b.seen.observed.Dirs = test.is
			if test.edit != nil {
				test.edit(&b)
			}
			desired := generation(2, test.now...)
			b.transitions = state.Compare(desired, b.records, b.seen.observed)
			judged, refused := judge(t.Context(), b, desired, builtinAsker(t))
			b.transitions, b.begins = judged, true
			if got := told(judged, refused, makePlan(b, desired)); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// onTheWay records a directory as one that was made for something else.
func (b *before) onTheWay(t units.Target, a units.Address) {
	b.records = append(b.records, state.Record{Target: t, Resource: a, State: state.Live})
}

// What is undone leaves a directory that it had taken from the way to a file as it was.
func TestUndoneDirectoryIsOnTheWayAgain(t *testing.T) {
	const d = units.Target("dir:/d")
	b := running(generation(2, dir("d", "/d", 0o700), file("f", "/d/f", "1"), mountsPath("a", "/d")))
	b.record(d).Digest = "0711 3:4"
	for meta, want := range map[string]string{
		"0700 0:0": "0711 3:4", "0711 0:0": "0711 3:4", "0711 3:4": "", "0777 0:0": "",
	} {
		b.seen.observed.Dirs = map[units.Target]state.DirState{d: {Meta: meta, Holds: false}}
		for _, uses := range []units.Resource{file("f", "/d/f", "1"), mountsPath("a", "/d")} {
			p := makePlan(b, generation(1, uses))
			got := ""
			for _, c := range p.Dirs {
				got += state.DirMeta(c.Dir)
			}
			if got != want {
				t.Errorf("%s, for %s: set to %q, want %q", meta, uses.Address, got, want)
			}
		}
	}
}

// What was adopted as it is and is gone is not held in the place of being given back.
func TestGoneWhenGivenBackIsNotHeld(t *testing.T) {
	for what, r := range map[string]units.Resource{
		wasDir: dir("d", "/d", 0o755), wasVolume: volume("v", "v"), wasNetwork: network("n", "n"),
	} {
		target := units.Targets(r)[len(units.Targets(r))-1]
		b := running(generation(1, set(r)...))
		b.record(target).Adoption = &state.Adoption{Generation: 1, What: what}
		b.adopted, b.gone, b.begins = []state.Record{*b.record(target)}, map[units.Target]string{target: "is gone"}, true
		desired := generation(2, set()...)
		desired.Released = map[units.Target]string{target: ""}
		b.transitions = []state.Transition{{Kind: state.Remove, Resource: r.Address, From: target, Decision: state.Keep}}
		if p := makePlan(b, desired); len(p.Hold) > 0 || !slices.Contains(p.Retire, target) || !slices.Contains(p.Lost, target) {
			t.Errorf("%s: held %s, retired %s, lost %s", target, p.Hold, p.Retire, p.Lost)
		}
	}
}
