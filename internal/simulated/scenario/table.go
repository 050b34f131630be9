package scenario

import "slices"

const (
	quadlets = "/etc/containers/systemd/"
	runtime  = "/run/systemd/system/"
	probe    = "Image=localhost/probe:1\n"
)

func none() []string { return []string{} }

func container(name, more string) string {
	return "[Container]\n" + probe + "ContainerName=" + name + "\n" + more
}

// All returns the table.
func All() []Scenario {
	return slices.Concat(manners(), switches(), drifts(), adoptions())
}

// manners are those of systemd and podman alone.
func manners() []Scenario {
	alone := container("cow", "Network=none\n")
	return []Scenario{
		{"a unit whose definition is gone is stranded", []Step{
			{Do: "write " + quadlets + "old.container", Text: alone + "[Service]\nTimeoutStopSec=1\n"},
			{Do: "reload"},
			{Do: "start old.service", Containers: []string{"cow localhost/probe:1 running"}, Units: []string{"old.service loaded active"}},
			{Do: "remove " + quadlets + "old.container"},
			{Do: "reload", Containers: []string{"cow localhost/probe:1 running"}, Units: []string{"old.service not-found active"}},
		}},
		{"a stranded unit that hears SIGTERM stops", []Step{
			{Do: "write " + quadlets + "old.container", Text: alone},
			{Do: "reload"},
			{Do: "start old.service"},
			{Do: "remove " + quadlets + "old.container"},
			{Do: "reload"},
			{Do: "stop old.service", Containers: none(), Units: []string{"old.service not-found inactive"}},
		}},
		{"a stranded unit that is deaf does not stop, and its container stays", []Step{
			{Do: "write /etc/systemd/system.conf.d/stop.conf", Text: "[Manager]\nDefaultTimeoutStopSec=1s\n"},
			{Do: "write " + quadlets + "old.container", Text: alone + "Exec=busybox sleep 1000\n"},
			{Do: "reload"},
			{Do: "start old.service"},
			{Do: "remove " + quadlets + "old.container"},
			{Do: "reload"},
			{Do: "stop old.service", Containers: []string{"cow localhost/probe:1 running"}, Units: []string{"old.service not-found failed"}},
		}},
		{"a stranded unit that gets its definition back stops", []Step{
			{Do: "write " + quadlets + "old.container", Text: alone},
			{Do: "reload"},
			{Do: "start old.service"},
			{Do: "keep old.service"},
			{Do: "remove " + quadlets + "old.container"},
			{Do: "reload", Units: []string{"old.service loaded active"}},
			{Do: "stop old.service", Containers: none()},
			{Do: "remove " + runtime + "old.service"},
			{Do: "reload", Units: []string{"old.service not-found inactive"}},
		}},
		{"a start destroys a found container of that name", []Step{
			{Do: "run cow", Containers: []string{"cow localhost/probe:2 running"}},
			{Do: "write " + quadlets + "x.container", Text: alone},
			{Do: "reload"},
			{Do: "start x.service", Containers: []string{"cow localhost/probe:1 running"}},
		}},
		{"a start that fails has destroyed it as well", []Step{
			{Do: "write " + quadlets + "y.container", Text: container("bat", "PublishPort=8080:80\n")},
			{Do: "write " + quadlets + "x.container", Text: container("cow", "PublishPort=8080:80\n")},
			{Do: "reload"},
			{Do: "start y.service"},
			{Do: "run cow"},
			{Do: "start x.service", Fails: true, Containers: []string{"bat localhost/probe:1 running"}, Units: []string{"x.service loaded failed"}},
		}},
		{"a second unit takes the container's name, and the first is inactive", []Step{
			{Do: "write " + quadlets + "x.container", Text: alone},
			{Do: "write " + quadlets + "y.container", Text: alone},
			{Do: "reload"},
			{Do: "start x.service"},
			{
				Do: "start y.service", Containers: []string{"cow localhost/probe:1 running"},
				Units: []string{"x.service loaded inactive", "y.service loaded active"},
			},
		}},
		{"a network outlives its unit, and is not removed while it is used", []Step{
			{Do: "write " + quadlets + "n.network", Text: "[Network]\nNetworkName=nat\n"},
			{Do: "write " + quadlets + "x.container", Text: container("cow", "Network=n.network\n")},
			{Do: "reload"},
			{Do: "start x.service", Networks: []string{"nat"}, Units: []string{"n-network.service loaded active"}},
			{Do: "network-rm nat", Fails: true},
			{Do: "stop n-network.service", Containers: none(), Networks: []string{"nat"}, Units: []string{"x.service loaded inactive"}},
			{Do: "network-rm nat", Networks: none()},
		}},
		{"a network whose subnet another has is not made", []Step{
			{Do: "write " + quadlets + "n.network", Text: "[Network]\nNetworkName=nat\nSubnet=10.99.5.0/24\n"},
			{Do: "write " + quadlets + "o.network", Text: "[Network]\nNetworkName=net\nSubnet=10.99.5.0/24\n"},
			{Do: "reload"},
			{Do: "start n-network.service"},
			{Do: "start o-network.service", Fails: true, Networks: []string{"nat"}, Units: []string{"o-network.service loaded failed"}},
		}},
		{"a network unit that is up makes no other network", []Step{
			{Do: "write " + quadlets + "n.network", Text: "[Network]\nNetworkName=nat\n"},
			{Do: "reload"},
			{Do: "start n-network.service"},
			{Do: "write " + quadlets + "n.network", Text: "[Network]\nNetworkName=net\n"},
			{Do: "reload"},
			{Do: "start n-network.service", Networks: []string{"nat"}},
		}},
		{"a fence stops the other, either way", []Step{
			{Do: "write " + quadlets + "x.container", Text: container("ant", "Network=none\n")},
			{Do: "write " + quadlets + "y.container", Text: container("bat", "Network=none\n[Unit]\nConflicts=x.service\nAfter=x.service\n")},
			{Do: "reload"},
			{Do: "start x.service"},
			{Do: "start y.service", Containers: []string{"bat localhost/probe:1 running"}, Units: []string{"x.service loaded inactive"}},
			{Do: "start x.service", Containers: []string{"ant localhost/probe:1 running"}, Units: []string{"y.service loaded inactive"}},
		}},
		{"a unit that is new in /run/systemd/system is found without a reload", []Step{
			{Do: "start z.service", Fails: true, Units: []string{"z.service not-found inactive"}},
			{Do: "write " + runtime + "z.service", Text: "[Service]\nExecStart=/usr/bin/sleep inf\n"},
			{Do: "start z.service", Units: []string{"z.service loaded active"}},
		}},
		{"a masked unit does not start, and stops", []Step{
			{Do: "write " + quadlets + "x.container", Text: alone + "[Service]\nTimeoutStopSec=2\n"},
			{Do: "reload"},
			{Do: "start x.service"},
			{Do: "mask x.service", Units: []string{"x.service masked active"}},
			{Do: "stop x.service"},
			{Do: "start x.service", Fails: true},
		}},
		{"what a unit needs that is masked keeps it from starting", []Step{
			{Do: "write " + quadlets + "n.network", Text: "[Network]\nNetworkName=nat\n"},
			{Do: "write " + quadlets + "x.container", Text: container("cow", "Network=n.network\n")},
			{Do: "reload"},
			{Do: "mask n-network.service"},
			{Do: "start x.service", Fails: true, Containers: none()},
		}},
		{"a masked unit that is deaf does not stop", []Step{
			{Do: "write /etc/systemd/system.conf.d/stop.conf", Text: "[Manager]\nDefaultTimeoutStopSec=1s\n"},
			{Do: "write " + quadlets + "x.container", Text: alone + "Exec=busybox sleep 1000\n"},
			{Do: "reload"},
			{Do: "start x.service"},
			{Do: "mask x.service"},
			{Do: "stop x.service", Containers: []string{"cow localhost/probe:1 running"}, Units: []string{"x.service masked failed"}},
		}},
		{"a container that is renamed runs on, and its unit stops it", []Step{
			{Do: "write " + quadlets + "x.container", Text: alone},
			{Do: "reload"},
			{Do: "start x.service"},
			{Do: "rename cow ant", Containers: []string{"ant localhost/probe:1 running"}, Units: []string{"x.service loaded active"}},
			{Do: "stop x.service", Containers: none()},
			{Do: "start x.service"},
			{Do: "rm cow", Containers: none(), Units: []string{"x.service loaded inactive"}},
		}},
		{"a power cut leaves what a hand made dead, and nothing of services", []Step{
			{Do: "write " + quadlets + "x.container", Text: alone},
			{Do: "write " + quadlets + "y.container", Text: container("bat", "Network=none\n[Install]\nWantedBy=multi-user.target\n")},
			{Do: "reload"},
			{Do: "start x.service"},
			{Do: "start y.service"},
			{Do: "run ant"},
			{Do: "cut", Containers: []string{"ant localhost/probe:2 dead", "bat localhost/probe:1 running"}},
		}},
	}
}

