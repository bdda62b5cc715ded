// Command gpc is Geometric Pareto Control on the command line, with the cases
// of the paper and their bundled models.
package main

import (
	"os"

	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domains/integrator"
	"github.com/gpc-engine/gpc/domains/multiagent"
	"github.com/gpc-engine/gpc/models"
)

func main() {
	os.Exit(cli.Main(&cli.App{
		Cases:  []domain.Case{integrator.Convex(), integrator.Nonconvex(), multiagent.Static(), multiagent.Moving()},
		Models: models.Bundled,
	}))
}
