package host

import (
	"fmt"
	"strings"
	"testing"
)

// podman reads one option as it stands, and several, or one with more equals signs, as
// a line of CSV.
func TestDriverOptionsAreReadAsTheyAre(t *testing.T) {
	for _, test := range []struct {
		options map[string]string
		want    string
	}{
		{map[string]string{"path": "/var/lib/x,y"}, "path=/var/lib/x,y"},
		{map[string]string{"a": "b=c"}, "a=b=c"},
		{map[string]string{"a": "b=c,d"}, `"a=b=c,d"`},
		{map[string]string{"path": "/var/lib/x", "a": `b"`, "c": "d e"}, `"a=b""",c=d e,path=/var/lib/x`},
	} {
		if got, err := driverOptions(test.options); got != test.want || err != nil {
			t.Errorf("%v: %s (%v), want %s", test.options, got, err, test.want)
		}
	}
}

func TestSecretShowsNoContent(t *testing.T) {
	s := Secret{Name: "db", Content: []byte("hunter2")}
	for _, shown := range []string{fmt.Sprint(s), fmt.Sprintf("%+v %#v", s, &s), fmt.Sprintf("%v", []Secret{s})} {
		if strings.Contains(shown, "hunter2") || strings.Contains(shown, "104") {
			t.Errorf("it is printed: %s", shown)
		}
	}
}
