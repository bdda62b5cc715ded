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

	cpufallback "github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Operation is one thing that Run measures.
type Operation struct {
	Name string
	// Once is for sizes that are the operation's own: it is measured once, with the
	// first Shape of the run, and not for each.
	Once bool
	// Asked is for one that is measured only when it is named.
	Asked bool
	// Flags are read by this operation alone; nil: none.
	Flags *flag.FlagSet
	// Measure adds the rows of one shape.
	Measure func(ctx context.Context, r *Runner, s Shape) error
}

// Operations are those of the engine, in the order of the table.
var Operations = []Operation{
	{Name: "gemm", Once: true, Measure: gemm},
	{Name: "gemm-tiles", Once: true, Asked: true, Measure: gemmTiles},
	{Name: "jacobian", Measure: jacobian},
	{Name: "metric", Measure: metric},
	{Name: "eig", Measure: eig},
	{Name: "localize", Measure: localize},
	{Name: "step", Measure: step},
	{Name: "step+localize", Measure: stepLocalize},
	{Name: "refine", Measure: refine},
	{Name: "train", Measure: train},
	{Name: "train-epochs", Asked: true, Measure: trainEpochs},
	{Name: "kernels", Asked: true, Measure: kernels},
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

// Ceiling returns the machine's multiply-add peak, FLOP/s. It is called before
// and after each row.
type Ceiling func() float64

// Run measures on an open backend. ceiling may be nil: no rates are given.
func Run(ctx context.Context, b backend.Backend, ceiling Ceiling, opt Options) ([]Result, error) {
	operations := slices.Concat(Operations, opt.Extra)
	if len(opt.Ops) == 0 {
		opt.Ops = Names(slices.DeleteFunc(slices.Clone(operations), func(op Operation) bool { return op.Asked }))
	}
	if len(opt.Batches) == 0 {
		opt.Batches = []int{1, 64, 4096}
	}
	if len(opt.Codes) == 0 {
		opt.Codes = []int{20_000, 250_000}
	}
	shapes := Shapes
	if opt.Case != "" {
		s, err := ShapeOf(opt.Case, opt.Cases)
		if err != nil {
			return nil, err
		}
		shapes = []Shape{s}
	}
	r := &Runner{b: b, ceiling: ceiling, opt: opt, d: b.Describe()}
	for _, name := range opt.Ops {
		at := slices.IndexFunc(operations, func(op Operation) bool { return op.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("bench: unknown operation %q, want one of %s", name, strings.Join(Names(operations), ", "))
		}
		op := operations[at]
		for _, s := range shapes {
			if err := ctx.Err(); err != nil {
				return r.results, err
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
	calls, before := 0, machine.CPUTime()
	us, err := latencies(ctx, r.opt.Budget, func() error { calls++; return f() })
	if err != nil {
		return err
	}
	res.CPU = float64((machine.CPUTime() - before).Nanoseconds()) / 1e3 / float64(calls)
	r.Add(res, us, flops, share*math.Max(peak, r.Peak()))
	return nil
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
func (r *Runner) row(ctx context.Context, op string, s Shape, size string, batch int, w work, off *Deviation, f func() error) error {
	res := r.result(op, s, size, batch)
	res.Error, res.Bytes = off, w.bytes
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
	return Result{Op: op, Case: s.Case, Backend: r.d.Name, ISA: r.d.ISA, Precision: cmp.Or(r.d.Precision, "fp32"), Threads: r.d.Threads, Devices: r.d.Devices, Batch: batch, Size: size}
}

func random(rng *rand.Rand, rows, cols int) tensor.Matrix {
	m := tensor.New(rows, cols)
	for i := range m.Data {
		m.Data[i] = float32(rng.NormFloat64())
	}
	return m
}

// gemm is one affine layer of 256×256, the largest product of every map.
func gemm(ctx context.Context, r *Runner, _ Shape) error {
	const width = 256
	mlp, err := model.NewMLP(r.Rand(), width, width)
	if err != nil {
		return err
	}
	size := func(n int) string { return fmt.Sprintf("%d×%d×%d", n, width, width) }
	return r.network(ctx, "gemm", Shape{Case: "-"}, size, mlp, width, cpufallback.ForwardFLOPs(mlp), backend.Net.Forward)
}

// gemmTiles is the product of each batch at three widths in every way that the CPU backend can
// cut it, its own first.
func gemmTiles(ctx context.Context, r *Runner, _ Shape) error {
	b, ok := r.b.(interface {
		Tiles() []cpufallback.Tile
		NewTiledNet(mlp *model.MLP, t cpufallback.Tile) (backend.Net, error)
	})
	if !ok {
		return fmt.Errorf("the backend %s has no tiles to choose from", r.d.Name)
	}
	for _, width := range []int{256, 512, 1024} {
		mlp, err := model.NewMLP(r.Rand(), width, width)
		if err != nil {
			return err
		}
		for _, t := range b.Tiles() {
			net, err := b.NewTiledNet(mlp, t)
			if err != nil {
				return err
			}
			for _, n := range r.opt.Batches {
				z, out := random(r.Rand(), n, width), tensor.New(n, width)
				w := work{float64(n) * cpufallback.ForwardFLOPs(mlp), weightBytes(mlp) + 8*float64(n*width)}
				if err := r.row(ctx, "gemm-tiles", Shape{Case: "-"}, fmt.Sprintf("%d×%d×%d, tile %v", n, width, width, t), n, w, nil, func() error { return net.Forward(z, out) }); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// network measures an operation on a network, with results of so many columns and so
// much work a row.
func (r *Runner) network(ctx context.Context, op string, s Shape, size func(n int) string, mlp *model.MLP, columns int, flops float64, f func(net backend.Net, z, out tensor.Matrix) error) error {
	net, err := r.b.NewNet(mlp)
	if err != nil {
		return err
	}
	for _, n := range r.opt.Batches {
		if err := ctx.Err(); err != nil {
			return err
		}
		z, out := random(r.Rand(), n, mlp.In()), tensor.New(n, columns)
		first := min(n, deviationRows)
		off, err := r.deviation(first, func(b backend.Backend) ([]float32, error) {
			net, err := b.NewNet(mlp)
			if err != nil {
				return nil, err
			}
			out := tensor.New(first, columns)
			return out.Data, f(net, z.Slice(0, first), out)
		})
		if err != nil {
			return err
		}
		w := work{float64(n) * flops, weightBytes(mlp) + 4*float64(n)*float64(mlp.In()+columns)}
		if err := r.row(ctx, op, s, size(n), n, w, off, func() error { return f(net, z, out) }); err != nil {
			return err
		}
	}
	return nil
}

func jacobian(ctx context.Context, r *Runner, s Shape) error {
	_, ds, _, err := s.networks(r.Rand())
	if err != nil {
		return err
	}
	size := func(int) string { return s.String() }
	return r.network(ctx, "jacobian", s, size, ds, s.State*s.Latent, cpufallback.JacobianFLOPs(ds), backend.Net.Jacobian)
}

func metric(ctx context.Context, r *Runner, s Shape) error {
	_, ds, _, err := s.networks(r.Rand())
	if err != nil {
		return err
	}
	size := func(int) string { return s.String() }
	return r.network(ctx, "metric", s, size, ds, s.Latent*s.Latent, cpufallback.MetricFLOPs(ds), func(net backend.Net, z, g tensor.Matrix) error {
		return net.Metric(z, metricLambda, g)
	})
}

// Constants of the benchmark step.
const (
	metricLambda = 1e-3
	topK         = 3
)

// eig takes the metrics of a random decoder, which is what the step meets.
func eig(ctx context.Context, r *Runner, s Shape) error {
	_, ds, _, err := s.networks(r.Rand())
	if err != nil {
		return err
	}
	net, err := r.b.NewNet(ds)
	if err != nil {
		return err
	}
	for _, n := range r.opt.Batches {
		z, g := random(r.Rand(), n, s.Latent), tensor.New(n, s.Latent*s.Latent)
		if err := net.Metric(z, metricLambda, g); err != nil {
			return err
		}
		values, vectors := tensor.New(n, topK), tensor.New(n, s.Latent*topK)
		if err := r.row(ctx, "eig", s, fmt.Sprintf("top %d of %d×%d", topK, s.Latent, s.Latent), n, work{}, nil, func() error {
			return r.b.EigTopK(g, s.Latent, topK, values, vectors)
		}); err != nil {
			return err
		}
	}
	return nil
}

// manifold returns points clustered as M* is: an 8-dimensional box mapped into
// the latent space by a random network.
func manifold(rng *rand.Rand, rows, latent int) (tensor.Matrix, error) {
	const intrinsic = 8
	chart, err := model.NewMLP(rng, intrinsic, 64, 64, latent)
	if err != nil {
		return tensor.Matrix{}, err
	}
	at := tensor.New(rows, intrinsic)
	for i := range at.Data {
		at.Data[i] = 2*rng.Float32() - 1
	}
	z := tensor.New(rows, latent)
	return z, chart.Forward(at, z)
}

// index builds an index of n codes, and queries near it with their measured
// states and thresholds.
func (r *Runner) index(s Shape, n, queries int) (ix backend.Index, x, z tensor.Matrix, tau []float32, err error) {
	all, err := manifold(r.Rand(), n+queries, s.Latent)
	if err != nil {
		return nil, x, z, nil, err
	}
	_, ds, _, err := s.networks(r.Rand())
	if err != nil {
		return nil, x, z, nil, err
	}
	decoded := tensor.New(n+queries, s.State)
	if err := ds.Forward(all, decoded); err != nil {
		return nil, x, z, nil, err
	}
	if ix, err = r.b.NewIndex(all.Slice(0, n), decoded.Slice(0, n)); err != nil {
		return nil, x, z, nil, err
	}
	tau = make([]float32, queries)
	for i := range tau {
		tau[i] = float32(s.State)
	}
	return ix, decoded.Slice(n, n+queries), all.Slice(n, n+queries), tau, nil
}

const neighbours = 12

func localize(ctx context.Context, r *Runner, s Shape) error {
	for _, codes := range r.opt.Codes {
		batch := slices.Max(r.opt.Batches)
		ix, x, z, tau, err := r.index(s, codes, batch)
		if err != nil {
			return err
		}
		out := backend.LocalizeOutput{Z: tensor.New(batch, s.Latent), Nearest: make([]int32, batch), Residual: make([]float32, batch), Consistent: make([]bool, batch)}
		for _, n := range r.opt.Batches {
			at := 0
			size := fmt.Sprintf("%d codes, z %d", codes, s.Latent)
			if err := r.row(ctx, "localize", s, size, n, work{}, nil, func() error {
				// Another part of the queries each time, so that no query is served
				// from what the last call left in cache.
				if at+n > batch {
					at = 0
				}
				o := backend.LocalizeOutput{Z: out.Z.Slice(at, at+n), Nearest: out.Nearest[at : at+n], Residual: out.Residual[at : at+n], Consistent: out.Consistent[at : at+n]}
				err := ix.Localize(x.Slice(at, at+n), z.Slice(at, at+n), tau[at:at+n], neighbours, o)
				at += n
				return err
			}); err != nil {
				return err
			}
		}
		if err := r.bruteForce(ctx, s, codes); err != nil {
			return err
		}
	}
	return nil
}

// bruteForce is the time of one nearest-code query by comparing every code, on
// one thread, for the table beside the index.
func (r *Runner) bruteForce(ctx context.Context, s Shape, codes int) error {
	all, err := manifold(r.Rand(), codes+64, s.Latent)
	if err != nil {
		return err
	}
	q, best := 0, 0
	return r.row(ctx, "localize-brute", s, fmt.Sprintf("%d codes, z %d", codes, s.Latent), 1, work{}, nil, func() error {
		query := all.Row(codes + q%64)
		q++
		least := float32(math.Inf(1))
		for i := range codes {
			d := float32(0)
			for j, v := range all.Row(i) {
				e := v - query[j]
				d += e * e
			}
			if d < least {
				least, best = d, i
			}
		}
		if best < 0 {
			return fmt.Errorf("no code found")
		}
		return nil
	})
}

// stepper prepares a step over n latents.
func (r *Runner) stepper(s Shape, n int) (st backend.Stepper, cfg backend.StepperConfig, in backend.StepInput, out backend.StepOutput, err error) {
	_, ds, du, err := s.networks(r.Rand())
	if err != nil {
		return nil, cfg, in, out, err
	}
	rng := r.Rand()
	in = backend.StepInput{Z: random(rng, n, s.Latent), Weights: tensor.New(n, s.Objectives)}
	for i := range in.Weights.Data {
		in.Weights.Data[i] = 1 / float32(s.Objectives)
	}
	at, err := s.situations(rng, r.opt.Seed, n)
	if err != nil {
		return nil, cfg, in, out, err
	}
	in.X, in.Ctx = at.x, at.ctx
	out = backend.StepOutput{Z: tensor.New(n, s.Latent), U: tensor.New(n, s.Action)}
	cfg = backend.StepperConfig{
		DecoderS: ds, DecoderU: du, NormS: at.normS, NormU: at.normU,
		Problem: at.problem, MaxBatch: n,
		Params: backend.StepParams{Dt: 0.05, VMax: 1, Epsilon: 0.05, MetricLambda: metricLambda, TopK: min(topK, s.Latent), LieGain: 0.1, LieScale: 1},
	}
	if st, err = r.b.NewStepper(cfg); err != nil {
		return nil, cfg, in, out, err
	}
	if err := st.Step(in, out); err != nil {
		return nil, cfg, in, out, err
	}
	// A step over NaN is not the step that is to be timed.
	for i, v := range out.Z.Data {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, cfg, in, out, fmt.Errorf("row %d of the step is not finite", i/s.Latent)
		}
	}
	return st, cfg, in, out, nil
}

// stepBytes are those of a step of n latents: both decoders, and what crosses the contract
// for each latent.
func (s Shape) stepBytes(cfg backend.StepperConfig, n int) float64 {
	return weightBytes(cfg.DecoderS) + weightBytes(cfg.DecoderU) + float64(n*s.latentBytes())
}

// step is one fused step without localization and retraction.
func step(ctx context.Context, r *Runner, s Shape) error {
	for _, n := range r.opt.Batches {
		st, cfg, in, out, err := r.stepper(s, n)
		if err != nil {
			return err
		}
		off, err := r.deviation(min(n, deviationRows), func(b backend.Backend) ([]float32, error) { return onStep(b, cfg, in) })
		if err != nil {
			return err
		}
		if r.opt.Record != "" && n == slices.Max(r.opt.Batches) {
			if err := record(r.opt.Record, cfg, in, out); err != nil {
				return err
			}
		}
		flops := cpufallback.StepFLOPs(cfg)
		var host []float64 // µs of each call in the problem's own gradients, where a device steps
		split, _ := st.(backend.SplitStepper)
		if err := r.row(ctx, "step", s, s.String(), n, work{float64(n) * flops, s.stepBytes(cfg, n)}, off, func() error {
			if split == nil {
				return st.Step(in, out)
			}
			before := split.Split().HostSeconds
			err := st.Step(in, out)
			if spent := split.Split().HostSeconds - before; spent > 0 {
				host = append(host, 1e6*spent)
			}
			return err
		}); err != nil {
			return err
		}
		if len(host) > 0 {
			r.Add(r.result("step, gradients on the host", s, s.String(), n), host, 0, math.NaN())
		}
	}
	return nil
}

// onStep is what a step gives for the first rows: latents, then actions.
func onStep(b backend.Backend, cfg backend.StepperConfig, in backend.StepInput) ([]float32, error) {
	n := min(in.Z.Rows, deviationRows)
	cfg.MaxBatch = n
	st, err := b.NewStepper(cfg)
	if err != nil {
		return nil, err
	}
	in.Z, in.X, in.Ctx, in.Weights = in.Z.Slice(0, n), in.X.Slice(0, n), in.Ctx.Slice(0, n), in.Weights.Slice(0, n)
	out := backend.StepOutput{Z: tensor.New(n, in.Z.Cols), U: tensor.New(n, cfg.DecoderU.Out())}
	if err := st.Step(in, out); err != nil {
		return nil, err
	}
	return append(out.Z.Data, out.U.Data...), nil
}

// stepLocalize is localization among the smaller number of codes and one step. Its
// work counts the distances to every code, 2·n_z a code, which an index may spare:
// it has no rate.
func stepLocalize(ctx context.Context, r *Runner, s Shape) error {
	for _, n := range r.opt.Batches {
		st, cfg, in, out, err := r.stepper(s, n)
		if err != nil {
			return err
		}
		codes := slices.Min(r.opt.Codes)
		ix, x, z, tau, err := r.index(s, codes, n)
		if err != nil {
			return err
		}
		flops := float64(n) * (cpufallback.StepFLOPs(cfg) + 2*float64(s.Latent)*float64(codes))
		local := backend.LocalizeOutput{Z: in.Z}
		if s.own == nil {
			in.X = x
		}
		if err := r.row(ctx, "step+localize", s, fmt.Sprintf("%s, %d codes", s, codes), n, work{}, nil, func() error {
			if err := ix.Localize(x, z, tau, neighbours, local); err != nil {
				return err
			}
			return st.Step(in, out)
		}); err != nil {
			return err
		}
		r.results[len(r.results)-1].GFlop = flops / 1e9
	}
	return nil
}
