// Command sockets prints, in JSON, what internal/host sees of the sockets of a
// machine, and of who has them.
//
//	sockets listening|established [PID]   in the network namespace of that process
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	"meshgen/internal/host"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sockets:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("listening, or established?")
	}
	state := host.Listening
	if args[0] == host.Established.String() {
		state = host.Established
	}
	var pid int
	if len(args) > 1 {
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		pid = n
	}
	sockets, err := host.Sockets(context.Background(), pid, state)
	if err != nil {
		return err
	}
	if err := host.FindProcesses(context.Background(), sockets); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(sockets)
}
