package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/names"
	"github.com/gpc-engine/gpc/kernels/images"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Shape is the size of a map: what the cost of a step depends on.
type Shape struct {
	Case                          string
	Latent, Hidden, State, Action int
	Objectives                    int
	Observation                   int // inputs of E_x
	Encoder                       int // width of its hidden layers; 0: Hidden
	// controlCase is the registered case whose objectives a step takes; nil: ½‖s‖² and
	// ½‖u‖².
	controlCase *domain.Case
}

// String is the sizes in words, and whether the objectives are a case's own.
func (s Shape) String() string {
	size := fmt.Sprintf("z %d, hidden %d, s %d, u %d", s.Latent, s.Hidden, s.State, s.Action)
	if s.controlCase != nil {
		size += ", own objectives"
	}
	return size
}

// Shapes are the sizes of the paper's cases (OPF: n_z = 32, hidden 256, 30 buses
// and six generators).
var Shapes = []Shape{
	{Case: "integrator", Latent: 16, Hidden: 256, State: 4, Action: 2, Objectives: 2, Observation: 12},
	{Case: "opf30", Latent: 32, Hidden: 256, State: 60, Action: 12, Objectives: 3, Observation: 136},
}

// sizePrefix before a name asks for one of Shapes where a case has that name too.
const sizePrefix = "size:"

// shapeOf returns the shape of a registered case, whose own objectives a step
// then takes, or one of Shapes; "size:opf30" is the latter.
func shapeOf(name string, cases []domain.Case) (Shape, error) {
	name, sizeAlone := strings.CutPrefix(name, sizePrefix)
	for _, c := range cases {
		if sizeAlone {
			break
		}
		if s := c.MapProblem().Spec(); s.Name == name {
			return Shape{Case: name, Latent: s.Training.Latent, Hidden: s.Training.Hidden, State: s.MeasuredSize(), Action: s.PlanSize(), Objectives: s.ObjectiveSize(), Observation: s.ObservationSize(), Encoder: s.Training.Encoder, controlCase: &c}, nil
		}
	}
	all := make([]string, 0, len(Shapes)+len(cases))
	for _, s := range Shapes {
		if s.Case == name {
			return s, nil
		}
		all = append(all, s.Case)
	}
	for _, c := range cases {
		all = append(all, c.Problem.Spec().Name)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return Shape{}, fmt.Errorf("unknown case %q%s (bench knows %s)", name, names.Meant(name, all), strings.Join(all, ", "))
}

// networks are those of a step: E_x, D_s and D_u.
type networks struct{ encoderX, decoderS, decoderU *model.MLP }

func (s Shape) networks(rng *rand.Rand) (nets networks, err error) {
	encoder := cmp.Or(s.Encoder, s.Hidden)
	if nets.encoderX, err = model.NewMLP(rng, s.Observation, encoder, encoder, s.Latent); err != nil {
		return
	}
	if nets.decoderS, err = model.NewMLP(rng, s.Latent, s.Hidden, s.Hidden, s.State); err != nil {
		return
	}
	nets.decoderU, err = model.NewMLP(rng, s.Latent, s.Hidden, s.Hidden, s.Action)
	return
}

func identity(n int) model.Normalizer {
	id := model.Normalizer{Mean: make([]float32, n), Scale: make([]float32, n)}
	tensor.Fill(id.Scale, 1)
	return id
}

// situations are what steps of a shape start from: rows of states and contexts in
// physical units, and the scales of both decoders.
type situations struct {
	problem      domain.Problem
	x, ctx       tensor.Matrix
	normS, normU model.Normalizer
}

// maxEpisodes bounds the test episodes whose first observations are taken.
const maxEpisodes = 64

// situations returns n rows: random ones for the synthetic objectives, for a
// case's own the first observations of test episodes in turn (zeros without a
// plant). The random decoders are scaled so that decoded states spread half as
// wide as these observations about their mean, and decoded actions over a
// quarter of their box, where the objectives are defined.
func (s Shape) situations(rng *rand.Rand, seed uint64, n int) (situations, error) {
	if s.controlCase == nil {
		return situations{newQuadratic(s), random(rng, n, s.State), tensor.New(n, 1), identity(s.State), identity(s.Action)}, nil
	}
	problem := s.controlCase.MapProblem()
	spec := problem.Spec()
	out := situations{problem, tensor.New(n, s.State), tensor.New(n, spec.ContextSize()), identity(s.State), identity(s.Action)}
	for i := range s.Action {
		if a := spec.Action[i%spec.ActionSize()]; a.Bounded() {
			out.normU.Scale[i] = float32(a.Hi-a.Lo) / 4
		}
	}
	states, contexts, err := s.observed(seed)
	if err != nil || len(states) == 0 {
		return out, err
	}
	for i := range n {
		tensor.Narrow(out.x.Row(i), states[i%len(states)])
		tensor.Narrow(out.ctx.Row(i), contexts[i%len(contexts)])
	}
	column := make([]float64, len(states))
	for j := range s.State {
		for i, x := range states {
			column[i] = x[j]
		}
		mean, deviation := stat.MeanStdDev(column, nil)
		out.normS.Mean[j], out.normS.Scale[j] = float32(mean), float32(math.Max(deviation/2, leastScale))
	}
	return out, nil
}

// observed are the first observations of the case's test episodes, or, where its map
// is about another problem than its plant, those of a few scenarios of its solver.
func (s Shape) observed(seed uint64) (states, contexts [][]float64, err error) {
	if s.controlCase.Learned != nil && s.controlCase.Solver != nil {
		return s.solved(seed)
	}
	if s.controlCase.Learned != nil || s.controlCase.Plant == nil {
		return nil, nil, nil
	}
	spec := s.controlCase.Problem.Spec()
	for i := range maxEpisodes {
		e, err := s.controlCase.Plant.Episode(seed, i, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}})
		if err != nil {
			return nil, nil, fmt.Errorf("test episode %d: %w", i, err)
		}
		x, c := make([]float64, s.State), make([]float64, spec.ContextSize())
		e.Observe(x, c)
		states, contexts = append(states, x), append(contexts, c)
	}
	return states, contexts, nil
}

