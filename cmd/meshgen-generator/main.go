// meshgen-generator gives systemd the units of the generation in force. systemd
// runs it at boot and at each daemon-reload: systemd.generator(7).
//
// It exits 0 whatever it meets, so that the boot goes on; what it could not do
// is in the kernel log.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"meshgen/generator"
	"meshgen/state"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: meshgen-generator NORMAL EARLY LATE\n"+
			"systemd runs this program; see systemd.generator(7)")
		os.Exit(2)
	}
	dirs := generator.Dirs{Normal: os.Args[1], Early: os.Args[2], Late: os.Args[3]}
	if err := generator.Replay(state.NewLayout("/", ""), dirs); err != nil {
		report(err)
	}
}

// report writes to the kernel log, which is there before the journal is.
func report(err error) {
	var log io.Writer = os.Stderr
	if kmsg, kmsgErr := os.OpenFile("/dev/kmsg", os.O_WRONLY, 0); kmsgErr == nil {
		defer func() { _ = kmsg.Close() }() // nothing is buffered
		log = kmsg
	}
	for line := range strings.Lines(err.Error()) {
		_, _ = fmt.Fprintf(log, "<3>meshgen-generator: %s\n", strings.TrimSpace(line)) // there is nowhere else to tell
	}
}
