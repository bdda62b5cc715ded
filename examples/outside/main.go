// Command outside is a program of another module: gpc's commands over a domain of its
// own.
package main

import (
	"fmt"
	"os"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/domain"

	"example.com/heating/heating"
)

func main() {
	c, err := heating.Case()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(cli.Main(&cli.App{Name: "heating", Catalogue: gpc.Catalogue{Cases: []domain.Case{c}}}))
}
