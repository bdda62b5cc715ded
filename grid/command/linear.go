package command

import (
	"cmp"
	"encoding/csv"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/dcopf"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/results"
	"github.com/gpc-engine/gpc/internal/durable"
)

// linearFlow is gpc pf dc.
func linearFlow(a *cli.App) *cobra.Command {
	var files outputs
	var ptdf, lodf string
	scale := 1.0
	cmd := &cobra.Command{
		Use:   "dc FILE.m",
		Short: "DC power flow: the linear model, and its distribution factors",
		Long: `Solves the linear power flow: voltages of 1 pu, no losses, and flows that follow from
reactances, taps and phase shifts alone. The reference takes up the balance.

--ptdf writes the power transfer distribution factors: a row for each branch in service,
a column for each bus. --lodf writes the line outage distribution factors: a row for each
branch that is out, a column for each branch. They are empty where an island is left.`,
		Example: "  " + a.Name + " pf dc case118 --ptdf ptdf.csv --lodf lodf.csv",
		Args:    cli.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(checkScale(scale), files.check(cmd, args[0], solvedTables...)); err != nil {
				return err
			}
			c, n, err := readNetwork(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			pd, _ := n.Loads(scale)
			result, point, err := results.LinearFlow(n, pd, n.Pg0)
			if err != nil {
				return gpc.BadInput(err)
			}
			if err := cmp.Or(files.write(solvedCase(c, n, scale, point), origin(c, "DC power flow")), writeFactors(n, ptdf, lodf)); err != nil {
				return err
			}
			return a.PrintChecked(true, result, func(w io.Writer) { printPowerFlow(w, result) })
		},
	}
	f := cmd.Flags()
	f.Float64Var(&scale, "scale", 1, "factor on every load; the reference bus takes up the difference")
	f.StringVar(&ptdf, "ptdf", "", "`FILE.csv` to write power transfer distribution factors to")
	f.StringVar(&lodf, "lodf", "", "`FILE.csv` to write line outage distribution factors to")
	files.flags(f)
	return cmd
}

// writeFactors writes distribution factors as tables, a row at a time.
func writeFactors(n *network.Network, ptdf, lodf string) error {
	dc, err := network.NewDC(n)
	if err != nil {
		return err
	}
	table := func(path, name string, columns []int, first int, row func(int) []float64) error {
		if path == "" {
			return nil
		}
		header := []string{name, "from", "to"}
		for _, id := range columns {
			header = append(header, strconv.Itoa(id+first))
		}
		return durable.Create(path, func(w io.Writer) error {
			out := csv.NewWriter(w)
			err := out.Write(header)
			for k := 0; err == nil && k < n.Branches(); k++ {
				err = out.Write(rowOf([]int{n.BranchRow[k] + 1, n.BusID[n.From[k]], n.BusID[n.To[k]]}, row(k)...))
			}
			out.Flush()
			return cmp.Or(err, out.Error())
		})
	}
	return cmp.Or(table(ptdf, "branch", n.BusID, 0, dc.BranchFactors), table(lodf, "out", n.BranchRow, 1, dc.OutageFactors))
}

// linearOptimum is gpc opf dc.
func linearOptimum(a *cli.App) *cobra.Command {
	var files outputs
	scale := 1.0
	cmd := &cobra.Command{
		Use:   "dc FILE.m",
		Short: "DC optimal power flow: the cheapest dispatch of the linear model",
		Long: `Finds the cheapest active powers of the linear model of pf dc: limits of units, ratings as
limits of active power, and limits of angles. Costs may be polynomials or piecewise linear.

Exit code 1 says that no optimum was found.`,
		Example: "  " + a.Name + " opf dc case30 --csv out/tables",
		Args:    oneNetwork,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(checkScale(scale), files.check(cmd, args[0], solvedTables...)); err != nil {
				return err
			}
			c, n, err := readNetwork(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			start := time.Now()
			s, err := dcopf.New(n)
			if err != nil {
				return gpc.BadInput(err)
			}
			pd, _ := n.Loads(scale)
			out := newOptimalFlow(n, pd)
			out.SetupMS = milliseconds(time.Since(start))
			start = time.Now()
			r, m, err := s.Solve(cmd.Context(), pd)
			if err != nil {
				return err
			}
			out.WallMS = milliseconds(time.Since(start))
			out.Status, out.Reason, out.Iterations = r.Status.String(), dcopf.Reason(r), r.Iterations
			if r.Status == acopf.Optimal {
				solved := out.fill(c, n, results.LinearPoint(n, s.DC(), r.Va, r.Pg), pd, make([]float64, n.Buses()), r, m, scale)
				if err := files.write(solved, origin(c, "DC optimal power flow")); err != nil {
					return err
				}
			}
			return a.PrintChecked(r.Status == acopf.Optimal, out, out.print)
		},
	}
	cmd.Flags().Float64Var(&scale, "scale", 1, "factor on every load")
	files.flags(cmd.Flags())
	return cmd
}
