//go:build systemd

package vmtests

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// predecessor makes a machine that had a life before: one thing of each kind that can
// be in the way, and bystanders.
const predecessor = `
systemctl enable --quiet podman-restart.service
podman volume create data; echo precious > $(podman volume inspect --format={{.Mountpoint}} data)/x
podman network create --subnet=10.77.0.0/24 net
printf 'found\377\n\n' | podman secret create --label=app=x --label=e= --driver-opts='"a=b""",c=d' pass -
podman run --detach --name=hand --restart=always --network=net --volume=data:/data localhost/probe:2
podman exec hand sh -c 'echo of its own > /layer'
podman create --name=gen --network=none localhost/probe:2
podman generate systemd --name gen > /etc/systemd/system/container-gen.service
mkdir -p /etc/containers/systemd/quad.container.d /etc/systemd/system/plain.service.d /etc/app
printf '[Container]\nImage=localhost/probe:2\nContainerName=quad\nNetwork=none\n[Install]\nWantedBy=multi-user.target\n' > /etc/containers/systemd/quad.container
printf '[Container]\nEnvironment=A=b\n' > /etc/containers/systemd/quad.container.d/10.conf
printf '[Service]\nExecStart=/usr/bin/sleep inf\n[Install]\nWantedBy=multi-user.target\nAlias=pal.service\n' > /etc/systemd/system/plain.service
printf '[Service]\nEnvironment=X=y\n' > /etc/systemd/system/plain.service.d/x.conf
echo found > /etc/app/a.conf; chown 12:34 /etc/app/a.conf; chmod 2640 /etc/app/a.conf; touch -d '2020-02-02 02:02:02.123456789' /etc/app/a.conf
ln -s /nowhere /etc/app/link.conf
ln -s /dev/null /etc/systemd/system/masked.service
podman run --detach --name=bystander --restart=always --network=none localhost/probe:2
printf '[Service]\nExecStart=/usr/bin/sleep inf\n[Install]\nWantedBy=multi-user.target\n' > /etc/systemd/system/bystander.service
systemctl daemon-reload
systemctl enable --quiet --now plain container-gen bystander
systemctl start quad
`

const successor = `policy: takeover: "adopt"
containers: {
	hand: {name: "hand", Container: {Image: "localhost/probe:1", Network: ["net"], Volume: ["data:/data"]}}
	gen: {name: "gen", Container: {Image: "localhost/probe:1", Network: "none"}}
	quad: {name: "quad", Container: {Image: "localhost/probe:1", Network: "none"}}
	masked: {name: "masked", Container: {Image: "localhost/probe:1", Network: "none", %s}}
}
volumes: data: Volume: VolumeName: "data"
secrets: pass: {name: "pass", content: "ours"}
networks: net: Network: {NetworkName: "net", Subnet: "10.77.0.0/24"}
units: "plain.service": {name: "plain.service", Service: ExecStart: "/usr/bin/sleep 10000", Install: WantedBy: ["multi-user.target"]}
files: {
	a: {path: "/etc/app/a.conf", content: "ours\n"}
	link: {path: "/etc/app/link.conf", content: "ours\n"}
}`

// everything are the names that are adopted, one of each resource.
var everything = []string{
	"container:hand", "container:gen", "container:quad", "unit:masked.service", "volume:data", "network:net", "secret:pass", "unit:plain.service",
	"file:/etc/app/a.conf", "file:/etc/app/link.conf",
}

// before is all that must be as it was: what a machine had before meshgen came. Of a
// container that its unit makes anew each time, the id is none of it.
func (v *Machine) before() string {
	v.t.Helper()
	return v.Run("sh", "-c", `
podman ps --all --format '{{.Names}} {{.State}} {{.Image}} {{index .Labels "io.meshgen.resource"}}' | sort
for c in hand gen bystander; do podman inspect --format '{{.Id}} {{.HostConfig.RestartPolicy.Name}}' $c; done
podman exec hand cat /layer
cat $(podman volume inspect --format={{.Mountpoint}} data)/x
podman volume inspect --format={{.CreatedAt}} data
podman network inspect --format={{.Created}} net
podman secret inspect --showsecret pass | grep -v -e '"ID"' -e 'edAt"'
podman secret inspect --showsecret --format='{{.SecretData}}' pass | sha256sum
for f in $(find /etc/app /etc/systemd/system /etc/containers/systemd | sort); do
	[ -d $f ] && continue
	[ -L $f ] && readlink $f || stat --format='%n %a %u:%g %y' $f
	[ -L $f ] || cat $f
done
systemctl show --property=Id,LoadState,ActiveState,FragmentPath,SourcePath plain pal quad container-gen masked bystander
find /etc/app /etc/systemd /etc/containers -name '*meshgen*'
true`)
}

