//go:build ipopt

package ipoptcheck

import (
	"math"

	"github.com/gpc-engine/gpc/grid/acopf"
)

// symmetric is the lower triangle of a matrix, with rows and columns from 0.
type symmetric struct {
	size        int
	row, column []int32
	values      []float64
}

func (m *symmetric) add(row, column int, value float64) {
	m.row, m.column = append(m.row, int32(max(row, column))), append(m.column, int32(min(row, column)))
	m.values = append(m.values, value)
}

// kktBarrier is s·z at the point that the matrix is of: late on IPOPT's way, where weights of limits
// lie twelve orders of magnitude apart.
const kktBarrier = 1e-6

// steepest is the largest marginal cost of the objective as IPOPT scales it by default.
const steepest = 100

// kkt is the matrix that IPOPT factors, near an optimum, with slacks of the limits of constraints and
// without variables of one value:
//
//	[ ∇²L + Σ             ]
//	[         Σ_s         ]
//	[ J_equal             ]
//	[ J_limited  −I       ]
//
// The distance of a variable or a constraint to a limit is at least kktBarrier.
func (f *formulation) kkt(r *acopf.Result) *symmetric {
	x, lambda := f.pointOf(r), make([]float64, len(f.glo))
	gradient, g := make([]float64, len(x)), make([]float64, len(lambda))
	f.gradient(x, gradient)
	f.constraints(x, g)
	scale := 1.0
	for _, d := range gradient {
		scale = min(scale, steepest/math.Abs(d))
	}
	m := &symmetric{}
	free := make([]int, len(x))
	for i := range x {
		free[i] = -1
		if f.xlo[i] < f.xhi[i] {
			free[i] = m.size
			m.add(m.size, m.size, weight(x[i], f.xlo[i], f.xhi[i]))
			m.size++
		}
	}
	slack := make([]int, len(g))
	for i := range g {
		slack[i] = -1
		if f.glo[i] < f.ghi[i] {
			slack[i] = m.size
			m.add(m.size, m.size, weight(g[i], f.glo[i], f.ghi[i]))
			lambda[i] = kktBarrier/distance(f.ghi[i]-g[i]) - kktBarrier/distance(g[i]-f.glo[i])
			m.size++
		}
	}
	for b := range r.LambdaP {
		lambda[b], lambda[f.net.Buses()+b] = scale*r.LambdaP[b], scale*r.LambdaQ[b]
	}
	first := m.size
	within := func(row, column int, value float64) {
		if row >= 0 && column >= 0 {
			m.add(row, column, value)
		}
	}
	f.visitHessian(x, scale, lambda, func(row, column int, v float64) { within(free[row], free[column], v) })
	f.visitJacobian(x, func(row, column int, v float64) { within(first+row, free[column], v) })
	for i := range g {
		within(first+i, slack[i], -1)
	}
	m.size += len(g)
	return m
}

// pointOf is a result in the order of the variables.
func (f *formulation) pointOf(r *acopf.Result) []float64 {
	x := append([]float64(nil), f.x0...)
	copy(x, r.Va)
	copy(x[f.magnitude(0):], r.Vm)
	copy(x[f.active(0):], r.Pg)
	copy(x[f.reactive(0):], r.Qg)
	for _, s := range f.segments {
		x[s.value] = math.Inf(-1)
	}
	for _, s := range f.segments {
		x[s.value] = max(x[s.value], s.slope*x[s.power]+s.intercept)
	}
	return x
}

// distance is one to a limit, at least kktBarrier.
func distance(d float64) float64 { return max(d, kktBarrier) }

// weight is z/s of a value's limits.
func weight(v, lo, hi float64) float64 {
	below, above := distance(v-lo), distance(hi-v)
	return kktBarrier/(below*below) + kktBarrier/(above*above)
}
