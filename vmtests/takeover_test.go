//go:build systemd

package vmtests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// conductor makes a machine that a predecessor runs: six things of six kinds, each
// a module's to be, and things that nobody declares.
const conductor = `
systemctl enable --quiet podman-restart.service
mkdir -p /etc/containers/systemd /etc/cfg
printf '[Container]\nImage=localhost/probe:2\nContainerName=web\nNetwork=none\n[Install]\nWantedBy=multi-user.target\n' > /etc/containers/systemd/web.container
podman run --detach --name=cache --restart=always --network=none localhost/probe:2
podman exec cache sh -c 'echo warm > /layer'
podman create --name=sql --network=none --volume=dbdata:/data localhost/probe:2
podman generate systemd --new --name sql > /etc/systemd/system/container-sql.service
podman rm sql
echo rows > $(podman volume inspect --format={{.Mountpoint}} dbdata)/table
podman pod create --name=pod_shop --infra=false --share=
for part in api worker; do
	podman run --detach --pod=pod_shop --name=shop_${part}_1 --label=io.podman.compose.project=shop --restart=always --network=none localhost/probe:2
done
printf '[Service]\nExecStart=/usr/bin/sleep inf\n[Install]\nWantedBy=multi-user.target\n' > /etc/systemd/system/beat.service
printf 'of the predecessor\n' > /etc/cfg/app.conf; chown 12:34 /etc/cfg/app.conf; chmod 0640 /etc/cfg/app.conf
podman run --detach --name=lonely --restart=always --network=none localhost/probe:2
printf 'alone\n' > /etc/cfg/lonely.conf
printf '[Service]\nExecStart=/usr/bin/sleep inf\n[Install]\nWantedBy=multi-user.target\n' > /etc/systemd/system/lonely.service
systemctl daemon-reload
systemctl enable --quiet --now container-sql beat lonely
systemctl start web
`

// legacy is one thing of the conductor's.
type legacy struct {
	module  string
	declare string   // what the module is to have in its place
	targets []string // that are in the way
	probe   string   // prints what must be as it was while it is the predecessor's
	ours    string   // exits with 0 where it is meshgen's
}

func legacies() []legacy {
	container := func(name, more string) string {
		return fmt.Sprintf("%q: {name: %[1]q, Container: {Image: \"localhost/probe:1\", Network: \"none\"%s}}", name, more)
	}
	inspect := func(name string) string {
		return fmt.Sprintf("podman inspect --format='{{.Id}} {{.State.Status}} {{.HostConfig.RestartPolicy.Name}}' %s; ", name)
	}
	ours := func(module, name string) string {
		return fmt.Sprintf(`[ "$(podman inspect --format '{{.State.Running}} {{index .Config.Labels "io.meshgen.resource"}}' %s)" = "true %s/container/%[1]s" ] && `, name, module)
	}
	file := func(path string) string {
		return fmt.Sprintf("stat --format='%%n %%a %%u:%%g %%Y' %s; cat %[1]s; ", path)
	}
	return []legacy{
		{"quadlet", "containers: " + container("web", ""), []string{"container:web"}, file("/etc/containers/systemd/web.container") + "systemctl is-active web", ours("quadlet", "web") + "systemctl is-active web && [ ! -e /etc/containers/systemd/web.container ]"},
		{"run", "containers: " + container("cache", ""), []string{"container:cache"}, inspect("cache") + "podman exec cache cat /layer", ours("run", "cache") + "true"},
		{"generated", "containers: " + container("sql", `, Volume: ["dbdata:/data"]`) + "\nvolumes: dbdata: Volume: VolumeName: \"dbdata\"", []string{"container:sql", "volume:dbdata"}, file("/etc/systemd/system/container-sql.service") + "systemctl is-active container-sql; podman exec sql cat /data/table", ours("generated", "sql") + "[ \"$(podman exec sql cat /data/table)\" = rows ] && ! systemctl is-active container-sql"},
		{"pod", "containers: {" + container("shop_api_1", "") + ", " + container("shop_worker_1", "") + "}", []string{"container:shop_api_1", "container:shop_worker_1"}, inspect("shop_api_1") + inspect("shop_worker_1") + "podman pod inspect --format={{.ID}} pod_shop", ours("pod", "shop_api_1") + ours("pod", "shop_worker_1") + "true"},
		{"plain", `units: "beat.service": {name: "beat.service", Service: ExecStart: "/usr/bin/sleep 10000", Install: WantedBy: ["multi-user.target"]}`, []string{"unit:beat.service"}, file("/etc/systemd/system/beat.service") + "systemctl is-active beat; systemctl is-enabled beat", "systemctl show --property=FragmentPath beat | grep -q /run/systemd/generator/ && systemctl is-active beat"},
		{"config", `files: app: {path: "/etc/cfg/app.conf", content: "ours\n"}`, []string{"file:/etc/cfg/app.conf"}, file("/etc/cfg/app.conf"), "grep -qx ours /etc/cfg/app.conf"},
	}
}

// migration is a machine on its way from the conductor to meshgen.
type migration struct {
	*Machine
	was    map[string]string // how each legacy was
	lonely string
}

func (m *migration) manifest(takeover map[string]string) {
	m.t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "package mesh\n\nmodules: fresh: containers: fresh: {%s}\n", probe)
	for _, l := range legacies() {
		if takeover[l.module] != "" {
			fmt.Fprintf(&text, "modules: %s: {\npolicy: takeover: %q\n%s\n}\n", l.module, takeover[l.module], l.declare)
		}
	}
	m.WriteManifest(text.String())
}

