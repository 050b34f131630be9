package main

import (
	"fmt"
	"strings"
)

// forge declares a container with a network and a volume that stay, and a config file
// whose path goes with the container's name.
func forge(name, file string) string {
	return fmt.Sprintf(`modules: forge: {
	containers: "gitea.server": {
		name: %[1]q
		Container: {
			Image: "localhost/probe:1", Network: ["net"], Environment: IS: %[1]q
			Exec: "probe alone /watch/forge.watch", Volume: ["%[3]s:/watch", "data:/data", "%[2]s:/app.ini:ro"]
		}
	}
	volumes: data: {}
	networks: net: {}
	files: "app.ini": {path: %[2]q, mode: "0640", content: "HTTP_PORT = 3000\n", notify: "gitea.server": "restart"}
}
`, name, file, keeps)
}

// rename is the fault that the project exists to end.
func rename() scenario {
	const oldFile, newFile = "/etc/gitea/app.ini", "/etc/gitea/gitea.ini"
	renamed := func(n *node) {
		n.mustRun("gitea")
		n.mustBe("gitea", "gitea")
		n.mustBeGone("forge-gitea-server")
		n.mustHave(newFile, "HTTP_PORT = 3000\n")
		n.mustLack(oldFile)
		n.mustStand("gitea")
	}
	return scenario{"rename", "a container, its unit and its config file get other names", []step{
		{"the container runs under its first name", func(n *node) {
			n.manifest(forge("forge-gitea-server", oldFile))
			n.run("meshgen", "switch")
			n.mustRun("forge-gitea-server")
			n.mustHave(oldFile, "HTTP_PORT = 3000\n")
			n.mustStand("forge-gitea-server")
		}, nothing},
		{"it is renamed, and nothing of the old names stays", func(n *node) {
			n.manifest(forge("gitea", newFile))
			n.run("meshgen", "switch")
			renamed(n)
			n.mustHaveStarted("forge", 2)
			n.mustHaveMade("unit:forge-gitea-server.service", "container:forge-gitea-server", "file:"+oldFile)
			for _, property := range []string{"Conflicts", "After"} {
				if !strings.Contains(n.show("gitea", property), "forge-gitea-server.service") {
					n.fault("gitea.service has no fence against its predecessor: %s", property)
				}
			}
		}, reboot},
		{"so it is after a boot", func(n *node) {
			n.awaitUp("gitea")
			renamed(n)
			n.mustHaveStarted("forge", 3)
		}, powerCut},
		{"and after a power cut; named back, it is as before", func(n *node) {
			n.awaitUp("gitea")
			renamed(n)
			n.manifest(forge("forge-gitea-server", oldFile))
			n.run("meshgen", "switch")
			n.mustRun("forge-gitea-server")
			n.mustBeGone("gitea")
			n.mustLack(newFile)
			n.mustStand("forge-gitea-server")
		}, nothing},
	}}
}

// mustHaveMade sees that the ledger remembers targets.
func (n *node) mustHaveMade(targets ...string) {
	for _, target := range targets {
		if r := n.exec("meshgen", "explain", target); r.code != 0 {
			n.fault("the ledger does not know %s: %s", target, r.stderr)
		}
	}
}

// takeover is what was there before meshgen came: it is sacred until it is adopted,
// and comes back as it was.
func takeover() scenario {
	const file = "/etc/web/web.conf"
	manifest := func(policy string) string {
		return fmt.Sprintf(`modules: m: {
	policy: takeover: %q
	containers: web: {name: "web", Container: {Image: "localhost/probe:1", Network: "none", Environment: IS: "ours"}}
	files: conf: {path: %q, content: "ours\n"}
}
`, policy, file)
	}
	found := func(n *node) {
		n.mustRun("web")
		if id := n.run("podman", "inspect", "--format={{.Id}}", "web"); id != n.kept("id") {
			n.fault("the container that was found is another by now")
		}
		n.mustHave(file, "found\n")
	}
	ours := func(n *node) {
		n.mustRun("web")
		n.mustBe("web", "ours")
		n.mustHave(file, "ours\n")
		n.mustStand("web")
	}
	return scenario{"takeover", "a container and a file of somebody's have the names that are declared", []step{
		{"what is found is left alone", func(n *node) {
			n.run("podman", "run", "--detach", "--name=web", "--network=none", "localhost/probe:1")
			n.keep("id", n.run("podman", "inspect", "--format={{.Id}}", "web"))
			n.write(file, "found\n")
			n.manifest(manifest("refuse"))
			if r := n.exec("meshgen", "switch"); r.code != 3 || !strings.Contains(r.stderr, "container:web") {
				n.fault("the switch is not refused: exit %d\n%s", r.code, r.stderr)
			}
			found(n)
			n.mustShow("web.service", "LoadState", "not-found")
		}, nothing},
		{"it is adopted where the manifest says so", func(n *node) {
			n.manifest(manifest("adopt"))
			n.run("meshgen", "switch")
			ours(n)
		}, reboot},
		{"it stays adopted over a boot, and is given back", func(n *node) {
			n.awaitUp("web")
			ours(n)
			n.run("meshgen", "release", "container:web", "file:"+file)
			found(n)
		}, nothing},
	}}
}
