package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// findings is a table as an audit might have it.
func findings() table {
	t := table{columns: []column{
		{head: "STATE"},
		{head: "TARGET", by: cutMiddle, weight: 3, min: 16},
		{head: "OWNER", by: cutEnd, weight: 2, min: 8},
		{head: "SINCE", by: cutDrop, weight: 1},
		{head: "WHAT", by: cutWrap, min: 24},
	}}
	t.rows = []row{
		{
			cells: []cell{{"foreign", toneLook}, {"container:forge-gitea-server", toneNone}, {"somebody", toneNone}, {"2026-12-01", toneNone}, {"runs, and listens on every interface at tcp/3000", toneNone}},
			below: []note{{cell{"podman stop --time 10 forge-gitea-server && podman rm forge-gitea-server", toneNone}, cutNot}},
		},
		{
			cells: []cell{{"failed", toneBad}, {"unit:größe.service", toneNone}, {"日本", toneNone}, {"10:12:00", toneNone}, {"e\u0301tat", toneNone}},
			below: []note{{cell{"listen tcp 0.0.0.0:3000: bind: address already in use, again and again and again, as the journal has it", toneAside}, cutEnd}},
		},
	}
	t.add("held", "file:/etc/a")
	return t
}

func TestTableFitsTheScreen(t *testing.T) {
	for width, want := range map[int]string{
		0: `
  STATE    TARGET                        OWNER     SINCE       WHAT
  foreign  container:forge-gitea-server  somebody  2026-12-01  runs, and listens on every interface at tcp/3000
    podman stop --time 10 forge-gitea-server && podman rm forge-gitea-server
  failed   unit:größe.service            日本      10:12:00    état
    listen tcp 0.0.0.0:3000: bind: address already in use, again and again and again, as the journal has it
  held     file:/etc/a
`,
		120: `
  STATE    TARGET                        OWNER     SINCE       WHAT
  foreign  container:forge-gitea-server  somebody  2026-12-01  runs, and listens on every interface at tcp/3000
    podman stop --time 10 forge-gitea-server && podman rm forge-gitea-server
  failed   unit:größe.service            日本      10:12:00    état
    listen tcp 0.0.0.0:3000: bind: address already in use, again and again and again, as the journal has it
  held     file:/etc/a
`,
		80: `
  STATE    TARGET                        OWNER     WHAT
  foreign  container:forge-gitea-server  somebody  runs, and listens on every
                                                   interface at tcp/3000
    podman stop --time 10 forge-gitea-server && podman rm forge-gitea-server
  failed   unit:größe.service            日本      état
    listen tcp 0.0.0.0:3000: bind: address already in use, again and again and…
  held     file:/etc/a
`,
		40: `
  STATE    TARGET               OWNER
  foreign  container…ea-server  somebody
    runs, and listens on every interface
    at tcp/3000
    podman stop --time 10 forge-gitea-server && podman rm forge-gitea-server
  failed   unit:größe.service   日本
    état
    listen tcp 0.0.0.0:3000: bind: addr…
  held     file:/etc/a
`,
	} {
		shown := findings()
		if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), shown.lay(screen{width: width})); diff != "" {
			t.Errorf("at %d columns:\n%s", width, diff)
		}
	}
}

// Whatever the cells are, no line is wider than the screen, and a state is whole.
func TestNoLineIsWiderThanTheScreen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z/. é日]{0,90}`))
		shown := table{columns: []column{{}, {by: cutMiddle, weight: 2, min: 20}, {by: cutEnd, weight: 1}, {by: cutDrop, weight: 3}, {by: cutWrap, min: 24}}}
		for range rapid.IntRange(1, 5).Draw(t, "rows") {
			all := []cell{{"failed", toneBad}}
			for range rapid.IntRange(1, 4).Draw(t, "cells") {
				all = append(all, cell{text: text.Draw(t, "cell")})
			}
			shown.rows = append(shown.rows, row{cells: all, below: []note{{cell{text: text.Draw(t, "note")}, cutWrap}, {cell{text: text.Draw(t, "note")}, cutEnd}}})
		}
		width := rapid.IntRange(24, 130).Draw(t, "width")
		states := 0
		for line := range strings.Lines(shown.lay(screen{width: width})) {
			if line = strings.TrimSuffix(line, "\n"); wide(line) > width {
				t.Fatalf("%d columns on a screen of %d: %q", wide(line), width, line)
			}
			if strings.HasPrefix(line, "  failed") {
				states++
			}
		}
		if states < len(shown.rows) {
			t.Fatalf("%d of %d states are whole", states, len(shown.rows))
		}
	})
}

func TestColorIsBesideTheWord(t *testing.T) {
	shown := table{columns: []column{{}, {by: cutWrap}}}
	shown.rows = []row{{cells: []cell{{"failed", toneBad}, {"why \x1b[2J", toneNone}}}}
	if got, want := shown.lay(screen{width: 80, color: true}), "  \x1b[31mfailed\x1b[0m  why \uFFFD[2J\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := shown.lay(screen{width: 80}), "  failed  why \uFFFD[2J\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTextIsCutBetweenGraphemes(t *testing.T) {
	s := screen{width: 80}
	for _, c := range []struct {
		text string
		room int
		by   how
		want string
	}{
		{"forge/container/gitea.server", 15, cutMiddle, "forge/c….server"},
		{"日本日本日本", 6, cutMiddle, "日…本"},
		{"e\u0301e\u0301e\u0301e\u0301", 3, cutMiddle, "e\u0301…e\u0301"},
		{"e\u0301e\u0301e\u0301e\u0301", 3, cutEnd, "e\u0301e\u0301…"},
		{"    decided by the policy", 14, cutWrap, "    decided by|    the policy"},
		{"/a/path/without/any/blank", 10, cutWrap, "/a/path/wi|thout/any/|blank"},
		{"podman rm x", 4, cutNot, "podman rm x"},
	} {
		if got := strings.Join(s.give(c.text, c.room, c.by), "|"); got != c.want {
			t.Errorf("%q in %d columns: %q, want %q", c.text, c.room, got, c.want)
		}
	}
}
