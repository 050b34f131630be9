// meshgen-guard keeps a container's service from taking a name that is somebody
// else's: see package guard. Each such service of ours has it for its last
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
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: meshgen-guard CONTAINER RESOURCE UNIT\n"+
			"systemd runs this program before it starts a container of meshgen's")
		os.Exit(2)
	}
	claim := guard.Claim{Container: os.Args[1], Resource: os.Args[2], Unit: os.Args[3]}
	if err := guard.Clear(context.Background(), claim); err != nil {
		fmt.Fprintln(os.Stderr, "meshgen-guard:", strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
}
