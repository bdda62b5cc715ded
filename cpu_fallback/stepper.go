package cpufallback

import (
	"fmt"

	"github.com/gpc-engine/gpc/cpu_fallback/internal/eig"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// stepper is the fused online step. A batch is cut into chunks of latents; one
// worker takes a chunk through the whole step in buffers of its own that stay in
// its second-level cache: nothing but inputs and outputs crosses memory, and the
// metric uses the activations that the first field evaluation left behind.
type stepper struct {
	backend *Backend
	params  backend.StepParams

	netS, netU   *net
	normS, normU model.Normalizer

	sizes    backend.StepSizes
	problem  domain.Problem     // nil: no tangential potential
	gradient func(domain.Batch) // of batches, nil if the problem has none
	action   int                // entries of the plan that the energy is about; all without a problem
	boxed    bool               // whether any action has a box
	lo, hi   []float32          // [plan] the box, ±Inf where there is none

	workers []*stepWorker

	// The call in progress, read by the chunk functions, which are made once so
	// that a call allocates nothing.
	in        backend.StepInput
	out       backend.StepOutput
	field     tensor.Matrix
	states    tensor.Matrix
	chunkRows int

	stepChunk, fieldChunk, decodeChunk func(worker, chunk int)
}

// largestChunk is how many latents a worker takes at a time: a multiple of the
// product kernels' 12 and 6 rows and of the eigensolver's 16 and 8 matrices, and
// few enough that a chunk's metrics and activations stay in a second-level cache
// of 1 MiB.
const largestChunk = 48

// NewStepper prepares the fused step. The networks are packed, the normalisers
// copied; the problem is kept and called from several goroutines at once.
func (b *Backend) NewStepper(cfg backend.StepperConfig) (backend.Stepper, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &stepper{
		backend: b, params: cfg.Params, sizes: cfg.Sizes(), problem: cfg.Problem,
		normS: copyNormalizer(cfg.NormS), normU: copyNormalizer(cfg.NormU),
		action: cfg.DecoderU.Out(),
	}
	var err error
	if s.netS, err = b.newNet(cfg.DecoderS); err != nil {
		return nil, fmt.Errorf("stepper: D_s: %w", err)
	}
	if s.netU, err = b.newNet(cfg.DecoderU); err != nil {
		return nil, fmt.Errorf("stepper: D_u: %w", err)
	}
	if cfg.Problem != nil {
		spec := cfg.Problem.Spec()
		s.action = spec.ActionSize()
		s.gradient = domain.AbilitiesOfProblem(cfg.Problem).Derivatives.Rows
		s.lo, s.hi, s.boxed = actionBox(spec)
	}
	chunk := min(largestChunk, cfg.MaxBatch)
	for range b.pool.Threads() {
		s.workers = append(s.workers, s.newWorker(chunk))
	}
	s.stepChunk = func(w, c int) { s.workers[w].step(s, s.rows(c)) }
	s.fieldChunk = func(w, c int) { s.workers[w].fieldOnly(s, s.rows(c)) }
	s.decodeChunk = func(w, c int) { s.workers[w].decodeOnly(s, s.rows(c)) }
	return s, nil
}

func copyNormalizer(n model.Normalizer) model.Normalizer {
	return model.Normalizer{Mean: append([]float32(nil), n.Mean...), Scale: append([]float32(nil), n.Scale...)}
}

// actionBox repeats the box of one action along the plan.
func actionBox(spec *domain.Spec) (lo, hi []float32, boxed bool) {
	lo, hi = make([]float32, spec.PlanSize()), make([]float32, spec.PlanSize())
	for i := range lo {
		lo[i], hi[i] = negativeInfinity, positiveInfinity
		if a := spec.Action[i%len(spec.Action)]; a.Bounded() {
			lo[i], hi[i], boxed = float32(a.Lo), float32(a.Hi), true
		}
	}
	return lo, hi, boxed
}

// StepFLOPs is the nominal work of one latent's Step, a multiply-add counted as
// two:
//
//	2·(2·F_s + 2·F_u)   two fields, each a forward pass and its VJP
//	+ M_s               Jacobian of D_s and JᵀJ from the masks of the first
//	+ E                 eigenpairs
//	+ F_u               decode
//
// with F = ForwardFLOPs, M = MetricFLOPs without its own forward pass, E =
// eig.FLOPs(n_z, k). F_u counts in the fields only with a problem, M and E only
// when γ_L and k are positive. Elementwise work and the problem's own gradient
// are not counted. Like MetricFLOPs it counts inactive units, which this backend
// leaves out: see ActiveStepFLOPs.
func StepFLOPs(cfg backend.StepperConfig) float64 { return ActiveStepFLOPs(cfg, nil) }

// ActiveStepFLOPs is StepFLOPs with the Jacobian counted for the given share of
// active units per hidden layer of D_s, as it is carried out; nil is all.
func ActiveStepFLOPs(cfg backend.StepperConfig, share []float64) float64 {
	field := ForwardFLOPs(cfg.DecoderS)
	if cfg.Problem != nil {
		field += ForwardFLOPs(cfg.DecoderU)
	}
	f := 2*2*field + ForwardFLOPs(cfg.DecoderU)
	if cfg.Params.LieGain != 0 && cfg.Params.TopK > 0 {
		n, m := cfg.DecoderS.In(), cfg.DecoderS.Out()
		f += ActiveJacobianFLOPs(cfg.DecoderS, share) - hiddenFLOPs(cfg.DecoderS)
		f += 2*float64(m)*float64(n)*float64(n) + eig.FLOPs(n, cfg.Params.TopK)
	}
	return f
}

// Step implements backend.Stepper. Each chunk reads its inputs before it writes,
// so out.Z may be in.Z.
//
// Guards, in this order: a first slope that is not finite makes no motion, and
// FallbackNoStep is then the only bit; a midpoint that is not finite is replaced
// by z; a second slope that is not finite by the first. The Lie residual is left
// out, without a bit, when γ_L or k is zero or there is no motion.
func (s *stepper) Step(in backend.StepInput, out backend.StepOutput) error {
	if err := s.sizes.CheckStep(in, out); err != nil {
		return err
	}
	s.in, s.out = in, out
	s.spread(in.Z.Rows, s.stepChunk)
	return nil
}

// Field implements backend.Stepper.
func (s *stepper) Field(input backend.StepInput, f tensor.Matrix, energy []float32) error {
	if err := s.sizes.CheckField(input, f, energy); err != nil {
		return err
	}
	s.in, s.out, s.field = input, backend.StepOutput{Energy: energy}, f
	s.spread(input.Z.Rows, s.fieldChunk)
	return nil
}

// Decode implements backend.Stepper. Without a problem neither x nor ctx is read.
func (s *stepper) Decode(z, ctx, x tensor.Matrix, u, states tensor.Matrix) error {
	if err := s.sizes.CheckDecode(z, ctx, x, u, states); err != nil {
		return err
	}
	s.in, s.out, s.states = backend.StepInput{Z: z, X: x, Ctx: ctx}, backend.StepOutput{U: u}, states
	s.spread(z.Rows, s.decodeChunk)
	return nil
}

// spread runs one chunk function over a batch. A small batch is cut finer, so
// that every thread has work; no row depends on the cut.
func (s *stepper) spread(rows int, f func(worker, chunk int)) {
	s.chunkRows = chunkRows(rows, s.backend.pool.Threads(), s.workers[0].capacity, s.netS.kernel.TileRows())
	if rows > 0 {
		s.backend.pool.Run((rows+s.chunkRows-1)/s.chunkRows, f)
	}
	s.in, s.out = backend.StepInput{}, backend.StepOutput{}
	s.field, s.states = tensor.Matrix{}, tensor.Matrix{}
}

// span is the rows [from, to) of a call.
type span struct{ from, to int }

func (r span) len() int { return r.to - r.from }

func (s *stepper) rows(chunk int) span {
	start := chunk * s.chunkRows
	return span{start, min(start+s.chunkRows, s.in.Z.Rows)}
}