// switches are of meshgen.
func switches() []Scenario {
	const one = `Container: {Image: "localhost/probe:1", Network: "none"}`
	running := func(names ...string) []string {
		list := none()
		for _, name := range names {
			list = append(list, name+" localhost/probe:1 running")
		}
		return list
	}
	return []Scenario{
		{"a container gets another name, and another id", []Step{
			{Do: "switch", Text: `containers: x: {name: "ant", ` + one + `}`, Containers: running("ant"), Transitions: []string{"create m/container/x"}},
			{
				Do: "switch", Text: `containers: x: {name: "bat", ` + one + `}`, Containers: running("bat"),
				Units:       []string{"ant.service not-found inactive", "bat.service loaded active"},
				Transitions: []string{"rename m/container/x", "rename m/container/x"},
			},
			{Do: "switch", Text: `containers: y: {name: "bat", ` + one + `}`, Containers: running("bat"), Transitions: []string{"transfer m/container/y"}},
			{Do: "switch", Text: `containers: z: {name: "cow", ` + one + `}`, Containers: running("cow")},
		}},
		{"names are swapped", []Step{
			{Do: "switch", Text: `containers: {x: {name: "ant", ` + one + `}, y: {name: "bat", ` + one + `}}`, Containers: running("ant", "bat")},
			{Do: "switch", Text: `containers: {x: {name: "bat", ` + one + `}, y: {name: "ant", ` + one + `}}`, Containers: running("ant", "bat")},
			{Do: "switch", Text: `containers: {x: {name: "cow", ` + one + `}, y: {name: "bat", ` + one + `}}`, Containers: running("bat", "cow")},
		}},
		{"what is found is in the way", []Step{
			{Do: "run ant"},
			{Do: "switch", Fails: true, Text: `containers: x: {name: "ant", ` + one + `}`, Containers: []string{"ant localhost/probe:2 running"}},
			{Do: "write /etc/systemd/system/bat.service", Text: "[Service]\nExecStart=/usr/bin/sleep inf\n"},
			{Do: "reload"},
			{Do: "switch", Fails: true, Text: `containers: x: {name: "bat", ` + one + `}`, Units: []string{"bat.service loaded inactive"}},
			{Do: "write /etc/x/one", Text: "found"},
			{Do: "switch", Fails: true, Text: `files: f: {path: "/etc/x/one", content: "ours"}`, Files: []string{"/etc/x/one=found"}},
		}},
		{"a secret changes, gets another name and goes", []Step{
			{
				Do: "switch", Text: `secrets: s: {name: "old", content: "1"}, containers: x: Container: {Image: "localhost/probe:1", Network: "none", Secret: "s"}`,
				Containers: running("m-x"), Transitions: []string{"create m/container/x", "create m/secret/s"},
			},
			{
				Do: "switch", Text: `secrets: s: {name: "old", content: "2"}, containers: x: Container: {Image: "localhost/probe:1", Network: "none", Secret: "s"}`,
				Containers: running("m-x"), Transitions: []string{"update m/secret/s"},
			},
			{
				Do: "switch", Text: `secrets: s: {name: "new", content: "2"}, containers: x: Container: {Image: "localhost/probe:1", Network: "none", Secret: "s"}`,
				Containers: running("m-x"), Transitions: []string{"update m/container/x", "rename m/secret/s"},
			},
			{Do: "cut", Containers: running("m-x")},
			{Do: "switch", Text: `containers: x: Container: {Image: "localhost/probe:1", Network: "none"}`, Containers: running("m-x")},
			{
				Do: "switch", Fails: true, Text: `containers: x: Container: {Image: "localhost/probe:1", Network: "none", Secret: "new"}`,
				Containers: running("m-x"),
			},
		}},
		{"a volume is held, a network goes", []Step{
			{
				Do: "switch", Text: `containers: x: {Container: {Image: "localhost/probe:1", Network: ["net"], Volume: ["data:/data"]}}
				networks: net: {}, volumes: data: {}`,
				Containers: running("m-x"), Networks: []string{"m-net"}, Volumes: []string{"m-data"},
			},
			{
				Do: "switch", Fails: true, Text: `containers: x: {Container: {Image: "localhost/probe:1", Network: ["net"], Volume: ["data:/data"]}}
				networks: net: {}, volumes: data: Volume: VolumeName: "other"`,
				Containers: running("m-x"), Volumes: []string{"m-data"},
			},
			{Do: "switch", Text: "containers: y: " + one, Containers: running("m-y"), Networks: none(), Volumes: []string{"m-data"}},
		}},
		{"a network gets another subnet, and another name", []Step{
			{
				Do: "switch", Text: `containers: x: {Container: {Image: "localhost/probe:1", Network: ["net"]}}, networks: net: Network: Subnet: "10.99.5.0/24"`,
				Containers: running("m-x"), Networks: []string{"m-net"},
			},
			{
				Do: "switch", Text: `containers: x: {Container: {Image: "localhost/probe:1", Network: ["net"]}}, networks: net: Network: Subnet: "10.99.6.0/24"`,
				Containers: running("m-x"), Networks: []string{"m-net"},
			},
			{
				Do: "switch", Text: `containers: x: {Container: {Image: "localhost/probe:1", Network: ["net"]}}, networks: net: {name: "nat"}`,
				Containers: running("m-x"), Networks: []string{"nat"}, Units: []string{"m-net-network.service not-found inactive"},
			},
		}},
		{"a file changes, moves and goes", []Step{
			{
				Do: "switch", Text: `containers: x: ` + one + `, files: f: {path: "/etc/x/one", content: "1", notify: x: "restart"}`,
				Files: []string{"/etc/x/one=1"}, Containers: running("m-x"),
			},
			{Do: "write /etc/x/one", Text: "by hand"},
			{
				Do: "switch", Text: `containers: x: ` + one + `, files: f: {path: "/etc/x/two", content: "2", notify: x: "restart"}`,
				Files: []string{"/etc/x/one=", "/etc/x/two=2"}, Containers: running("m-x"),
			},
			{Do: "switch", Text: `containers: x: ` + one, Files: []string{"/etc/x/two="}, Containers: running("m-x"), Transitions: []string{"remove m/file/f"}},
		}},
		{"what its owner stopped stays down until it changes", []Step{
			{Do: "switch", Text: `containers: {x: ` + one + `, y: ` + one + `}`, Containers: running("m-x", "m-y")},
			{Do: "stop m-x.service", Containers: running("m-y")},
			{Do: "switch", Text: `containers: {x: ` + one + `, y: {name: "ant", ` + one + `}}`, Containers: running("ant")},
			{Do: "switch", Text: `containers: {x: {name: "bat", ` + one + `}, y: {name: "ant", ` + one + `}}`, Containers: running("ant", "bat")},
		}},
		{"what is found under a name of ours outlives each start of our unit", []Step{
			{Do: "switch", Text: `containers: {x: {name: "ant", ` + one + `}, y: {name: "bat", ` + one + `}}`, Containers: running("ant", "bat")},
			{Do: "stop ant.service"},
			{Do: "run ant"},
			{
				Do: "start ant.service", Fails: true, Units: []string{"ant.service loaded failed"},
				Containers: []string{"ant localhost/probe:2 running", "bat localhost/probe:1 running"},
			},
			{
				Do: "cut", Units: []string{"ant.service loaded failed", "bat.service loaded active"},
				Containers: []string{"ant localhost/probe:2 dead", "bat localhost/probe:1 running"},
			},
		}},
		{"a boot runs what is in force", []Step{
			{Do: "switch", Text: `containers: {x: {name: "ant", ` + one + `}, y: ` + one + `}`},
			{Do: "switch", Text: `containers: x: {name: "bat", ` + one + `}`},
			{Do: "cut", Containers: running("bat"), Units: []string{"bat.service loaded active", "ant.service not-found inactive"}},
		}},
	}
}
