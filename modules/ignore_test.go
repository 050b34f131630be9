package modules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestIgnored(t *testing.T) {
	for name, c := range map[string]struct {
		text, want, fault string
	}{
		"none":                {text: "package mesh\n"},
		"patterns":            {text: "package mesh\naudit: ignore: [\"container:ci-*\", \"file:/etc/?\"]\n", want: "container:ci-* file:/etc/?"},
		"built of the rest":   {text: "package mesh\n_names: [\"a\", \"b\"]\naudit: ignore: [for n in _names {\"container:\\(n)\"}]\n", want: "container:a container:b"},
		"everything":          {text: "package mesh\naudit: ignore: [\"container:x\", \"*?:*\"]\n", want: "container:x", fault: `mesh.cue:2:32: audit.ignore[1]: "*?:*" fits everything`},
		"empty":               {text: "package mesh\naudit: ignore: [\"\"]\n", fault: "mesh.cue:2:17: audit.ignore[0]: want a pattern as a string"},
		"no string":           {text: "package mesh\naudit: ignore: [3]\n", fault: "mesh.cue:2:17: audit.ignore[0]"},
		"no list":             {text: "package mesh\naudit: ignore: \"x\"\n", fault: "mesh.cue:2:16: audit.ignore"},
		"another key":         {text: "package mesh\naudit: ignored: []\n", fault: "mesh.cue:2:8: audit.ignored"},
		"a fault besides":     {text: "package mesh\naudit: ignore: [\"a:b\"]\nmodules: m: files: f: path: 3\n", want: "a:b"},
		"that cannot be read": {text: "package mesh\n}\n", fault: "mesh.cue:2:1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "mesh.cue"), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			patterns, err := Ignored(dir)
			var texts []string
			for _, p := range patterns {
				texts = append(texts, p.Text)
			}
			if got := strings.Join(texts, " "); got != c.want {
				t.Errorf("patterns %q, want %q", got, c.want)
			}
			if (err != nil) != (c.fault != "") || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%v, want %q", err, c.fault)
			}
		})
	}
}