// adopted says what of what was adopted is not meshgen's by now; "" where all is.
func (v *Machine) adopted() string {
	v.t.Helper()
	return strings.TrimSpace(v.Run("sh", "-c", `
for c in hand gen quad masked; do
	[ "$(podman inspect --format '{{.State.Running}} {{index .Config.Labels "io.meshgen.resource"}}' $c)" = "true m/container/$c" ] || echo container $c
	systemctl is-active --quiet $c || echo unit $c is down
done
[ "$(systemctl show --value --property=FragmentPath plain)" = /run/systemd/generator/plain.service ] && systemctl is-active --quiet plain || echo unit plain
systemctl is-active --quiet container-gen && echo container-gen runs
[ "$(cat /etc/app/a.conf /etc/app/link.conf)" = "$(printf 'ours\nours')" ] || echo files
[ -L /etc/app/link.conf ] && echo the link
for f in systemd/system/plain.service systemd/system/pal.service systemd/system/plain.service.d/x.conf systemd/system/container-gen.service containers/systemd/quad.container systemd/system/masked.service; do
	[ -e /etc/$f ] && echo /etc/$f
done
[ "$(podman secret inspect --showsecret --format='{{.SecretData}} {{index .Spec.Labels "io.meshgen.resource"}}' pass)" = 'ours m/secret/pass' ] || echo the secret
cat $(podman volume inspect --format={{.Mountpoint}} data)/x | grep -qx precious || echo the data
podman ps --all --format={{.Names}} | grep -q '^hand.adopted-' || echo the container that was put aside
true`))
}

// bootFound returns a machine on which a predecessor has run things, and how that
// looks.
func bootFound(t *testing.T) (v *Machine, was string) {
	t.Helper()
	v = Boot(t)
	v.Run("sh", "-ec", predecessor)
	return v, v.before()
}

// mustBeFound sees that all is as it was before meshgen came.
func (v *Machine) mustBeFound(when, was string) {
	v.t.Helper()
	if diff := cmp.Diff(was, v.before()); diff != "" {
		v.t.Errorf("%s: what was found is not as it was (-was +is):\n%s", when, diff)
	}
}

// One thing of each kind is adopted and given back, to the last byte and the same
// container; what nobody declares is untouched, and a switch after each has nothing
// to do.
func TestAdoptAndRelease(t *testing.T) {
	v, was := bootFound(t)
	v.WriteManifest(single(fmt.Sprintf(successor, "")))
	v.Switch()
	if wrong := v.adopted(); wrong != "" {
		t.Fatalf("not adopted: %s", wrong)
	}
	v.mustBeDone()
	v.PowerCut()
	v.Boot()
	if wrong := v.adopted(); wrong != "" {
		t.Fatalf("after a reboot: not adopted: %s", wrong)
	}
	bystander := v.invocation("bystander")
	v.Run(append([]string{"meshgen", "release"}, everything...)...)
	v.mustBeFound("released", was)
	v.mustBeDone()
	if v.invocation("bystander") != bystander {
		t.Error("a unit that nobody declares was restarted")
	}
	v.Run(append([]string{"meshgen", "adopt"}, everything...)...)
	if wrong := v.adopted(); wrong != "" {
		t.Fatalf("again: not adopted: %s", wrong)
	}
	v.Run("meshgen", "rollback", "2", "--allow-empty")
	v.mustBeFound("rolled back", was)
}

// Where a unit that takes a place does not come up, all that was adopted runs
// again as it was.
func TestAdoptThatFailsGivesBack(t *testing.T) {
	v, was := bootFound(t)
	v.WriteManifest(single(fmt.Sprintf(successor, `Exec: "no-such-program"`)))
	if r := v.Exec("meshgen", "switch"); r.Code != 5 {
		t.Fatalf("switch: %+v", r)
	}
	v.mustBeFound("rolled back", was)
	v.WriteManifest(single(fmt.Sprintf(successor, "")))
	v.Switch()
	if wrong := v.adopted(); wrong != "" {
		t.Errorf("not adopted: %s", wrong)
	}
}

// What is removed from the manifest is not given back: ours goes, the copy stays,
// and release gives it back all the same.
func TestRemovalKeepsWhatWasAdopted(t *testing.T) {
	v := Boot(t)
	v.Run("podman", "run", "--detach", "--name=x", "--network=none", "localhost/probe:2")
	id := v.Run("podman", "inspect", "--format={{.Id}}", "x")
	v.WriteManifest(single(`policy: takeover: "adopt"
containers: x: {name: "x", ` + probe + `}`))
	v.Switch()
	v.WriteManifest(single(`containers: y: ` + probe))
	v.Switch()
	v.mustRun("m-y")
	v.Run("meshgen", "release", "container:x")
	v.mustRun("m-y", "x")
	if now := v.Run("podman", "inspect", "--format={{.Id}}", "x"); now != id {
		t.Errorf("the container is %s, was %s", now, id)
	}
}

// A switch that adopts is killed at its calls, every other time with the power cut
// as well. The recovery ends with all adopted or all given back.
func TestAdoptKilled(t *testing.T) {
	v, was := bootFound(t)
	v.WriteManifest(single(fmt.Sprintf(successor, "")))
	takeover{v, everything, was, v.before, v.adopted}.killed("adopt", 12)
}

