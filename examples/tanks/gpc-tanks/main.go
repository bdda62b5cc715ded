// Command gpc-tanks is the gpc command line with a domain of one's own. It has the same
// commands for two coupled water tanks. Gradients come from a graph ("tanks") or are
// written by hand ("tanks-by-hand").
package main

import (
	"fmt"
	"os"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/examples/tanks"
)

func main() {
	var cases []domain.Case
	for _, build := range []func() (domain.Case, error){tanks.Case, tanks.CaseByHand} {
		c, err := build()
		if err != nil {
			fmt.Fprintln(os.Stderr, "gpc-tanks:", err)
			os.Exit(1)
		}
		cases = append(cases, c)
	}
	os.Exit(cli.Main(&cli.App{Name: "gpc-tanks", Catalogue: gpc.Catalogue{Cases: cases}}))
}
