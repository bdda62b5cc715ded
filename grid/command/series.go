package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/series"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/machine"
)

// seriesFlags are the flags of an optimal power flow along a series of loads.
type seriesFlags struct {
	loads, results string
	chains         int
}

// seriesCommand is gpc opf series.
func seriesCommand(a *cli.App) *cobra.Command {
	base := newOptimalFlags()
	var y seriesFlags
	cmd := &cobra.Command{
		Use:   "series FILE.m --loads FILE",
		Short: "Optimal power flows of a network along a series of loads",
		Long: `Solves a series of loads, such as a day in five-minute steps. Each row of the table
is a step, solved warm from the step before. Columns are time, scale, pd_BUS, qd_BUS,
or time, bus, pd, qd, in MW and MVAr.

--results writes dispatch, prices and flows as Parquet tables.

Exit code 1 says that at least one step has no optimum.`,
		Example: "  " + a.Name + " opf series case118 --loads day.csv --results day",
		Args:    oneNetwork,
		RunE: func(cmd *cobra.Command, args []string) error {
			if y.loads == "" {
				return cli.BadInputf("--loads is required: the table of the series")
			}
			if err := base.check(a); err != nil {
				return err
			}
			if err := y.check(args[0], y.loads); err != nil {
				return err
			}
			_, n, err := base.read(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			r, err := y.run(cmd.Context(), n, base.opt, a.Stderr)
			if err != nil {
				return err
			}
			return a.PrintChecked(r.Optimal >= r.Steps, r, r.print)
		},
	}
	f := cmd.Flags()
	f.StringVar(&y.loads, "loads", "", "`FILE` (.csv or .parquet) with the loads of every step")
	f.StringVar(&y.results, "results", "", "`folder` to write steps.parquet, bus.parquet, gen.parquet and branch.parquet to")
	f.IntVar(&y.chains, "chains", series.DefaultChains, "number of parts that are solved in parallel, each step warm from the one before; 0: every step from a flat start")
	base.ruleFlag(f)
	base.solverFlags(f)
	return cmd
}

// seriesResult is the output of gpc opf series: counts and the iterations of optimal steps. Times are those of the
// solves alone.
type seriesResult struct {
	Case           string         `json:"case"`               // name of the network
	Loads          string         `json:"loads"`              // file of the series, without its folder
	Steps          int            `json:"steps"`              // that were solved
	Optimal        int            `json:"optimal"`            // steps with an optimum
	Chains         int            `json:"chains"`             // runs of consecutive steps, 0 for flat starts
	Median         int            `json:"median_iterations"`  // of optimal steps
	Largest        int            `json:"largest_iterations"` // likewise
	Objective      float64        `json:"objective"`          // summed over optimal steps, $/h
	SetupMS        float64        `json:"setup_ms"`           // analysis of the network
	WallMS         float64        `json:"wall_ms"`            // of the solves alone
	CPUMS          float64        `json:"cpu_ms"`             // of the same, CPU time
	SolvesASecond  float64        `json:"solves_per_second"`  // steps by the time of the solves
	WithoutOptimum []seriesFailed `json:"without_optimum"`
}

// seriesFailed is a step without an optimum.
type seriesFailed struct {
	Step   int    `json:"step"`   // from 0
	Time   string `json:"time"`   // as the table has it
	Status string `json:"status"` // why not
	Reason string `json:"reason"` // the same in a sentence
}

// seriesSteps is the number of steps in memory at a time.
const seriesSteps = 1024

// check refuses, before any work, a folder that cannot be written.
func (y *seriesFlags) check(inputs ...string) error {
	if y.results == "" {
		return nil
	}
	if err := cli.MakeFolder("--results", y.results); err != nil {
		return err
	}
	var files, existing []durable.File
	for _, name := range series.Files {
		files = append(files, durable.File{Name: "--results", Path: filepath.Join(y.results, name)})
	}
	for _, path := range inputs {
		existing = append(existing, durable.File{Name: "an input", Path: path})
	}
	return cli.CheckOutputs(files, existing)
}

// run solves the series of a network.
func (y *seriesFlags) run(ctx context.Context, n *network.Network, opt acopf.Options, progress io.Writer) (*seriesResult, error) {
	start := time.Now()
	s, err := acopf.New(n, opt)
	if err != nil {
		return nil, gpc.BadInput(err)
	}
	solver, err := series.NewSolver(s, y.chains)
	if err != nil {
		return nil, gpc.BadInput(err)
	}
	source, err := series.Open(y.loads, n)
	if err != nil {
		return nil, cli.BadInputf("--loads: %w", err)
	}
	defer source.Close()
	out := &seriesResult{Case: n.Name, Loads: filepath.Base(y.loads), Chains: y.chains, SetupMS: milliseconds(time.Since(start)), WithoutOptimum: []seriesFailed{}}
	var iterations []int
	fill := func(sink *series.Sink) error {
		results := make([]acopf.Result, seriesSteps)
		for {
			steps, err := source.Next(seriesSteps)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return cli.BadInputf("--loads: %w", err)
			}
			start, cpu := time.Now(), machine.CPUTime()
			if err := solver.Solve(ctx, steps, results[:steps.Len()]); err != nil {
				return err
			}
			out.WallMS, out.CPUMS = out.WallMS+milliseconds(time.Since(start)), out.CPUMS+milliseconds(machine.CPUTime()-cpu)
			iterations = out.count(steps, results[:steps.Len()], iterations)
			if sink != nil {
				if err := sink.Add(steps, results[:steps.Len()]); err != nil {
					return err
				}
			}
			fmt.Fprintf(progress, "%d steps, %d optimal, %.3g s\n", out.Steps, out.Optimal, out.WallMS/1e3)
		}
	}
	if y.results == "" {
		err = fill(nil)
	} else {
		err = series.Write(y.results, n, s, fill)
	}
	if err != nil {
		return nil, err
	}
	if out.Steps == 0 {
		return nil, cli.BadInputf("--loads: %s has no row with loads", y.loads)
	}
	if slices.Sort(iterations); len(iterations) > 0 {
		out.Median, out.Largest = iterations[len(iterations)/2], iterations[len(iterations)-1]
	}
	out.SolvesASecond = 1e3 * float64(out.Steps) / out.WallMS
	return out, nil
}

