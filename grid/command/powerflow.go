package command

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/grid/results"
)

// PowerFlow is gpc pf.
func PowerFlow(a *cli.App) *cobra.Command {
	var opt powerflow.Options
	var flat bool
	var files outputs
	var after analysing
	scale := 1.0
	cmd := &cobra.Command{
		Use:   "pf FILE.m",
		Short: "AC power flow of a MATPOWER case: voltages, generation and branch flows",
		Long: `Solves the AC power flow by Newton's method, with the loads, generation and voltage
set-points of the file.

` + networkArgument() + `

--out writes the case with its solution, --csv its tables; both only if it converges.

--outages takes out one branch or unit at a time: every branch in service (branches),
every unit (units), both (all), or those of a file. Each outage is a power flow that
starts from the solution without outage; parts that are cut off without a reference
bus are left out. The reference takes up the power of a unit. The table lists limits
that are exceeded further than without outage, the worst outage first. An overload
counts as its share of the rating, and 0.01 pu of voltage as a tenth of the rating.
--emergency and --voltage-band widen the limits after an outage, and with --participation
units share the missing power, as in gpc opf --secure.

A power flow keeps no limit by itself: those that it breaks are listed at the end.

Exit code 1 says that it does not converge; with --outages, that an outage breaks a
limit, cuts off load or has no power flow.`,
		Example: "  " + a.Name + " pf case118 --enforce-q\n  " + a.Name + " pf network.m --csv out/tables\n  " + a.Name + " pf secure.m --outages all --emergency 1.3 --voltage-band 0.05 --enforce-q --participation range",
		Args:    cli.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if flat {
				opt.Start = powerflow.Flat
			}
			if err := opt.Validate(); err != nil {
				return gpc.BadInput(err)
			}
			if !(scale >= 0) || math.IsInf(scale, 1) {
				return cli.BadInputf("--scale %g: want a number of 0 or more", scale)
			}
			if err := aboveZero("tolerance", opt.Tolerance); err != nil {
				return err
			}
			if err := after.only(cmd.Flags()); err != nil {
				return err
			}
			if err := files.check(args[0]); err != nil {
				return err
			}
			c, n, err := readNetwork(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			opt.Context = cmd.Context()
			if after.outages != "" {
				r, err := after.run(cmd.Context(), n, opt, scale, a)
				if err != nil {
					return err
				}
				return a.PrintChecked(r.Secure >= len(r.Outages), r, func(w io.Writer) { printSecurity(w, r) })
			}
			result, solved, err := runPowerFlow(c, n, opt, scale)
			if err != nil {
				return gpc.BadInput(err)
			}
			if result.Converged {
				if err := files.write(solved, origin(c, "AC power flow")); err != nil {
					return err
				}
			}
			return a.PrintChecked(result.Converged, result, func(w io.Writer) { printPowerFlow(w, result) })
		},
	}
	f := cmd.Flags()
	f.BoolVar(&flat, "flat", false, "start from 1 pu and equal angles instead of the file's voltages")
	f.BoolVar(&opt.EnforceQ, "enforce-q", false, "hold generators within their reactive limits, except at the reference bus")
	f.Float64Var(&opt.Tolerance, "tolerance", 1e-9, "largest mismatch that counts as solved, pu")
	f.IntVar(&opt.MaxIterations, "max-iterations", 30, "largest number of Newton steps")
	f.Float64Var(&scale, "scale", 1, "factor on every load, active and reactive; the reference bus takes up the difference")
	after.flags(f)
	files.flags(f)
	return cmd
}

// runPowerFlow solves at the file's loads by a factor, and puts the solution in the case.
func runPowerFlow(c *matpower.Case, n *network.Network, opt powerflow.Options, scale float64) (*results.PowerFlow, *matpower.Case, error) {
	pr := results.FlowProblem{Options: opt}
	pr.Pd, pr.Qd = n.Loads(scale)
	r, sol, err := results.Flow(n, pr)
	if err != nil {
		return nil, nil, err
	}
	if !r.Converged {
		r.Reason += dispatchHint(n)
		return r, nil, nil
	}
	return r, solvedCase(c, n, scale, sol.Vm, sol.Va, sol.Pg, sol.Qg), nil
}

func printPowerFlow(w io.Writer, r *results.PowerFlow) {
	fmt.Fprintf(w, "%s, load %.2f MW: %s after %s, %.3f ms\n", r.Case, r.LoadMW, r.Status, count(r.Iterations, "iteration"), r.WallMS)
	if !r.Converged {
		fmt.Fprintln(w, r.Reason)
		return
	}
	fmt.Fprintf(w, "mismatch %.1e pu, loss %.3f MW", r.Mismatch, *r.LossMW)
	if r.Switches > 0 {
		fmt.Fprintf(w, ", %s to a reactive limit", countOf(r.Switches, "switch", "switches"))
	}
	fmt.Fprintln(w)
	rows := [][]string{{"bus", "type", "V pu", "angle °", "load MW", "load MVAr", "Q limit"}}
	for _, b := range r.Bus {
		rows = append(rows, []string{strconv.Itoa(b.ID), b.Type, fmt.Sprintf("%.4f", b.Vm), fmt.Sprintf("%.3f", b.Va), fmt.Sprintf("%.2f", b.Pd), fmt.Sprintf("%.2f", b.Qd), b.Limit})
	}
	printDispatch(w, &r.Dispatch, rows)
	if len(r.Violations) > 0 {
		fmt.Fprintln(w)
		printBroken(w, "broken limit", r.Violations)
	}
}