// alone is how the things are that nobody names, to the last byte.
func (m *migration) alone() string {
	m.t.Helper()
	return m.Run("sh", "-c", `podman inspect --format='{{.Id}} {{.State.Status}} {{.Created}}' lonely; stat --format='%i %a %Y' /etc/cfg/lonely.conf /etc/systemd/system/lonely.service; cat /etc/cfg/lonely.conf; systemctl is-active lonely; systemctl is-enabled lonely`)
}

// mustBe sees whose each thing is, now and after a reboot.
func (m *migration) mustBe(when string, ours map[string]bool) {
	m.t.Helper()
	for _, boot := range []bool{false, true} {
		if boot {
			when += ", after a reboot"
			m.PowerCut()
			m.Boot()
			m.Await("the predecessor's things have come up", func() bool {
				return m.Exec("sh", "-c", "systemctl is-active --quiet podman-restart.service").Code == 0
			})
		}
		for _, l := range legacies() {
			if ours[l.module] {
				if r := m.Exec("sh", "-c", l.ours); r.Code != 0 {
					m.t.Errorf("%s: %s is not meshgen's: %s%s", when, l.module, r.Stdout, r.Stderr)
				}
			} else if diff := cmp.Diff(m.was[l.module], m.Exec("sh", "-c", l.probe).Stdout); diff != "" {
				m.t.Errorf("%s: %s is not as the predecessor had it (-was +is):\n%s", when, l.module, diff)
			}
		}
		if diff := cmp.Diff(m.lonely, m.alone()); diff != "" {
			m.t.Errorf("%s: what nobody names is not as it was (-was +is):\n%s", when, diff)
		}
	}
}

// A host is taken over from its predecessor, module by module: first all is held,
// then one is refused, then each is adopted, and in the end each is given back.
// Between any two steps the machine boots. What nobody names is untouched.
func TestTakeoverOfAHostModuleByModule(t *testing.T) {
	m := &migration{Machine: Boot(t), was: map[string]string{}}
	m.Run("sh", "-ec", conductor)
	for _, l := range legacies() {
		m.was[l.module] = m.Exec("sh", "-c", l.probe).Stdout
	}
	m.lonely = m.alone()

	takeover := map[string]string{}
	for _, l := range legacies() {
		takeover[l.module] = "hold"
	}
	m.manifest(takeover)
	r := m.Exec("meshgen", "switch")
	for _, l := range legacies() {
		if !strings.Contains(r.Stderr, l.module+"/") {
			t.Errorf("hold: nothing is said of %s", l.module)
		}
	}
	if r.Code != 0 {
		t.Errorf("hold: %+v", r)
	}
	ours := map[string]bool{}
	m.mustBe("held", ours)
	m.mustBeDone()

	for _, l := range legacies() {
		takeover[l.module] = "refuse"
		m.manifest(takeover)
		if r := m.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, l.targets[0]+" is taken") {
			t.Errorf("refuse %s: %+v", l.module, r)
		}
		takeover[l.module] = "adopt"
		m.manifest(takeover)
		m.Switch()
		ours[l.module] = true
		m.mustBe("adopted "+l.module, ours)
		m.mustBeDone()
	}

	for _, l := range slices.Backward(legacies()) {
		m.Run(append([]string{"meshgen", "release"}, l.targets...)...)
		ours[l.module] = false
		m.mustBe("released "+l.module, ours)
		m.mustBeDone()
	}
}

// A module's own policy takes over its predecessor's container if that has the
// image which the manifest names, and refuses any other.
func TestPolicyOfAModulesOwnTakesOverItsPredecessor(t *testing.T) {
	v := Boot(t)
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-buildmode=c-shared", "-ldflags=-s", "-o", filepath.Join(dir, "predecessor.wasm"), "meshgen/examples/policies/go")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program, err := os.ReadFile(filepath.Join(dir, "predecessor.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	v.WriteFile(Manifest+"/predecessor.wasm", string(program))
	manifest := func(image string) string {
		return single(fmt.Sprintf(`wasm: "predecessor.wasm", policy: image: %q
	containers: x: {name: "app", %s}`, image, probe))
	}
	v.Run("podman", "run", "--detach", "--name=app", "--network=none", "localhost/probe:2")
	id := v.Run("podman", "inspect", "--format={{.Id}} {{.State.StartedAt}}", "app")

	v.WriteManifest(manifest("localhost/probe:7"))
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "policy predecessor.wasm: its image is localhost/probe:2, and the predecessor's is localhost/probe:7") {
		t.Errorf("another image: %+v", r)
	}
	if now := v.Run("podman", "inspect", "--format={{.Id}} {{.State.StartedAt}}", "app"); now != id {
		t.Errorf("the container is %s, was %s", now, id)
	}

	v.WriteManifest(manifest("localhost/probe:2"))
	v.Switch()
	v.mustRun("app")
	if label := v.Run("podman", "inspect", `--format={{index .Config.Labels "io.meshgen.resource"}}`, "app"); label != "m/container/x\n" {
		t.Errorf("the container is of %q", label)
	}
	told := v.Run("meshgen", "explain", "--verbose", "container:app")
	for _, want := range []string{"predecessor.wasm", "it is the predecessor, localhost/probe:2", "observed.image"} {
		if !strings.Contains(told, want) {
			t.Errorf("explain says nothing of %s:\n%s", want, told)
		}
	}
}
