package equations

import (
	"math"

	"github.com/gpc-engine/gpc/tensor"
)

// independence is the least share of a constraint's normal outside the span of the active ones.
const independence = 1e-10

// leastDistance is the quadratic program min ‖x‖² subject to aₖᵀx ≥ bₖ. It uses the dual active set method of
// Goldfarb and Idnani (Mathematical Programming 27, 1983). The last entry of x is a slack, which solve uses only on
// request.
type leastDistance struct {
	variables, constraints int       // without the slack
	x                      []float64 // [variables+1]
	a, b                   []float64 // [constraints][variables+1], [constraints]
	active                 []int     // indices of active constraints, with their multipliers
	multipliers, r         []float64
	gram, z                []float64
}

func newLeastDistance(variables, constraints int) leastDistance {
	n, m := variables+1, constraints
	return leastDistance{
		variables: variables, constraints: m, x: make([]float64, n),
		a: make([]float64, m*n), b: make([]float64, m), active: make([]int, 0, n), multipliers: make([]float64, n+1), r: make([]float64, n),
		gram: make([]float64, n*n), z: make([]float64, n),
	}
}

func (q *leastDistance) row(k int) []float64 { return q.a[k*(q.variables+1) : (k+1)*(q.variables+1)] }

// solve writes x; false where there is none.
func (q *leastDistance) solve(slack bool) bool {
	n := q.variables
	if slack {
		n++
	}
	clear(q.x)
	q.active = q.active[:0]
	for range 10 * (q.constraints + n) {
		violation, row := 1e-14, -1
		for k := range q.constraints {
			if v := q.b[k] - tensor.DotInOrder(q.row(k)[:n], q.x); v > violation*(1+math.Abs(q.b[k])) {
				violation, row = v/(1+math.Abs(q.b[k])), k
			}
		}
		if row < 0 {
			return true
		}
		if !q.add(row, n) {
			return false
		}
	}
	return false
}

// add makes constraint k active and drops others where needed. It returns false where that is impossible.
func (q *leastDistance) add(k, n int) bool {
	normal := q.row(k)[:n]
	multiplier := 0.0
	for {
		q.split(normal)
		z, size, length := q.z[:n], 0.0, 0.0
		for i, v := range normal {
			size += z[i] * z[i]
			length += v * v
		}
		// full is the step to the constraint, partial the step at which a multiplier is 0.
		full, partial, drop := math.Inf(1), math.Inf(1), -1
		if size > independence*length {
			full = (q.b[k] - tensor.DotInOrder(normal, q.x)) / size
		}
		for j := range q.active {
			if q.r[j] > 0 && q.multipliers[j]/q.r[j] < partial {
				partial, drop = q.multipliers[j]/q.r[j], j
			}
		}
		step := math.Min(full, partial)
		if !isFinite(step) {
			return false
		}
		for j := range q.active {
			q.multipliers[j] -= step * q.r[j]
		}
		multiplier += step
		if !math.IsInf(full, 1) {
			tensor.Axpy(step, z, q.x)
		}
		if full <= partial {
			q.multipliers[len(q.active)] = multiplier
			q.active = append(q.active, k)
			return true
		}
		copy(q.multipliers[drop:], q.multipliers[drop+1:len(q.active)])
		q.active = append(q.active[:drop], q.active[drop+1:]...)
	}
}

// split writes the coefficients r of the normal's projection onto the span of the active normals, and the residual z.
func (q *leastDistance) split(normal []float64) {
	n, k := len(normal), len(q.active)
	// Cholesky's factor of the Gram matrix.
	for i := range k {
		a := q.row(q.active[i])[:n]
		for j := range i + 1 {
			v := tensor.DotInOrder(a, q.row(q.active[j])[:n])
			for l := range j {
				v -= q.gram[i*k+l] * q.gram[j*k+l]
			}
			if i == j {
				q.gram[i*k+i] = math.Sqrt(v)
			} else {
				q.gram[i*k+j] = v / q.gram[j*k+j]
			}
		}
		v := tensor.DotInOrder(a, normal)
		for l := range i {
			v -= q.gram[i*k+l] * q.r[l]
		}
		q.r[i] = v / q.gram[i*k+i]
	}
	copy(q.z, normal)
	for i := k - 1; i >= 0; i-- {
		for l := i + 1; l < k; l++ {
			q.r[i] -= q.gram[l*k+i] * q.r[l]
		}
		q.r[i] /= q.gram[i*k+i]
		tensor.Axpy(-q.r[i], q.row(q.active[i])[:n], q.z)
	}
}
