package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/secure"
)

// secureFlow is what gpc opf --secure prints.
type secureFlow struct {
	Case      string   `json:"case"`      // name of the network
	Status    string   `json:"status"`    // secure, no secure point found, iteration limit, numerical or not solved
	Reason    string   `json:"reason"`    // why there is no secure dispatch; ""
	Objective *float64 `json:"objective"` // of the dispatch, $/h; null where there is none
	// Plain is the cost of the optimum that looks at no outage.
	Plain      *float64         `json:"plain_objective"` // of the optimum without outages
	Rounds     int              `json:"rounds"`          // of constraint generation
	Iterations int              `json:"iterations"`      // of the interior point, in all rounds
	WallMS     float64          `json:"wall_ms"`         // of all
	LoadMW     float64          `json:"load_mw"`         // of all buses
	LossMW     *float64         `json:"loss_mw"`         // of all branches, before any outage
	Emergency  float64          `json:"emergency"`       // factor on ratings after an outage
	Band       float64          `json:"voltage_band_pu"` // what voltages may leave their limits by after one
	Outages    int              `json:"outages"`         // how many are checked
	Before     []secureCheck    `json:"before"`          // of the optimum without outages
	Remembered []outage         `json:"remembered"`
	After      []secureCheck    `json:"after"` // of the last dispatch; empty where it is secure
	Gives      []secureGive     `json:"gives"`
	Bus        []optimalFlowBus `json:"bus"`
	dispatch
}

type outage struct {
	Outage string `json:"outage"` // branch or unit
	Row    int    `json:"row"`    // in `mpc.branch` or `mpc.gen`, from 1
	From   int    `json:"from"`   // bus; of a unit its bus
	To     int    `json:"to"`     // likewise
}

// secureCheck is an outage that breaks a limit.
type secureCheck struct {
	outage
	Converged  bool          `json:"converged"`  // whether there is a power flow
	Reason     string        `json:"reason"`     // why not; ""
	Severity   *float64      `json:"severity"`   // the largest of overloads as shares of the rating, and of voltages tenfold their pu; null without a power flow
	Violations []brokenLimit `json:"violations"` // the worst first
}

// secureGive is a limit that is not kept after an outage.
type secureGive struct {
	After outage `json:"after"`
	brokenLimit
}

// securing are the flags of --secure.
type securing struct {
	on            bool
	outages       string
	participation string
	opt           secure.Options
}

func (y *securing) flags(f *pflag.FlagSet) {
	y.opt = secure.DefaultOptions()
	f.BoolVar(&y.on, "secure", false, "find the cheapest dispatch that keeps every limit after any single outage")
	f.StringVar(&y.outages, "outages", "all", "with --secure: the outages to survive: branches, units, all, or a `FILE` of lines such as \"branch 7\" and \"unit 2\"")
	f.Float64Var(&y.opt.Emergency, "emergency", y.opt.Emergency, "with --secure: factor on every rating after an outage, 1 or more")
	f.Float64Var(&y.opt.Band, "voltage-band", y.opt.Band, "with --secure: how far voltages may exceed their limits after an outage, pu")
	f.StringVar(&y.participation, "participation", "range", "with --secure: how units share the missing power: by range (PMAX − PMIN), by pmax, equal, or by a `FILE` of lines such as \"unit 2 0.4\"")
}

// only refuses flags that have no meaning with --secure, or without it.
func (y *securing) only(f *pflag.FlagSet) error {
	if y.on {
		for _, name := range []string{"weights", "why", "results", "chains", "starts", "feasibility", "optimality"} {
			if f.Changed(name) {
				return cli.BadInputf("--%s and --secure exclude each other", name)
			}
		}
		if f.Changed("emergency") && y.opt.Emergency == 0 {
			return cli.BadInputf("--emergency 0: want 1 to 100")
		}
		if err := y.opt.Validate(); err != nil {
			return gpc.BadInput(err)
		}
		return nil
	}
	for _, name := range []string{"outages", "emergency", "voltage-band", "participation"} {
		if f.Changed(name) {
			return cli.BadInputf("--%s needs --secure", name)
		}
	}
	return nil
}

// list reads --outages. Branches that leave an island are left out of branches and all, and of a
// file refused.
func (y *securing) list(n *network.Network) ([]secure.Outage, error) {
	switch y.outages {
	case "all":
		return nil, nil
	case "branches":
		return append([]secure.Outage{}, secure.Branches(n)...), nil
	}
	named, err := contingencies(n, y.outages)
	if err != nil {
		return nil, fmt.Errorf("--outages: %w", err)
	}
	return named, nil
}

