package bench

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/names"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Operation is one thing that Run measures.
type Operation struct {
	Name string
	// Once is for sizes that are the operation's own: it is measured once, with the
	// first Shape of the run, and not for each.
	Once bool
	// OnRequest is for one that is measured only when it is named.
	OnRequest bool
	// Flags are read by this operation alone; nil: none.
	Flags *flag.FlagSet
	// Fits says why a shape cannot be measured; nil: every one can. An operation that is not named
	// leaves those shapes out.
	Fits func(s Shape) error
	// Measure adds the rows of one shape.
	Measure func(ctx context.Context, r *Runner, s Shape) error
}

// Operations are those of the engine, in the order of the table.
var Operations = []Operation{
	{Name: "gemm", Once: true, Measure: gemm},
	{Name: "jacobian", Measure: jacobian},
	{Name: "metric", Measure: metric},
	{Name: "eig", Measure: eig},
	{Name: "localize", Measure: localize},
	{Name: "step", Measure: step},
	{Name: "step+localize", Measure: stepLocalize},
	{Name: "refine", Fits: refines, Measure: refine},
	{Name: "train", Measure: train},
	{Name: "train-epochs", OnRequest: true, Measure: trainEpochs},
	{Name: "kernels", OnRequest: true, Measure: kernels},
}

// Names are those of operations.
func Names(operations []Operation) []string {
	names := make([]string, len(operations))
	for i, op := range operations {
		names[i] = op.Name
	}
	return names
}

// Options say what to measure.
type Options struct {
	Ops     []string // names of Operations and Extra; empty: all but those that are to be Asked
	Extra   []Operation
	Case    string // a registered case, stepped with its own objectives, or a Shape; "": every Shape
	Batches []int  // empty: 1, 64 and 4096
	Codes   []int  // codes of M* for localize; empty: 20 000 and 250 000
	Samples int    // of train-epochs; 0: 250 000
	Epochs  int    // that train-epochs really runs; 0: 500 are extrapolated
	// Float32 is the same device in float32, to print the error of TF32 beside; nil:
	// the error of what is timed stands alone.
	Float32 backend.Backend
	// Record is a file that `step` writes networks, inputs and results of its largest
	// batch to (safetensors), for a comparison with other programs.
	Record string
	// Model gives the map of a registered case, for refine; nil: networks drawn at
	// random, without codes.
	Model  func(c domain.Case) (*model.Model, error)
	Budget Budget
	Seed   uint64
	Cases  []domain.Case // registered cases that Case may name
	// Report, if set, is called with each row as it is measured.
	Report func(Result)
}

// Validate says which case or operation that is named cannot be measured.
func (o *Options) Validate() error {
	shapes, err := o.shapes()
	if err != nil {
		return err
	}
	operations := slices.Concat(Operations, o.Extra)
	for _, name := range o.Ops {
		index := slices.IndexFunc(operations, func(op Operation) bool { return op.Name == name })
		if index < 0 {
			return fmt.Errorf("bench: unknown operation %q%s (want one of %s)", name, names.Meant(name, Names(operations)), strings.Join(Names(operations), ", "))
		}
		if fits := operations[index].Fits; fits != nil && !slices.ContainsFunc(shapes, func(s Shape) bool { return fits(s) == nil }) {
			return fmt.Errorf("bench %s: %w", name, fits(shapes[0]))
		}
	}
	return nil
}

// shapes are those that Case asks for.
func (o *Options) shapes() ([]Shape, error) {
	if o.Case == "" {
		return Shapes, nil
	}
	s, err := shapeOf(o.Case, o.Cases)
	return []Shape{s}, err
}

// Ceiling returns the machine's multiply-add peak, FLOP/s. It is called before
// and after each row.
type Ceiling func() float64

