package mixedinteger_test

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/ocp/mixedinteger"
)

// fishing is the switched Lotka–Volterra fishing problem (Sager 2005) in steps periods over 12 units of time.
func fishing(steps int) equations.System {
	return equations.System{
		Name: "fishing", Description: "prey and predators",
		State:      []domain.Variable{{Name: "prey", Unit: "1"}, {Name: "predators", Unit: "1"}, {Name: "cost", Unit: "1"}},
		Action:     []domain.Variable{{Name: "fishing", Unit: "1"}},
		Objectives: []domain.Variable{{Name: "distance", Unit: "1"}},
		Scenario:   []domain.Variable{{Name: "prey", Unit: "1", Lo: 0.3, Hi: 1.7}, {Name: "predators", Unit: "1", Lo: 0.3, Hi: 1.7}},
		Initial:    func(p, s, _ []float64) { s[0], s[1], s[2] = p[0], p[1], 0 },
		Steps:      steps, StepSeconds: 12 / float64(steps),
		Switches: []equations.Switch{equations.OnOff("fishing")},
		ODE:      &dual.Explicit{Real: hunt[float64], Dual: hunt[complex128], Span: 12 / float64(steps), Substeps: 4},
		Real:     equations.Functions[float64]{Objectives: distance[float64]}, Dual: equations.Functions[complex128]{Objectives: distance[complex128]},
	}
}

func hunt[T dual.Scalar](s, c, u, ds []T) {
	one := dual.Const[T](1)
	ds[0] = s[0] - s[0]*s[1] - dual.Const[T](0.4)*s[0]*u[0]
	ds[1] = -s[1] + s[0]*s[1] - dual.Const[T](0.2)*s[1]*u[0]
	ds[2] = (s[0]-one)*(s[0]-one) + (s[1]-one)*(s[1]-one)
}

func distance[T dual.Scalar](s, c, u, sNext, j []T) { j[0] = sNext[2] - s[2] }

// TestSearchFindsProvenOptima compares with what a branch and bound proves (Bonmin).
func TestSearchFindsProvenOptima(t *testing.T) {
	for steps, optimum := range map[int]float64{10: 1.601606, 20: 1.404714, 30: 1.360138} {
		p := require.Get(equations.New(fishing(steps)))(t)
		s := require.Get(mixedinteger.NewSearch(p, mixedinteger.Options{Seed: 9001}))(t)
		s.Begin([]float64{0.5, 0.7, 0}, startOf(p), domain.Preference{W: []float64{1}}, steps)
		best := s.Run(8192, 0)
		if best == nil || !best.Safe() || math.Abs(best.Cost-optimum) > 1e-5 {
			t.Errorf("%d periods: %+v after %d candidates, want the cost %v", steps, best, s.Candidates, optimum)
		}
	}
}

// startOf is the context at the start of an episode.
func startOf(p *equations.Problem) []float64 {
	spec := p.Spec()
	c := make([]float64, spec.ContextSize())
	for i := range spec.Switches {
		w := &spec.Switches[i]
		c[w.Last] = w.Values[0]
		for k := range w.Changes() {
			c[w.Ages+k] = float64(w.Saturation())
		}
	}
	return c
}

func TestReferenceIsTheProvenOptimum(t *testing.T) {
	c := require.Get(fishing(30).Case())(t)
	s, p := c.Solver.(*mixedinteger.Solver), c.Problem.(*equations.Problem)
	best := require.Get(s.Reference([]float64{0.5, 0.7, 0}, startOf(p), 30, domain.Preference{W: []float64{1}}))(t)
	if math.Abs(best.Cost-1.360138) > 1e-5 {
		t.Errorf("the reference costs %v, Bonmin's optimum 1.360138", best.Cost)
	}
}

func TestSamplesAreChances(t *testing.T) {
	c := require.Get(fishing(10).Case())(t)
	samples := require.Get(c.Solver.Solve(0, []float64{0.5, 0.7}, domain.Preference{W: []float64{1}}, domain.WeightedSum, 5))(t)
	if len(samples) != 4*10 {
		t.Errorf("%d samples, want one for each step of four drives", len(samples))
	}
	for _, s := range samples {
		for h, v := range s.U {
			if !(v >= 0 && v <= 1) {
				t.Fatalf("step %d: the chance of period %d is %v", s.Step, h, v)
			}
		}
	}
}
