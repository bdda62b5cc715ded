package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/model"
)

// benching are the flags of gpc bench.
type benching struct {
	options          bench.Options
	modelFile, lines string
	limit            func() (closedloop.LoadLimit, error)
}

func (a *App) benchCommand() *cobra.Command {
	var b benching
	cmd := &cobra.Command{
		Use:   "bench [OPERATION]...",
		Short: "Measure latency and throughput of the engine's operations beside this machine's peak rate",
		Long: `Times operations of the engine. Each row shows the median and the 99th
percentile of repeated calls. The rate counts floating-point operations by a
fixed formula for each operation. The fraction compares the rate with the best
multiply-add loop on this machine, measured before and after. The formulas count
every unit of a network; jacobian, metric and step skip inactive ReLU units, so
that their fraction can exceed 1. The error column is the largest difference from
float64, relative to the largest magnitude; --tf32 adds the error of float32. The
rows of train have none.

  gemm                   products of matrices
  jacobian, metric, eig  the decoder's Jacobian, its pullback metric, eigenpairs
  localize               the nearest of the map's stored optimal decisions
  step, step+localize    one decision in latent space, without and with localize
  refine                 a search among candidates
  train, train-epochs    one update of a training, whole epochs
  kernels                every CUDA launch, beside what bounds it on the device

Further operations of this program: ` + cmp.Or(strings.Join(bench.Names(a.Operations), ", "), "none") + `.
Without names gpc times all operations except train-epochs and kernels.`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.bench(cmd.Context(), &b, args) },
	}
	b.limit = LimitFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&b.options.Case, "case", "", "a case, or size:integrator or size:opf30: its sizes with random networks and quadratic objectives (default: both sizes)")
	f.IntSliceVar(&b.options.Batches, "batch", nil, "batch `sizes` (default 1,64,4096)")
	f.IntSliceVar(&b.options.Codes, "codes", nil, "`numbers` of codes that localize searches (default 20000,250000)")
	f.StringVar(&b.modelFile, "model", "", "model file for refine (default: the bundled map)")
	f.IntVar(&b.options.Samples, "samples", 0, "samples in each epoch of train-epochs (default 250000)")
	f.IntVar(&b.options.Epochs, "epochs", 0, "epochs that train-epochs runs in full (default: none, 500 are extrapolated from single updates)")
	f.StringVar(&b.options.Record, "record", "", "safetensors file to write networks, inputs and results of step to, at the largest batch")
	f.StringVar(&b.lines, "lines", "", "file to append each row to as soon as it is measured, as a line of JSON")
	f.DurationVar(&b.options.Budget.Time, "time", time.Second, "time to spend on each row; at least 20 calls are made, 2 if it is below 10ms")
	for _, op := range a.Operations {
		f.AddGoFlagSet(op.Flags)
	}
	for _, command := range a.Benchmarks {
		cmd.AddCommand(command(a))
	}
	return cmd
}

// bench measures operations, all but those that are to be asked for where none is named.
func (a *App) bench(ctx context.Context, b *benching, ops []string) error {
	opt := b.options
	opt.Ops, opt.Extra = ops, a.Operations
	opt.Cases, opt.Seed = a.definitions(), a.seed
	if err := cmp.Or(unique("bench", ops), unique("--batch", opt.Batches), unique("--codes", opt.Codes)); err != nil {
		return err
	}
	if err := opt.Validate(); err != nil {
		return gpc.BadInput(err)
	}
	if err := CheckOutputs([]durable.File{{Name: "--record", Path: opt.Record}}, []durable.File{{Name: "--model", Path: b.modelFile}, {Name: "--lines", Path: b.lines}}); err != nil {
		return err
	}
	most, err := b.limit()
	if err != nil {
		return err
	}
	watch, err := machine.Begin(most)
	if err != nil {
		return err
	}
	e, err := a.OpenEngine()
	if err != nil {
		return err
	}
	defer e.Close()
	single, err := a.single()
	if err != nil {
		return err
	}
	if single != nil {
		defer single.Close()
	}
	if b.modelFile != "" || a.Models != nil {
		opt.Model = func(c domain.Case) (*model.Model, error) {
			cs, err := a.Find(c.Problem.Spec().Name)
			if err != nil {
				return nil, err
			}
			return cs.Model(b.modelFile)
		}
	}
	rows, err := a.rows(e, b.lines)
	if err != nil {
		return err
	}
	defer rows.Close()
	opt.Report = rows.add
	results, err := e.Bench(ctx, single, opt)
	if err := errors.Join(err, rows.err); err != nil {
		return err
	}
	out := rows.record(results)
	if out.Load, err = watch.End(); err != nil {
		return err
	}
	_, bandwidth := e.Ceiling()
	out.Bandwidth = bandwidth / 1e9
	return a.Print(out, func(w io.Writer) { Table(w, bench.Rows(results)) })
}

// definitions are those of all cases.
func (a *App) definitions() (all []domain.Case) {
	for _, c := range a.All() {
		all = append(all, *c.Definition())
	}
	return all
}

// single is the engine of the flags in float32, which the errors of --tf32 stand beside; nil
// without that flag.
func (a *App) single() (*gpc.Engine, error) {
	if !a.tf32 {
		return nil, nil
	}
	o := a.Engine()
	o.TF32 = false
	return gpc.OpenEngine(o)
}

// benchRows takes the rows of a benchmark as they are measured: to a terminal, and to the end of
// a file.
type benchRows struct {
	file     *os.File  // nil: none
	terminal io.Writer // nil: no terminal
	record   func(results []bench.Result) bench.Record
	err      error // of the file
}

// rows opens the file of --lines, where there is one.
func (a *App) rows(e *gpc.Engine, path string) (*benchRows, error) {
	r := &benchRows{record: func(results []bench.Result) bench.Record {
		return bench.Record{Device: e.Device(), Commit: version.Build(), Command: a.CommandLine(), Results: results}
	}}
	if terminal(a.Stderr) {
		r.terminal = a.Stderr
	}
	if path == "" {
		return r, nil
	}
	var err error
	if r.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
		return nil, BadInputf("--lines: %w", err)
	}
	return r, nil
}

func (r *benchRows) add(row bench.Result) {
	if r.file != nil {
		text, err := json.Marshal(r.record([]bench.Result{row}))
		if err == nil {
			_, err = r.file.Write(append(text, '\n'))
		}
		r.err = errors.Join(r.err, err)
	}
	if r.terminal != nil {
		fmt.Fprintf(r.terminal, "%-14s %-18s batch %-6d %10.1f µs\n", row.Op, row.Case, row.Batch, row.P50)
	}
}

// Close closes the file.
func (r *benchRows) Close() {
	if r.file != nil {
		r.file.Close()
	}
}
