package machine

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

//go:embed root.sh
var rootScript string

//go:embed images.sh
var imagesScript string

// Parts is what machines are made of. [Prepare] makes it; machines only read it.
type Parts struct {
	cache    string
	root     string            // a Debian system with systemd and podman
	images   string            // /var/lib/containers with localhost/probe:1 and :2; "" for none
	programs map[string]string // a path on the machine → the file on the host that is laid there, with its mode
}

// Check returns what the host lacks to boot a machine; nil if nothing.
func Check() error {
	if os.Geteuid() != 0 {
		return errors.New("not root")
	}
	for _, tool := range []string{"mmdebstrap", "nsenter", "mount", "pivot_root"} {
		if _, err := exec.LookPath(tool); err != nil {
			return err
		}
	}
	if _, err := cgroupMount(); err != nil {
		return err
	}
	trial := exec.Command("true")
	trial.SysProcAttr = namespaces()
	if err := trial.Run(); err != nil {
		return fmt.Errorf("no namespaces: %w", err)
	}
	_, err := mirror()
	return err
}

// Prepare makes the parts, or takes from the cache what is there: $MESHGEN_CACHE
// or /var/cache/meshgen-vmtests. Only the first time takes long, about a minute.
// The programs are built anew from the checkout that the working directory is in.
func Prepare(ctx context.Context) (Parts, error) {
	p := Parts{cache: os.Getenv("MESHGEN_CACHE")}
	if p.cache == "" {
		p.cache = "/var/cache/meshgen-vmtests"
	}
	if err := os.MkdirAll(p.cache, 0o755); err != nil {
		return Parts{}, err
	}
	unlock, err := lock(filepath.Join(p.cache, "parts.lock"))
	if err != nil {
		return Parts{}, err
	}
	defer unlock()
	probe, err := p.build(ctx)
	if err != nil {
		return Parts{}, err
	}
	if err := p.makeRoot(ctx); err != nil {
		return Parts{}, fmt.Errorf("make the root of the machines: %w", err)
	}
	if err := p.makeImages(ctx, probe); err != nil {
		return Parts{}, fmt.Errorf("make the container images: %w", err)
	}
	return p, nil
}

// build compiles the programs of the machines and returns the path of the
// probe, which goes into the container images.
func (p *Parts) build(ctx context.Context) (probe string, err error) {
	module, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	dir := filepath.Join(p.cache, "programs-"+key(string(module)))
	packages := []string{"meshgen/cmd/meshgen", "meshgen/cmd/meshgen-generator", "meshgen/cmd/meshgen-guard", "meshgen/vmtests/probe", "meshgen/vmtests/look", "meshgen/vmtests/cmd/scenario"}
	if runtime.GOARCH == "amd64" { // whose registers it knows
		packages = append(packages, "meshgen/vmtests/nth")
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-trimpath", "-buildvcs=false", "-o", dir + "/"}, packages...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	packaged := filepath.Join(filepath.Dir(strings.TrimSpace(string(module))), "systemd")
	p.programs = map[string]string{
		"/usr/lib/systemd/system/meshgen-recover.service": filepath.Join(packaged, "meshgen-recover.service"),
		"/usr/lib/systemd/system/meshgen-confirm.service": filepath.Join(packaged, "meshgen-confirm.service"),
		"/usr/lib/systemd/system/meshgen-audit.service":   filepath.Join(packaged, "meshgen-audit.service"),
		"/usr/lib/systemd/system/meshgen-audit.timer":     filepath.Join(packaged, "meshgen-audit.timer"),
		"/usr/lib/systemd/system/meshgen-switch.service":  filepath.Join(packaged, "meshgen-switch.service"),
		"/usr/bin/meshgen":  filepath.Join(dir, "meshgen"),
		"/usr/bin/look":     filepath.Join(dir, "look"),
		"/usr/bin/scenario": filepath.Join(dir, "scenario"),
		"/usr/lib/systemd/system-generators/meshgen-generator": filepath.Join(dir, "meshgen-generator"),
		"/usr/lib/meshgen/meshgen-guard":                       filepath.Join(dir, "meshgen-guard"),
	}
	if runtime.GOARCH == "amd64" {
		p.programs["/usr/bin/nth"] = filepath.Join(dir, "nth")
	}
	return filepath.Join(dir, "probe"), nil
}

// makeRoot makes the Debian system, once for each version of its recipe.
func (p *Parts) makeRoot(ctx context.Context) error {
	p.root = filepath.Join(p.cache, "root-"+key(rootScript))
	if _, err := os.Stat(p.root); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	from, err := mirror()
	if err != nil {
		return err
	}
	aside := filepath.Join(p.cache, "root.new")
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", rootScript, "root", aside, from)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("%w\n%s", err, out), os.RemoveAll(aside))
	}
	return os.Rename(aside, p.root)
}

// makeImages has a machine import the images, once for each version of them,
// and keeps its container storage.
func (p *Parts) makeImages(ctx context.Context, probe string) error {
	program, err := os.ReadFile(probe)
	if err != nil {
		return err
	}
	images := filepath.Join(p.cache, "images-"+key(p.root+imagesScript+string(program)))
	if _, err := os.Stat(images); err == nil {
		p.images = images
		return nil
	}
	m, err := New(Parts{cache: p.cache, root: p.root})
	if err != nil {
		return err
	}
	err = m.importImages(ctx, program)
	if err == nil {
		err = os.Rename(m.path("containers"), images)
	}
	p.images = images
	return errors.Join(err, m.Close())
}

func (m *Machine) importImages(ctx context.Context, probe []byte) error {
	if err := m.Boot(ctx); err != nil {
		return err
	}
	if err := m.WriteFile(ctx, "/run/probe", probe, 0o755); err != nil {
		return err
	}
	cmd := m.Command(ctx, "sh")
	cmd.Stdin = strings.NewReader(imagesScript)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return m.PowerCut()
}

// key returns a short digest that names a version of what is cached.
func key(recipe string) string {
	sum := sha256.Sum256([]byte(recipe))
	return hex.EncodeToString(sum[:6])
}
