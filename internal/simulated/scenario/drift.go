package scenario

// drifts are of meshgen, after other hands have been at podman's objects.
func drifts() []Scenario {
	const (
		one  = `containers: x: {name: "ant", Container: {Image: "localhost/probe:1", Network: "none"}}`
		uses = `containers: x: {name: "ant", Container: {Image: "localhost/probe:1", Network: ["net"], Volume: ["data:/data"]}}
			networks: net: {}, volumes: data: {}`
		empty = uses + `
			volumes: data: policy: drift: "restore"`
	)
	ant := []string{"ant localhost/probe:1 running"}
	volume, network := []string{"drift m/volume/data"}, []string{"drift m/network/net"}
	begin := Step{Do: "switch", Text: uses, Containers: ant, Volumes: []string{"m-data"}, Networks: []string{"m-net"}}
	return []Scenario{
		{"a container that was renamed gets its name back", []Step{
			{Do: "switch", Text: one, Containers: ant},
			{Do: "rename ant cow"},
			{Do: "switch", Text: one, Containers: ant, Transitions: []string{"drift m/container/x"}},
			{Do: "switch", Text: one, Containers: ant, Transitions: none()},
		}},
		{"a container that has the name of one that was renamed is let be, and so is that", []Step{
			{Do: "switch", Text: one, Containers: ant},
			{Do: "rename ant cow"},
			{Do: "run ant"},
			{
				Do: "switch", Text: one, Transitions: []string{"drift m/container/x"},
				Containers: []string{"ant localhost/probe:2 running", "cow localhost/probe:1 running"},
			},
		}},
		{"a container that was made anew by hand is let be", []Step{
			{Do: "switch", Text: one, Containers: ant},
			{Do: "rm ant", Units: []string{"ant.service loaded inactive"}},
			{Do: "switch", Text: one, Containers: none(), Transitions: none()},
			{Do: "run ant"},
			{Do: "switch", Text: one, Containers: []string{"ant localhost/probe:2 running"}, Transitions: []string{"drift m/container/x"}},
			{Do: "switch", Text: one, Containers: []string{"ant localhost/probe:2 running"}, Transitions: []string{"drift m/container/x"}},
		}},
		{"a volume that is gone is made anew, and what its owner stopped stays down", []Step{
			begin,
			{Do: "stop ant.service"},
			{Do: "volume-rm m-data", Volumes: none()},
			{Do: "switch", Text: empty, Volumes: []string{"m-data"}, Containers: none(), Transitions: volume},
			{Do: "switch", Text: empty, Transitions: none()},
		}},
		{"a volume that was made anew by hand is let be", []Step{
			begin,
			{Do: "stop ant.service"},
			{Do: "volume-rm m-data"},
			{Do: "volume-create m-data"},
			{Do: "switch", Text: uses, Volumes: []string{"m-data"}, Transitions: volume},
			{Do: "start ant.service"},
			{Do: "switch", Text: uses, Volumes: []string{"m-data"}, Containers: ant, Transitions: volume},
		}},
		{"a network that is gone is made anew", []Step{
			begin,
			{Do: "stop ant.service"},
			{Do: "network-rm m-net", Networks: none()},
			{Do: "switch", Text: uses, Networks: []string{"m-net"}, Transitions: network},
			{Do: "switch", Text: uses, Transitions: none()},
		}},
		{"a network that was made anew by hand is let be", []Step{
			begin,
			{Do: "stop ant.service"},
			{Do: "network-rm m-net"},
			{Do: "network-create m-net"},
			{Do: "start ant.service", Containers: ant},
			{Do: "switch", Text: uses, Networks: []string{"m-net"}, Containers: ant, Transitions: network},
			{Do: "switch", Text: uses, Containers: ant, Transitions: network},
		}},
	}
}
