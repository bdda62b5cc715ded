package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/closedloop"
)

func (a *App) steerCommand() *cobra.Command {
	var modelFile, method string
	var divisions int
	var opt closedloop.SteerOptions
	var guard alteration
	cmd := &cobra.Command{
		Use:   "steer CASE",
		Short: "Sweep the weights of the objectives with one map, and compare with the exact Pareto front",
		Args:  ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, setup, err := a.Setup(cmd, args[0], modelFile, method)
			if err != nil {
				return err
			}
			if c, err = guard(c); err != nil {
				return err
			}
			opt.Seed, opt.Progress = a.seed, a.Progress("steer")
			out, err := c.Steer(cmd.Context(), setup, a.Engine(), divisions, opt)
			if err != nil {
				return err
			}
			return a.Print(out, func(w io.Writer) {
				Table(w, closedloop.SteeringRows(out))
				fmt.Fprintln(w)
				Table(w, closedloop.SteeringSummaryRows(*out))
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&modelFile, "model", "", "model file (default: the bundled map)")
	f.StringVar(&method, "method", "", "method that is steered (default: the one that the map was compiled for, or the first of gpc methods CASE)")
	f.IntVar(&divisions, "divisions", 20, "divisions of the simplex's edge")
	f.IntVar(&opt.Episodes, "episodes", 20, "episodes at each preference")
	guard = guardFlags(cmd)
	return cmd
}
