package main

import "fmt"

// firstBoot is a machine whose image carries a manifest, and nothing else.
func firstBoot() scenario {
	const manifest = `modules: m: {
	containers: x: Container: {Image: "localhost/probe:1", Network: ["net"], Environment: IS: "first", %s}
	networks: net: {}
	files: f: {path: "/etc/x/x.conf", content: "first\n", notify: x: "restart"}
}
`
	return scenario{"first-boot", "a machine boots for the first time with a manifest", []step{
		{"a manifest lies there, and nothing is in force", func(n *node) {
			n.manifest(fmt.Sprintf(manifest, alone("x")))
			n.mustRun()
			if is := n.inForce(); is != "" {
				n.fault("generation %s is in force", is)
			}
		}, reboot},
		{"the boot brings it into force", func(n *node) {
			n.await("the first switch has ended", func() bool { return n.inForce() != "" && !exists("/etc/meshgen/pending") })
			n.awaitUp("m-x")
			n.mustRun("m-x")
			n.mustHave("/etc/x/x.conf", "first\n")
			n.mustStand("m-x")
			if n.logged("--unit=meshgen-switch.service") == "" {
				n.fault("it was not meshgen-switch.service that did it")
			}
		}, powerCut},
		{"the next boot runs it, with no switch", func(n *node) {
			n.awaitUp("m-x")
			n.mustRun("m-x")
			n.mustHaveStarted("x", 2)
			if log := n.logged("_COMM=meshgen"); log != "" {
				n.fault("meshgen ran:\n%s", log)
			}
			n.mustStand("m-x")
		}, nothing},
	}}
}

// logged returns what the journal has of this boot.
func (n *node) logged(match string) string {
	n.run("journalctl", "--sync")
	return n.run("journalctl", "--boot", "--quiet", "--no-pager", "--output=cat", match)
}
