package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/results"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// optimalFlow is the output of gpc opf: voltages in pu and degrees, powers in MW, MVAr and MVA, prices in $/MWh. The
// lists are empty without an optimum.
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
	Controls   []results.Control        `json:"controls,omitempty"`             // with their settings, with `--controls`
	Continuous *float64                 `json:"continuous_objective,omitempty"` // before settings in steps were rounded
	Binding    []results.Binding        `json:"binding"`                        // those with a part in the optimum, the largest multiplier first
	Soft       []results.Broken         `json:"soft,omitempty"`                 // limits that give at their price, with `--soft`
	Relaxation *results.LeastRelaxation `json:"why,omitempty"`

	settings []float64 // of the controls
	point    results.Point
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
	rows := [][]string{{"bus", "V pu", "angle °", "load MW", "load MVAr", price, "name"}}
	for _, b := range buses {
		rows = append(rows, []string{strconv.Itoa(b.ID), fmt.Sprintf("%.4f", b.Vm), fmt.Sprintf("%.3f", b.Va), fmt.Sprintf("%.2f", b.Pd), fmt.Sprintf("%.2f", b.Qd), fmt.Sprintf("%.3f", b.Price), b.Name})
	}
	return rows
}

// optimalFlags are the flags common to optimal power flows.
type optimalFlags struct {
	opt          acopf.Options
	scale        float64
	starts       int
	dispatchable string
}

func newOptimalFlags() optimalFlags {
	return optimalFlags{acopf.Options{MaxIterations: 150, Feasibility: 1e-9, Optimality: 1e-8}, 1, 1, network.DispatchableByFile.String()}
}

func (y *optimalFlags) ruleFlag(f *pflag.FlagSet) {
	f.StringVar(&y.dispatchable, "dispatchable", y.dispatchable, "`rule` for units that are loads (PMIN < 0, PMAX = 0): power-factor keeps the constant power factor of MATPOWER, plain leaves P and Q free as PGLib does, file takes plain for cases of PGLib and power-factor for others")
}

func (y *optimalFlags) scaleFlag(f *pflag.FlagSet) {
	f.Float64Var(&y.scale, "scale", y.scale, "factor on every load, active and reactive")
}

func (y *optimalFlags) startsFlag(f *pflag.FlagSet) {
	f.IntVar(&y.starts, "starts", y.starts, "2 also solves from the nearest feasible point, and takes the lower optimum")
}

func (y *optimalFlags) solverFlags(f *pflag.FlagSet) {
	f.IntVar(&y.opt.MaxIterations, "max-iterations", y.opt.MaxIterations, "largest number of interior-point iterations of one attempt; one that finds no optimum is followed by another")
	f.Float64Var(&y.opt.Feasibility, "feasibility", y.opt.Feasibility, "largest mismatch of power and violation of a limit that counts as solved, pu")
	f.Float64Var(&y.opt.Optimality, "optimality", y.opt.Optimality, "largest scaled gradient and relative duality gap that counts as optimal")
}

// check reads and validates the flags.
func (y *optimalFlags) check(a *cli.App) error {
	if err := cmp.Or(checkScale(y.scale), aboveZero("feasibility", y.opt.Feasibility), aboveZero("optimality", y.opt.Optimality)); err != nil {
		return err
	}
	var err error
	if y.opt.Dispatchable, err = network.ParseDispatchable(y.dispatchable); err != nil {
		return cli.BadInputf("--dispatchable %w", err)
	}
	if err := y.opt.Validate(); err != nil {
		return gpc.BadInput(err)
	}
	y.opt.Threads = a.Threads()
	return checkStarts(y.starts)
}

// read reads the network of an argument, and notes how its dispatchable loads are treated.
func (y *optimalFlags) read(ctx context.Context, a *cli.App, argument string) (*matpower.Case, *network.Network, error) {
	c, n, err := readNetwork(ctx, a, argument)
	if err != nil {
		return nil, nil, err
	}
	note, err := n.DispatchableNote(y.opt.Dispatchable)
	if err != nil {
		return nil, nil, gpc.BadInput(err)
	}
	if note != "" {
		fmt.Fprintf(a.Stderr, "%s: %s (--dispatchable %s)\n", argument, note, y.dispatchable)
	}
	return c, n, nil
}

