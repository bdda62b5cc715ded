package acopf

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// probe holds a worker at a random iterate, so that its programs can be read.
type probe struct {
	*worker
	x lanes.Col // θ, V, units, piecewise linear costs
}

// newProbe puts random voltages, powers, multipliers and slacks into the one lane
// of a Go machine.
func newProbe(tb testing.TB, name string, opt Options, seed uint64) *probe {
	net := load(tb, name)
	s, err := newSolver(net, opt, []kernel{{isa.Generic, 1}})
	if err != nil {
		tb.Fatal(err)
	}
	w := s.teams[0].workers.New().(*worker)
	rng := rand.New(rand.NewPCG(seed, 1))
	w.lane[0].job.problem = scenario(rng, net, 1)
	w.lane[0].job.problem.Objective = Objective{Weights: [3]float64{3, 40, 0.02}}
	if opt.CurrentLimits {
		w.lane[0].job.problem.Objective.Weights[0] = 0
	}
	w.lane[0].job.problem.penalties = make([]float64, w.plan.soft)
	w.lane[0].job.begin()
	if !w.load(0) {
		tb.Fatal("contradictory limits")
	}
	pl, m := w.plan, w.m
	p := &probe{worker: w}
	for _, c := range []lanes.Col{pl.th, pl.v, pl.u, pl.y} {
		p.x = append(p.x, c...)
	}
	set := func(c lanes.Col, f func() float64) {
		for _, r := range c {
			m.Set(r, 0, f())
		}
	}
	set(pl.th, func() float64 { return 0.03 * rng.NormFloat64() })
	set(pl.v, func() float64 { return 1 + 0.05*rng.NormFloat64() })
	set(pl.u, func() float64 { return rng.NormFloat64() })
	set(pl.y, func() float64 { return 100 * rng.NormFloat64() })
	set(pl.lp, func() float64 { return rng.NormFloat64() })
	set(pl.lq, func() float64 { return rng.NormFloat64() })
	set(pl.z, rng.Float64)
	set(pl.s, func() float64 { return 0.5 + rng.Float64() })
	set(pl.elasticSlack, func() float64 { return 0.5 + rng.Float64() })
	set(pl.elasticDual, func() float64 { return 0.5 + rng.Float64() })
	m.Set(pl.shift[0], 0, 0)
	return p
}

func (p *probe) get(c lanes.Col) []float64 {
	out := make([]float64, len(c))
	for i, r := range c {
		out[i] = p.m.Get(r, 0)
	}
	return out
}

// values are (g, h) at the iterate.
func (p *probe) values() (g, h []float64) {
	p.m.Run(programEvaluate)
	return append(p.get(p.plan.gp), p.get(p.plan.gq)...), p.get(p.plan.h)
}

// lagrangian is f + λᵀg + zᵀh at the iterate.
func (p *probe) lagrangian() float64 {
	g, h := p.values()
	pl := p.plan
	v := p.m.Get(pl.c1[0], 0)*p.m.Get(pl.j1[0], 0) + p.m.Get(pl.c2[0], 0)*p.m.Get(pl.j2[0], 0) + p.m.Get(pl.c3[0], 0)*p.m.Get(pl.j3[0], 0)
	for i, l := range append(p.get(pl.lp), p.get(pl.lq)...) {
		v += l * g[i]
	}
	for i, z := range p.get(pl.z) {
		v += z * h[i]
	}
	return v
}

// difference is the central difference of f along a variable.
func (p *probe) difference(x lanes.Ref, f func() []float64) []float64 {
	const h = 1e-5
	at := p.m.Get(x, 0)
	p.m.Set(x, 0, at+h)
	up := append([]float64(nil), f()...)
	p.m.Set(x, 0, at-h)
	down := f()
	p.m.Set(x, 0, at)
	for i := range up {
		up[i] = (up[i] - down[i]) / (2 * h)
	}
	return up
}