// So is one that gives back.
func TestReleaseKilled(t *testing.T) {
	v, was := bootFound(t)
	v.WriteManifest(single(fmt.Sprintf(successor, "")))
	takeover{v, everything, was, v.before, v.adopted}.killed("release", 12)
}

// takeover is a machine whose things are adopted and given back.
type takeover struct {
	*Machine
	names   []string      // of what is adopted
	was     string        // how all looked before
	before  func() string // how it looks now
	adopted func() string // what is not adopted of it; "" where all is
}

// killed runs meshgen adopt or release, killed at one call after the other; what was
// found has to be there wholly, or to be adopted wholly.
func (v takeover) killed(verb string, sampled int) {
	v.t.Helper()
	command := append([]string{"meshgen", verb}, v.names...)
	v.begin(verb)
	v.Run(slices.Concat([]string{"nth", "-bus", "-log=/run/nth.log"}, command)...)
	total := strings.Count(v.ReadFile("/run/nth.log"), "\n")
	all := points(v.t, total, sampled)
	ran := 0
	for i, n := range all {
		v.begin(verb)
		v.Exec(slices.Concat([]string{"nth", "-bus", "-log=/run/nth.log", "-kill=" + strconv.Itoa(n)}, command)...)
		calls := strings.Split(strings.TrimSpace(v.ReadFile("/run/nth.log")), "\n")
		at := calls[len(calls)-1]
		if !strings.HasSuffix(at, ": killed") {
			continue
		}
		ran++
		if slices.Contains(reboots(i), true) {
			at += ", and the power cut"
			v.PowerCut()
			v.Boot()
		}
		if r := v.Exec("meshgen", "recover"); r.Code != 0 {
			v.t.Errorf("%s: recover: %+v", at, r)
		}
		if wrong := v.adopted(); wrong != "" && v.before() != v.was {
			v.t.Fatalf("%s: neither adopted: %s\nnor as it was:\n%s", at, wrong, cmp.Diff(v.was, v.before()))
		}
	}
	v.t.Logf("killed %d times", ran)
	if ran < len(all)*3/4 {
		v.t.Errorf("killed %d times only, at %d points", ran, len(all))
	}
}

// begin has all given back, or adopted, which the verb is to do the other way.
func (v takeover) begin(verb string) {
	v.t.Helper()
	if v.before() != v.was {
		v.Run(append([]string{"meshgen", "release"}, v.names...)...)
		if diff := cmp.Diff(v.was, v.before()); diff != "" {
			v.t.Fatalf("released (-was +is):\n%s", diff)
		}
	}
	if verb == "release" {
		v.Run(append([]string{"meshgen", "adopt"}, v.names...)...)
	}
}

// What could not be given back is not adopted: all is refused, and nothing touched.
func TestAdoptRefusesWhatCannotBeGivenBack(t *testing.T) {
	v := Boot(t)
	v.Run("sh", "-ec", `
podman run --detach --rm --name=gone --network=none localhost/probe:2
podman pod create --name=pod; podman run --detach --pod=pod --name=in localhost/probe:2; podman create --pod=pod --name=beside localhost/probe:2
podman network create --subnet=10.78.0.0/24 net
podman volume create --opt=type=tmpfs --opt=device=tmpfs data
mkdir -p /etc/app/dir /etc/containers/systemd
printf '[Network]\n' > /etc/containers/systemd/used.network
printf '[Container]\nImage=localhost/probe:2\nNetwork=used.network\n' > /etc/containers/systemd/other.container
printf '[Service]\nExecStart=/usr/bin/sleep inf\n' > /usr/lib/systemd/system/packaged.service
systemctl daemon-reload; systemctl start other`)
	snapshot := func() string {
		return v.Run("sh", "-c", `podman ps --all --format='{{.ID}} {{.Names}} {{.State}}' | sort; podman volume ls; podman network ls; find /etc/app /etc/containers /etc/systemd /usr/lib/systemd -name '*' -printf '%p %T@\n' | sort`)
	}
	was := snapshot()
	for says, body := range map[string]string{
		"no unit makes it anew":      `containers: x: {name: "gone", ` + probe + `}`,
		"in the pod pod with beside": `containers: x: {name: "in", ` + probe + `}`,
		"otherwise than declared":    `networks: x: Network: {NetworkName: "net", Subnet: "10.79.0.0/24"}`,
		"driver or options":          `volumes: x: Volume: VolumeName: "data"`,
		"which is a package's":       `containers: x: {name: "packaged", ` + probe + `}`,
		"what is no file":            `files: x: {path: "/etc/app/dir", content: "x"}`,
		"other.container refers to":  `networks: x: {name: "used", Network: NetworkName: "systemd-used"}`,
	} {
		v.WriteManifest(single(`policy: takeover: "adopt"` + "\n" + body))
		if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, says) {
			t.Errorf("%s: switch: %+v", says, r)
		}
	}
	if diff := cmp.Diff(was, snapshot()); diff != "" {
		t.Errorf("something was touched (-was +is):\n%s", diff)
	}
}
