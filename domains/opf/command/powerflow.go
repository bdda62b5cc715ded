package command

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
)

// powerFlow is what gpc pf prints: voltages in pu and degrees, powers in MW,
// MVAr and MVA. The lists are empty where it did not converge.
type powerFlow struct {
	Case       string         `json:"case"`            // of the network
	Converged  bool           `json:"converged"`       // whether it did
	Status     string         `json:"status"`          // in a word
	Reason     string         `json:"reason"`          // in a sentence
	Iterations int            `json:"iterations"`      // Newton steps
	Mismatch   float64        `json:"max_mismatch_pu"` // largest power mismatch
	WallMS     float64        `json:"wall_ms"`         // of the solve
	LoadMW     float64        `json:"load_mw"`         // of all buses
	LossMW     *float64       `json:"loss_mw"`         // of all branches
	Switches   int            `json:"switches"`        // of units to a reactive limit
	Bus        []powerFlowBus `json:"bus"`
	dispatch
	Violations []brokenLimit `json:"violations"` // limits of voltages, ratings and units that the solution breaks, the worst of each kind first
}

type powerFlowBus struct {
	ID    int     `json:"id"`      // number in the file
	Type  string  `json:"type"`    // slack, PV or PQ
	Vm    float64 `json:"vm"`      // voltage, pu
	Va    float64 `json:"va"`      // angle, °
	Pd    float64 `json:"pd"`      // active load, MW
	Qd    float64 `json:"qd"`      // reactive load, MVAr
	Limit string  `json:"q_limit"` // min or max where a unit is held there; ""
}

// PowerFlow is gpc pf.
func PowerFlow(a *cli.App) *cobra.Command {
	var opt powerflow.Options
	var flat bool
	var files outputs
	scale, outages := 1.0, ""
	cmd := &cobra.Command{
		Use:   "pf FILE.m",
		Short: "AC power flow of a MATPOWER case: voltages, generation and branch flows",
		Long: `Solves the AC power flow by Newton's method, with the loads, generation and voltage
set-points of the file.

` + networkArgument() + `

--out writes the case with its solution, --csv its tables; both only if it converges.

--outages takes out one branch or unit at a time: all branches, all units, or those
of a file. Each outage is a power flow that starts from the solution without outage;
parts that are cut off without a reference bus are left out. The table lists limits
that are exceeded further than without outage, the worst outage first. An overload
counts as its share of the rating, and 0.01 pu of voltage as a tenth of the rating.

A power flow keeps no limit by itself: those that it breaks are listed at the end.

Exit code 1 says that it does not converge; with --outages, that an outage breaks a
limit, cuts off load or has no power flow.`,
		Example: "  " + a.Name + " pf case118 --enforce-q\n  " + a.Name + " pf network.m --csv out/tables",
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
			if outages != "" && (cmd.Flags().Changed("out") || cmd.Flags().Changed("csv")) {
				return cli.BadInputf("--outages solves many power flows: leave out --out and --csv, which write one")
			}
			if err := files.check(args[0]); err != nil {
				return err
			}
			c, n, err := readNetwork(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			opt.Context = cmd.Context()
			if outages != "" {
				r, err := runOutages(cmd.Context(), n, opt, scale, outages, a.Threads())
				if err != nil {
					return err
				}
				return a.PrintChecked(r.Secure >= len(r.Outages), r, r.print)
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
			return a.PrintChecked(result.Converged, result, result.print)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&flat, "flat", false, "start from 1 pu and equal angles instead of the file's voltages")
	f.BoolVar(&opt.EnforceQ, "enforce-q", false, "hold generators within their reactive limits, except at the reference bus")
	f.Float64Var(&opt.Tolerance, "tolerance", 1e-9, "largest mismatch that counts as solved, pu")
	f.IntVar(&opt.MaxIterations, "max-iterations", 30, "largest number of Newton steps")
	f.Float64Var(&scale, "scale", 1, "factor on every load, active and reactive; the reference bus takes up the difference")
	f.StringVar(&outages, "outages", "", "analyse single outages: branches, units, or a `FILE` of lines such as \"branch 7\" and \"unit 2\", which count rows of mpc.branch and mpc.gen")
	files.flags(f)
	return cmd
}

// runPowerFlow solves and puts the solution in the file's units, and in the case.
func runPowerFlow(c *matpower.Case, n *network.Network, opt powerflow.Options, scale float64) (*powerFlow, *matpower.Case, error) {
	s, err := powerflow.New(n)
	if err != nil {
		return nil, nil, err
	}
	var in powerflow.Input
	in.Pd, in.Qd = n.Loads(scale)
	sol := s.NewSolution()
	start := time.Now()
	if err := s.Solve(in, opt, sol); err != nil {
		return nil, nil, err
	}
	r := &powerFlow{
		Case: n.Name, Converged: sol.Converged(), Status: sol.Status.String(), Reason: s.Reason(sol), Iterations: sol.Iterations,
		Mismatch: sol.Mismatch, WallMS: float64(time.Since(start)) / 1e6, Switches: sol.Switches,
		Bus: []powerFlowBus{}, dispatch: noDispatch, Violations: []brokenLimit{},
	}
	for _, p := range in.Pd {
		r.LoadMW += p * n.BaseMVA
	}
	if !r.Converged {
		return r, nil, nil
	}
	for b, id := range n.BusID {
		limit := map[int8]string{-1: "min", 0: "", 1: "max"}[sol.AtLimit[b]]
		r.Bus = append(r.Bus, powerFlowBus{ID: id, Type: n.Kind[b].String(), Vm: sol.Vm[b], Va: sol.Va[b] * 180 / math.Pi,
			Pd: in.Pd[b] * n.BaseMVA, Qd: in.Qd[b] * n.BaseMVA, Limit: limit})
	}
	r.dispatch = newDispatch(n, sol.Vm, sol.Va, sol.Pg, sol.Qg)
	loss := r.dispatch.loss()
	r.LossMW = &loss
	r.Violations = newPoint(n, sol.Vm, sol.Va, sol.Pg, sol.Qg).broken()
	return r, solvedCase(c, n, scale, sol.Vm, sol.Va, sol.Pg, sol.Qg), nil
}

func (r *powerFlow) print(w io.Writer) {
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
	r.tables(w, rows)
	if len(r.Violations) > 0 {
		fmt.Fprintln(w)
		printBroken(w, "broken limit", r.Violations)
	}
}
