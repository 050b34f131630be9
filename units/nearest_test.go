package units

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"Image", "Exec", "PublishPort", "ReadOnly", "ReadOnlyTmpfs"}
	for label, want := range map[string]string{
		"Imgae":     "Image",
		"image":     "Image",
		"exec":      "Exec",
		"Ports":     "",
		"Publish":   "",
		"ReadOnlly": "ReadOnly",
		"":          "",
	} {
		if got := Nearest(label, known); got != want {
			t.Errorf("Nearest(%q): got %q, want %q", label, got, want)
		}
	}
}
