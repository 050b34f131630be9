package units

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func entry(key string, values ...string) Entry { return Entry{Key: key, Values: values} }

func pairs(key string, namesAndValues ...string) Entry {
	e := Entry{Key: key}
	for i := 0; i < len(namesAndValues); i += 2 {
		e.Pairs = append(e.Pairs, Pair{Name: namesAndValues[i], Value: namesAndValues[i+1]})
	}
	return e
}

func TestRender(t *testing.T) {
	tests := []struct {
		name     string
		resource Resource
		want     string
	}{
		{
			"a pod, which podman labels by an argument",
			Resource{
				Address: Address{Module: "forge", Kind: KindPod, ID: "web"}, Name: "front",
				Sections: []Section{{Name: "Pod", Entries: []Entry{entry("PodName", "front"), entry("PodmanArgs", "--exit-policy=continue")}}},
			},
			`# Written by meshgen for forge/pod/web; changes here are lost.

[X-Meshgen]
Resource=forge/pod/web

[Pod]
PodName=front
PodmanArgs=--exit-policy=continue
PodmanArgs=--label io.meshgen.resource=forge/pod/web
`,
		},
		{
			"a container: sections in their order, a list repeats its key, the mark comes last",
			Resource{
				Address: Address{Module: "forge", Kind: KindContainer, ID: "gitea.server"}, Name: "gitea",
				Sections: []Section{
					{Name: "Unit", Entries: []Entry{entry("Description", "The forge")}},
					{Name: "Container", Entries: []Entry{
						entry("ContainerName", "gitea"), entry("Image", "docker.io/gitea/gitea:1.24"),
						entry("Volume", "forge-data.volume:/data", "/srv:/srv:ro"),
						pairs("Label", "a", "1", "b", "2"),
					}},
					{Name: "Service", Entries: []Entry{entry("Restart", "always")}},
					{Name: "Install", Entries: []Entry{entry("WantedBy", "multi-user.target")}},
				},
			},
			`# Written by meshgen for forge/container/gitea.server; changes here are lost.

[X-Meshgen]
Resource=forge/container/gitea.server

[Unit]
Description=The forge

[Container]
ContainerName=gitea
Image=docker.io/gitea/gitea:1.24
Volume=forge-data.volume:/data
Volume=/srv:/srv:ro
Label="a=1"
Label="b=2"
Label="io.meshgen.resource=forge/container/gitea.server"

[Service]
Restart=always

[Install]
WantedBy=multi-user.target
`,
		},
		{
			"a volume",
			Resource{
				Address: Address{Module: "forge", Kind: KindVolume, ID: "data"}, Name: "forge-data",
				Sections: []Section{{Name: "Volume", Entries: []Entry{entry("VolumeName", "forge-data")}}},
			},
			`# Written by meshgen for forge/volume/data; changes here are lost.

[X-Meshgen]
Resource=forge/volume/data

[Volume]
VolumeName=forge-data
Label="io.meshgen.resource=forge/volume/data"
`,
		},
		{
			"a string stands as it is, also with what systemd expands",
			Resource{
				Address: Address{Module: "m", Kind: KindContainer, ID: "x"},
				Sections: []Section{{Name: "Container", Entries: []Entry{
					entry("Exec", `sh -c "echo $$HOME %H"`), entry("Environment", `A="b c"`), entry("User", ""),
				}}},
			},
			`# Written by meshgen for m/container/x; changes here are lost.

[X-Meshgen]
Resource=m/container/x

[Container]
Exec=sh -c "echo $$HOME %H"
Environment=A="b c"
User=
Label="io.meshgen.resource=m/container/x"
`,
		},
		{
			"a pair is quoted and literal; where systemd itself reads it, $ is nothing special",
			Resource{
				Address: Address{Module: "m", Kind: KindContainer, ID: "x"},
				Sections: []Section{
					{Name: "Container", Entries: []Entry{pairs("Environment",
						"SPACES", " a  b ", "QUOTES", `"double" 'single'`, "DOLLAR", "$HOME ${HOME} $$", "PERCENT", "%n 100%",
						"LINES", "a\nb\r\n\tc", "BACKSLASH", `C:\new\`, "UNICODE", "größer → 日本 🙂", "EQUALS", "a=b=c", "EMPTY", "", "HASH", "# ; no comment",
					)}},
					{Name: "Service", Entries: []Entry{pairs("Environment", "DOLLAR", "$HOME", "PERCENT", "%n", "QUOTES", `"`)}},
				},
			},
			`# Written by meshgen for m/container/x; changes here are lost.

[X-Meshgen]
Resource=m/container/x

[Container]
Environment="SPACES= a  b "
Environment="QUOTES=\"double\" 'single'"
Environment="DOLLAR=$$HOME $${HOME} $$$$"
Environment="PERCENT=%%n 100%%"
Environment="LINES=a\nb\r\n\tc"
Environment="BACKSLASH=C:\\new\\"
Environment="UNICODE=größer → 日本 🙂"
Environment="EQUALS=a=b=c"
Environment="EMPTY="
Environment="HASH=# ; no comment"
Label="io.meshgen.resource=m/container/x"

[Service]
Environment="DOLLAR=$HOME"
Environment="PERCENT=%%n"
Environment="QUOTES=\""
`,
		},
		{
			"a unit of systemd's own: no label, which is podman's, and $ is nothing special",
			Resource{
				Address: Address{Module: "m", Kind: KindUnit, ID: "x.socket"}, Name: "m-x.socket",
				Sections: []Section{
					{Name: "Unit", Entries: []Entry{entry("Description", "A socket")}},
					{Name: "Socket", Entries: []Entry{pairs("Environment", "A", "$HOME 100 %"), entry("ListenStream", "80", "/run/x")}},
					{Name: "Install", Entries: []Entry{entry("WantedBy", "sockets.target")}},
				},
			},
			`# Written by meshgen for m/unit/x.socket; changes here are lost.

[X-Meshgen]
Resource=m/unit/x.socket

[Unit]
Description=A socket

[Socket]
Environment="A=$HOME 100 %%"
ListenStream=80
ListenStream=/run/x

[Install]
WantedBy=sockets.target
`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Render(test.resource)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.want, Render(test.resource)); diff != "" {
				t.Errorf("the second time:\n%s", diff)
			}
		})
	}
}

// service is what a converter makes of a container.
const service = `# Automatically generated by /usr/libexec/podman/quadlet
[X-Container]
ContainerName=gitea
Image=localhost/gitea:1

[X-Meshgen]
Resource=forge/container/gitea

[Unit]
Description=The forge
SourcePath=/etc/meshgen/current/quadlet/gitea.container
RequiresMountsFor=%t/containers

[Service]
Restart=always
ExecStart=/usr/bin/podman run --name gitea --replace --label io.meshgen.resource=forge/container/gitea --label a=1 localhost/gitea:1
Type=notify

[Install]
WantedBy=multi-user.target
`

func TestRunDigestTellsWhatNeedsARestart(t *testing.T) {
	tests := []struct {
		name     string
		from, to string
		same     bool
	}{
		{"another image", "--label a=1 localhost/gitea:1", "--label a=1 localhost/gitea:2", false},
		{"another label", "a=1", "a=2", false},
		{"another name", "--name gitea", "--name forge", false},
		{"another dependency", "RequiresMountsFor=%t/containers", "RequiresMountsFor=/srv", false},
		{"another restart policy", "Restart=always", "Restart=no", false},
		{"the same key in another section", "Restart=always\n", "Restart=always\n[Unit]\n", false},
		{"a line less", "Type=notify\n", "", false},
		{"another address", "io.meshgen.resource=forge/container/gitea", "io.meshgen.resource=other/container/x", true},
		{"another mark", "Resource=forge/container/gitea\n", "Resource=other/container/x\n", true},
		{"another description", "Description=The forge", "Description=Gitea", true},
		{"another source", "quadlet/gitea.container", "quadlet/forge.container", true},
		{"another target that wants it", "WantedBy=multi-user.target", "WantedBy=default.target", true},
		{"none that wants it", "[Install]\nWantedBy=multi-user.target\n", "", true},
		{"another comment", "# Automatically generated by", "# Made by", true},
		{"an empty line", "[Service]\n", "\n[Service]\n\n", true},
		{"what the converter read", "[X-Container]\nContainerName=gitea", "[X-Container]\nContainerName=other", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			changed := strings.ReplaceAll(service, test.from, test.to)
			if changed == service {
				t.Fatalf("%q is not in it", test.from)
			}
			if same := RunDigest(changed) == RunDigest(service); same != test.same {
				t.Errorf("the same: %v, want %v", same, test.same)
			}
		})
	}
}

