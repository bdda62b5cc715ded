package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/model"
)

func (a *App) benchCommand() *cobra.Command {
	var opt bench.Options
	var budget time.Duration
	var modelFile, lines string
	var limit func() (closedloop.LoadLimit, error)
	names := bench.Names(slices.Concat(bench.Operations, a.Operations))
	cmd := &cobra.Command{
		Use:   "bench [" + strings.Join(names, "|") + "]...",
		Short: "Latency and throughput of the engine's operations beside this machine's measured ceiling",
		Long: `Each row is the median and 99th percentile of repeated calls, and a rate by the
documented count of operations, every unit of a network counted, as a fraction
of the best sustained multiply-add loop measured before and after. Jacobian,
metric and step leave inactive ReLU units out, so that their fraction by this
count can pass 1. The error column is the largest deviation of the results from
float64 over their largest magnitude, from the same run; with --tf32 the float32
one stands beside it. train-epochs extrapolates 500 epochs of 250 000 samples
from single updates; --epochs really runs them. kernels times every launch of a
step, a training update and a refinement beside what bounds it on the device.`,
		Args: func(_ *cobra.Command, args []string) error {
			for _, op := range args {
				if !slices.Contains(names, op) {
					return BadInputf("bench: unknown operation %q, want one of %s", op, strings.Join(names, ", "))
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			opt.Ops, opt.Extra, opt.Cases, opt.Seed, opt.Budget.Time = args, a.Operations, a.Cases, a.seed, budget
			if opt.Case != "" {
				if _, err := bench.ShapeOf(opt.Case, a.Cases); err != nil {
					return gpc.BadInput(err)
				}
			}
			most, err := limit()
			if err != nil {
				return err
			}
			watch, err := machine.Begin(most)
			if err != nil {
				return err
			}
			e, err := a.open()
			if err != nil {
				return err
			}
			defer e.Close()
			var single *gpc.Engine
			if a.tf32 {
				o := a.engine()
				o.TF32 = false
				if single, err = gpc.OpenEngine(o); err != nil {
					return err
				}
				defer single.Close()
			}
			if modelFile != "" || a.Models != nil {
				opt.Model = func(c domain.Case) (*model.Model, error) {
					of, err := a.Find(c.Problem.Spec().Name)
					if err != nil {
						return nil, err
					}
					return of.Model(modelFile)
				}
			}
			if terminal(a.Stderr) {
				opt.Report = func(r bench.Result) {
					fmt.Fprintf(a.Stderr, "%-14s %-18s batch %-6d %10.1f µs\n", r.Op, r.Case, r.Batch, r.P50)
				}
			}
			var written error
			if lines != "" {
				file, err := os.OpenFile(lines, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
				if err != nil {
					return BadInputf("--lines: %w", err)
				}
				defer file.Close()
				shown := opt.Report
				opt.Report = func(r bench.Result) {
					text, err := json.Marshal(bench.Record{Device: e.Device(), Commit: version.Build(), Command: commandLine(), Results: []bench.Result{r}})
					if err == nil {
						_, err = file.Write(append(text, '\n'))
					}
					written = errors.Join(written, err)
					if shown != nil {
						shown(r)
					}
				}
			}
			results, err := e.Bench(cmd.Context(), single, opt)
			if err := errors.Join(err, written); err != nil {
				return err
			}
			out := bench.Record{Device: e.Device(), Commit: version.Build(), Command: commandLine(), Results: results}
			if out.Load, err = watch.End(); err != nil {
				return err
			}
			_, bandwidth := e.Ceiling()
			out.Bandwidth = bandwidth / 1e9
			return a.Print(out, func(w io.Writer) error { return Table(w, bench.Rows(results)) })
		},
	}
	limit = limitFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&opt.Case, "case", "", "a case by its name, or size:integrator, size:opf30 with quadratic objectives (default: both sizes)")
	f.IntSliceVar(&opt.Batches, "batch", nil, "batch sizes (default 1,64,4096)")
	f.IntSliceVar(&opt.Codes, "codes", nil, "codes of M* for localize (default 20000,250000)")
	f.StringVar(&modelFile, "model", "", "model file that refine takes (default: the bundled map)")
	f.IntVar(&opt.Samples, "samples", 0, "samples of train-epochs (default 250000)")
	f.IntVar(&opt.Epochs, "epochs", 0, "epochs that train-epochs really runs (default: 500 are extrapolated)")
	f.StringVar(&opt.Record, "record", "", "safetensors file for networks, inputs and results of the step's largest batch")
	f.StringVar(&lines, "lines", "", "file that each row is added to as it is measured, one record a line")
	f.DurationVar(&budget, "time", time.Second, "time spent on each row, 20 calls at least (under 10ms: 2)")
	for _, op := range a.Operations {
		f.AddGoFlagSet(op.Flags)
	}
	cmd.AddCommand(a.benchCompareCommand(), a.benchDeadlineCommand(), a.benchScalingCommand())
	return cmd
}
