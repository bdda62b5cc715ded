// Command gpc is Geometric Pareto Control on the command line, with the cases
// of the paper and their bundled models.
package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domains/integrator"
	"github.com/gpc-engine/gpc/domains/multiagent"
	"github.com/gpc-engine/gpc/domains/opf"
	"github.com/gpc-engine/gpc/domains/opf/command"
	"github.com/gpc-engine/gpc/models"
)

func main() {
	os.Exit(cli.Main(&cli.App{
		Cases: []domain.Case{
			integrator.Convex(), integrator.Nonconvex(), multiagent.Static(), multiagent.Moving(),
			opf.Thirty(), opf.ThirtyUncertain(),
		},
		Open:       open,
		Models:     models.Bundled,
		Commands:   []func(*cli.App) *cobra.Command{command.PowerFlow, command.OptimalFlow},
		Operations: command.Operations(),
	}))
}

// open makes the case of a network: opf:FILE.m.
func open(name string) (domain.Case, bool, error) {
	if !strings.HasPrefix(name, opf.FilePrefix) {
		return domain.Case{}, false, nil
	}
	c, err := opf.FromFile(name)
	return c, true, err
}