// The gradient of the Lagrangian, the Jacobian of the balances and the exact
// Hessian with the limits' part, against central differences in float64.
func TestDerivativesAgainstCentralDifferences(t *testing.T) {
	for _, c := range []struct {
		name string
		opt  Options
	}{{"case9", Options{}}, {"case30", Options{}}, {"features", Options{}}, {"case30", Options{CurrentLimits: true}}, {"features", Options{CurrentLimits: true}},
		{"features", Options{soft: true}},
		{"case30", Options{Ranges: variableSettings}}, {"features", Options{Ranges: variableSettings, soft: true}}} {
		t.Run(fmt.Sprintf("%s, currents %v, soft %v, ranges %v", c.name, c.opt.CurrentLimits, c.opt.soft, c.opt.Ranges), func(t *testing.T) {
			p := newProbe(t, c.name, c.opt, 7)
			pl := p.plan
			n := len(p.x)
			reference := map[int]bool{}
			for _, r := range pl.net.References {
				reference[r] = true
			}
			near := func(got, want, scale float64) bool { return math.Abs(got-want) <= 2e-6*(1+scale) }

			// Gradient.
			p.m.Run(programEvaluate)
			p.m.Run(programGradient)
			grad := p.lagrangianGradient()
			for i, x := range p.x {
				want := p.difference(x, func() []float64 { return []float64{p.lagrangian()} })[0]
				if !near(grad[i], want, math.Abs(want)+100) {
					t.Errorf("∂L/∂x[%d] = %g, differences give %g", i, grad[i], want)
				}
			}

			// Jacobians and Hessian by differences of values and gradients.
			nb := pl.nb
			jg, jh := mat.NewDense(2*nb, n, nil), mat.NewDense(len(pl.s), n, nil)
			hess := mat.NewDense(n, n, nil)
			for i, x := range p.x {
				both := p.difference(x, func() []float64 { g, h := p.values(); return append(g, h...) })
				for r := range 2 * nb {
					jg.Set(r, i, both[r])
				}
				for r := range pl.s {
					jh.Set(r, i, both[2*nb+r])
				}
				for r, v := range p.difference(x, func() []float64 {
					p.m.Run(programEvaluate)
					p.m.Run(programGradient)
					return p.lagrangianGradient()
				}) {
					hess.Set(r, i, v)
				}
			}
			s, z, give, hold := p.get(pl.s), p.get(pl.z), p.get(pl.elasticSlack), p.get(pl.elasticDual)
			var sigma mat.Dense
			sigma.Apply(func(r, c int, v float64) float64 {
				if r < pl.soft {
					return v / (s[r]/z[r] + give[r]/hold[r])
				}
				return v * z[r] / s[r]
			}, jh)
			var want mat.Dense
			want.Mul(jh.T(), &sigma)
			want.Add(&want, hess)

			p.m.Run(programEvaluate)
			p.m.Run(programGradient)
			p.m.Run(programAssemble)
			cell := func(rowBus, row, colBus, col int) float64 {
				i, j := pl.order.Position[rowBus], pl.order.Position[colBus]
				switch {
				case i == j && row >= col:
					return p.m.Get(pl.diag[i]+lanes.Ref(4*row+col), 0)
				case i == j:
					return p.m.Get(pl.diag[i]+lanes.Ref(4*col+row), 0)
				}
				for k, pair := range pl.pairs {
					if pair == [2]int{i, j} {
						return p.m.Get(pl.offDiag[k]+lanes.Ref(4*row+col), 0)
					}
					if pair == [2]int{j, i} {
						return p.m.Get(pl.offDiag[k]+lanes.Ref(4*col+row), 0)
					}
				}
				return 0
			}
			rows := [2]int{rowAngle, rowMagnitude}
			for i := range 2 * nb {
				for j := range 2 * nb {
					if i < nb && reference[i] || j < nb && reference[j] {
						continue
					}
					got := cell(i%nb, rows[i/nb], j%nb, rows[j/nb])
					if w := want.At(i, j); !near(got, w, math.Abs(w)+1000) {
						t.Errorf("Hessian (%d, %d) is %g, differences give %g", i, j, got, w)
					}
				}
				for r := range 2 * nb {
					if i < nb && reference[i] {
						continue
					}
					got := cell(r%nb, [2]int{rowActive, rowReactive}[r/nb], i%nb, rows[i/nb])
					if w := jg.At(r, i); !near(got, w, math.Abs(w)) {
						t.Errorf("Jacobian (%d, %d) is %g, differences give %g", r, i, got, w)
					}
				}
			}
			// Units, with the cost variables eliminated.
			at := 2 * nb
			for i := range pl.unitBus {
				if pl.follows[i] {
					continue
				}
				w := want.At(at+i, at+i)
				for k, unit := range pl.linear {
					if unit == i {
						y := at + len(pl.unitBus) + k
						w -= want.At(at+i, y) * want.At(at+i, y) / want.At(y, y)
					}
				}
				if got := p.m.Get(pl.du2[i], 0); !near(got, w, 100+math.Abs(want.At(at+i, at+i))) {
					t.Errorf("pivot of unit %d is %g, differences give %g", i, got, w)
				}
			}
		})
	}
}

