// Package program is the program gpc, which the laboratory's program begins with.
package program

import (
	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/command"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/internal/bundled"
)

// App has all bundled cases and the commands of networks.
func App() *cli.App {
	return &cli.App{
		Catalogue:  bundled.Cases(),
		Commands:   []func(*cli.App) *cobra.Command{command.PowerFlow, command.OptimalFlow},
		Networks:   cases.Names(),
		Operations: command.Operations(),
	}
}