// OptimalFlow is gpc opf.
func OptimalFlow(a *cli.App) *cobra.Command {
	y := newOptimalFlags()
	var weights []float64
	explained, soft, controls := true, map[string]string{}, ""
	var files outputs
	cmd := &cobra.Command{
		Use:     "opf FILE.m",
		GroupID: cli.GroupNetworks,
		Short:   "AC optimal power flow of a MATPOWER case; of several, of a series of loads, and secure",
		Long: `Finds the cheapest dispatch of a network and prints prices, flows and binding
limits. The limits are those of the file: voltages, active and reactive power, |S|
at both ends of branches, and angles. The solver is an interior-point method with
exact second derivatives, and starts from a flat voltage profile.

` + networkArgument() + `

A file with the name of a command below is given with its folder, such as ./batch.

--weights replaces the cost by a weighted sum of thermal penalty, voltage penalty
and cost. Each is scaled by its range over the three separate optima.

--soft lets limits give at a price, as MATPOWER's softlims: --soft rating=1000,voltage=1e5.
One limit has a price of its own by its bus or row, vmin:7=2e5, or none: rating:3=inf.

--controls makes ratios, phase shifts and shunts variables within their ranges. Those
in steps are then rounded to the next one, and the rest is solved again.

Without an optimum, gpc prints the least relaxation that has one: by how much each
bus, generator and branch would have to exceed its limit. --why=false skips it.

--out writes the case with its optimum, prices and multipliers; --csv its tables.

Exit code 1 says that no optimum was found.`,
		Example: "  " + a.Name + " opf case30\n  " + a.Name + " opf network.m --out solved.m",
		Args:    oneNetwork,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := y.check(a); err != nil {
				return err
			}
			objective := acopf.Objective{}
			if cmd.Flags().Changed("weights") {
				if err := (domain.Preference{W: weights}).Validate(len(objective.Weights)); err != nil {
					return cli.BadInputf("--weights: %w", err)
				}
				copy(objective.Weights[:], weights)
			}
			if f := cmd.Flags(); len(soft) > 0 && (f.Changed("weights") || f.Changed("starts")) {
				return cli.BadInputf("--soft takes no --weights and --starts: what gives is priced next to the cost of the file, from one start")
			}
			if err := files.check(cmd, args[0], solvedTables...); err != nil {
				return err
			}
			c, n, err := y.read(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			list, err := readControls(n, controls)
			if err != nil {
				return err
			}
			y.opt.Ranges = results.Ranges(list)
			solve := func() (*optimalFlow, *matpower.Case, error) {
				if len(soft) > 0 {
					return runSoftFlow(cmd.Context(), c, n, y.opt, soft, y.scale)
				}
				return runOptimalFlow(cmd, c, n, y.opt, objective, y.scale, y.starts)
			}
			result, solved, err := solve()
			if err != nil {
				return err
			}
			if solved != nil {
				if ranges, discrete := results.Rounded(list, y.opt.Ranges, result.settings); discrete {
					continuous := result.Objective
					y.opt.Ranges = ranges
					if result, solved, err = solve(); err != nil {
						return err
					}
					if result.Continuous = continuous; solved == nil {
						result.Reason = "with settings rounded to their steps: " + result.Reason
					}
				}
			}
			if solved != nil {
				results.Settle(list, result.settings, result.point)
				results.Put(solved, n, list)
				result.Controls = list
			}
			switch {
			case solved != nil:
				if err := files.write(solved, origin(c, "AC optimal power flow")); err != nil {
					return err
				}
			case explained:
				pd, qd := n.Loads(y.scale)
				if result.Relaxation, err = results.Least(cmd.Context(), n, pd, qd, y.opt); err != nil {
					return err
				}
			}
			return a.PrintChecked(result.Status == acopf.Optimal.String(), result, result.print)
		},
	}
	f := cmd.Flags()
	f.Float64SliceVar(&weights, "weights", nil, "`weights` of thermal penalty, voltage penalty and cost, which sum to 1 (default: the cost alone)")
	f.BoolVar(&explained, "why", true, "without an optimum, look for the least relaxation of the limits")
	f.StringToStringVar(&soft, "soft", nil, "limits that may give at a price: rating=`$/MVAh`, voltage=$/h per pu (or vmin, vmax), angle=$/h per degree (angmin, angmax), generation=$/MWh (pmin, pmax, qmin, qmax), or one of these with a number, rating:3; the others stay hard")
	f.StringVar(&controls, "controls", "", "`FILE` of transformers, phase shifters and shunts whose settings are variables, in lines such as \"tap 8 0.9 1.1 16\": row, range and steps; \"shift 4 -30 30\" in degrees, \"shunt 9 0 40\" in MVAr, or those of pf --controls, whose bands count as none here. \"file\" takes those of a PSS/E file")
	files.flags(f)
	y.ruleFlag(f)
	y.scaleFlag(f)
	y.startsFlag(f)
	y.solverFlags(f)
	cmd.AddCommand(batchCommand(a), linearOptimum(a), seriesCommand(a), secureCommand(a))
	suggestCommand(cmd, map[string]string{
		"secure": "opf secure", "outages": "opf secure", "emergency": "opf secure", "voltage-band": "opf secure", "participation": "opf secure",
		"loads": "opf series", "results": "opf series", "chains": "opf series",
		"published": "opf batch", "record": "opf batch", "max-load": "opf batch", "any-load": "opf batch",
	})
	return cmd
}

// newOptimalFlow is the output without an optimum at active loads, pu.
func newOptimalFlow(n *network.Network, pd []float64) *optimalFlow {
	return &optimalFlow{Case: n.Name, LoadMW: n.MW(pd), Bus: []results.OptimalBus{}, Dispatch: results.NoDispatch, J: []float64{}, Binding: []results.Binding{}}
}

