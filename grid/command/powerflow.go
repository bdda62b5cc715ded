package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/grid/results"
)

// flowFlags are the flags of every power flow.
type flowFlags struct {
	opt           powerflow.Options
	flat          bool
	scale         float64
	participation string
}

// slackWords are what --participation takes in power flows.
const slackWords = "by range (PMAX − PMIN), by pmax, equal, by headroom (what PMAX or PMIN leaves), or by a `FILE` of lines such as \"unit 2 0.4\""

// slack reads --participation: nil, and factors a unit, which are nil too for range and headroom.
func (y *flowFlags) slack(n *network.Network) (factors []float64, err error) {
	if y.participation == "" {
		return nil, nil
	}
	if y.participation != "headroom" {
		if factors, err = participation(n, y.participation); errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w, or headroom", err)
		}
	}
	y.opt.Slack = results.NewSlack(n, y.participation == "headroom", factors)
	return factors, gpc.BadInput(err)
}

func (y *flowFlags) flags(f *pflag.FlagSet) {
	f.BoolVar(&y.flat, "flat", false, "start from 1 pu, at angles that follow the phase shifts, instead of the file's voltages")
	f.BoolVar(&y.opt.EnforceQ, "enforce-q", false, "hold generators within their reactive limits, except at the reference bus")
	f.Float64Var(&y.opt.Tolerance, "tolerance", 1e-9, "largest mismatch that counts as solved, pu")
	f.IntVar(&y.opt.MaxIterations, "max-iterations", 30, "largest number of Newton steps")
	f.Float64Var(&y.scale, "scale", 1, "factor on every load, active and reactive; the reference bus takes up the difference")
}

// check reads and validates the flags.
func (y *flowFlags) check(ctx context.Context) error {
	if y.opt.Context = ctx; y.flat {
		y.opt.Start = powerflow.Flat
	}
	if err := y.opt.Validate(); err != nil {
		return gpc.BadInput(err)
	}
	return cmp.Or(checkScale(y.scale), aboveZero("tolerance", y.opt.Tolerance))
}

