package generator

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadUnitsReadsWhatFormatUnitsWrites(t *testing.T) {
	want := []Given{
		{"a.service", []string{"multi-user.target.wants/a.service", "x.target.requires/a.service"}, "[Unit]\n\nDescription=a b\n"},
		{"b.service", []string{}, ""},
		{"c.service", []string{}, "no line feed at the end"},
	}
	path := filepath.Join(t.TempDir(), "units")
	if err := os.WriteFile(path, FormatUnits(want), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := ReadUnits(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What lies in the place of a file of units and is none is damage, which the next switch
// makes good, and no reason to end.
func TestReadUnitsTakesWhatIsNoFileForDamage(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/dev/null", link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, link} {
		if _, err := ReadUnits(path); !errors.Is(err, ErrUnits) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Whatever a file of units holds, it is read to its end or to its first fault.
func FuzzReadUnits(f *testing.F) {
	whole := string(FormatUnits([]Given{{"a.service", []string{"t.target.wants/a.service"}, "[Unit]\n"}, {"b.service", nil, "x"}}))
	f.Add(whole)
	for _, cut := range []string{whole[:5], whole[:len(whole)-1], strings.Replace(whole, " 7 ", " 8 ", 1), strings.Replace(whole, " 7 ", " -7 ", 1)} {
		f.Add(cut)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "units")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		units, err := ReadUnits(path)
		if err == nil && len(text) > 0 && len(units) == 0 {
			t.Error("something was read as nothing")
		}
		for _, u := range units {
			if !strings.Contains(text, u.Text) || u.Name == "" {
				t.Errorf("%q is not in the file", u)
			}
		}
	})
}
