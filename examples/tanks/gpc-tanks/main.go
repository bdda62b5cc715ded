// Command gpc-tanks is the gpc command line with a domain of one's own: the same
// commands for two coupled water tanks.
package main

import (
	"fmt"
	"os"

	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/examples/tanks"
)

func main() {
	c, err := tanks.Case()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpc-tanks:", err)
		os.Exit(1)
	}
	os.Exit(cli.Main(&cli.App{Cases: []domain.Case{c}}))
}
