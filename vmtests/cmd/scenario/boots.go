package main

import "fmt"

// crash is a switch that the power goes in, on both sides of its flip.
func crash() scenario {
	manifest := func(unit, container, edition, service string) string {
		return fmt.Sprintf(`modules: m: {
	containers: x: {
		name: %q
		Service: {%s}
		Container: {Image: "localhost/probe:1", ContainerName: %q, Network: ["net"], Environment: IS: %q, %s}
	}
	networks: net: {}
	files: f: {path: "/etc/x/x.conf", content: "%[4]s\n", notify: x: "restart"}
}
`, unit, service, container, edition, alone("x"))
	}
	stop := fmt.Sprintf("TimeoutStopSec: 600, ExecStopPost: %q", holding("before-the-flip"))
	start := fmt.Sprintf("TimeoutStartSec: 600, ExecStartPre: %q", holding("after-the-flip"))
	recovered := func(n *node, generation string) {
		n.awaitRecovered()
		if is := n.inForce(); is != generation {
			n.fault("generation %s is in force, want %s", is, generation)
		}
		n.mustShow("meshgen-recover.service", "Result", "success")
		if r := n.exec("meshgen", "recover"); r.code != 0 || r.stdout != "no switch is unfinished: nothing to do\n" {
			n.fault("a recovery after the boot: exit %d\n%s%s", r.code, r.stdout, r.stderr)
		}
	}
	return scenario{"crash", "the power goes in a switch, before its flip and after", []step{
		{"the power goes before the flip", func(n *node) {
			n.manifest(manifest("ant", "cow", "first", stop))
			n.run("meshgen", "switch")
			n.mustRun("cow")
			n.manifest(manifest("ant", "dog", "second", ""))
			n.cutHere("before-the-flip")
			if is := n.inForce(); is != "1" {
				n.fault("generation %s is in force by now", is)
			}
		}, powerCut},
		{"all is as before the switch, and the next one ends well", func(n *node) {
			n.awaitUp("ant")
			recovered(n, "1")
			n.mustRun("cow")
			n.mustBe("cow", "first")
			n.mustHave("/etc/x/x.conf", "first\n")
			n.run("meshgen", "switch")
			n.mustRun("dog")
			n.mustBe("dog", "second")
			n.mustHave("/etc/x/x.conf", "second\n")
			n.mustStand("ant")
		}, nothing},
		{"the power goes after the flip", func(n *node) {
			n.keep("generation", n.inForce())
			n.manifest(manifest("bat", "elk", "third", start))
			n.cutHere("after-the-flip")
			if n.inForce() == n.kept("generation") {
				n.fault("the old set is still in force")
			}
			n.keep("generation", n.inForce())
		}, powerCut},
		{"the new set runs, and nothing of the old", func(n *node) {
			n.awaitUp("bat")
			recovered(n, n.kept("generation"))
			n.mustRun("elk")
			n.mustBe("elk", "third")
			n.mustBeGone("ant")
			n.mustHave("/etc/x/x.conf", "third\n")
			n.mustStand("bat")
		}, nothing},
	}}
}

// generator is a boot with nothing but the generator.
func generator() scenario {
	manifest := func(containers string) string {
		return `modules: m: {
	containers: {` + containers + `}
	networks: net: {}
	units: "beat.timer": {Timer: OnCalendar: "daily", Install: WantedBy: "timers.target"}
	units: "beat.service": Service: {Type: "oneshot", ExecStart: "/bin/sh -c true"}
}
`
	}
	one := `one: Container: {Image: "localhost/probe:1", Network: ["net"], Environment: IS: "one", ` + alone("one") + `}`
	two := `two: Container: {Image: "localhost/probe:1", Network: "none", Environment: IS: "two", ` + alone("two") + `}`
	units := []string{"m-one.service", "m-net-network.service", "m-beat.timer"}
	booted := func(n *node) {
		n.awaitUp(units...)
		for _, unit := range units {
			n.mustShow(unit, "FragmentPath", "/run/systemd/generator/"+unit)
			n.mustShow(unit, "UnitFileState", "generated")
			n.mustShow(unit, "NeedDaemonReload", "no")
		}
		n.mustShow("m-one", "SourcePath", "/etc/meshgen/current/quadlet/m-one.container")
		for _, unit := range []string{"meshgen-recover.service", "meshgen-confirm.service"} {
			n.mustShow(unit, "LoadState", "loaded")
			n.mustShow(unit, "ConditionTimestampMonotonic", "0")
		}
	}
	return scenario{"generator", "a boot runs what is in force, and no other program of meshgen's", []step{
		{"two containers, a network and a timer come into force", func(n *node) {
			n.manifest(manifest(one + "\n\t\t" + two))
			n.run("meshgen", "switch")
			booted(n)
			n.awaitUp("m-two")
			n.mustRun("m-one", "m-two")
		}, powerCut},
		{"all is there again; one container is taken away", func(n *node) {
			booted(n)
			n.awaitUp("m-two")
			n.mustRun("m-one", "m-two")
			n.mustStand(units...)
			n.manifest(manifest(one))
			n.run("meshgen", "switch")
			n.mustRun("m-one")
			n.mustBeGone("m-two")
		}, reboot},
		{"it does not come back, and a reload of systemd changes nothing", func(n *node) {
			booted(n)
			n.mustRun("m-one")
			n.mustBeGone("m-two")
			before := n.show("m-one", "InvocationID")
			n.run("systemctl", "daemon-reload")
			booted(n)
			n.mustShow("m-one", "InvocationID", before)
			n.mustHaveStarted("one", 3)
			n.mustHaveStarted("two", 2)
		}, nothing},
	}}
}