// shares reads --participation: a factor a unit.
func (y *securing) shares(n *network.Network) ([]float64, error) {
	out := make([]float64, n.Gens())
	switch y.participation {
	case "range":
		return nil, nil
	case "pmax":
		for g, p := range n.PMax {
			out[g] = max(0, p)
		}
		return out, nil
	case "equal":
		for g := range out {
			out[g] = 1
		}
		return out, nil
	}
	f, err := os.Open(y.participation)
	if err != nil {
		return nil, fmt.Errorf("--participation: %w: want range, pmax, equal or a file of lines such as \"unit 2 0.4\"", err)
	}
	defer f.Close()
	if out, err = secure.ReadParticipation(n, y.participation, f); err != nil {
		err = fmt.Errorf("--participation: %w", err)
	}
	return out, err
}

// solver is that of the flags.
func (y *securing) solver(n *network.Network) (*secure.Solver, error) {
	var err error
	if y.opt.Outages, err = y.list(n); err != nil {
		return nil, gpc.BadInput(err)
	}
	if y.opt.Participation, err = y.shares(n); err != nil {
		return nil, gpc.BadInput(err)
	}
	s, err := secure.New(n, y.opt)
	if err != nil {
		return nil, gpc.BadInput(err)
	}
	return s, nil
}

// run solves and puts the dispatch in the file's units, and in the case, which is nil where there
// is none.
func (y *securing) run(ctx context.Context, c *matpower.Case, n *network.Network, scale float64) (*secureFlow, *matpower.Case, error) {
	s, err := y.solver(n)
	if err != nil {
		return nil, nil, err
	}
	out := &secureFlow{Case: n.Name, Emergency: y.opt.Emergency, Band: y.opt.Band, Outages: len(s.Outages()), Before: []secureCheck{},
		Remembered: []outage{}, After: []secureCheck{}, Gives: []secureGive{}, Bus: []optimalFlowBus{}, dispatch: noDispatch}
	var pr secure.Problem
	pr.Pd, pr.Qd = n.Loads(scale)
	for _, p := range pr.Pd {
		out.LoadMW += p * n.BaseMVA
	}
	start := time.Now()
	r, err := s.Solve(ctx, pr)
	if err != nil {
		return nil, nil, err
	}
	out.WallMS = float64(time.Since(start)) / 1e6
	out.Status, out.Reason, out.Rounds, out.Iterations = r.Status.String(), r.Reason, r.Rounds, r.Iterations
	for _, o := range r.Remembered {
		out.Remembered = append(out.Remembered, newOutage(n, o))
	}
	out.Before, out.After = y.checks(n, r.Before), y.checks(n, r.After)
	for _, g := range r.Gives {
		out.Gives = append(out.Gives, secureGive{newOutage(n, g.Outage), y.broken(n, g.Violation)})
	}
	if r.Plain != 0 {
		out.Plain = &r.Plain
	}
	if r.Status != secure.Secure {
		return out, nil, nil
	}
	out.Objective = &r.Objective
	out.Bus = optimalBuses(n, pr.Pd, pr.Qd, r.Vm, r.Va, r.LambdaP)
	out.dispatch = newDispatch(n, r.Vm, r.Va, r.Pg, r.Qg)
	loss := out.dispatch.loss()
	out.LossMW = &loss
	return out, solvedCase(c, n, scale, r.Vm, r.Va, r.Pg, r.Qg), nil
}

func newOutage(n *network.Network, o secure.Outage) outage {
	if o.Branch >= 0 {
		return outage{"branch", n.BranchRow[o.Branch] + 1, n.BusID[n.From[o.Branch]], n.BusID[n.To[o.Branch]]}
	}
	bus := n.BusID[n.GenBus[o.Unit]]
	return outage{"unit", n.GenRow[o.Unit] + 1, bus, bus}
}

func (o outage) where() string {
	if o.Outage == "branch" {
		return fmt.Sprintf("branch %d, bus %d to %d", o.Row, o.From, o.To)
	}
	return fmt.Sprintf("unit %d at bus %d", o.Row, o.From)
}

// checks lists the outages that break a limit or have no power flow.
func (y *securing) checks(n *network.Network, checks []*secure.Check) []secureCheck {
	out := []secureCheck{}
	for _, c := range checks {
		severity := c.Severity()
		if severity == 0 {
			continue
		}
		r := secureCheck{outage: newOutage(n, c.Outage), Converged: c.Solved, Reason: c.Reason, Violations: []brokenLimit{}}
		if c.Solved {
			r.Severity = &severity
		}
		for _, v := range c.Violations {
			r.Violations = append(r.Violations, y.broken(n, v))
		}
		out = append(out, r)
	}
	return out
}

