// meshgen-guard keeps a container's or a pod's service from taking a name that is
// somebody else's: see package guard. Each such service of ours has it for its last
// ExecStartPre=, systemd.service(5).
//
// It exits 0 where the name is free, or was made so, and else 1 with one line
// that says what has it.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"meshgen/internal/guard"
	"meshgen/units"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: meshgen-guard NAME RESOURCE UNIT\n"+
			"systemd runs this program before it starts a container or makes a pod of meshgen's")
		os.Exit(2)
	}
	resource, err := units.ParseAddress(os.Args[2])
	if err == nil {
		err = guard.Clear(context.Background(), guard.Claim{Name: os.Args[1], Resource: resource, Unit: os.Args[3]})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "meshgen-guard:", strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
}
