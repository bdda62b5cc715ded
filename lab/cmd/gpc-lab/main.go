// Command gpc-lab is gpc with the laboratory's own commands: it demonstrates, certifies, draws reports
// of records and compares them.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/cli"
	grid "github.com/gpc-engine/gpc/grid/command"
	"github.com/gpc-engine/gpc/internal/bundled"
	"github.com/gpc-engine/gpc/lab/command"
)

func main() {
	os.Exit(cli.Main(&cli.App{
		Name:       "gpc-lab",
		Catalogue:  bundled.Cases(),
		Commands:   []func(*cli.App) *cobra.Command{command.Demo, command.Report, command.Compare, command.Certify, grid.PowerFlow, grid.OptimalFlow},
		Operations: grid.Operations(),
		Axes:       grid.Axes(),
		Figures:    command.Figures,
	}))
}
