// Command probe is the program of the containers that the machine tests run:
// small, static, quick to obey, and quiet.
//
//	probe sleep              until SIGTERM
//	probe serve ADDR...      answer each connection with $VERSION
//	probe store ADDR         answer each connection with how many came so far, keep it open
//	probe connect ADDR       hold a connection to a store; exit 1 when it breaks
//	probe front STORE ADDR…  hold a connection to a store, and serve at ADDR…
//	probe alone FILE         until SIGTERM; FILE is locked meanwhile, and gets a line that says whether it was free
//	probe exit CODE          at once
//	probe wait-then-exit DURATION CODE
//
// SIGTERM ends each of them at once with exit code 0.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	done := make(chan error)
	go func() { done <- run(os.Args[1:]) }()
	select {
	case <-stop:
	case err := <-done:
		code, ok := errors.AsType[exit](err)
		if !ok {
			fmt.Fprintln(os.Stderr, "probe:", err)
			os.Exit(1)
		}
		os.Exit(int(code))
	}
}

// exit is the exit code that the program was told to end with.
type exit int

func (e exit) Error() string { return "exit " + strconv.Itoa(int(e)) }

// run returns when the command is at its end, which most never are.
func run(args []string) error {
	if len(args) == 0 {
		return errors.New("what to do?")
	}
	name, args := args[0], args[1:]
	switch {
	case name == "sleep" && len(args) == 0:
		select {}
	case name == "serve" && len(args) > 0:
		return serve(args)
	case name == "store" && len(args) == 1:
		return store(args[0])
	case name == "connect" && len(args) == 1:
		return connect(args[0])
	case name == "front" && len(args) > 1:
		failed := make(chan error)
		go func() { failed <- connect(args[0]) }()
		go func() { failed <- serve(args[1:]) }()
		return <-failed
	case name == "alone" && len(args) == 1:
		return alone(args[0])
	case name == "exit" && len(args) == 1:
		return exitWith(args[0])
	case name == "wait-then-exit" && len(args) == 2:
		d, err := time.ParseDuration(args[0])
		if err != nil {
			return err
		}
		<-time.After(d)
		return exitWith(args[1])
	}
	return fmt.Errorf("%s: no such command, or not with %d arguments", name, len(args))
}

// alone holds a lock that goes with the process, and with the power.
func alone(file string) error {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // never: but what is open for that is not collected
	beside := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	how := "alone"
	if beside != nil {
		how = "beside another"
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	up, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return err
	}
	since, _, _ := strings.Cut(string(up), " ")
	if _, err := fmt.Fprintf(f, "boot %.8s, second %s: %s starts %s\n", boot, since, os.Getenv("IS"), how); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), beside); err != nil {
		return err
	}
	select {}
}

func exitWith(code string) error {
	n, err := strconv.Atoi(code)
	if err != nil {
		return err
	}
	return exit(n)
}

func serve(addresses []string) error {
	failed := make(chan error)
	for _, address := range addresses {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					failed <- err
					return
				}
				_, _ = io.WriteString(c, os.Getenv("VERSION")+"\n") // the peer may be gone
				_ = c.Close()                                       // likewise
			}
		}()
	}
	return <-failed
}

func store(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(c, n) // the peer may be gone
	}
}

func connect(address string) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, c); err != nil {
		return err
	}
	return errors.New("the store is gone")
}
