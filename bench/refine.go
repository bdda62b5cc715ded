package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"

	"github.com/gpc-engine/gpc/batchnav"
	cpufallback "github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// refines says why a shape has no refinement.
func refines(s Shape) error {
	switch {
	case s.controlCase == nil:
		return errors.New("a size alone has no roll-outs: --case names a case")
	case s.controlCase.Plant == nil:
		return fmt.Errorf("case %s has no plant", s.Case)
	}
	return nil
}

// refine is one refinement of each batch of candidates end to end: observation in,
// chosen action out, one flow step of the proposals, the rounds after them, every roll-out
// to the end of the episode or plan.
// A call takes another observation each time.
func refine(ctx context.Context, r *Runner, s Shape) error {
	m, err := s.model(r.Rand(), r.opt.Model)
	if err != nil {
		return err
	}
	problem := s.controlCase.MapProblem()
	observations, err := s.observations(r.opt.Seed)
	if err != nil {
		return err
	}
	for _, n := range r.opt.Batches {
		refiner, err := batchnav.NewRefiner(r.b, m, problem, batchnav.Options{}, n)
		if err != nil {
			return err
		}
		opt := batchnav.RefineOptions{Candidates: n, FlowSteps: 1, Seed: 1, Threads: runtime.GOMAXPROCS(0)}
		first, err := refiner.Refine(ctx, observations[0], opt)
		if err != nil {
			return err
		}
		index := 0
		size := fmt.Sprintf("%s, %d codes, look-ahead %d", s, m.Codes.Rows, first.LookAhead)
		if err := r.row(ctx, "refine", s, size, n, work{flops: refineFLOPs(m, problem, opt, first.LookAhead, r.d.Places)}, nil, func() error {
			_, err := refiner.Refine(ctx, observations[index%len(observations)], opt)
			index++
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// refineFLOPs is the work of a refinement that ends by no round without gain: the flow
// steps of the proposals, and E_x and D_u at each decision of every roll-out, but for the
// first of a proposal, which the flow decodes, and E_x at that of another. Localization,
// the preference sweep and the problem's own functions are not counted.
func refineFLOPs(m *model.Model, p domain.Problem, opt batchnav.RefineOptions, lookAhead, places int) float64 {
	spec := p.Spec()
	nav := spec.Navigation
	step := cpufallback.StepFLOPs(backend.StepperConfig{
		DecoderS: m.DecoderS, DecoderU: m.DecoderU, Problem: p,
		Params: backend.StepParams{TopK: nav.TopK, LieGain: float32(nav.LieGain)},
	})
	proposed, offset := batchnav.Split(spec, opt, lookAhead, places)
	work := float64(proposed*opt.FlowSteps) * step
	if spec.Plan == 1 {
		decode := cpufallback.ForwardFLOPs(m.DecoderU)
		work += float64(offset)*decode + float64((proposed+offset)*(lookAhead-1))*(cpufallback.ForwardFLOPs(m.EncoderX)+decode)
	}
	return work
}

// observations are what refinements and decisions begin from, the observed ones under the adaptive priority.
func (s Shape) observations(seed uint64) (list []batchnav.Observation, err error) {
	states, contexts, err := s.observed(seed)
	for i := range states {
		list = append(list, batchnav.Observation{S: states[i], C: contexts[i], Preference: domain.Preference{Adaptive: true}})
	}
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("case %s: no scenario was solved", s.Case)
	}
	return list, err
}

// model is the case's map, or networks of its sizes drawn at random.
func (s Shape) model(rng *rand.Rand, read func(domain.Case) (*model.Model, error)) (*model.Model, error) {
	if read != nil {
		return read(*s.controlCase)
	}
	spec := s.controlCase.MapProblem().Spec()
	nets, err := s.networks(rng)
	if err != nil {
		return nil, err
	}
	eo, err := model.NewMLP(rng, spec.OracleSize(), s.Hidden, s.Latent)
	if err != nil {
		return nil, err
	}
	return &model.Model{
		Case: spec.Name, EncoderX: nets.encoderX, EncoderO: eo, DecoderS: nets.decoderS, DecoderU: nets.decoderU,
		NormX: identity(s.Observation), NormO: identity(spec.OracleSize()), NormS: identity(s.State), NormU: identity(s.Action),
		Codes: tensor.New(0, s.Latent),
	}, nil
}