// Run measures on an open backend. ceiling may be nil: no rates are given.
func Run(ctx context.Context, b backend.Backend, ceiling Ceiling, opt Options) ([]Result, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	operations := slices.Concat(Operations, opt.Extra)
	if len(opt.Ops) == 0 {
		reference := b.Describe().Name == "ref" // which does not train
		opt.Ops = Names(slices.DeleteFunc(slices.Clone(operations), func(op Operation) bool { return op.OnRequest || reference && op.Name == "train" }))
	}
	if len(opt.Batches) == 0 {
		opt.Batches = []int{1, 64, 4096}
	}
	if len(opt.Codes) == 0 {
		opt.Codes = []int{20_000, 250_000}
	}
	shapes, err := opt.shapes()
	if err != nil {
		return nil, err
	}
	r := &Runner{b: b, ceiling: ceiling, opt: opt, d: b.Describe()}
	for _, name := range opt.Ops {
		op := operations[slices.IndexFunc(operations, func(op Operation) bool { return op.Name == name })]
		for _, s := range shapes {
			if err := ctx.Err(); err != nil {
				return r.results, err
			}
			if op.Fits != nil && op.Fits(s) != nil {
				continue
			}
			if err := op.Measure(ctx, r, s); err != nil {
				return r.results, fmt.Errorf("bench %s, %s: %w", name, s.Case, err)
			}
			if op.Once {
				break
			}
		}
	}
	return r.results, nil
}

// Runner is a run as its operations see it.
type Runner struct {
	b       backend.Backend
	ceiling Ceiling
	opt     Options
	d       backend.Description
	results []Result
}

// Rand draws from the run's seed, the same numbers for every operation.
func (r *Runner) Rand() *rand.Rand { return rand.New(rand.NewPCG(r.opt.Seed, 0xbe7c)) }

// Seed is the run's.
func (r *Runner) Seed() uint64 { return r.opt.Seed }

// Threads are those of the backend that is measured.
func (r *Runner) Threads() int { return r.d.Threads }

// Peak is the machine's multiply-add peak in float32 on all threads, FLOP/s; NaN
// where it is not known.
func (r *Runner) Peak() float64 {
	if r.ceiling == nil {
		return math.NaN()
	}
	if peak := r.ceiling(); peak > 0 {
		return peak
	}
	return math.NaN()
}

// Measure adds a row of repeated calls of f, of so much work each; res says what is
// measured. share is the part of Peak that its precision and threads have. The
// ceiling is taken before and after, the higher counts.
func (r *Runner) Measure(ctx context.Context, res Result, flops, share float64, f func() error) error {
	peak := r.Peak()
	// Single calls, those of the warm-up too, for their mean CPU time.
	calls, start := 0, machine.CPUTime()
	us, err := latencies(ctx, r.opt.Budget, func() error { calls++; return f() })
	if err != nil {
		return err
	}
	res.CPU = machine.Microseconds(machine.CPUTime()-start) / float64(calls)
	r.Add(res, us, flops, share*math.Max(peak, r.Peak()))
	return nil
}

// Time calls f by the run's budget and returns the calls' times, µs, in their order.
func (r *Runner) Time(ctx context.Context, f func() error) ([]float64, error) {
	return latencies(ctx, r.opt.Budget, f)
}

// Add adds a row of calls that took us, microseconds in the order of the calls, of so much
// work each, beside a ceiling in FLOP/s; NaN: none.
func (r *Runner) Add(res Result, us []float64, flops, peak float64) {
	res.finish(us, flops, peak/1e9)
	r.add(res)
}

// add keeps a row and reports it.
func (r *Runner) add(res Result) {
	r.results = append(r.results, res)
	if r.opt.Report != nil {
		r.opt.Report(res)
	}
}

// row measures an operation of the engine at a shape.
func (r *Runner) row(ctx context.Context, op string, s Shape, size string, batch int, w work, deviation *Deviation, f func() error) error {
	res := r.result(op, s, size, batch)
	res.Error, res.Bytes = deviation, w.bytes
	return r.Measure(ctx, res, w.flops, 1, f)
}

// work is that of one call: operations, and the bytes that it has to move at least; 0 where
// they are not counted.
type work struct{ flops, bytes float64 }

// weightBytes are those of a network's parameters.
func weightBytes(mlp *model.MLP) float64 {
	n := 0
	for _, l := range mlp.Layers {
		n += l.W.Rows*l.W.Cols + len(l.B)
	}
	return 4 * float64(n)
}

func (r *Runner) result(op string, s Shape, size string, batch int) Result {
	return Result{Op: op, Case: s.Case, Backend: r.d.Name, ISA: r.d.ISA, Precision: cmp.Or(r.d.Precision, "fp32"), Threads: r.d.Threads, Batch: batch, Size: size}
}

func random(rng *rand.Rand, rows, cols int) tensor.Matrix {
	m := tensor.New(rows, cols)
	for i := range m.Data {
		m.Data[i] = float32(rng.NormFloat64())
	}
	return m
}