// The sections after [Install] count again.
func TestRunDigestGoesOnAfterInstall(t *testing.T) {
	a, b := "[Install]\nWantedBy=a\n[Service]\nType=notify\n", "[Install]\nWantedBy=a\n[Service]\nType=oneshot\n"
	if RunDigest(a) == RunDigest(b) {
		t.Error("a change after [Install] does not count")
	}
}

// Which containers a pod pulls in makes no difference to the pod that runs; to
// another unit it does.
func TestRunDigestOfAPod(t *testing.T) {
	unit := func(section, pulls, runs string) string {
		return RunDigest("# a comment\n\n[" + section + "]\nPodName=p\n\n[Unit]\n" + pulls + "After=a.service\n\n[Service]\nExecStart=" + runs + "\n")
	}
	pulls := "Wants=x.service\nBefore=x.service\n"
	if unit("X-Pod", pulls, "a") != unit("X-Pod", "", "a") {
		t.Error("a container of a pod counts")
	}
	if unit("X-Pod", pulls, "a") == unit("X-Pod", pulls, "b") {
		t.Error("what a pod runs does not count")
	}
	if unit("X-Container", pulls, "a") == unit("X-Container", "", "a") {
		t.Error("what a container wants does not count")
	}
}

// Of a unit of systemd's own, too, all counts but what says nothing of how it
// runs.
func TestRunDigestOfPlainUnits(t *testing.T) {
	unit := func(description, wanted string, sections ...Section) string {
		return RunDigest(Render(Resource{
			Address: Address{Module: "m", Kind: KindUnit, ID: "x"}, Name: "x",
			Sections: append(append([]Section{{Name: "Unit", Entries: []Entry{entry("Description", description)}}}, sections...),
				Section{Name: "Install", Entries: []Entry{entry("WantedBy", wanted)}}),
		}))
	}
	for _, section := range []string{"Service", "Timer", "Socket", "Path", "Mount", "Automount", "Swap", "Slice"} {
		before := Section{Name: section, Entries: []Entry{entry("Key", "before")}}
		after := Section{Name: section, Entries: []Entry{entry("Key", "after")}}
		if unit("a", "a.target", before) == unit("a", "a.target", after) {
			t.Errorf("[%s]: a change does not count", section)
		}
		if unit("a", "a.target", before) != unit("b", "b.target", before) {
			t.Errorf("[%s]: another description and enablement count", section)
		}
	}
}

