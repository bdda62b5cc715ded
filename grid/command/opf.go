package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/optima"
	"github.com/gpc-engine/gpc/grid/results"
)

// optimalFlow is what gpc opf prints: voltages in pu and degrees, powers in MW,
// MVAr and MVA, prices in $/MWh. The lists are empty where there is no optimum.
type optimalFlow struct {
	Case       string               `json:"case"`             // of the network
	Status     string               `json:"status"`           // optimal, or why not
	Objective  *float64             `json:"objective"`        // $/h, or that of the weights; null without an optimum
	Reason     string               `json:"reason"`           // of another status, in a sentence; ""
	Iterations int                  `json:"iterations"`       // of the interior point
	WallMS     float64              `json:"wall_ms"`          // of the solve
	SetupMS    float64              `json:"setup_ms"`         // before it
	Mismatch   *float64             `json:"max_mismatch_pu"`  // largest power mismatch
	Violation  *float64             `json:"max_violation_pu"` // largest violation of a limit
	KKT        *optimalFlowKKT      `json:"kkt"`
	J          []float64            `json:"J"`                 // thermal penalty, voltage penalty, cost
	Ideal      []float64            `json:"ideal,omitempty"`   // least of each at these loads; with `--weights`
	Nadir      []float64            `json:"nadir,omitempty"`   // largest of each over the separate optima
	Weights    []float64            `json:"weights,omitempty"` // as given
	LoadMW     float64              `json:"load_mw"`           // of all buses
	LossMW     *float64             `json:"loss_mw"`           // of all branches
	Bus        []results.OptimalBus `json:"bus"`
	results.Dispatch
	Binding []results.Binding `json:"binding"` // those with a part in the optimum, the largest multiplier first
	Why     *why              `json:"why,omitempty"`
}

// optimalFlowKKT are MATPOWER's four conditions; see acopf.KKT.
type optimalFlowKKT struct {
	Feasibility     float64 `json:"feascond"` // MATPOWER's feasibility condition
	Gradient        float64 `json:"gradcond"` // its gradient condition
	Complementarity float64 `json:"compcond"` // its complementarity condition
	Cost            float64 `json:"costcond"` // its cost condition
}

// busTable are the rows of buses, the header first.
func busTable(buses []results.OptimalBus, price string) [][]string {
	rows := [][]string{{"bus", "V pu", "angle °", "load MW", "load MVAr", price}}
	for _, b := range buses {
		rows = append(rows, []string{strconv.Itoa(b.ID), fmt.Sprintf("%.4f", b.Vm), fmt.Sprintf("%.3f", b.Va), fmt.Sprintf("%.2f", b.Pd), fmt.Sprintf("%.2f", b.Qd), fmt.Sprintf("%.3f", b.Price)})
	}
	return rows
}

