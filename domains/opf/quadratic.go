package opf

import (
	"math"

	"github.com/gpc-engine/gpc/tensor"
)

// leastChange finds the smallest change x of n variables, xᵀW⁻¹x, that keeps
//
//	lo ≤ x ≤ hi   and   a_k·x ≥ b_k   for every row k,
//
// by the dual active-set method of Goldfarb and Idnani (1983): from x = 0 the most
// violated constraint is added, constraints whose multiplier would turn negative
// are dropped, until none is violated. A row with slack[k] = ε > 0 is elastic: it
// may be violated by s at the price s²/ε, which makes a set of rows that
// contradict each other solvable. The number of pivots is bounded.
//
// Constraints are numbered: x_j ≥ lo_j is j, x_j ≤ hi_j is n+j, row k is 2n+k.
type leastChange struct {
	n          int
	inverse    []float64 // W, n × n, symmetric, positive definite; kept, not copied
	lo, hi     []float64
	x          []float64
	rows       []float64 // a, n a row
	bound      []float64 // b
	slack      []float64 // ε
	active     []int
	isActive   []bool
	multiplier []float64 // of the active constraints, in the order of active
	scaled     []float64 // W times the gradient of each, n each
	gram       []float64 // NᵀWN + diag(ε) of the active constraints, packed lower triangle
	cholesky   []float64 // its factor, packed alike
	coupling   []float64 // NᵀWa of the constraint that is added
	r          []float64
	change     []float64
}

func newLeastChange(n int) *leastChange {
	return &leastChange{n: n, lo: make([]float64, n), hi: make([]float64, n), x: make([]float64, n), change: make([]float64, n)}
}

// reset forgets all rows.
func (p *leastChange) reset() {
	p.rows, p.bound, p.slack = p.rows[:0], p.bound[:0], p.slack[:0]
}

// add appends a row of zeros with its bound and elasticity, for the caller to
// fill.
func (p *leastChange) add(bound, slack float64) []float64 {
	at := len(p.rows)
	if cap(p.rows) < at+p.n {
		grown := make([]float64, at, 2*at+64*p.n)
		copy(grown, p.rows)
		p.rows = grown
	}
	p.rows = p.rows[:at+p.n]
	row := p.rows[at:]
	clear(row)
	p.bound, p.slack = append(p.bound, bound), append(p.slack, slack)
	return row
}

func (p *leastChange) row(k int) []float64 { return p.rows[k*p.n : (k+1)*p.n] }

// along is the product of constraint c's gradient with v.
func (p *leastChange) along(c int, v []float64) float64 {
	switch {
	case c < p.n:
		return v[c]
	case c < 2*p.n:
		return -v[c-p.n]
	}
	return tensor.Dot(p.row(c-2*p.n), v)
}

// violation is by how much x breaks constraint c, elasticity left out.
func (p *leastChange) violation(c int) float64 {
	switch {
	case c < p.n:
		return p.lo[c] - p.x[c]
	case c < 2*p.n:
		return p.x[c-p.n] - p.hi[c-p.n]
	}
	k := c - 2*p.n
	return p.bound[k] - tensor.Dot(p.row(k), p.x)
}

func (p *leastChange) elasticity(c int) float64 {
	if c < 2*p.n {
		return 0
	}
	return p.slack[c-2*p.n]
}

// scale writes W times constraint c's gradient.
func (p *leastChange) scale(c int, out []float64) {
	n := p.n
	switch {
	case c < n:
		copy(out, p.inverse[c*n:(c+1)*n])
	case c < 2*n:
		for j, v := range p.inverse[(c-n)*n : (c-n+1)*n] {
			out[j] = -v
		}
	default:
		a := p.row(c - 2*n)
		for j := range out {
			out[j] = tensor.Dot(p.inverse[j*n:(j+1)*n], a)
		}
	}
}

// solve leaves the answer in x and reports whether every constraint without
// elasticity is kept to tolerance and every elastic one as far as its price
// allows; false where constraints contradict each other or the pivots ran out. x
// is then what was reached.
func (p *leastChange) solve(tolerance float64, pivots int) bool {
	m := 2*p.n + len(p.bound)
	clear(p.x)
	p.active, p.multiplier, p.scaled = p.active[:0], p.multiplier[:0], p.scaled[:0]
	p.gram, p.cholesky = p.gram[:0], p.cholesky[:0]
	if cap(p.isActive) < m {
		p.isActive = make([]bool, 2*m)
	}
	p.isActive = p.isActive[:m]
	clear(p.isActive)
	for pivots > 0 {
		add, worst := -1, tolerance
		for c := range m {
			if !p.isActive[c] {
				if v := p.violation(c); v > worst {
					add, worst = c, v
				}
			}
		}
		if add < 0 {
			return true
		}
		multiplier := 0.0
		for full := false; !full; {
			if pivots--; pivots < 0 {
				return false
			}
			var ok bool
			if full, ok = p.pivot(add, &multiplier); !ok {
				return false
			}
		}
	}
	return false
}