func TestQuadletFile(t *testing.T) {
	tests := map[Kind]string{
		KindUnit:      "",
		KindContainer: "n.container", KindVolume: "n.volume", KindNetwork: "n.network", KindFile: "",
	}
	for kind, want := range tests {
		if got := QuadletFile(Resource{Address: Address{Kind: kind}, Name: "n"}); got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
}

func TestUnitFollowsServiceName(t *testing.T) {
	tests := []struct {
		kind    Kind
		section string
		given   string
		want    string
	}{
		{KindContainer, "Container", "", "n.service"},
		{KindContainer, "Container", "other", "other.service"},
		{KindVolume, "Volume", "", "n-volume.service"},
		{KindVolume, "Volume", "other", "other.service"},
		{KindNetwork, "Network", "", "n-network.service"},
		{KindNetwork, "Network", "other", "other.service"},
		{KindUnit, "", "", "n"},
		{KindFile, "", "", ""},
	}
	for _, test := range tests {
		r := Resource{Address: Address{Kind: test.kind}, Name: "n"}
		if test.given != "" {
			r.Sections = []Section{{Name: test.section, Entries: []Entry{entry("ServiceName", test.given)}}}
		}
		if got := Unit(r); got != test.want {
			t.Errorf("%s %q: %s, want %s", test.kind, test.given, got, test.want)
		}
	}
}

// The container is told by which unit file systemd started it, and that alone is no
// reason to start it anew.
func TestFragmentIsToldAndMakesNoDifference(t *testing.T) {
	told := WithFragment(service)
	const want = " --label io.meshgen.resource=forge/container/gitea --label io.meshgen.fragment=%y "
	if strings.Count(told, want) != 1 || strings.Count(told, "%y") != 1 {
		t.Errorf("got\n%s", told)
	}
	if RunDigest(told) != RunDigest(service) {
		t.Error("it would be restarted for that")
	}
	if plain := "[Service]\nExecStart=/bin/true\n"; WithFragment(plain) != plain {
		t.Errorf("a service without our mark becomes\n%s", WithFragment(plain))
	}
}
