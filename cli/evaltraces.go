package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
)

func (a *App) joinCommand() *cobra.Command {
	var runs []string
	cmd := &cobra.Command{
		Use:   "join CASE TRACE...",
		Short: "Join the traces of an evaluation's shards into the statistics of the whole",
		Args:  AtLeast(2, "eval join needs a case and the traces of its shards"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Find(args[0])
			if err != nil {
				return err
			}
			result, err := closedloop.Join(cmd.Context(), c.Spec(), args[1:])
			if err != nil {
				return gpc.BadInput(err)
			}
			if err := OnceFiles("--runs", runs); err != nil {
				return err
			}
			if result.Load, err = loadOf(runs); err != nil {
				return err
			}
			return a.Print(result, func(w io.Writer) { RenderEvaluation(w, []*closedloop.Result{result}) })
		},
	}
	requeueFlag(cmd, "")
	cmd.Flags().StringSliceVar(&runs, "runs", nil, "`files` with what gpc eval --json printed for each shard: the result has the highest load of the machine among them")
	return cmd
}

func (a *App) compareCommand() *cobra.Command {
	var untimed bool
	cmd := &cobra.Command{
		Use:   "compare TRACE TRACE...",
		Short: "Compare the costs of methods from their traces, on the episodes in which all are safe",
		Args:  AtLeast(2, "eval compare needs at least two traces of the same episodes"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := OnceFiles(cmd.CommandPath(), args); err != nil {
				return err
			}
			compared, err := closedloop.Compare(cmd.Context(), args)
			if err != nil {
				return gpc.BadInput(err)
			}
			if untimed {
				for i := range compared {
					compared[i].Untimed()
				}
			}
			result := closedloop.Compared{Comparisons: compared}
			return a.Print(result, func(w io.Writer) {
				rows := [][]string{{"case", "method", "episodes", "safe", "with a way", "safe of these", "compared", "mean cost", "difference %", "± s.e.m.", "median", "p90", "mean margin", "p50 ms", "p99 ms", "first p50 ms"}}
				for _, r := range compared {
					rows = append(rows, append([]string{
						r.Case, r.Method, fmt.Sprint(r.Episodes), fmt.Sprint(r.Safe), fmt.Sprint(r.Way), fmt.Sprint(r.SafeOfWay), fmt.Sprint(r.Compared), r.CostMean.Text("%.3f"),
						r.DifferencePct.Text("%.3f"), r.DifferenceSEM.Text("%.3f"), r.Difference.Median.Text("%.3f"), r.Difference.P90.Text("%.3f"), r.MarginMean.Text("%.3f"),
					}, decisionTimes("%.2f", 1e3, &r.Latency)...))
				}
				Table(w, rows)
			})
		},
	}
	cmd.Flags().BoolVar(&untimed, "untimed", false, untimedUsage)
	return cmd
}
