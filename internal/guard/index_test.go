package guard

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// index is as podman 5.4.2 writes it.
const index = `[{"id":"7921615a882e511d0b2b47566fc50692773a9240a782558faee922a4de134f61","names":["ant"],"image":"6653","layer":"c44b",` +
	`"metadata":"{\"image-name\":\"localhost/probe:1\",\"name\":\"bat\"}","created":"2026-12-01T14:42:03.019427701Z","flags":{"MountLabel":"","ProcessLabel":""}},` +
	`{"id":"740ccdb2550d55d097e937af4f987fb18b680df694c5ef2d377aee244db8b87b","names":["cow","dog"],"created":"2026-12-01T14:42:02Z","flags":{"Volatile":true}}]`

func TestLookup(t *testing.T) {
	const graph, run = "var/lib/containers/storage/", "run/containers/storage/"
	const normal, volatile = "overlay-containers/containers.json", "overlay-containers/volatile-containers.json"
	tests := []struct {
		name  string
		files map[string]string
		look  string
		id    string // how the id begins of what has the name
		fails bool
	}{
		{"taken", map[string]string{graph + normal: index}, "ant", "7921", false},
		{"taken by a second name", map[string]string{graph + normal: index}, "dog", "740c", false},
		{"taken by one that is volatile", map[string]string{graph + normal: "[]", graph + volatile: index}, "cow", "740c", false},
		{"free, though another has it in its metadata", map[string]string{graph + normal: index}, "bat", "", false},
		{"free, though another's begins so", map[string]string{graph + normal: index}, "an", "", false},
		{"an id is no name", map[string]string{graph + normal: index}, "740ccdb2550d", "", false},
		{"free, with nothing made yet", map[string]string{graph + "overlay-containers/containers.lock": ""}, "ant", "", false},
		{"another driver's", map[string]string{graph + "vfs-containers/containers.json": index}, "ant", "7921", false},
		{"transient", map[string]string{graph + "overlay-containers/containers.lock": "", run + normal: index}, "ant", "7921", false},
		{"another graph root", map[string]string{
			"etc/containers/storage.conf": "[storage]\ndriver = \"overlay\"\n# graphroot = \"/x\"\ngraphroot = \"/srv/c\" # disk\n", "srv/c/" + normal: index,
		}, "ant", "7921", false},
		{"the vendor's graph root", map[string]string{"usr/share/containers/storage.conf": "graphroot='/srv/c'\n", "srv/c/" + normal: index}, "ant", "7921", false},
		{"the vendor's, and the owner's file over it", map[string]string{
			"usr/share/containers/storage.conf": "graphroot='/srv/c'\n", "etc/containers/storage.conf": "", graph + normal: index,
		}, "ant", "7921", false},

		{"a graph root that is not understood", map[string]string{"etc/containers/storage.conf": "graphroot = \"\"\"\n/srv\"\"\"\n", graph + normal: "[]"}, "ant", "", true},
		{"a graph root with a variable", map[string]string{"etc/containers/storage.conf": "graphroot = \"$HOME/c\"\n", graph + normal: "[]"}, "ant", "", true},
		{"no storage", nil, "ant", "", true},
		{"cut off", map[string]string{graph + normal: index[:400]}, "ant", "", true},
		{"empty", map[string]string{graph + normal: ""}, "ant", "", true},
		{"not a list", map[string]string{graph + normal: `{"ant":1}`}, "ant", "", true},
		{"a directory", map[string]string{graph + normal + "/x": ""}, "ant", "", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			for path, text := range test.files {
				path = filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			e, taken, err := lookup(root, test.look)
			if (err != nil) != test.fails {
				t.Fatalf("error %v", err)
			}
			if taken != (test.id != "") || (taken && e.ID[:4] != test.id) {
				t.Errorf("taken: %v, by %q; want %q", taken, e.ID, test.id)
			}
		})
	}
}

// Whatever is in an index, it is understood, and then has the name or not, or it
// is an error, upon which podman is asked.
func FuzzNamed(f *testing.F) {
	f.Add([]byte(index), "ant")
	f.Add([]byte(index[:400]), "ant")
	f.Add([]byte(`[{"names":null,"created":"","flags":[]}]`), "")
	f.Add([]byte("null"), "a")
	f.Add([]byte("[null]"), "a")
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		all, err := parse(text)
		if err != nil {
			return
		}
		e, taken := named(all, name)
		if taken && !slices.Contains(e.Names, name) {
			t.Errorf("%q is not among %q", name, e.Names)
		}
	})
}

func FuzzSetting(f *testing.F) {
	f.Add("graphroot = \"/srv\" # x\n")
	f.Add("graphroot='/srv")
	f.Add("graphroot=\"\"")
	f.Fuzz(func(t *testing.T, text string) {
		path, ok, err := setting(text, "graphroot")
		if ok && (err != nil || !filepath.IsAbs(path)) {
			t.Errorf("%q, error %v", path, err)
		}
	})
}