func (r *seriesResult) count(steps *series.Steps, results []acopf.Result, iterations []int) []int {
	for k := range results {
		result := &results[k]
		if result.Status != acopf.Optimal {
			r.WithoutOptimum = append(r.WithoutOptimum, seriesFailed{steps.First + k, steps.Time[k], result.Status.String(), result.Reason()})
			continue
		}
		r.Optimal++
		r.Objective += result.Objective
		iterations = append(iterations, result.Iterations)
	}
	r.Steps += len(results)
	return iterations
}

// printedSteps is the number of steps without an optimum in a listing.
const printedSteps = 20

func (r *seriesResult) print(w io.Writer) {
	fmt.Fprintf(w, "%s, %s: %d of %d steps optimal, median %d iterations, at most %d, %.2f $/h summed over them\n",
		r.Case, r.Loads, r.Optimal, r.Steps, r.Median, r.Largest, r.Objective)
	fmt.Fprintf(w, "%.0f solves a second, %.3g s, %.3g s of CPU time\n", r.SolvesASecond, r.WallMS/1e3, r.CPUMS/1e3)
	for i, f := range r.WithoutOptimum {
		if i == printedSteps {
			fmt.Fprintf(w, "and %d more without an optimum\n", len(r.WithoutOptimum)-i)
			break
		}
		fmt.Fprintf(w, "step %d %s: %s: %s\n", f.Step, f.Time, f.Status, f.Reason)
	}
}