// OptimalFlow is gpc opf.
func OptimalFlow(a *cli.App) *cobra.Command {
	var weights []float64
	scale := 1.0
	dispatchable := network.DispatchableByFile.String()
	explained, starts := true, 1
	var files outputs
	var opt acopf.Options
	var several many
	var along seriesOf
	var securely securing
	cmd := &cobra.Command{
		Use:   "opf FILE.m|FOLDER...",
		Short: "AC optimal power flow of a MATPOWER case",
		Long: `Finds the cheapest dispatch of a network and prints prices, flows and binding
limits. The limits are those of the file: voltages, active and reactive power, |S|
at both ends of branches, and angles. The solver is an interior-point method with
exact second derivatives, and starts from a flat voltage profile.

` + networkArgument() + `

--weights replaces the cost by a weighted sum of thermal penalty, voltage penalty
and cost. Each is scaled by its range over the three separate optima.

Without an optimum, gpc prints the least relaxation that has one: by how much each
bus, generator and branch would have to exceed its limit. --why=false skips it.

--out writes the case with its optimum, prices and multipliers; --csv its tables.

Several files or a folder give a table, the smallest file first. It has the objective,
the gap to the published value (--published, or BASELINE.md in the folder), iterations
and the time of the first solve. It also has the largest violation of a limit by a
power flow of the dispatch. --record keeps each row in a file: run the same command to continue.

--loads solves a series of loads, such as a day in five-minute steps. Each row of
its table is a step, solved warm from the step before. Columns are time, scale,
pd_BUS, qd_BUS, or time, bus, pd, qd, in MW and MVAr. --results writes dispatch,
prices and flows as Parquet tables.

--secure finds the cheapest dispatch that also keeps every limit after any single
outage. --outages names them: every branch in service (branches), every unit (units),
both (all), or those of a file. No dispatch survives a branch that cuts off a part of
the network: such branches are left out and counted, and refused in a file. After
an outage units share the missing power (--participation) and hold their voltages
up to their reactive limits. Ratings and voltage limits are then wider (--emergency,
--voltage-band). A power flow checks every outage of the result.

Exit code 1 says that no optimum, or no secure one, was found; with several
networks or steps, that at least one has none.`,
		Example: "  " + a.Name + " opf case30\n  " + a.Name + " opf network.m --out solved.m\n  " + a.Name + " opf pglib-opf --record pglib.json\n  " + a.Name + " opf case118 --loads day.csv --results day\n  " + a.Name + " opf case118 --secure --outages branches",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.BadInputf("%s takes a case or more, got none; usage: %s", cmd.CommandPath(), cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !(scale >= 0) || math.IsInf(scale, 1) {
				return cli.BadInputf("--scale %g: want a number of 0 or more", scale)
			}
			if err := cmp.Or(aboveZero("feasibility", opt.Feasibility), aboveZero("optimality", opt.Optimality)); err != nil {
				return err
			}
			objective := acopf.Objective{}
			if cmd.Flags().Changed("weights") {
				if err := (domain.Preference{W: weights}).Validate(len(objective.Weights)); err != nil {
					return cli.BadInputf("--weights: %w", err)
				}
				copy(objective.Weights[:], weights)
			}
			var err error
			if opt.Dispatchable, err = network.ParseDispatchable(dispatchable); err != nil {
				return cli.BadInputf("--dispatchable %w", err)
			}
			if err := opt.Validate(); err != nil {
				return gpc.BadInput(err)
			}
			if err := checkStarts(starts); err != nil {
				return err
			}
			if severalNetworks(args) {
				for _, name := range []string{"weights", "why", "out", "csv", "loads", "results", "chains", "secure", "outages", "emergency", "voltage-band", "participation"} {
					if cmd.Flags().Changed(name) {
						return cli.BadInputf("--%s needs a single network, several are given", name)
					}
				}
				opt.Threads = a.Threads()
				several.app, several.opt, several.scale, several.starts = a, opt, scale, starts
				r, err := several.run(cmd.Context(), args)
				if err != nil {
					return err
				}
				missed := slices.ContainsFunc(r.Networks, func(n optima.Network) bool { return !n.Optimal() })
				return a.PrintChecked(!missed, r, optimaPrinted(r))
			}
			for _, name := range []string{"published", "record", "max-load", "any-load"} {
				if cmd.Flags().Changed(name) {
					return cli.BadInputf("--%s needs several networks or a folder, one is given", name)
				}
			}
			if err := securely.only(cmd.Flags()); err != nil {
				return err
			}
			if err := along.only(cmd.Flags()); err != nil {
				return err
			}
			if err := files.check(args[0]); err != nil {
				return err
			}
			if err := along.check(args[0], along.loads); err != nil {
				return err
			}
			c, n, err := readNetwork(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			note, err := n.DispatchableNote(opt.Dispatchable)
			if err != nil {
				return gpc.BadInput(err)
			}
			if note != "" {
				fmt.Fprintf(a.Stderr, "%s: %s (--dispatchable %s)\n", args[0], note, dispatchable)
			}
			opt.Threads = a.Threads()
			if securely.on {
				securely.opt.Threads, securely.opt.Dispatchable, securely.opt.MaxIterations = a.Threads(), opt.Dispatchable, 0
				if cmd.Flags().Changed("max-iterations") {
					securely.opt.MaxIterations = opt.MaxIterations
				}
			}
			if securely.on && along.loads != "" {
				r, err := securely.chain(cmd.Context(), a, n, along.loads)
				if err != nil {
					return err
				}
				return a.PrintChecked(r.Secure >= r.Steps, r, r.print)
			}
			if along.loads != "" {
				r, err := along.run(cmd.Context(), n, opt, a.Stderr)
				if err != nil {
					return err
				}
				return a.PrintChecked(r.Optimal >= r.Steps, r, r.print)
			}
			if securely.on {
				r, solved, err := securely.run(cmd.Context(), a, c, n, scale)
				if err != nil {
					return err
				}
				if solved != nil {
					if err := files.write(solved, origin(c, "security-constrained AC optimal power flow")); err != nil {
						return err
					}
				}
				return a.PrintChecked(solved != nil, r, func(w io.Writer) { printSecure(w, r) })
			}
			result, solved, err := runOptimalFlow(cmd, c, n, opt, objective, scale, starts)
			if err != nil {
				return err
			}
			switch {
			case solved != nil:
				if err := files.write(solved, origin(c, "AC optimal power flow")); err != nil {
					return err
				}
			case explained:
				pd, qd := n.Loads(scale)
				if result.Why, err = explain(cmd.Context(), n, pd, qd, opt); err != nil {
					return err
				}
			}
			return a.PrintChecked(result.Status == acopf.Optimal.String(), result, result.print)
		},
	}
	f := cmd.Flags()
	f.Float64SliceVar(&weights, "weights", nil, "`weights` of thermal penalty, voltage penalty and cost, which sum to 1 (default: the cost alone)")
	f.Float64Var(&scale, "scale", 1, "factor on every load, active and reactive")
	f.IntVar(&starts, "starts", 1, "2 also solves from the nearest feasible point, and takes the lower optimum")
	f.StringVar(&dispatchable, "dispatchable", dispatchable, "`rule` for units that are loads (PMIN < 0, PMAX = 0): power-factor keeps the constant power factor of MATPOWER, plain leaves P and Q free as PGLib does, file takes plain for cases of PGLib and power-factor for others")
	f.BoolVar(&explained, "why", true, "without an optimum, look for the least relaxation of the limits")
	files.flags(f)
	along.flags(f)
	securely.flags(f)
	f.StringVar(&several.published, "published", "", "with several networks: `FILE` with tables of published optima (default: "+publishedTable+" in a folder)")
	f.StringVar(&several.record, "record", "", "with several networks: `FILE.json` to keep the results in; a network in it is not solved again")
	f.Float64Var(&several.limit.Load, "max-load", 0, "with several networks: exit with code 1 if the load average of the machine is above this before or after (default: no limit)")
	f.BoolVar(&several.limit.Any, "any-load", false, "continue above --max-load, and note it in the record")
	f.IntVar(&opt.MaxIterations, "max-iterations", 150, "largest number of interior-point iterations of one attempt; one that finds no optimum is followed by another")
	f.Float64Var(&opt.Feasibility, "feasibility", 1e-9, "largest mismatch of power and violation of a limit that counts as solved, pu")
	f.Float64Var(&opt.Optimality, "optimality", 1e-8, "largest scaled gradient and relative duality gap that counts as optimal")
	return cmd
}

// runOptimalFlow solves and puts the solution in the file's units, and in the case, which is
// nil where there is none.
func runOptimalFlow(cmd *cobra.Command, c *matpower.Case, n *network.Network, opt acopf.Options, objective acopf.Objective, scale float64, starts int) (*optimalFlow, *matpower.Case, error) {
	start := time.Now()
	s, err := acopf.New(n, opt)
	if err != nil {
		return nil, nil, gpc.BadInput(err)
	}
	out := &optimalFlow{Case: n.Name, Bus: []results.OptimalBus{}, Dispatch: results.NoDispatch, J: []float64{}, Binding: []results.Binding{}}
	var pr acopf.Problem
	pr.Pd, pr.Qd = n.Loads(scale)
	for _, p := range pr.Pd {
		out.LoadMW += p * n.BaseMVA
	}
	out.SetupMS = float64(time.Since(start)) / 1e6
	if !objective.FileCost() {
		ideal, nadir, err := s.PayoffTable(cmd.Context(), pr)
		var no acopf.StatusError
		switch {
		case errors.As(err, &no):
			out.Status = no.Status.String()
			return out, nil, nil
		case err != nil:
			return nil, nil, err
		}
		objective.Ideal, objective.Nadir = ideal, nadir
		out.Ideal, out.Nadir, out.Weights = ideal[:], nadir[:], objective.Weights[:]
	}
	pr.Objective = objective
	start = time.Now()
	ends, _, r, err := solveFrom(cmd.Context(), s, pr, starts)
	if err != nil {
		return nil, nil, err
	}
	out.WallMS = float64(time.Since(start)) / 1e6
	out.Status, out.Reason = r.Status.String(), r.Reason()
	for _, end := range ends {
		out.Iterations += end.Iterations
	}
	if r.Status != acopf.Optimal {
		return out, nil, nil
	}
	out.Objective, out.Mismatch, out.Violation, out.J = &r.Objective, &r.KKT.Mismatch, &r.KKT.Violation, r.J[:]
	out.KKT = &optimalFlowKKT{r.KKT.Feasibility, r.KKT.Gradient, r.KKT.Complementarity, r.KKT.Cost}
	out.Bus = results.OptimalBuses(n, pr.Pd, pr.Qd, r.Vm, r.Va, r.LambdaP)
	out.Dispatch = results.NewDispatch(n, r.Vm, r.Va, r.Pg, r.Qg)
	loss := out.Dispatch.Loss()
	out.LossMW = &loss
	multipliers := s.LimitMultipliers(&pr, r)
	out.Binding = results.NewPoint(n, r.Vm, r.Va, r.Pg, r.Qg).Binding(r, &multipliers)
	solved := solvedCase(c, n, scale, r.Vm, r.Va, r.Pg, r.Qg)
	withMultipliers(solved, n, r, &multipliers)
	return out, solved, nil
}

func (r *optimalFlow) print(w io.Writer) {
	fmt.Fprintf(w, "%s, load %.2f MW: %s after %s, %.3f ms\n", r.Case, r.LoadMW, r.Status, count(r.Iterations, "iteration"), r.WallMS)
	if r.Reason != "" {
		fmt.Fprintln(w, r.Reason)
	}
	if r.Why != nil {
		r.Why.print(w)
		return
	}
	if r.Objective == nil {
		return
	}
	if r.Weights == nil {
		fmt.Fprintf(w, "objective %.4f $/h\n", *r.Objective)
	} else {
		fmt.Fprintf(w, "objective %.6f, weighted of\n", *r.Objective)
		rows := [][]string{{"", "weight", "value", "least (ideal)", "largest (nadir)", "unit"}}
		for m, name := range []string{"thermal penalty", "voltage penalty", "cost"} {
			format, unit := "%.3e", "1"
			if name == "cost" {
				format, unit = "%.4f", "$/h"
			}
			rows = append(rows, []string{name, fmt.Sprintf("%g", r.Weights[m]), fmt.Sprintf(format, r.J[m]), fmt.Sprintf(format, r.Ideal[m]), fmt.Sprintf(format, r.Nadir[m]), unit})
		}
		cli.Table(w, rows)
	}
	fmt.Fprintf(w, "mismatch %.1e pu, loss %.3f MW, violation %.1e pu, KKT %.1e\n", *r.Mismatch, *r.LossMW, *r.Violation, max(r.KKT.Feasibility, r.KKT.Gradient, r.KKT.Complementarity, r.KKT.Cost))
	price := "$/MWh"
	if r.Weights != nil {
		price = "objective/MWh"
	}
	printDispatch(w, &r.Dispatch, busTable(r.Bus, price))
	if len(r.Binding) == 0 {
		return
	}
	binding := [][]string{{"binding limit", "at", "value", "unit", strings.Replace(price, "MWh", "h a unit", 1)}}
	for _, l := range r.Binding {
		binding = append(binding, []string{l.Kind, l.Where(), fmt.Sprintf("%.4f", l.Value), l.Unit, fmt.Sprintf("%.4g", l.Multiplier)})
	}
	fmt.Fprintln(w)
	cli.Table(w, binding)
}
