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
		Margins: func(_, _, _, n, m []T) { m[0], m[1] = dual.Hypot(n[0]-number(1.5*k), n[1])-number(0.5*k), number(k)-n[2] },
	}
}

func rover(k float64) equations.System {
	v := func(name string, lo, hi float64) domain.Variable {
		return domain.Variable{Name: name, Lo: lo * k, Hi: hi * k}
	}
	return equations.System{
		Name: "rover", Description: "a rover past a post", State: []domain.Variable{v("x", 0, 0), v("y", 0, 0), v("vx", 0, 0), v("vy", 0, 0)},
		Action: []domain.Variable{v("ax", -2, 2), v("ay", -2, 2)}, Objectives: []domain.Variable{{Name: "distance"}, {Name: "effort"}},
		Margins: []domain.Variable{v("post", 0, 1), v("speed", 0, 1)}, Scenario: []domain.Variable{v("x", -0.2, 0.2), v("y", 0.1, 0.4)},
		Initial: func(p, s, _ []float64) { s[0], s[1], s[2], s[3] = p[0], p[1], 0, 0 }, StateScale: []float64{k, k, k, k},
		Steps: 25, StepSeconds: 0.2, Real: roverOf[float64](k), Dual: roverOf[complex128](k),
		Soft: []equations.Soft{{Margin: "speed", Linear: 3 / k, Quadratic: 1 / (k * k)}},
	}
}

// A system has the same closed loop, margins and costs in every unit of length that its StateScale is written in: by the
// state, by a noisy one, and by estimates whose errors are kept off the limits.
func TestUnitsDoNotMatter(t *testing.T) {
	type loop struct{ states, margins, costs []float64 }
	drive := func(k, noise, deviation, level float64, window int) (l loop) {
		c := caseOf(t, rover(k))
		if deviation > 0 {
			c = require.Get(require.Get(c.Noisy(deviation, nil))(t).Windowed(window))(t)
			c = require.Get(c.Robust(level))(t)
		}
		r := require.Get(c.Evaluate(t.Context(), gpc.Setup{Method: "nmpc"}, engine.Options{}, closedloop.Options{
			Episodes: 2, Seed: 9001, ShardCount: 1, Noise: noise, Preference: domain.Preference{W: []float64{0.9, 0.1}},
			Visit: func(e *closedloop.EpisodeRecord) {
				for _, line := range e.Lines {
					for _, v := range line.S {
						l.states = append(l.states, v/k)
					}
					l.margins, l.costs = append(l.margins, float64(line.Margin)/k), append(l.costs, line.J...)
				}
			},
		}))(t)
		t.Logf("%v to a metre, noise %v, estimated %v kept off %v: safe %v, soft %+v", k, noise, deviation, level, r.Safe, r.Soft)
		return l
	}
	for _, test := range []struct {
		name                    string
		noise, deviation, level float64
		window                  int
	}{{name: "by the state"}, {name: "by a noisy state", noise: 0.01}, {name: "by estimates", deviation: 0.01}, {name: "kept off", deviation: 0.01, level: 3}, {name: "by a window", deviation: 0.01, window: 3}} {
		want := drive(1, test.noise, test.deviation, test.level, test.window)
		for _, k := range []float64{1e-3, 1e3} {
			got := drive(k, test.noise, test.deviation, test.level, test.window)
			worst := func(a, b []float64) (d float64) {
				for i, v := range a {
					d = math.Max(d, math.Abs(v-b[i]))
				}
				return d
			}
			s, m, j := worst(got.states, want.states), worst(got.margins, want.margins), worst(got.costs, want.costs)
			t.Logf("%s, %v to a metre: states differ by %.2g, margins by %.2g, costs by %.2g", test.name, k, s, m, j)
		}
	}
}
