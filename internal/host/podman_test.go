package host

import (
	"os"
	"path/filepath"
	"testing"
)

// The first podman of a boot may panic over what the power cut left: the next is
// asked. At any other time, and for any other failure, the error stands.
func TestPodmanThatPanicsAtBootIsAskedAgain(t *testing.T) {
	for _, c := range []struct {
		booting bool
		code    string
		want    bool
	}{{true, "2", true}, {false, "2", false}, {true, "125", false}} {
		dir := t.TempDir()
		script := "#!/bin/sh\nif test -e " + dir + "/once; then echo '[]'; exit 0; fi\ntouch " + dir + "/once\nexit " + c.code + "\n"
		path := filepath.Join(dir, "podman")
		if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := (Podman{Path: path, Booting: c.booting}).Pods(t.Context()); (err == nil) != c.want {
			t.Errorf("booting %t, exit %s: %v", c.booting, c.code, err)
		}
	}
}
