package scenario

import "fmt"

// adoptions are of what podman does to containers, and of what meshgen makes of it.
func adoptions() []Scenario {
	const (
		adopt = `containers: x: {name: "ant", policy: takeover: "adopt", Container: {Image: "localhost/probe:1", Network: "none"}}`
		fails = `containers: x: {name: "ant", policy: takeover: "adopt", Container: {Image: "localhost/probe:1", PublishPort: ["8080:80"]}}`
		named = `containers: x: {name: %q, policy: takeover: "adopt", Container: {Image: "localhost/probe:1", Network: "none"}}`
		data  = `volumes: data: {name: "vat", policy: takeover: "adopt"}
containers: x: {name: %q, policy: takeover: "adopt", Container: {Image: "localhost/probe:1", Network: "none", Volume: ["data:/data"]}}`
		port  = `containers: x: {name: %q, policy: takeover: "adopt", Container: {Image: "localhost/probe:1", PublishPort: ["127.0.0.1:8080:80"]}}`
		other = `files: f: {path: "/etc/x/one", content: "1"}`
		bat   = "bat localhost/probe:1 running"
		found = "ant localhost/probe:2 running"
	)
	ours := []string{"ant localhost/probe:1 running", "ant.adopted-1 localhost/probe:2 dead"}
	aside := []string{"ant.adopted-1 localhost/probe:2 dead", "cow localhost/probe:1 running"}
	beside := []string{found, "cow localhost/probe:1 running"}
	as := fmt.Sprintf
	return []Scenario{
		{"a container that is stopped, renamed and started is the same", []Step{
			{Do: "run ant", Containers: []string{found}, Note: "ant", Restart: []string{"ant no"}},
			{Do: "pause ant", Containers: []string{"ant localhost/probe:2 dead"}},
			{Do: "rename ant cow", Containers: []string{"cow localhost/probe:2 dead"}, Same: []string{"cow ant"}},
			{Do: "resume cow", Containers: []string{"cow localhost/probe:2 running"}, Same: []string{"cow ant"}},
			{Do: "resume cow"},
			{Do: "resume bat", Fails: true},
		}},
		{"a container does not get a name that another has", []Step{
			{Do: "run ant"},
			{Do: "run bat"},
			{Do: "rename ant bat", Fails: true, Containers: []string{found, "bat localhost/probe:2 running"}},
		}},
		{"a restart policy is changed, running or not", []Step{
			{Do: "run ant"},
			{Do: "update ant always", Restart: []string{"ant always"}, Containers: []string{found}},
			{Do: "pause ant", Containers: []string{"ant localhost/probe:2 dead"}},
			{Do: "update ant no", Restart: []string{"ant no"}, Containers: []string{"ant localhost/probe:2 dead"}},
			{Do: "update bat no", Fails: true},
		}},
		{"the container of a service goes as podman stops it, and the service with it", []Step{
			{Do: "write " + quadlets + "x.container", Text: container("cow", "Network=none\n")},
			{Do: "reload"},
			{Do: "start x.service"},
			{Do: "pause cow", Containers: none(), Units: []string{"x.service loaded inactive"}},
		}},
		{"a container is adopted and given back", []Step{
			{Do: "run ant", Note: "ant"},
			{Do: "update ant always"},
			{Do: "switch", Text: adopt, Containers: ours, Same: []string{"ant.adopted-1 ant"}, Restart: []string{"ant.adopted-1 no"}, Units: []string{"ant.service loaded active"}},
			{Do: "switch", Text: adopt, Containers: ours, Transitions: none()},
			{Do: "release container:ant", Text: adopt, Containers: []string{found}, Same: []string{"ant ant"}, Restart: []string{"ant always"}, Units: []string{"ant.service not-found inactive"}},
			{Do: "switch", Text: adopt, Containers: []string{found}, Same: []string{"ant ant"}},
		}},
		{"what is adopted is given back where what takes its place does not come up", []Step{
			{Do: "write " + quadlets + "bat.container", Text: container("bat", "PublishPort=8080:80\n")},
			{Do: "reload"},
			{Do: "start bat.service"},
			{Do: "run ant", Note: "ant"},
			{Do: "update ant always"},
			{Do: "switch", Text: fails, Fails: true, Containers: []string{found, bat}, Same: []string{"ant ant"}, Restart: []string{"ant always"}},
			{Do: "switch", Text: adopt, Containers: []string{"ant localhost/probe:1 running", "ant.adopted-2 localhost/probe:2 dead", bat}, Same: []string{"ant.adopted-2 ant"}},
		}},
		{"a Quadlet of the owner's is adopted and given back", []Step{
			{Do: "write " + quadlets + "ant.container", Text: container("ant", "Network=none\n")},
			{Do: "reload"},
			{Do: "start ant.service"},
			{Do: "switch", Text: adopt, Containers: []string{"ant localhost/probe:1 running"}, Units: []string{"ant.service loaded active"}, Files: []string{quadlets + "ant.container="}},
			{
				Do: "release unit:ant.service", Text: adopt, Containers: []string{"ant localhost/probe:1 running"}, Units: []string{"ant.service loaded active"},
				Files: []string{quadlets + "ant.container=" + container("ant", "Network=none\n")},
			},
		}},
		{"what was adopted is given back beside what took its place and has another name by now", []Step{
			{Do: "run ant", Note: "ant"},
			{Do: "switch", Text: as(named, "ant"), Containers: ours},
			{Do: "switch", Text: as(named, "cow"), Containers: aside},
			{Do: "release container:ant", Text: as(named, "cow"), Containers: beside, Same: []string{"ant ant"}, Units: []string{"cow.service loaded active"}},
			{Do: "switch", Text: as(named, "cow"), Containers: beside, Transitions: none()},
		}},
		{"it is given back by the switch that gives that another name", []Step{
			{Do: "run ant", Note: "ant"},
			{Do: "switch", Text: as(named, "ant"), Containers: ours},
			{Do: "release container:ant", Text: as(named, "cow"), Containers: beside, Same: []string{"ant ant"}, Units: []string{"cow.service loaded active", "ant.service not-found inactive"}},
		}},
		{"it is not given back where both would write to one volume", []Step{
			{Do: "run --volume=vat:/data ant"},
			{Do: "switch", Text: as(data, "ant"), Containers: ours},
			{Do: "release container:ant", Text: as(data, "cow"), Fails: true, Containers: ours},
			{Do: "switch", Text: as(data, "cow"), Containers: aside},
			{Do: "release container:ant", Text: as(data, "cow"), Fails: true, Containers: aside},
			{Do: "release volume:vat", Text: as(data, "cow"), Fails: true, Containers: aside},
			{Do: "release container:ant", Text: as(data, "ant"), Containers: []string{found}, Volumes: []string{"vat"}},
		}},
		{"nor where both would listen at one port", []Step{
			{Do: "run --publish=8080:80 ant"},
			{Do: "switch", Text: as(port, "ant"), Containers: ours},
			{Do: "release container:ant", Text: as(port, "cow"), Fails: true, Containers: ours},
		}},
		{"what was adopted outlives the removal of what has its place, and a power cut", []Step{
			{Do: "run ant", Note: "ant"},
			{Do: "switch", Text: adopt, Containers: ours},
			{Do: "switch", Text: other, Containers: []string{"ant.adopted-1 localhost/probe:2 dead"}},
			{Do: "cut", Containers: []string{"ant.adopted-1 localhost/probe:2 dead"}, Same: []string{"ant.adopted-1 ant"}},
			{Do: "release container:ant", Text: other, Containers: []string{found}, Same: []string{"ant ant"}},
		}},
	}
}
