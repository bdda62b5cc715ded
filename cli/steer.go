package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/offline"
	"github.com/gpc-engine/gpc/report"
)

func (a *App) steerCommand() *cobra.Command {
	var modelFile, method string
	var divisions, episodes int
	cmd := &cobra.Command{
		Use:   "steer CASE",
		Short: "Sweep a user's fixed preference over the simplex with one map, beside the exact front",
		Args:  ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.find(args[0])
			if err != nil {
				return err
			}
			if divisions < 1 || divisions > 1000 || episodes < 1 {
				return BadInputf("--divisions %d, --episodes %d: want 1 to 1000, and at least 1", divisions, episodes)
			}
			factory, closeAll, err := a.factory(c, method, modelFile)
			if err != nil {
				return err
			}
			defer closeAll()
			m, err := factory()
			if err != nil {
				return err
			}
			front, err := closedloop.Steer(cmd.Context(), &c, m, a.seed, episodes, offline.DasDennis(c.Problem.Spec().ObjectiveSize(), divisions), a.progress("steer"))
			if err != nil {
				return err
			}
			out := report.Steering{Case: args[0], Method: method, Seed: a.seed, Commit: version.Build(), Device: device(), Front: front}
			out.Summarize()
			return a.Print(out, func(w io.Writer) error {
				if err := Table(w, out.Rows()); err != nil {
					return err
				}
				_, err := fmt.Fprintf(w, "\nhypervolume ratio to the exact front %s, regret %s %% on average, %s %% at worst\n", format("%.6f", out.HypervolumeRatio), format("%.4f", out.MeanRegretPct), format("%.4f", out.WorstRegretPct))
				return err
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&modelFile, "model", "", "model file (default: the bundled one)")
	f.StringVar(&method, "method", "gpc", "method that is steered")
	f.IntVar(&divisions, "divisions", 20, "divisions of the simplex's edge")
	f.IntVar(&episodes, "episodes", 20, "episodes at each preference")
	return cmd
}
