// Command gpc is Geometric Pareto Control on the command line. It has the systems of the
// gallery, networks, the cases of the paper, and their bundled maps.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/command"
	"github.com/gpc-engine/gpc/internal/bundled"
)

func main() { os.Exit(cli.Main(app())) }

func app() *cli.App {
	return &cli.App{
		Catalogue:  bundled.Cases(),
		Commands:   []func(*cli.App) *cobra.Command{command.PowerFlow, command.OptimalFlow},
		Operations: command.Operations(),
		Axes:       command.Axes(),
	}
}
