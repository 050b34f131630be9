package main

import (
	"strings"
	"testing"

	"meshgen/internal/apply"
)

// What a rollback would want is named where it is listed, and where consent is
// asked for.
func TestVolumesOfOlderGenerationsAreNamed(t *testing.T) {
	s := apply.Surplus{Volumes: []apply.HeldVolume{
		{Target: "volume:free", Size: -1},
		{Target: "volume:one", Size: -1, Named: []int{2, 3}},
		{Target: "volume:two", Size: -1, Named: []int{3, 5}},
	}}
	if got, want := question(s), "a rollback to generation 2, 3 or 5 would not find its data again; remove it?"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var list strings.Builder
	if err := writeSurplus(&list, s); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"volume  free": false, "volume  one": true, "volume  two": true} {
		_, row, ok := strings.Cut(list.String(), name)
		row, _, _ = strings.Cut(row, "\n")
		if says := strings.Contains(row, "; a rollback to generation "); !ok || says != want {
			t.Errorf("%s: %q", name, row)
		}
	}
	s.Volumes = s.Volumes[:1]
	if got := question(s); got != "remove it?" {
		t.Errorf("got %q", got)
	}
}
