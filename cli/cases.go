package cli

import (
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/domain"
)

// named are variables by their names and units.
func named(variables []domain.Variable) (names []string) {
	for _, v := range variables {
		names = append(names, v.Name+" "+v.Unit)
	}
	return names
}

// listed is what `gpc cases` prints.
type listed struct {
	Cases []caseRow `json:"cases"`
}

type caseRow struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	NX          int      `json:"nx"`
	NZ          int      `json:"nz"`
	NU          int      `json:"nu"`
	Objectives  int      `json:"objectives"`
	State       []string `json:"state"`
	Context     []string `json:"context"`
	Action      []string `json:"action"`
	Margins     []string `json:"margins"`
	Steps       int      `json:"steps"`
	StepSeconds float64  `json:"step_s"`
	Bundled     bool     `json:"bundled_model"`
	Methods     []string `json:"methods"`
	Shifts      []string `json:"shifts"` // what --shift takes
}

func (a *App) casesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cases",
		Short: "List the cases with their dimensions",
		Args:  ExactArgs(0),
		RunE: func(*cobra.Command, []string) error {
			var result listed
			for _, c := range a.All() {
				s, learned := c.Spec(), c.MapSpec()
				r := caseRow{
					Name: s.Name, Description: s.Description, NX: learned.ObservationSize(), NZ: learned.Training.Latent, NU: learned.PlanSize(),
					Objectives: s.ObjectiveSize(), Steps: s.Steps, StepSeconds: s.StepSeconds, Bundled: c.Bundled(),
					State: named(s.Measured), Context: named(s.Context), Action: named(s.Action), Margins: named(s.Margins),
				}
				for _, m := range c.Methods() {
					r.Methods = append(r.Methods, m.Name)
				}
				if shifts := c.Definition().Shifts; shifts != nil {
					for _, p := range shifts.Parameters {
						r.Shifts = append(r.Shifts, p.Name+": "+p.About)
					}
				}
				result.Cases = append(result.Cases, r)
			}
			return a.Print(result, func(w io.Writer) error {
				rows := [][]string{{"case", "n_x", "n_z", "n_u", "objectives", "steps", "bundled", "description"}}
				for _, r := range result.Cases {
					bundled := "no"
					if r.Bundled {
						bundled = "yes"
					}
					rows = append(rows, []string{r.Name, strconv.Itoa(r.NX), strconv.Itoa(r.NZ), strconv.Itoa(r.NU), strconv.Itoa(r.Objectives), strconv.Itoa(r.Steps), bundled, r.Description})
				}
				return Table(w, rows)
			})
		},
	}
}
