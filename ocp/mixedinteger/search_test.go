package mixedinteger_test

import (
	"math"
	"slices"
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
		best := s.Run(8192)
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
	c := require.Get(fishing(30).Case())(t)
	samples := require.Get(c.Solver.Solve(0, []float64{0.5, 0.7}, domain.Preference{W: []float64{1}}, domain.WeightedSum, 5))(t)
	if len(samples) != 4*24 {
		t.Errorf("%d samples, want 24 of each of four drives", len(samples))
	}
	for i, s := range samples {
		if i > 0 && s.Trajectory == samples[i-1].Trajectory && s.Step != samples[i-1].Step+1 {
			t.Errorf("step %d follows step %d of its trajectory", s.Step, samples[i-1].Step)
		}
		for h, v := range s.U {
			if !(v >= 0 && v <= 1) {
				t.Fatalf("step %d: the chance of period %d is %v", s.Step, h, v)
			}
		}
	}
}

// house keeps a room warm by a heat pump that is on or off, with a battery charged at any rate, under a tariff that rises.
func house() equations.System {
	return equations.System{
		Name: "house", Description: "a room and a battery",
		State:      []domain.Variable{{Name: "T", Unit: "°C", Lo: 15, Hi: 25}, {Name: "charge", Unit: "kWh", Hi: 4}},
		Action:     []domain.Variable{{Name: "pump", Unit: "1"}, {Name: "charging", Unit: "kW", Lo: -2, Hi: 2}},
		Objectives: []domain.Variable{{Name: "cost", Unit: "1"}}, Margins: []domain.Variable{{Name: "full", Unit: "kWh"}, {Name: "empty", Unit: "kWh"}},
		Scenario: []domain.Variable{{Name: "T", Unit: "°C", Lo: 18, Hi: 22}, {Name: "charge", Unit: "kWh", Lo: 1, Hi: 3}},
		Initial:  func(p, s, _ []float64) { s[0], s[1] = p[0], p[1] },
		Steps:    12, StepSeconds: 3600,
		Switches: []equations.Switch{{Action: "pump", Values: []float64{0, 1}, Least: []int{2, 3}, Initial: math.NaN()}},
		Real:     houseFunctions[float64](), Dual: houseFunctions[complex128](),
	}
}

func houseFunctions[T dual.Scalar]() equations.Functions[T] {
	n := dual.Const[T]
	return equations.Functions[T]{
		Step: func(s, c, u, sNext, cNext []T) {
			sNext[0] = s[0] + n(2.5)*u[0] - n(0.1)*(s[0]-n(5))
			sNext[1] = s[1] + u[1]
		},
		Objectives: func(s, c, u, sNext, j []T) {
			drawn, e := n(1.5)*u[0]+u[1], sNext[0]-n(20)
			price := n(0.2) + n(0.6)*c[0]*(n(1.2)-c[0])
			j[0] = n(0.1)*e*e + price*drawn + n(0.05)*drawn*drawn + n(0.02)*u[1]*u[1] + n(2)
		},
		Margins: func(s, c, u, sNext, m []T) { m[0], m[1] = n(4)-sNext[1], sNext[1] },
	}
}

// TestOtherActionsAreBestForTheirSwitches moves the charging of a reference a little, as far as it stays safe.
func TestOtherActionsAreBestForTheirSwitches(t *testing.T) {
	c := require.Get(house().Case())(t)
	s, p := c.Solver.(*mixedinteger.Solver), c.Problem.(*equations.Problem)
	start, context := []float64{19, 2}, startOf(p)
	best := require.Get(s.Reference(start, context, 12, domain.Preference{W: []float64{1}}))(t)
	cost := func(actions []float64) (sum float64, safe bool) {
		x, k := append([]float64(nil), start...), append([]float64(nil), context...)
		next, nextK := make([]float64, 2), make([]float64, len(k))
		j, m := make([]float64, 1), make([]float64, len(p.Spec().Margins))
		safe = true
		for h := range 12 {
			u := actions[2*h : 2*h+2]
			p.Objectives(x, u, k, j)
			p.Margins(x, k, u, m)
			safe = safe && p.Spec().Keeps(domain.Smallest(m))
			p.Step(x, k, u, next, nextK)
			copy(x, next)
			copy(k, nextK)
			sum += j[0]
		}
		return sum, safe
	}
	if sum, safe := cost(best.Actions); !safe || math.Abs(sum-best.Cost) > 1e-9 {
		t.Fatalf("the plan costs %v, safe: %t; the reference says %v", sum, safe, best.Cost)
	}
	for a := range 12 {
		for b := range 12 {
			moved := append([]float64(nil), best.Actions...)
			moved[2*a+1] += 0.02
			moved[2*b+1] -= 0.02
			if sum, safe := cost(moved); safe && sum < best.Cost-1e-6 {
				t.Errorf("charging 0.02 kW more at %d and less at %d costs %v less", a, b, best.Cost-sum)
			}
		}
	}
}

func TestASearchDependsOnItsSeedAlone(t *testing.T) {
	p := require.Get(equations.New(house()))(t)
	find := func(before int) (float64, []float64) {
		s := require.Get(mixedinteger.NewSearch(p, mixedinteger.Options{Seed: 9002}))(t)
		for range before {
			s.Begin([]float64{21, 1}, startOf(p), domain.Preference{W: []float64{1}}, 12)
			s.Run(300)
			s.Restart(0)
		}
		s.Begin([]float64{19, 2}, startOf(p), domain.Preference{W: []float64{1}}, 12)
		best := s.Run(2000)
		return best.Cost, append([]float64(nil), best.Actions...)
	}
	cost, actions := find(0)
	again, same := find(1)
	if cost != again || !slices.Equal(actions, same) {
		t.Errorf("costs %v and %v by the same seed, actions %v and %v", cost, again, actions, same)
	}
}

// TestAPlanThatIsGivenUpIsNotTheBest searches where no plan keeps the limits: candidates that fall behind are given up.
func TestAPlanThatIsGivenUpIsNotTheBest(t *testing.T) {
	y := fishing(20)
	y.Margins = []domain.Variable{{Name: "none", Unit: "1"}}
	y.Real.Margins, y.Dual.Margins = unattainable[float64], unattainable[complex128]
	p := require.Get(equations.New(y))(t)
	s := require.Get(mixedinteger.NewSearch(p, mixedinteger.Options{Seed: 9006}))(t)
	for range 8 {
		s.Begin([]float64{0.5, 0.7, 0}, startOf(p), domain.Preference{W: []float64{1}}, 20)
		if best := s.Run(512); best == nil || best.Safe() || math.IsInf(best.Cost, 0) {
			t.Errorf("the best plan costs %v and breaks the limits by %v, want a finite cost and a violation", best.Cost, best.Violation)
		}
	}
}

func unattainable[T dual.Scalar](s, c, u, sNext, m []T) { m[0] = -dual.Const[T](1) - sNext[1] }
