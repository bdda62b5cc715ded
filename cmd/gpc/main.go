// Command gpc is Geometric Pareto Control on the command line. It has the systems of the
// gallery, networks, the cases of the paper, and their bundled maps.
package main

import (
	"os"

	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/internal/bundled/program"
)

func main() { os.Exit(cli.Main(program.App())) }