// variableSettings are a ratio and a phase shift of one branch, one of either alone, and a shunt.
var variableSettings = []Range{{Ratio, 3, 0.8, 1.2}, {Shift, 3, -0.3, 0.2}, {Ratio, 1, 0.9, 1.1}, {Shift, 2, -0.1, 0.1}, {Susceptance, 2, -0.1, 0.4}}

// lagrangianGradient is ∇f + Jgᵀλ + Jhᵀz in the order of x.
func (p *probe) lagrangianGradient() []float64 {
	pl := p.plan
	out := append(append(append(p.get(pl.g0th), p.get(pl.g0v)...), p.get(pl.g0u)...), p.get(pl.g0y)...)
	z, r := p.get(pl.z), pl.rows()
	th, v, u, y := 0, pl.nb, 2*pl.nb, 2*pl.nb+len(pl.unitBus)
	for i := range pl.nb {
		out[v+i] += z[r.vHi[0]+i] - z[r.vLo[0]+i]
	}
	for _, y := range pl.variables {
		out[v+y.outer] += z[r.vLo[0]+y.inner]*p.m.Get(pl.vLo[y.inner], 0) - z[r.vHi[0]+y.inner]*p.m.Get(pl.vHi[y.inner], 0)
	}
	for k, i := range pl.bounded[0] {
		out[u+i] -= z[r.uLo[0]+k]
	}
	for k, i := range pl.bounded[1] {
		out[u+i] += z[r.uHi[0]+k]
	}
	for end, at := range [][2]int{r.sf, r.st} {
		for k, l := range pl.rated {
			q := end*len(pl.rated) + k
			f, voltage, t := pl.angleFrom[l], pl.voltageFrom[l], pl.net.To[l]
			m := z[at[0]+k]
			out[th+f] += m * p.m.Get(pl.qth[q], 0)
			out[th+t] -= m * p.m.Get(pl.qth[q], 0)
			out[v+voltage] += m * p.m.Get(pl.qvi[q], 0)
			out[v+t] += m * p.m.Get(pl.qvj[q], 0)
		}
	}
	for k, l := range pl.angleLo {
		out[pl.net.From[l]] -= z[r.aLo[0]+k]
		out[pl.net.To[l]] += z[r.aLo[0]+k]
	}
	for k, l := range pl.angleHi {
		out[pl.net.From[l]] += z[r.aHi[0]+k]
		out[pl.net.To[l]] -= z[r.aHi[0]+k]
	}
	for k, of := range pl.segmentOf {
		out[u+pl.linear[of]] += z[r.segment[0]+k] * pl.segmentSlope[k]
		out[y+of] -= z[r.segment[0]+k]
	}
	return out
}
