// Package adjoint differentiates what a whole plan leads to under the known dynamics,
// for any problem. Of is its central function: the plan's cost as a problem says it
// (domain.PlanGradient), or, where it says nothing, the mean of its stage objectives
// along the plan with the adjoint of its own Step.
package adjoint

import (
	"math"
	"sync"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// difference is the step of the central differences of Step relative to max(1, |v|):
// with third derivatives up to 10³ truncation and rounding are both about 10⁻⁸.
const difference = 1e-5

// Of is the problem's own PlanGradient, or the generic one.
func Of(p domain.Problem) domain.PlanGradient {
	if own, ok := p.(domain.PlanGradient); ok {
		return own
	}
	spec := p.Spec()
	g := &generic{problem: p, ns: spec.MeasuredSize(), nc: spec.ContextSize(), nu: spec.ActionSize(), steps: spec.Plan, objectives: spec.ObjectiveSize()}
	g.pool.New = func() any { return g.newSweep() }
	return g
}

// generic is the mean of Objectives along a plan:
//
//	E = (1/H) Σ_t σᵀJ(s_t, u_t; c_t),   (s_{t+1}, c_{t+1}) = F(s_t, c_t, u_t)
//
// and its derivatives by the sweep λ_H = 0, λ_t = ∂ℓ_t/∂(s, c) + A_tᵀ λ_{t+1},
// ∂E/∂u_t = ∂ℓ_t/∂u + B_tᵀ λ_{t+1}, ∂E/∂s = λ_0 on s. Gradient gives ∂ℓ_t in s and u;
// in c, and of F, are central differences, of the scalar λᵀF rather than of F.
type generic struct {
	problem                       domain.Problem
	ns, nc, nu, steps, objectives int
	pool                          sync.Pool // of *sweep
}

// sweep is the memory of one row: states and contexts along the plan, the adjoint of
// both after a step and before it, and scratch.
type sweep struct {
	path              [][]float64 // [step][s, c]
	plan, sigma       []float64
	after, before, to []float64 // [s, c]
	gs, gu, J, sum    []float64
	at                []float64 // [s, c, u] that differences are taken at
}

func (g *generic) newSweep() *sweep {
	n := g.ns + g.nc
	w := &sweep{
		path: make([][]float64, g.steps), plan: make([]float64, g.steps*g.nu), sigma: make([]float64, g.objectives),
		after: make([]float64, n), before: make([]float64, n), to: make([]float64, n),
		gs: make([]float64, g.ns), gu: make([]float64, g.nu), J: make([]float64, g.objectives), sum: make([]float64, g.objectives),
		at: make([]float64, n+g.nu),
	}
	for t := range w.path {
		w.path[t] = make([]float64, n)
	}
	return w
}

// PlanObjectives implements domain.PlanGradient.
func (g *generic) PlanObjectives(s, plan, c, J []float64) {
	w := g.pool.Get().(*sweep)
	defer g.pool.Put(w)
	copy(w.path[0], s)
	copy(w.path[0][g.ns:], c)
	g.follow(w, plan, J)
}

// follow writes the states from path[0] on and the plan's objectives.
func (g *generic) follow(w *sweep, plan, J []float64) {
	clear(J)
	for t, x := range w.path {
		s, c, u := x[:g.ns], x[g.ns:], plan[t*g.nu:(t+1)*g.nu]
		g.problem.Objectives(s, u, c, w.J)
		for i, v := range w.J {
			J[i] += v / float64(g.steps)
		}
		if t+1 < g.steps {
			next := w.path[t+1]
			g.problem.Step(s, c, u, next[:g.ns], next[g.ns:])
		}
	}
}

// PlanGradientBatch implements domain.PlanGradient, row by row.
func (g *generic) PlanGradientBatch(b domain.Batch) {
	w := g.pool.Get().(*sweep)
	defer g.pool.Put(w)
	for r := range b.Rows {
		tensor.Widen(w.path[0][:g.ns], b.S[r*b.SStride:][:g.ns])
		tensor.Widen(w.path[0][g.ns:], b.C[r*b.CStride:][:g.nc])
		tensor.Widen(w.plan, b.U[r*b.UStride:][:len(w.plan)])
		tensor.Widen(w.sigma, b.Sigma[r*b.SigmaStride:][:g.objectives])
		g.follow(w, w.plan, w.sum)
		if b.J != nil {
			tensor.Narrow(b.J[r*b.JStride:][:g.objectives], w.sum)
		}
		clear(w.after)
		for t := g.steps - 1; t >= 0; t-- {
			g.back(w, t)
			tensor.Narrow(b.GU[r*b.GUStride+t*g.nu:][:g.nu], w.gu)
			w.after, w.before = w.before, w.after
		}
		tensor.Narrow(b.GS[r*b.GSStride:][:g.ns], w.after[:g.ns])
	}
}

// back takes the adjoint from after step t to before it, and writes ∂E/∂u_t to gu.
func (g *generic) back(w *sweep, t int) {
	n, share, last := g.ns+g.nc, 1/float64(g.steps), t == g.steps-1
	copy(w.at, w.path[t])
	copy(w.at[n:], w.plan[t*g.nu:(t+1)*g.nu])
	s, c, u := w.at[:g.ns], w.at[g.ns:n], w.at[n:]
	g.problem.Gradient(s, u, c, w.sigma, w.gs, w.gu)
	for j, x := range w.at {
		inContext := j >= g.ns && j < n
		if last && !inContext {
			continue // λ is zero
		}
		h := difference * math.Max(1, math.Abs(x))
		w.at[j] = x + h
		up := g.value(w, s, c, u, inContext, last)
		w.at[j] = x - h
		slope := (up - g.value(w, s, c, u, inContext, last)) / (2 * h)
		w.at[j] = x
		if j < n {
			w.before[j] = slope
		} else {
			w.gu[j-n] = share*w.gu[j-n] + slope
		}
	}
	if last {
		clear(w.before[:g.ns])
		for j := range w.gu {
			w.gu[j] *= share
		}
	}
	for j, v := range w.gs {
		w.before[j] += share * v
	}
}

// value is λᵀF(s, c, u), and with stage σᵀJ/H besides.
func (g *generic) value(w *sweep, s, c, u []float64, stage, last bool) (v float64) {
	if stage {
		g.problem.Objectives(s, u, c, w.J)
		for i, J := range w.J {
			v += w.sigma[i] * J / float64(g.steps)
		}
	}
	if last {
		return v
	}
	g.problem.Step(s, c, u, w.to[:g.ns], w.to[g.ns:])
	for j, l := range w.after {
		v += l * w.to[j]
	}
	return v
}
