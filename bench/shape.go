package bench

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/model"
)

// Shape is the size of a map: what the cost of a step depends on.
type Shape struct {
	Case                          string
	Latent, Hidden, State, Action int
	Objectives                    int
	Observation                   int // inputs of E_x
}

func (s Shape) String() string {
	return fmt.Sprintf("z %d, hidden %d, s %d, u %d", s.Latent, s.Hidden, s.State, s.Action)
}

// Shapes are the sizes of the paper's cases (OPF: n_z = 32, hidden 256, 30 buses
// and six generators).
var Shapes = []Shape{
	{Case: "integrator", Latent: 16, Hidden: 256, State: 4, Action: 2, Objectives: 2, Observation: 12},
	{Case: "opf30", Latent: 32, Hidden: 256, State: 60, Action: 12, Objectives: 3, Observation: 136},
}

// ShapeOf returns the shape of a registered size, or of a case's own Spec.
func ShapeOf(name string, cases []domain.Case) (Shape, error) {
	for _, c := range cases {
		if s := c.Problem.Spec(); s.Name == name {
			return Shape{Case: name, Latent: s.Training.Latent, Hidden: s.Training.Hidden, State: s.MeasuredSize(), Action: s.PlanSize(), Objectives: s.ObjectiveSize(), Observation: s.ObservationSize()}, nil
		}
	}
	names := make([]string, 0, len(Shapes)+len(cases))
	for _, s := range Shapes {
		if s.Case == name {
			return s, nil
		}
		names = append(names, s.Case)
	}
	for _, c := range cases {
		names = append(names, c.Problem.Spec().Name)
	}
	slices.Sort(names)
	return Shape{}, fmt.Errorf("unknown case %q; bench knows %s", name, strings.Join(names, ", "))
}

func (s Shape) networks(rng *rand.Rand) (encoderX, decoderS, decoderU *model.MLP, err error) {
	if encoderX, err = model.NewMLP(rng, s.Observation, s.Hidden, s.Hidden, s.Latent); err != nil {
		return
	}
	if decoderS, err = model.NewMLP(rng, s.Latent, s.Hidden, s.Hidden, s.State); err != nil {
		return
	}
	decoderU, err = model.NewMLP(rng, s.Latent, s.Hidden, s.Hidden, s.Action)
	return
}

func identity(n int) model.Normalizer {
	id := model.Normalizer{Mean: make([]float32, n), Scale: make([]float32, n)}
	for i := range id.Scale {
		id.Scale[i] = 1
	}
	return id
}

// quadratic is a problem of a given shape with objectives ½‖s‖² and ½‖u‖², for
// benchmarks of the engine apart from any case's own objective.
type quadratic struct{ spec domain.Spec }

func newQuadratic(s Shape) *quadratic {
	q := &quadratic{spec: domain.Spec{Name: s.Case, Plan: 1}}
	q.spec.Measured = make([]domain.Variable, s.State)
	q.spec.Action = make([]domain.Variable, s.Action)
	q.spec.Objectives = make([]domain.Variable, s.Objectives)
	for i := range q.spec.Action {
		q.spec.Action[i] = domain.Variable{Lo: -3, Hi: 3}
	}
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

// GradientBatch is Gradient over a batch; see domain.BatchGradient.
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