// PowerFlow is gpc pf.
func PowerFlow(a *cli.App) *cobra.Command {
	var y flowFlags
	var files outputs
	var controls string
	cmd := &cobra.Command{
		Use:     "pf FILE.m",
		GroupID: cli.GroupNetworks,
		Short:   "AC power flow of a MATPOWER case: voltages, generation and branch flows",
		Long: `Solves the AC power flow by Newton's method, with the loads, generation and voltage
set-points of the file.

` + networkArgument() + `

A file with the name of the command below is given with its folder: ./outages.

--out writes the case with its solution, --csv its tables; both only if it converges.

A power flow keeps no limit by itself: those that it breaks are listed at the end.
A remark says that the equations have been solved by voltages at which no network runs.

Exit code 1 says that it does not converge.`,
		Example: "  " + a.Name + " pf case118 --enforce-q\n  " + a.Name + " pf network.m --csv out/tables",
		Args:    cli.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := y.check(cmd.Context()); err != nil {
				return err
			}
			if err := files.check(cmd, args[0], solvedTables...); err != nil {
				return err
			}
			c, n, err := readNetwork(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			if _, err := y.slack(n); err != nil {
				return err
			}
			result, solved, err := runPowerFlow(c, n, y.opt, y.scale, controls)
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
	y.flags(cmd.Flags())
	cmd.Flags().StringVar(&y.participation, "participation", "", "units share the balance, within their limits of active power: "+slackWords+" (default: the reference takes it up)")
	cmd.Flags().StringVar(&controls, "controls", "", "`FILE` of transformers, phase shifters and shunts that keep a band, in lines such as \"tap 8 bus 9 1.03 1.05 0.9 1.1 16\": row, bus, band, range and steps; \"shunt 9 bus 14 …\" in MVAr, \"shift 4 flow 20 30 -30 30\" in MW and degrees. \"file\" takes those of a PSS/E file, which pf convert writes")
	files.flags(cmd.Flags())
	cmd.AddCommand(convertCommand(a), linearFlow(a), outagesCommand(a))
	suggestCommand(cmd, map[string]string{"outages": "pf outages", "emergency": "pf outages", "voltage-band": "pf outages", "ptdf": "pf dc", "lodf": "pf dc"})
	return cmd
}

// fileControls are the controls of the network's own file.
const fileControls = "file"

// readControls reads the controls of the flag; none where it is empty.
func readControls(n *network.Network, controls string) ([]results.Control, error) {
	source := io.NopCloser(strings.NewReader(strings.Join(n.Controls, "\n")))
	var err error
	switch {
	case controls == "":
		return nil, nil
	case controls != fileControls:
		source, err = os.Open(controls)
	case len(n.Controls) == 0:
		err = fmt.Errorf("the file of %s has none: give a FILE of lines", n.Name)
	}
	var list []results.Control
	if err == nil {
		defer source.Close()
		list, err = results.ReadControls(n, controls, source)
	}
	if err != nil {
		return nil, cli.BadInputf("--controls: %w", err)
	}
	return list, nil
}

// printControls prints what controls are set to.
func printControls(w io.Writer, controls []results.Control) {
	if len(controls) == 0 {
		return
	}
	rows := [][]string{{"control", "branch", "shunt at bus", "keeps bus", "from", "to", "value", "least", "setting", "largest", "in the band"}}
	for _, c := range controls {
		number := func(v int) string { return strings.TrimPrefix(strconv.Itoa(v), "0") }
		band := make([]string, 5)
		if c.Banded() {
			band = []string{number(c.Bus), fmt.Sprintf("%g", c.Low), fmt.Sprintf("%g", c.High), fmt.Sprintf("%.5g", c.Value), map[bool]string{true: "yes", false: "no"}[c.Keeps]}
		}
		row := append([]string{c.Kind, number(c.Branch), number(c.Shunt)}, band[:4]...)
		rows = append(rows, append(row, fmt.Sprintf("%g", c.Min), fmt.Sprintf("%.5g", c.Set), fmt.Sprintf("%g", c.Max), band[4]))
	}
	fmt.Fprintln(w)
	cli.Table(w, rows)
}

// runPowerFlow solves at the file's loads times a factor, and puts the solution in the case.
func runPowerFlow(c *matpower.Case, n *network.Network, opt powerflow.Options, scale float64, controls string) (*results.PowerFlow, *matpower.Case, error) {
	pr := results.FlowProblem{Options: opt}
	pr.Pd, pr.Qd = n.Loads(scale)
	if controls != "" {
		list, err := readControls(n, controls)
		if err != nil {
			return nil, nil, err
		}
		r, p, err := results.Regulate(n, pr, list)
		if err != nil || !r.Converged {
			return r, nil, err
		}
		solved := solvedCase(c, n, scale, p)
		results.Put(solved, n, list)
		return r, solved, nil
	}
	r, sol, err := results.Flow(n, pr)
	if err != nil {
		return nil, nil, err
	}
	if !r.Converged {
		r.Reason += dispatchHint(n)
		return r, nil, nil
	}
	return r, solvedCase(c, n, scale, results.NewPoint(n, sol.Vm, sol.Va, sol.Pg, sol.Qg)), nil
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
	if r.Remark != "" {
		fmt.Fprintln(w, "remark:", r.Remark)
	}
	rows := [][]string{{"bus", "type", "V pu", "angle °", "load MW", "load MVAr", "Q limit", "name"}}
	for _, b := range r.Bus {
		rows = append(rows, []string{strconv.Itoa(b.ID), b.Type, fmt.Sprintf("%.4f", b.Vm), fmt.Sprintf("%.3f", b.Va), fmt.Sprintf("%.2f", b.Pd), fmt.Sprintf("%.2f", b.Qd), b.Limit, b.Name})
	}
	printDispatch(w, &r.Dispatch, rows)
	printControls(w, r.Controls)
	if len(r.Violations) > 0 {
		fmt.Fprintln(w)
		printBroken(w, "broken limit", r.Violations)
	}
}
