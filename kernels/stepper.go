package kernels

import (
	"fmt"
	"math"
	"runtime"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/tensor"
)

// Stepper is the online step on the device. Networks and buffers stay there; a
// call uploads latents and observations and brings the results back. All that a
// call of one padded batch size does, its copies included, is one captured graph,
// launched from a bounded cache.
//
// A problem with device functions (domain.ProblemAbilities.Device) needs no more. For any other, and for
// the energy of whole plans, of which device functions have no gradient, the step is
// split: gradients are taken on the host, between three graphs, and Split tells what
// that cost.
type Stepper struct {
	backend *Backend
	memory  *memory
	flow    flow
	sizes   backend.StepSizes
	problem domain.Problem
	rows    func(domain.Batch) // gradients of batches on the host, nil if the problem has none
	buffers stepBuffers
	graphs  keptGraphs[graphKey]
	split   backend.SplitCost
}

// flow is one model as the kernels of the step read it.
type flow struct {
	backend                       *Backend
	netS, netU                    packedNet
	meanS, scaleS, meanU, scaleU  driver.Pointer
	lo, hi                        driver.Pointer // 0: no problem, no box
	code                          problemCode
	hasProblem                    bool
	latent, states, plan          int
	contexts, actions, objectives int
	params                        backend.StepParams
}

// stepKernels are what the graphs of a step are made of.
var stepKernels = []string{
	"gpc_mlp_forward_1", "gpc_mlp_forward_8", "gpc_mlp_forward_32", "gpc_mlp_vjp_1", "gpc_mlp_vjp_8", "gpc_mlp_vjp_32", "gpc_one_take", "gpc_one_forward", "gpc_one_decode",
	"gpc_one_jacobian_16", "gpc_one_jacobian_32", "gpc_one_metric_16", "gpc_one_metric_32",
	"gpc_jacobian_8", "gpc_jacobian_16", "gpc_jacobian_32", "gpc_jacobian_64", "gpc_metric",
	"gpc_eig", "gpc_eig_32", "gpc_step_middle", "gpc_step_end",
	"gpc_mlp_forward_32_tf32", "gpc_mlp_forward_32_tf32x3", "gpc_mlp_vjp_32_tf32", "gpc_jacobian_16_tf32", "gpc_jacobian_32_tf32",
}

