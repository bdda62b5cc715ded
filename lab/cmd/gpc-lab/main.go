// Command gpc-lab is gpc with the laboratory's own commands and the method dp of Case 1: it demonstrates, certifies, draws reports
// of records and compares them.
package main

import (
	"os"
	"sync"

	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/bundled/program"
	"github.com/gpc-engine/gpc/lab/command"
	"github.com/gpc-engine/gpc/lab/dynamicprogram"
)

func main() { os.Exit(cli.Main(app())) }

func app() *cli.App {
	a := program.App()
	a.Name = "gpc-lab"
	a.Operations = append(a.Operations, command.Operations()...)
	a.Benchmarks = append(a.Benchmarks, command.Deadline, command.Scaling)
	for i, l := range a.Catalogue.Later {
		a.Catalogue.Later[i].Make = sync.OnceValue(func() domain.Case {
			c := l.Make()
			dynamicprogram.Add(&c)
			return c
		})
	}
	a.Commands = append(a.Commands, command.Demo, command.Report, command.Compare, command.Certify)
	return a
}
