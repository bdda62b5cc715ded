package switched

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// episode rolls a system out.
type episode struct {
	y         equations.System
	p         *equations.Problem
	s, c      []float64
	cost, m   []float64 // sums of the objectives; margins of the last action
	j, sn, cn []float64
	decisions int
}

func begin(y equations.System, p *equations.Problem, scenario []float64) *episode {
	spec := p.Spec()
	row := func(n int) []float64 { return make([]float64, n) }
	e := &episode{
		y: y, p: p, s: row(len(spec.Measured)), c: row(spec.ContextSize()), sn: row(len(spec.Measured)), cn: row(spec.ContextSize()),
		cost: row(len(spec.Objectives)), j: row(len(spec.Objectives)), m: row(len(spec.Margins)),
	}
	y.Initial(scenario, e.s, e.c)
	rest := row(spec.ActionSize())
	p.Base(e.s, e.c, rest)
	for i := range spec.Switches {
		w := &spec.Switches[i]
		e.c[w.Last] = rest[w.Action]
		for k := range w.Changes() {
			e.c[w.Ages+k] = float64(w.Saturation())
		}
	}
	return e
}

// act takes an action as it is.
func (e *episode) act(u []float64) {
	e.p.Objectives(e.s, u, e.c, e.j)
	e.p.Margins(e.s, e.c, u, e.m)
	e.p.Step(e.s, e.c, u, e.sn, e.cn)
	for i, v := range e.j {
		e.cost[i] += v
	}
	e.s, e.sn, e.c, e.cn = e.sn, e.s, e.cn, e.c
	e.decisions++
}

func drawn(y equations.System, rng *rand.Rand) []float64 {
	at := make([]float64, len(y.Scenario))
	for i, v := range y.Scenario {
		at[i] = v.Lo + (v.Hi-v.Lo)*rng.Float64()
	}
	return at
}

func on(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// policies are simple rules, which write a request into u.
var policies = map[string]func(s, c, u []float64){
	"fishing":     func(s, _, u []float64) { u[0] = on(s[0] > 1.1 && s[1] > 0.8) },
	"f8":          func(s, _, u []float64) { u[0] = f8Deflex * math.Copysign(1, 2*s[1]+s[2]+s[0]) },
	"double-tank": func(s, _, u []float64) { u[0] = 1 + on(s[1] < 3 && s[0] < 3.3) },
	"van-der-pol": func(s, _, u []float64) {
		u[0] = -2
		if math.Abs(s[0]) > 1 {
			u[0] = 0.75
		}
	},
	"calcium": func(s, _, u []float64) { u[0] = on(s[2] < 0.3 && s[1] > 10) },
	"subway": func(s, c, u []float64) {
		mph, left := subwayMPH*s[1], c[0]-s[0]-s[1]
		switch {
		case left < s[1]*s[1]/(2*subwayBrake):
			u[0] = 4
		case mph < subwayV2+0.5:
			u[0] = 1
		case mph < 26:
			u[0] = 2
		default:
			u[0] = 3
		}
	},
	"gears": func(s, c, u []float64) {
		goal := limit(s[0]+3*s[1], c) - 1
		u[0] = math.Round(1 + s[1]/5)
		u[1], u[2] = 0.3+0.3*(goal-s[1]), 0.3*(s[1]-goal)
	},
	"three-tank": func(s, _, u []float64) { u[0], u[1], u[2] = on(s[0] < 3), on(s[0] < 2.5), on(s[2] < 2.7) },
	"heat-pump": func(s, c, u []float64) {
		u[0] = on(s[0] < c[houseTarget]-0.3)
		u[1] = solarPeak*houseLight(c) - 1 - heatPumpPower*u[0]
	},
	"water-tower": func(s, _, u []float64) { u[0], u[1], u[2] = on(s[0] < 3.5), on(s[0] < 3), on(s[0] < 2.5) },
}

// TestRulesAreSafe: from every start there is a switched plan that keeps all limits, and simple rules, projected one
// step ahead, find one.
func TestRulesAreSafe(t *testing.T) {
	for _, y := range All() {
		t.Run(y.Name, func(t *testing.T) {
			p := require.Get(equations.New(y))(t)
			rng := rand.New(rand.NewPCG(9001, 1))
			u := make([]float64, p.Spec().ActionSize())
			lowest := slices.Repeat([]float64{math.Inf(1)}, len(p.Spec().Margins))
			for range 50 {
				scenario := drawn(y, rng)
				e := begin(y, p, scenario)
				for range y.Steps {
					policies[y.Name](e.s, e.c, u)
					if !p.Project(e.s, e.c, u) {
						t.Fatalf("decision %d from %v: no feasible action at %v", e.decisions, scenario, e.s)
					}
					e.act(u)
					for i, v := range e.m {
						lowest[i] = min(lowest[i], v)
					}
					if slices.ContainsFunc(slices.Concat(e.s, e.j), func(v float64) bool { return math.IsNaN(v) || math.Abs(v) > 1e4 }) {
						t.Fatalf("decision %d from %v leads to %v at a cost of %v", e.decisions, scenario, e.s, e.j)
					}
				}
			}
			if v := domain.Smallest(lowest); v < -1e-9 {
				t.Errorf("the smallest margins are %v", lowest)
			}
		})
	}
}

// TestLanesAgree: the program of each system, compiled for vector lanes, computes what its functions do.
func TestLanesAgree(t *testing.T) {
	for _, y := range All() {
		t.Run(y.Name, func(t *testing.T) {
			p := require.Get(equations.New(y))(t)
			require.Get(p.Program())(t)
			evaluator := require.Get(p.Abilities().ManyValues())(t)
			if evaluator == nil {
				t.Skip("this machine has no vector instructions")
			}
			rng := rand.New(rand.NewPCG(9002, 1))
			const n = 19
			var x, u, want []float64
			for range n {
				e := begin(y, p, drawn(y, rng))
				action := make([]float64, p.Spec().ActionSize())
				var before []float64
				for range 1 + rng.IntN(8) {
					for i, a := range p.Spec().Action {
						action[i] = a.Lo + (a.Hi-a.Lo)*rng.Float64()
					}
					p.Project(e.s, e.c, action)
					before = slices.Concat(e.s, e.c)
					e.act(action)
				}
				x, u = append(x, before...), append(u, action...)
				want = append(want, slices.Concat(e.s, e.c, e.j, e.m)...)
			}
			nx, nj, nm := len(x)/n, len(y.Objectives), len(p.Spec().Margins)
			next, j, m := make([]float64, n*nx), make([]float64, n*nj), make([]float64, n*nm)
			evaluator().Evaluate(n, x, u, next, j, m)
			for i := range n {
				got := slices.Concat(next[i*nx:][:nx], j[i*nj:][:nj], m[i*nm:][:nm])
				for k, v := range got {
					if w := want[i*len(got)+k]; !(math.Abs(v-w) <= 1e-9*(1+math.Abs(w))) {
						t.Fatalf("decision %d: entry %d of state, context, costs and margins is %v in lanes and %v by the functions", i, k, v, w)
					}
				}
			}
		})
	}
}

// All are the systems, the small ones first.
func All() []equations.System {
	return []equations.System{
		Fishing(), F8(), DoubleTank(), VanDerPol(), Calcium(), Subway(), Gears(), ThreeTank(), HeatPump(), WaterTower(),
	}
}