// benchScenarios are solved for observations.
const benchScenarios = 4

func (s Shape) solved(seed uint64) (states, contexts [][]float64, err error) {
	points, err := dataset.LatinHypercube(s.controlCase.Solver.Parameters(), benchScenarios, seed)
	if err != nil {
		return nil, nil, err
	}
	if err := s.controlCase.Solver.Prepare(context.Background(), seed, func(int, int) {}); err != nil {
		return nil, nil, err
	}
	for i, p := range points {
		samples, err := s.controlCase.Solver.Solve(i, p, domain.Preference{Adaptive: true}, domain.WeightedSum, seed)
		if err != nil && !errors.Is(err, domain.ErrInfeasible) && !errors.Is(err, domain.ErrNotConverged) {
			return nil, nil, err
		}
		for _, row := range samples {
			states, contexts = append(states, row.S), append(contexts, row.C)
		}
	}
	return states, contexts, nil
}

// leastScale is for a component that is the same in every observation.
const leastScale = 1e-3

// quadratic is a problem of a given shape with objectives ½‖s‖² and ½‖u‖², for
// benchmarks of the engine apart from any case's own objective. Its device functions
// are kernels/quadratic.cu, for the sizes of Shapes.
type quadratic struct{ spec domain.Spec }

func (q *quadratic) Device() domain.DeviceCode {
	return domain.DeviceCode{Name: fmt.Sprintf("quadratic_%d_%d", len(q.spec.Measured), len(q.spec.Action)), Images: images.Embedded()}
}

// Abilities implements domain.Able.
func (q *quadratic) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Derivatives: domain.Derivatives{Rows: q.GradientBatch}, Device: q.Device}
}

func newQuadratic(s Shape) *quadratic {
	q := &quadratic{spec: domain.Spec{Name: s.Case, Plan: 1}}
	q.spec.Measured = make([]domain.Variable, s.State)
	q.spec.Context = make([]domain.Variable, 1) // not read
	q.spec.Action = make([]domain.Variable, s.Action)
	q.spec.Objectives = make([]domain.Variable, s.Objectives)
	tensor.Fill(q.spec.Action, domain.Variable{Lo: -3, Hi: 3})
	return q
}

func (q *quadratic) Spec() *domain.Spec                   { return &q.spec }
func (q *quadratic) Base(_, _, plan []float64)            { clear(plan) }
func (q *quadratic) Indicators(_, _, _, delta []float64)  { clear(delta) }
func (q *quadratic) Step(s, c, _, sNext, cNext []float64) { copy(sNext, s); copy(cNext, c) }
func (q *quadratic) Margins(_, _, _, m []float64)         { clear(m) }
func (q *quadratic) Project(_, _, _ []float64) bool       { return true }
func (q *quadratic) Fallback(_, _, u []float64)           { clear(u) }

func (q *quadratic) Objectives(s, u, _, J []float64) {
	clear(J)
	for _, v := range s {
		J[0] += v * v / 2
	}
	for _, v := range u {
		J[1] += v * v / 2
	}
}

func (q *quadratic) Gradient(s, u, _, sigma, gs, gu []float64) {
	for i, v := range s {
		gs[i] = sigma[0] * v
	}
	for i, v := range u {
		gu[i] = sigma[1] * v
	}
}

// GradientBatch is Gradient over a batch; see domain.Derivatives.Rows.
func (q *quadratic) GradientBatch(b domain.Batch) {
	ns, nu := len(q.spec.Measured), len(q.spec.Action)
	for r := range b.Rows {
		w := b.Sigma[r*b.SigmaStride:]
		s, gs := b.S[r*b.SStride:][:ns], b.GS[r*b.GSStride:][:ns]
		u, gu := b.U[r*b.UStride:][:nu], b.GU[r*b.GUStride:][:nu]
		js, ju := float32(0), float32(0)
		for i, v := range s {
			gs[i] = w[0] * v
			js += v * v
		}
		for i, v := range u {
			gu[i] = w[1] * v
			ju += v * v
		}
		if b.J != nil {
			J := b.J[r*b.JStride:][:len(q.spec.Objectives)]
			clear(J)
			J[0], J[1] = js/2, ju/2
		}
	}
}