// runOptimalFlow solves, and returns the solution in the file's units and as a case, which is nil without an
// optimum.
func runOptimalFlow(cmd *cobra.Command, c *matpower.Case, n *network.Network, opt acopf.Options, objective acopf.Objective, scale float64, starts int) (*optimalFlow, *matpower.Case, error) {
	start := time.Now()
	s, err := acopf.New(n, opt)
	if err != nil {
		return nil, nil, gpc.BadInput(err)
	}
	var pr acopf.Problem
	pr.Pd, pr.Qd = n.Loads(scale)
	out := newOptimalFlow(n, pr.Pd)
	out.SetupMS = milliseconds(time.Since(start))
	if !objective.FileCost() {
		ideal, nadir, err := s.PayoffTable(cmd.Context(), pr)
		var statusError acopf.StatusError
		switch {
		case errors.As(err, &statusError):
			out.Status = statusError.Status.String()
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
	out.WallMS = milliseconds(time.Since(start))
	out.Status, out.Reason = r.Status.String(), r.Reason()
	for _, end := range ends {
		out.Iterations += end.Iterations
	}
	if r.Status != acopf.Optimal {
		return out, nil, nil
	}
	multipliers := s.LimitMultipliers(&pr, r)
	return out, out.fill(c, n, results.NewPoint(acopf.Settled(n, opt.Ranges, r.Settings), r.Vm, r.Va, r.Pg, r.Qg), pr.Pd, pr.Qd, r, &multipliers, scale), nil
}

// runSoftFlow solves with soft limits at the prices of words.
func runSoftFlow(ctx context.Context, c *matpower.Case, n *network.Network, opt acopf.Options, words map[string]string, scale float64) (*optimalFlow, *matpower.Case, error) {
	prices := map[string]float64{}
	for word, text := range words {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, nil, cli.BadInputf("--soft %s=%s: want a number", word, text)
		}
		prices[word] = v
	}
	soft, err := results.SoftPrices(n, prices)
	if err != nil {
		return nil, nil, cli.BadInputf("--soft: %w", err)
	}
	start := time.Now()
	pd, qd := n.Loads(scale)
	r, err := acopf.SolveSoft(ctx, n, pd, qd, opt, soft)
	if err != nil {
		return nil, nil, gpc.BadInput(err)
	}
	out := newOptimalFlow(n, pd)
	out.Status, out.Reason = r.Status.String(), r.Reason()
	out.Iterations, out.WallMS = r.Iterations, milliseconds(time.Since(start))
	if r.Limits == nil {
		if r.Status == acopf.Infeasible {
			out.Reason = "no dispatch keeps the balances and the limits that are not soft"
		}
		return out, nil, nil
	}
	settled := acopf.Settled(n, opt.Ranges, r.Settings)
	solved := out.fill(c, n, results.NewPoint(settled, r.Vm, r.Va, r.Pg, r.Qg), pd, qd, &r.Result, r.Limits, scale)
	out.Soft = results.Relaxed(settled, &r.Gives)
	return out, solved, nil
}

// fill writes an optimum at loads that are scale times the case's, and returns it as a case.
func (y *optimalFlow) fill(c *matpower.Case, n *network.Network, p results.Point, pd, qd []float64, r *acopf.Result, m *acopf.LimitMultipliers, scale float64) *matpower.Case {
	y.settings, y.point = r.Settings, p
	y.Objective, y.Mismatch = &r.Objective, &r.KKT.Mismatch
	y.Violation, y.J = &r.KKT.Violation, r.J[:]
	y.KKT = &optimalFlowKKT{r.KKT.Feasibility, r.KKT.Gradient, r.KKT.Complementarity, r.KKT.Cost}
	y.Bus = results.OptimalBuses(n, pd, qd, r.Vm, r.Va, r.LambdaP)
	y.Dispatch = p.Dispatch()
	y.LossMW = new(y.Dispatch.Loss())
	y.Binding = p.Binding(r, m)
	solved := solvedCase(c, n, scale, p)
	withMultipliers(solved, n, r, m)
	return solved
}

func (r *optimalFlow) print(w io.Writer) {
	fmt.Fprintf(w, "%s, load %.2f MW: %s after %s, %.3f ms\n", r.Case, r.LoadMW, r.Status, count(r.Iterations, "iteration"), r.WallMS)
	if r.Reason != "" {
		fmt.Fprintln(w, r.Reason)
	}
	if r.Relaxation != nil {
		printLeast(w, r.Relaxation)
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
	printControls(w, r.Controls)
	if r.Continuous != nil {
		fmt.Fprintf(w, "objective %.4f before settings in steps were rounded\n", *r.Continuous)
	}
	if len(r.Soft) > 0 {
		fmt.Fprintln(w)
		printBroken(w, "soft limit that gives", r.Soft)
	}
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
