package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/results"
	"github.com/gpc-engine/gpc/grid/secure"
)

// secureFlags are the flags of gpc opf secure.
type secureFlags struct {
	loads         string // of a series; "": those of the case
	scenarios     string
	violations    float64
	outages       string
	participation string
	opt           secure.Options
	leftOut       []secure.Outage // of --outages: branches that cut off a part
}

// secureCommand is gpc opf secure.
func secureCommand(a *cli.App) *cobra.Command {
	base, y := newOptimalFlags(), secureFlags{opt: secure.DefaultOptions()}
	var files outputs
	cmd := &cobra.Command{
		Use:   "secure FILE.m",
		Short: "The cheapest dispatch that keeps every limit after any single outage, too",
		Long: `Finds the cheapest dispatch that also keeps every limit after any single outage of a
list. --outages is the list: every branch in service (branches), every unit (units),
both (all), or those of a file. The words leave out, and count, branches that cut off a
part of the network; a file may name those with units in both parts. After an outage
units share the missing power (--participation) and hold their voltages up to their
reactive limits. Ratings and voltage limits are then wider (--emergency,
--voltage-band). A power flow checks every outage of the result.

--loads solves a series of loads, as in gpc opf series, each step from the one before.

--scenarios reads a table of such loads. The dispatch of the case's loads then breaks a
limit, before or after an outage, in about a share --violations of the scenarios. Two
thirds of them say by how much limits are tightened. The others give the probability,
with its interval of 95 %, beside that of the secure dispatch.

Exit code 1 says that no secure dispatch was found; of a series, that at least one
step has none. With --scenarios it says that limits are broken more often, too.`,
		Example: "  " + a.Name + " opf secure case118 --outages branches",
		Args:    oneNetwork,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(base.check(a), checkAfter(y.opt.Emergency, y.opt.Band)); err != nil {
				return err
			}
			for _, name := range []string{"out", "csv", "scale", "scenarios"} {
				if y.loads != "" && cmd.Flags().Changed(name) {
					return cli.BadInputf("--%s and --loads exclude each other", name)
				}
			}
			if !(y.violations >= 0 && y.violations < 1) {
				return cli.BadInputf("--violations %g: want a share from 0, below 1", y.violations)
			}
			if err := files.check(cmd, args[0], solvedTables...); err != nil {
				return err
			}
			c, n, err := base.read(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			y.opt.Threads, y.opt.Dispatchable = a.Threads(), base.opt.Dispatchable
			if y.loads != "" {
				r, err := y.chain(cmd.Context(), a, n, y.loads)
				if err != nil {
					return err
				}
				return a.PrintChecked(r.Secure >= r.Steps, r, r.print)
			}
			r, solved, err := y.run(cmd.Context(), a, c, n, base.scale)
			if err != nil {
				return err
			}
			if solved != nil {
				if err := files.write(solved, origin(c, "security-constrained AC optimal power flow")); err != nil {
					return err
				}
			}
			return a.PrintChecked(solved != nil && (r.Chance == nil || r.Chance.Risk.Probability <= y.violations), r, func(w io.Writer) { printSecure(w, r) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&y.outages, "outages", "all", "the outages to survive: "+outageWords+"; branches that cut off a part of the network are left out, and in a FILE need units in both parts")
	f.Float64Var(&y.opt.Emergency, "emergency", y.opt.Emergency, "factor on every rating after an outage, 1 or more")
	f.Float64Var(&y.opt.Band, "voltage-band", y.opt.Band, "how far voltages may exceed their limits after an outage, pu")
	f.StringVar(&y.participation, "participation", "range", participationWords)
	f.IntVar(&y.opt.MaxIterations, "max-iterations", 0, "largest number of interior-point iterations of one round; 0: 200")
	f.StringVar(&y.loads, "loads", "", "`FILE` (.csv or .parquet) with a series of loads: find a secure dispatch for every step")
	f.StringVar(&y.scenarios, "scenarios", "", "`FILE` (.csv or .parquet) of loads, a row a scenario")
	f.Float64Var(&y.violations, "violations", 0.01, "share of the scenarios in which a limit may be broken")
	files.flags(f)
	base.ruleFlag(f)
	base.scaleFlag(f)
	return cmd
}

// list reads --outages. Words leave out branches that cut off a part of the network; a file may name those that leave
// units in both parts.
func (y *secureFlags) list(n *network.Network) ([]secure.Outage, error) {
	list, word, err := namedOutages(n, y.outages, results.ReadElements)
	if err != nil || !word {
		return list, err
	}
	if list, y.leftOut = secure.Survivable(n, list); len(list) == 0 {
		return nil, cli.BadInputf("--outages %s: every branch of network %s cuts off a part of it: no outage is left", y.outages, n.Name)
	}
	return list, nil
}

// participationWords are what --participation takes, in pf and in opf.
const participationWords = "how units share the missing power: by range (PMAX − PMIN), by pmax, equal, or by a `FILE` of lines such as \"unit 2 0.4\""

// participation reads --participation: a factor a unit.
func participation(n *network.Network, argument string) ([]float64, error) {
	if out, ok := secure.NamedParticipation(n, argument); ok {
		return out, nil
	}
	f, err := os.Open(argument)
	if err != nil {
		return nil, fmt.Errorf("--participation: %w: want range, pmax, equal or a file of lines such as \"unit 2 0.4\"", err)
	}
	defer f.Close()
	out, err := secure.ReadParticipation(n, argument, f)
	if err != nil {
		err = fmt.Errorf("--participation: %w", err)
	}
	return out, err
}

// solver creates the solver of the flags.
func (y *secureFlags) solver(n *network.Network) (*secure.Solver, error) {
	var err error
	if y.opt.Outages, err = y.list(n); err != nil {
		return nil, gpc.BadInput(err)
	}
	if y.opt.Participation, err = participation(n, y.participation); err != nil {
		return nil, gpc.BadInput(err)
	}
	s, err := secure.New(n, y.opt)
	if err != nil {
		return nil, gpc.BadInput(err)
	}
	return s, nil
}

// quietPeriod is the time before a secure optimal power flow reports progress.
const quietPeriod = 2 * time.Second

// rounds reports every optimisation with more outages, after the quiet period.
func rounds(w io.Writer, elapsed func() time.Duration) func(secure.Iterate) {
	outages := 0
	return func(i secure.Iterate) {
		if i.Outages > outages && elapsed() > quietPeriod {
			outages = i.Outages
			fmt.Fprintf(w, "optimising with %s that break a limit, after %s and %.0f s\n", count(i.Outages, "outage"), count(i.Iteration, "iteration"), elapsed().Seconds())
		}
	}
}

// run solves, and returns the dispatch in the file's units and as a case, which is nil without a dispatch.
func (y *secureFlags) run(ctx context.Context, a *cli.App, c *matpower.Case, n *network.Network, scale float64) (*results.SecureFlow, *matpower.Case, error) {
	started := time.Now()
	y.opt.Trace = rounds(a.Stderr, func() time.Duration { return time.Since(started) })
	s, err := y.solver(n)
	if err != nil {
		return nil, nil, err
	}
	var pr secure.Problem
	pr.Pd, pr.Qd = n.Loads(scale)
	start := time.Now()
	var out *results.SecureFlow
	var r *secure.Result
	if y.scenarios != "" {
		steps, _, err := readLoads("--scenarios", y.scenarios, n)
		if err == nil && len(steps) < 3 {
			err = cli.BadInputf("--scenarios: %s has less than three rows", y.scenarios)
		}
		if err != nil {
			return nil, nil, err
		}
		if out, r, err = results.SecureChance(ctx, n, y.opt, append([]secure.Problem{pr}, steps...), y.violations); err != nil {
			return nil, nil, err
		}
	} else {
		if r, err = s.Solve(ctx, pr); err != nil {
			return nil, nil, err
		}
		out = results.Secure(n, s, y.opt, pr, r)
	}
	out.WallMS, out.LeftOut = milliseconds(time.Since(start)), results.Outages(n, y.leftOut)
	if out.Objective == nil {
		return out, nil, nil
	}
	return out, withSetPoints(solvedCase(c, n, scale, results.NewPoint(n, r.Vm, r.Va, r.Pg, r.Qg)), n, r.Vm), nil
}

func printSecure(w io.Writer, r *results.SecureFlow) {
	fmt.Fprintf(w, "%s, load %.2f MW, %s: %s after %s and %s, %.3f ms\n", r.Case, r.LoadMW, count(r.Outages, "outage"), r.Status, count(r.Rounds, "round"), count(r.Iterations, "iteration"), r.WallMS)
	if r.Reason != "" {
		fmt.Fprintln(w, r.Reason)
	}
	printLeftOut(w, len(r.LeftOut))
	switch {
	case r.Plain == nil:
	case r.Rounds == 0 && r.Objective == nil: // no outage was checked
		fmt.Fprintf(w, "the optimum without outages costs %.4f $/h\n", *r.Plain)
	default:
		fmt.Fprintf(w, "the optimum without outages costs %.4f $/h, and %s a limit\n", *r.Plain, countOf(len(r.Before), "outage breaks", "outages break"))
	}
	printChecks(w, r.Before)
	if len(r.Relaxations) > 0 {
		fmt.Fprintln(w, "what would have to give:")
		rows := [][]string{{"after", "limit", "at", "gives", "to", "from", "unit"}}
		for _, g := range r.Relaxations {
			bound := fmt.Sprintf("%.4f", g.Bound)
			if l := g.Kind; l == "set-point" || l == "balance" {
				bound = "" // a set-point is part of the dispatch that was not found; a balance has no limit
			}
			rows = append(rows, []string{g.After.Where(), g.Kind, g.Limit.Where(), fmt.Sprintf("%.4f", g.Excess), fmt.Sprintf("%.4f", g.Value), bound, g.Unit})
		}
		cli.Table(w, rows)
	}
	if r.Objective == nil {
		return
	}
	fmt.Fprintf(w, "objective %.4f $/h, %.2f %% more; loss %.3f MW; %s remembered, every outage checked by a power flow\n", *r.Objective,
		max(0, 100*(*r.Objective / *r.Plain - 1)), *r.LossMW, count(len(r.Remembered), "outage"))
	if c := r.Chance; c != nil {
		fmt.Fprintf(w, "over %s a limit is broken in %d: %s; the secure dispatch costs %.4f $/h and breaks one in %d: %s\n", count(c.Scenarios, "scenario"),
			c.Risk.Scenarios, percent(c.Risk), c.Objective, c.Secure.Scenarios, percent(c.Secure))
		fmt.Fprintf(w, "%s tighter after %s\n", countOf(len(c.Tightening), "limit is", "limits are"), count(c.Rounds, "round"))
		rows := [][]string{{"limit", "at", "by", "unit"}}
		for _, l := range c.Tightening[:min(len(c.Tightening), printedOutages)] {
			rows = append(rows, []string{l.Kind, l.Where(), fmt.Sprintf("%.4f", l.Excess), l.Unit})
		}
		cli.Table(w, rows)
		printMore(w, len(c.Tightening)-printedOutages)
		fmt.Fprintln(w)
	}
	printDispatch(w, &r.Dispatch, busTable(r.Bus, "$/MWh"))
}

// printLeftOut says how many branches of --outages are left out.
func printLeftOut(w io.Writer, branches int) {
	if branches > 0 {
		fmt.Fprintf(w, "%s a part of the network: left out, as only a file names those with units in both parts\n", countOf(branches, "branch cuts off", "branches cut off"))
	}
}

// printChecks prints the worst violations after outages.
func printChecks(w io.Writer, checks []results.Check) {
	if len(checks) == 0 {
		return
	}
	rows := [][]string{{"outage", "severity", "worst", "by", "unit", "limits broken"}}
	for _, c := range checks[:min(len(checks), printedOutages)] {
		severity, worst := "", worstOf(c.Consequence)
		if len(c.Parts) > 0 {
			worst = worstOf(c.Parts[0])
			if cut := worstOf(c.Parts[1]); cut != "" {
				worst = strings.TrimPrefix(worst+"; cut off: "+cut, "; ")
			}
		}
		excess, unit := "", ""
		if c.Severity != nil {
			l := c.Violations[0]
			severity = fmt.Sprintf("%.3f", *c.Severity)
			excess, unit = fmt.Sprintf("%.4f", l.Excess), l.Unit
		}
		rows = append(rows, []string{c.Where(), severity, worst, excess, unit, strconv.Itoa(len(c.Violations))})
	}
	cli.Table(w, rows)
	printMore(w, len(checks)-printedOutages)
}

// worstOf is the worst limit that an outage breaks, or why it has no power flow; "" for none.
func worstOf(c results.Consequence) string {
	if c.Converged && len(c.Violations) > 0 {
		return c.Violations[0].Kind + " at " + c.Violations[0].Where()
	}
	return shortReason(c.Reason)
}
