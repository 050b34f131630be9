package modules

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fleet returns a manifest of n containers as owners write them: modules of
// ten containers, with a volume each.
func fleet(n int) string {
	var b strings.Builder
	b.WriteString("package mesh\n\nnode: adopted: true\n\n")
	for i := range n {
		fmt.Fprintf(&b, `modules: m%d: {
	containers: app%d: {
		Container: {
			Image:         "docker.io/library/app:%d"
			ContainerName: "app-%d"
			PublishPort: ["127.0.0.1:%d:80"]
			Volume: ["data%d:/data", "/etc/app%d:/etc/app:ro"]
			Environment: {
				APP_ID:   "%d"
				APP_MODE: "production"
				APP_URL:  "https://app%d.example.org/"
			}
		}
		Service: {
			Restart:    "always"
			RestartSec: 5
		}
	}
	volumes: data%d: {}
}
`, i/10, i, i, i, 10000+i, i, i, i, i, i)
	}
	return b.String()
}

func writeFleet(t testing.TB, n int) string {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "fleet.cue"), []byte(fleet(n)), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("containers=%d", n), func(b *testing.B) {
			dir := writeFleet(b, n)
			b.ReportAllocs()
			for b.Loop() {
				m, err := Load(dir, Options{Hostname: "here"})
				if err != nil {
					b.Fatal(err)
				}
				if len(m.Resources) != 2*n {
					b.Fatalf("got %d resources, want %d", len(m.Resources), 2*n)
				}
			}
		})
	}
}

func BenchmarkDigest(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprintf("containers=%d", n), func(b *testing.B) {
			dir := writeFleet(b, n)
			for b.Loop() {
				if _, err := Digest(dir, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
