package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/domain/diagnosis"
)

// checked is what `gpc check` prints.
type checked struct {
	Case     string             `json:"case"`     // its name
	Findings diagnosis.Findings `json:"findings"` // in the order of the checks
}

func (a *App) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check CASE",
		Short: "Say what of a system's equations is wrong, or may not be meant",
		Long: `Evaluates the functions of a system at starts and at states that random actions lead
to, and solves nothing. It finds limits that no action keeps and costs that no action
changes. It finds units that do not fit, values that jump, and an inaccurate integrator. compile, eval and eval pair check a system of your own before they begin.

An error is a system that no controller can be made of: exit code 1. A remark is
accepted and may not be meant. A hint is no mistake as such; it explains episodes
that are unsafe or have no reference.`,
		Args: ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			a.meter.begin("check " + args[0])
			c, err := a.Catalogue.Find(args[0])
			if err != nil {
				return err
			}
			r := checked{Case: c.Name(), Findings: append(diagnosis.Findings{}, c.Check()...)}
			return a.PrintChecked(r.Findings.Fatal() == nil, r, func(w io.Writer) {
				for _, f := range r.Findings {
					fmt.Fprintf(w, "%s: %s\n", f.Severity, f.String())
				}
				if len(r.Findings) == 0 {
					fmt.Fprintf(w, "%s: nothing found\n", r.Case)
				}
			})
		},
	}
}
