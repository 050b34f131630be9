package main

import (
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// The containers of one resource watch themselves: each holds a lock of the kernel's
// on the resource's file for as long as its process lives, whichever name it has, and
// adds a line when it starts. One that finds the lock taken runs beside another.

// alone is the command of a container of a resource, and its volume.
func alone(resource string) string {
	return `Exec: "probe alone /watch/` + resource + `.watch", Volume: ["` + keeps + `:/watch"]`
}

// mustBeAlone sees that no container ever started while another of its resource ran.
func (n *node) mustBeAlone() {
	logs, _ := filepath.Glob(filepath.Join(keeps, "*.watch")) // the pattern is sound
	for _, path := range logs {
		log, err := os.ReadFile(path)
		if err != nil {
			n.fault("%w", err)
		}
		if strings.Contains(string(log), "beside another") {
			n.fault("two containers of one resource ran at once:\n%s", log)
		}
	}
}

// mustHaveStarted sees that containers of a resource have started this often: the
// watch was kept.
func (n *node) mustHaveStarted(resource string, times int) {
	log, err := os.ReadFile(filepath.Join(keeps, resource+".watch"))
	if err != nil {
		n.fault("%w", err)
	}
	if got := strings.Count(string(log), "\n"); got != times {
		n.fault("containers of %s have started %d times, want %d:\n%s", resource, got, times, log)
	}
}

// holding is a command of a unit that a switch waits for, for ever, and a boot after
// that does not.
func holding(name string) string {
	program, err := os.Executable()
	if err != nil {
		program = "scenario"
	}
	return program + " hold " + filepath.Join(keeps, name)
}

// hold ends at once where the file is there. Else it makes the file and waits until
// somebody ends it.
func hold(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if os.IsExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	syscall.Sync() // what the switch has written is its own to sync; this is for the file
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
	return nil
}

// cutHere starts a switch that goes no further than to a hold, and returns when it is
// there: what comes next has to be a power cut.
func (n *node) cutHere(name string) {
	n.run("systemd-run", "--quiet", "--unit=scenario-"+name, "--property=Type=exec",
		"--setenv=PATH="+os.Getenv("PATH"), "meshgen", "switch")
	n.await("the switch is at "+name, func() bool { return exists(filepath.Join(keeps, name)) })
}
