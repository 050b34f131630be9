package main

import (
	"fmt"
	"strings"
)

// The exit codes.
const (
	exitFailed     = 1
	exitUsage      = 2
	exitRejected   = 3 // manifest, converter or decision; nothing was touched
	exitIncomplete = 4 // in force, but something failed
	exitRolledBack = 5
	exitLocked     = 6
	exitChanges    = 10 // plan --exit-code has changes, audit has findings
)

// ending is a code that a command can end with, and what that means of it.
type ending struct {
	code  int
	means string
}

// endings are all the codes that each command can end with. Its help has them from
// here.
//
//nolint:gochecknoglobals // a constant table
var endings = map[string][]ending{
	"meshgen":  {{0, "done"}, endUsage},
	"adopt":    {{0, "done, or nothing to do"}, {exitFailed, "failed"}, endUsage, endRefused, endIncomplete, endRolledBack, endLocked},
	"audit":    {{0, "nothing is found"}, {exitFailed, "failed, or something could not be looked at; the rest is told"}, endUsage, {exitChanges, "there are findings"}},
	"build":    {{0, "done"}, {exitFailed, "failed"}, endUsage, endRefused},
	"check":    {{0, "nothing is wrong"}, {exitFailed, "failed"}, endUsage, {exitRejected, "something is wrong; nothing was touched"}},
	"eject":    {{0, "done, or nothing to do"}, {exitFailed, "failed; what runs runs on, and the next one goes on from there"}, endUsage, endRefused, endLocked},
	"explain":  {{0, "done"}, {exitFailed, "failed, or there is no such name"}, endUsage},
	"forget":   {{0, "done"}, {exitFailed, "failed"}, endUsage, {exitRejected, "refused; nothing was let go"}, endLocked},
	"gc":       {{0, "done, or nothing to do"}, {exitFailed, "failed; what could be removed is"}, endUsage, endLocked},
	"history":  {{0, "done"}, {exitFailed, "failed"}, endUsage},
	"plan":     {{0, "done"}, {exitFailed, "failed"}, endUsage, {exitRejected, "a switch would be refused; nothing was touched"}, {exitChanges, "with --exit-code: there is something to do"}},
	"rebuild":  {{0, "done"}, {exitFailed, "failed, or there is a ledger that can be used, or nothing to make one from"}, endUsage, endLocked},
	"recover":  {{0, "done, or nothing to do"}, {exitFailed, "failed; the next switch tries again"}, endUsage, endIncomplete, endRolledBack, endLocked},
	"release":  {{0, "done"}, {exitFailed, "failed"}, endUsage, endRefused, endIncomplete, endRolledBack, endLocked},
	"rollback": {{0, "done, or nothing to do"}, {exitFailed, "failed"}, endUsage, endRefused, endIncomplete, endRolledBack, endLocked},
	"status":   {{0, "done, however the units do"}, {exitFailed, "failed"}, endUsage},
	"switch":   {{0, "done, or nothing to do"}, {exitFailed, "failed"}, endUsage, endRefused, endIncomplete, endRolledBack, endLocked},
	"version":  {{0, "done"}, {exitFailed, "failed"}, endUsage},

	"policy":      {{0, "done"}, endUsage},
	"policy show": {{0, "done"}, {exitFailed, "failed, or it is no policy that can be asked"}, endUsage},
	"policy test": {{0, "all is answered as expected"}, {exitFailed, "failed, or something is answered otherwise"}, endUsage},
}

//nolint:gochecknoglobals // rows of the table
var (
	endUsage      = ending{exitUsage, "not called as it should be"}
	endRefused    = ending{exitRejected, "refused; nothing was touched"}
	endIncomplete = ending{exitIncomplete, "in force, and something failed; the next switch tries again"}
	endRolledBack = ending{exitRolledBack, "failed, and what was in force is back"}
	endLocked     = ending{exitLocked, "another switch is running"}
)

// exitHelp returns the part of a command's help that tells its exit codes.
func exitHelp(command string) string {
	var b strings.Builder
	b.WriteString("Exit codes:")
	for _, e := range endings[command] {
		fmt.Fprintf(&b, "\n  %-2d  %s", e.code, e.means)
	}
	return b.String()
}