// broken puts a violation in the file's units.
func (y *securing) broken(n *network.Network, v secure.Violation) brokenLimit {
	switch v.Kind {
	case secure.LowVoltage:
		return brokenLimit{limit{Limit: "vmin", Bus: n.BusID[v.At], Value: v.Value, Bound: v.Value + v.By, Unit: "pu"}, v.By}
	case secure.HighVoltage:
		return brokenLimit{limit{Limit: "vmax", Bus: n.BusID[v.At], Value: v.Value, Bound: v.Value - v.By, Unit: "pu"}, v.By}
	case secure.SetPoint:
		return brokenLimit{limit{Limit: "set-point", Bus: n.BusID[v.At], Value: v.Value, Bound: v.Value, Unit: "pu"}, v.By}
	case secure.LowActive, secure.HighActive, secure.LowReactive, secure.HighReactive, secure.ActiveBalance, secure.ReactiveBalance:
		return y.power(n, v)
	}
	end := "from"
	if v.Kind == secure.ToRating {
		end = "to"
	}
	return brokenLimit{limit{Limit: "rating", Branch: n.BranchRow[v.At] + 1, From: n.BusID[n.From[v.At]], To: n.BusID[n.To[v.At]], End: end,
		Value: v.Value * n.BaseMVA, Bound: (v.Value - v.By) * n.BaseMVA, Unit: "MVA"}, v.By * n.BaseMVA}
}

// power puts a limit or balance of power that gives in the file's units.
func (y *securing) power(n *network.Network, v secure.Violation) brokenLimit {
	l := limit{Value: v.Value * n.BaseMVA, Unit: "MW"}
	by := v.By * n.BaseMVA
	switch v.Kind {
	case secure.LowActive, secure.HighActive:
		l.Gen, l.Bus = n.GenRow[v.At]+1, n.BusID[n.GenBus[v.At]]
	default:
		l.Bus = n.BusID[v.At]
	}
	switch v.Kind {
	case secure.LowReactive, secure.HighReactive, secure.ReactiveBalance:
		l.Unit = "MVAr"
	}
	switch v.Kind {
	case secure.LowActive:
		l.Limit, l.Bound = "pmin", l.Value+by
	case secure.HighActive:
		l.Limit, l.Bound = "pmax", l.Value-by
	case secure.LowReactive:
		l.Limit, l.Bound = "qmin", l.Value+by
	case secure.HighReactive:
		l.Limit, l.Bound = "qmax", l.Value-by
	default:
		l.Limit = "balance"
	}
	return brokenLimit{l, by}
}

func (r *secureFlow) print(w io.Writer) {
	fmt.Fprintf(w, "%s, load %.2f MW, %d outages: %s after %s and %s, %.3f ms\n", r.Case, r.LoadMW, r.Outages, r.Status, count(r.Rounds, "round"), count(r.Iterations, "iteration"), r.WallMS)
	if r.Reason != "" {
		fmt.Fprintln(w, r.Reason)
	}
	if r.Plain != nil {
		fmt.Fprintf(w, "the optimum without outages costs %.4f $/h, and %s a limit\n", *r.Plain, countOf(len(r.Before), "outage breaks", "outages break"))
	}
	printChecks(w, r.Before)
	if len(r.Gives) > 0 {
		fmt.Fprintln(w, "what would have to give:")
		rows := [][]string{{"after", "limit", "at", "gives", "to", "from", "unit"}}
		for _, g := range r.Gives {
			bound := fmt.Sprintf("%.4f", g.Bound)
			if l := g.limit.Limit; l == "set-point" || l == "balance" {
				bound = "" // a set-point is part of the dispatch that was not found; a balance has no limit
			}
			rows = append(rows, []string{g.After.where(), g.limit.Limit, g.limit.where(), fmt.Sprintf("%.4f", g.By), fmt.Sprintf("%.4f", g.Value), bound, g.Unit})
		}
		cli.Table(w, rows)
	}
	if r.Objective == nil {
		return
	}
	fmt.Fprintf(w, "objective %.4f $/h, %.2f %% more; loss %.3f MW; %s remembered, every outage checked by a power flow\n", *r.Objective,
		100*(*r.Objective / *r.Plain - 1), *r.LossMW, count(len(r.Remembered), "outage"))
	r.tables(w, busTable(r.Bus, "$/MWh"))
}

// printChecks prints the worst of what outages break.
func printChecks(w io.Writer, checks []secureCheck) {
	if len(checks) == 0 {
		return
	}
	rows := [][]string{{"outage", "severity", "worst", "by", "unit", "broken"}}
	for i, c := range checks {
		if i == printedOutages {
			break
		}
		severity, worst, by, unit := "", inShort(c.Reason), "", ""
		if c.Severity != nil {
			l := c.Violations[0]
			severity, worst, by, unit = fmt.Sprintf("%.3f", *c.Severity), l.Limit+" at "+l.where(), fmt.Sprintf("%.4f", l.By), l.Unit
		}
		rows = append(rows, []string{c.outage.where(), severity, worst, by, unit, strconv.Itoa(len(c.Violations))})
	}
	cli.Table(w, rows)
}
