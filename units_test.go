package gpc_test

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// rover drives past a post to a target, at a speed to the east that costs beyond a limit. A metre is the number k.
func roverOf[T dual.Scalar](k float64) equations.Functions[T] {
	number := dual.Const[T]
	return equations.Functions[T]{
		Step: func(s, _, u, n, _ []T) {
			for i := range 2 {
				n[2+i] = s[2+i] + number(0.2)*u[i]
				n[i] = s[i] + number(0.2)*n[2+i]
			}
		},
		Objectives: func(_, _, u, n, j []T) {
			x, y := n[0]*number(1/k)-3, n[1]*number(1/k)
			j[0], j[1] = x*x+y*y, (u[0]*u[0]+u[1]*u[1])*number(0.01/(k*k))
		},
		Margins: func(_, _, _, n, m []T) {
			m[0], m[1] = dual.Hypot(n[0]-number(1.5*k), n[1])-number(0.5*k), number(k)-n[2]
		},
	}
}

func rover(k float64, rates func(k float64) []float64) equations.System {
	v := func(name string, lo, hi float64) domain.Variable {
		return domain.Variable{Name: name, Lo: lo * k, Hi: hi * k}
	}
	return equations.System{
		Name: "rover", Description: "a rover past a post", State: []domain.Variable{v("x", 0, 0), v("y", 0, 0), v("vx", 0, 0), v("vy", 0, 0)},
		Action: []domain.Variable{v("ax", -2, 2), v("ay", -2, 2)}, Objectives: []domain.Variable{{Name: "distance"}, {Name: "effort"}},
		Margins: []domain.Variable{v("post", 0, 1), v("speed", 0, 1)}, Scenario: []domain.Variable{v("x", -0.2, 0.2), v("y", 0.1, 0.4)},
		Initial: func(p, s, _ []float64) { s[0], s[1], s[2], s[3] = p[0], p[1], 0, 0 }, StateScale: []float64{k, k, k, k},
		Steps: 25, StepSeconds: 0.2, Real: roverOf[float64](k), Dual: roverOf[complex128](k),
		Soft: []equations.Soft{{Margin: "speed", Linear: 3 / k, Quadratic: 1 / (k * k)}}, Rates: rates(k),
	}
}

// inUnits is a closed loop in metres: states and margins per metre, and costs.
func inUnits(t *testing.T, k float64, rates func(k float64) []float64, noise, deviation, level float64, window int) (states, margins, costs []float64) {
	t.Helper()
	c := caseOf(t, rover(k, rates))
	if deviation > 0 {
		c = require.Get(require.Get(require.Get(c.Noisy(deviation, nil))(t).Windowed(window))(t).Robust(level))(t)
	}
	require.Get(c.Evaluate(t.Context(), gpc.Setup{Method: "nmpc"}, engine.Options{}, closedloop.Options{
		Episodes: 2, Seed: 9001, ShardCount: 1, Noise: noise, Preference: domain.Preference{W: []float64{0.9, 0.1}},
		Visit: func(e *closedloop.EpisodeRecord) {
			for _, line := range e.Lines {
				for _, v := range line.S {
					states = append(states, v/k)
				}
				margins, costs = append(margins, float64(line.Margin)/k), append(costs, line.J...)
			}
		},
	}))(t)
	return states, margins, costs
}

// A system has the same closed loop, margins and costs in every unit of length that its StateScale and the ranges of its
// margins are written in: by the state, by a noisy one, and by estimates, also with their errors kept off the limits.
// Units of powers of two round alike; others differ within the tolerance of the solver.
func TestUnitsDoNotMatter(t *testing.T) {
	free := func(float64) []float64 { return nil }
	slow := func(k float64) []float64 { return []float64{0.6 * k, 0.9 * k} }
	for _, test := range []struct {
		name                    string
		noise, deviation, level float64
		window                  int
		rates                   func(k float64) []float64
	}{
		{name: "by the state"}, {name: "at rates", rates: slow}, {name: "by a noisy state", noise: 0.01}, {name: "by estimates", deviation: 0.01},
		{name: "with errors kept off", deviation: 0.01, level: 3}, {name: "by a window", deviation: 0.01, window: 3},
	} {
		if test.rates == nil {
			test.rates = free
		}
		drive := func(k float64) [3][]float64 {
			s, m, j := inUnits(t, k, test.rates, test.noise, test.deviation, test.level, test.window)
			return [3][]float64{s, m, j}
		}
		metres := drive(1)
		for _, unit := range []struct{ k, tolerance float64 }{{1e3, 5e-3}, {1e-3, 5e-3}, {1 << 10, 1e-9}, {1.0 / (1 << 10), 1e-9}} {
			got := drive(unit.k)
			for i, quantity := range []string{"states", "margins", "costs"} {
				worst := 0.0
				for n, v := range metres[i] {
					worst = math.Max(worst, math.Abs(got[i][n]-v))
				}
				if !(worst <= unit.tolerance) {
					t.Errorf("%s, %v to a metre: %s differ by %.2g", test.name, unit.k, quantity, worst)
				}
			}
		}
	}
	for i, v := range caseOf(t, rover(1e3, free)).Spec().Measured {
		if v.Scale() != 1e3 { // that noise, feedback and guard count it in
			t.Errorf("state %d has a scale of %v, want its StateScale", i, v.Scale())
		}
	}
}
