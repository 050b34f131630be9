package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// consent is the owner's word for what cannot be undone: by --yes, or by an
// answer on the terminal.
type consent struct{ yes bool }

func (c *consent) flag(cmd *cobra.Command, usage string) {
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, usage)
}

// given reports whether there is consent, asking where somebody is there to be
// asked; else asked is false.
func (c *consent) given(cmd *cobra.Command, o *options, question string) (sure, asked bool, err error) {
	in, ok := cmd.InOrStdin().(*os.File)
	if c.yes || o.json || !ok || !isTerminal(in) {
		return c.yes, c.yes, nil
	}
	if _, err := fmt.Fprint(cmd.ErrOrStderr(), lines(question)+" [y/N] "); err != nil {
		return false, true, err
	}
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		return false, true, fmt.Errorf("read the answer: %w", err)
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", true, nil
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