// pivot moves towards constraint add as far as the multipliers stay positive: full
// when it is reached, and then active; otherwise the active constraint in the way
// is dropped. ok is false where the active ones contradict it.
func (p *leastChange) pivot(add int, multiplier *float64) (full, ok bool) {
	n, q := p.n, len(p.active)
	if cap(p.scaled) < (q+1)*n {
		p.scaled = append(make([]float64, 0, 2*(q+1)*n), p.scaled...)
	}
	own := p.scaled[q*n : (q+1)*n : (q+1)*n]
	p.scale(add, own)
	p.coupling, p.r = p.coupling[:0], p.r[:0]
	for i := range q {
		p.coupling = append(p.coupling, p.along(add, p.scaled[i*n:(i+1)*n]))
	}
	p.r = append(p.r, p.coupling...)
	p.substitute(p.r)
	size := p.along(add, own) + p.elasticity(add)
	curvature := size - tensor.Dot(p.r, p.coupling)
	// Change of x per unit of the multiplier: W(a − N r).
	copy(p.change, own)
	for i, r := range p.r {
		for j, v := range p.scaled[i*n : (i+1)*n] {
			p.change[j] -= r * v
		}
	}
	partial, drop := math.Inf(1), -1
	for i, r := range p.r {
		if r > 1e-12 {
			if t := p.multiplier[i] / r; t < partial {
				partial, drop = t, i
			}
		}
	}
	reach := math.Inf(1)
	if curvature > 1e-11*size {
		reach = math.Max(0, (p.violation(add)-p.elasticity(add)**multiplier)/curvature)
	}
	t := math.Min(partial, reach)
	if math.IsInf(t, 1) {
		return false, false
	}
	for i, r := range p.r {
		p.multiplier[i] = math.Max(0, p.multiplier[i]-t*r)
	}
	*multiplier += t
	if !math.IsInf(reach, 1) {
		for j := range p.x {
			p.x[j] += t * p.change[j]
		}
	}
	if full = reach <= partial; full {
		p.activate(add, size, *multiplier)
	} else {
		p.deactivate(drop)
	}
	return full, true
}

// activate appends constraint c, whose products with the active ones are in
// coupling, with itself size, and whose scaled gradient stands behind theirs.
func (p *leastChange) activate(c int, size, multiplier float64) {
	q := len(p.active)
	p.gram = append(p.gram, p.coupling...)
	p.gram = append(p.gram, size)
	p.scaled = p.scaled[:(q+1)*p.n]
	p.active, p.multiplier = append(p.active, c), append(p.multiplier, multiplier)
	p.isActive[c] = true
	p.factor(q)
}

// deactivate drops the active constraint at place i.
func (p *leastChange) deactivate(i int) {
	q := len(p.active)
	p.isActive[p.active[i]] = false
	p.active = append(p.active[:i], p.active[i+1:]...)
	p.multiplier = append(p.multiplier[:i], p.multiplier[i+1:]...)
	p.scaled = append(p.scaled[:i*p.n], p.scaled[(i+1)*p.n:q*p.n]...)
	at := triangle(i)
	for row := i + 1; row < q; row++ {
		for column := range row + 1 {
			if column != i {
				p.gram[at] = p.gram[triangle(row)+column]
				at++
			}
		}
	}
	p.gram = p.gram[:triangle(q-1)]
	p.factor(i)
}

// triangle is where row i of a packed lower triangle begins.
func triangle(i int) int { return i * (i + 1) / 2 }

// factor brings the Cholesky factor up to date from row from on.
func (p *leastChange) factor(from int) {
	q := len(p.active)
	if need := triangle(q); cap(p.cholesky) < need {
		p.cholesky = append(make([]float64, 0, 2*need), p.cholesky...)
	}
	p.cholesky = p.cholesky[:triangle(q)]
	for i := from; i < q; i++ {
		row := p.cholesky[triangle(i):triangle(i+1)]
		for j := range i + 1 {
			other := p.cholesky[triangle(j):triangle(j+1)]
			sum := p.gram[triangle(i)+j] - tensor.Dot(row[:j], other[:j])
			if i == j {
				// Active constraints are independent (pivot admits no others), so only
				// rounding can bring this to zero.
				row[j] = math.Sqrt(math.Max(sum, 1e-300))
			} else {
				row[j] = sum / other[j]
			}
		}
	}
}

// substitute solves (NᵀWN + diag(ε)) r = r in place.
func (p *leastChange) substitute(r []float64) {
	for i := range r {
		row := p.cholesky[triangle(i):triangle(i+1)]
		r[i] = (r[i] - tensor.Dot(row[:i], r)) / row[i]
	}
	for i := len(r) - 1; i >= 0; i-- {
		row := p.cholesky[triangle(i):triangle(i+1)]
		r[i] /= row[i]
		for l, v := range row[:i] {
			r[l] -= v * r[i]
		}
	}
}
