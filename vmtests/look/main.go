// Command look prints, in JSON, what internal/host sees of a machine that no command
// of meshgen shows alone.
//
//	look listening [PID]      the sockets that listen, and who has them
//	look established [PID]    those that are connected
//	look loaded               the units that systemd has in memory
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"

	"meshgen/internal/host"
)

func main() {
	seen, err := look(context.Background(), os.Args[1:])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(seen)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "look:", err)
		os.Exit(1)
	}
}

func look(ctx context.Context, args []string) (any, error) {
	if len(args) == 0 {
		return nil, errors.New("at what?")
	}
	switch args[0] {
	case host.Listening.String():
		return sockets(ctx, host.Listening, args[1:])
	case host.Established.String():
		return sockets(ctx, host.Established, args[1:])
	}
	systemd, err := host.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer systemd.Close()
	if args[0] == "loaded" {
		return systemd.Loaded(ctx)
	}
	return nil, fmt.Errorf("%s: no such thing to look at", args[0])
}

func sockets(ctx context.Context, state host.SocketState, args []string) ([]host.Socket, error) {
	var pid int
	if len(args) > 0 {
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return nil, err
		}
		pid = n
	}
	list, err := host.Sockets(ctx, pid, state)
	if err != nil {
		return nil, err
	}
	return list, host.FindProcesses(ctx, list)
}