// NewStepper implements backend.Backend: latents up to MaxLatent, layers up to
// MaxWidth. Without device memory for MaxBatch rows the workspace is smaller, and
// a batch is taken in more chunks.
func (b *Backend) NewStepper(cfg backend.StepperConfig) (backend.Stepper, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if n := cfg.DecoderS.In(); n > MaxLatent {
		return nil, tooWide("stepper", "the latent size", n, MaxLatent)
	}
	s := &Stepper{backend: b, memory: &memory{}, sizes: cfg.Sizes(), problem: cfg.Problem}
	s.graphs.memory = s.memory
	err := b.execute(func(t *driver.Thread) error {
		if err := b.preload(t, stepKernels...); err != nil {
			return err
		}
		q := b.queue(t)
		if s.flow = newFlow(q, s.memory, cfg); q.err != nil {
			s.memory.rewind(t, 0, 0)
			return q.err
		}
		s.rows = domain.AbilitiesOfProblem(cfg.Problem).Derivatives.Rows
		device, pinned := len(s.memory.device), len(s.memory.pinned)
		for rows := min(padded(cfg.MaxBatch), mostRows); ; rows = padded(rows / 2) {
			var err error
			if s.buffers, err = s.flow.allocate(t, s.memory, rows); err == nil {
				return nil
			}
			s.memory.rewind(t, device, pinned)
			if !driver.IsShort(err) || rows <= 32 {
				s.memory.rewind(t, 0, 0)
				return err
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("stepper: %w", err)
	}
	runtime.AddCleanup(s, func(m *memory) { b.discard(m.free) }, s.memory)
	return s, nil
}

var _ backend.SplitStepper = (*Stepper)(nil)

// Split implements backend.SplitStepper: zero for a problem with device functions.
func (s *Stepper) Split() backend.SplitCost { return s.split }

// padded is the batch size that a graph is captured for: a power of two up to 32,
// then in steps of an eighth of one, so that at most an eighth is computed in vain.
func padded(rows int) int {
	size := 1
	for size < rows && size < 32 {
		size *= 2
	}
	for 2*size <= rows {
		size *= 2
	}
	step := max(size/8, 32)
	if size < 32 || rows <= size {
		return size
	}
	return (rows + step - 1) / step * step
}

func newFlow(q *queue, m *memory, cfg backend.StepperConfig) flow {
	f := flow{
		backend: q.Backend, params: cfg.Params, hasProblem: cfg.Problem != nil,
		latent: cfg.DecoderS.In(), states: cfg.DecoderS.Out(), plan: cfg.DecoderU.Out(), actions: cfg.DecoderU.Out(),
		netS: packNet(q, m, "decoder D_s", cfg.DecoderS), netU: packNet(q, m, "decoder D_u", cfg.DecoderU),
		meanS: uploaded(q, m, cfg.NormS.Mean), scaleS: uploaded(q, m, cfg.NormS.Scale),
		meanU: uploaded(q, m, cfg.NormU.Mean), scaleU: uploaded(q, m, cfg.NormU.Scale),
	}
	if cfg.Problem == nil {
		return f
	}
	spec := cfg.Problem.Spec()
	f.contexts, f.actions, f.objectives = spec.ContextSize(), spec.ActionSize(), spec.ObjectiveSize()
	lo, hi := make([]float32, f.plan), make([]float32, f.plan)
	for i := range lo {
		lo[i], hi[i] = float32(math.Inf(-1)), float32(math.Inf(1))
		if a := spec.Action[i%len(spec.Action)]; a.Bounded() {
			lo[i], hi[i] = float32(a.Lo), float32(a.Hi)
		}
	}
	f.lo, f.hi = uploaded(q, m, lo), uploaded(q, m, hi)
	f.code = newProblemCode(q, m, cfg.Problem)
	return f
}

// Step implements backend.Stepper.
func (s *Stepper) Step(in backend.StepInput, out backend.StepOutput) error {
	if err := s.sizes.CheckStep(in, out); err != nil {
		return err
	}
	return s.chunks(in, func(t *driver.Thread, from, to int) error {
		if err := s.runStep(t, stepWhole, in, from, to); err != nil {
			return err
		}
		b := &s.buffers
		b.give(out.Z, from, to, b.next)
		b.give(out.U, from, to, b.planOut)
		giveNumbers(&b.workspace, out.Energy, from, to, b.energy)
		giveNumbers(&b.workspace, out.Fallbacks, from, to, b.flags)
		return nil
	})
}

// Field implements backend.Stepper.
func (s *Stepper) Field(input backend.StepInput, f tensor.Matrix, energy []float32) error {
	if err := s.sizes.CheckField(input, f, energy); err != nil {
		return err
	}
	return s.chunks(input, func(t *driver.Thread, from, to int) error {
		if err := s.runStep(t, stepField, input, from, to); err != nil {
			return err
		}
		b := &s.buffers
		b.give(f, from, to, b.field)
		giveNumbers(&b.workspace, energy, from, to, b.energy)
		return nil
	})
}

// Decode implements backend.Stepper.
func (s *Stepper) Decode(z, ctx, x tensor.Matrix, u, states tensor.Matrix) error {
	if err := s.sizes.CheckDecode(z, ctx, x, u, states); err != nil {
		return err
	}
	if !s.flow.hasProblem {
		x, ctx = tensor.Matrix{}, tensor.Matrix{}
	}
	input := backend.StepInput{Z: z, X: x, Ctx: ctx}
	return s.chunks(input, func(t *driver.Thread, from, to int) error {
		if err := s.runStep(t, stepDecode, input, from, to); err != nil {
			return err
		}
		b := &s.buffers
		b.give(u, from, to, b.planOut)
		b.give(states, from, to, b.s)
		return nil
	})
}

// chunks takes a batch through f as the workspace has room for it.
func (s *Stepper) chunks(input backend.StepInput, f func(t *driver.Thread, from, to int) error) error {
	return s.backend.execute(func(t *driver.Thread) error {
		for from := 0; from < input.Z.Rows; from += s.buffers.capacity {
			if err := f(t, from, min(input.Z.Rows, from+s.buffers.capacity)); err != nil {
				return err
			}
		}
		return nil
	})
}
