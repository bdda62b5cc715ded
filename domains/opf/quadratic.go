package opf

import "math"

// leastChange finds the smallest change x of n variables, Σ x_j²/w_j, that keeps
//
//	a_k·x ≥ b_k   for every row k,
//
// by the dual active-set method of Goldfarb and Idnani (1983) with a diagonal
// Hessian: from x = 0 the most violated row is added, rows whose multiplier would
// turn negative are dropped, until none is violated. A row with slack[k] = ε > 0
// is elastic: it may be violated by s at the price s²/ε, which makes a set of
// rows that contradict each other solvable. The number of pivots is bounded.
type leastChange struct {
	n          int
	weight     []float64 // w
	x          []float64
	rows       []float64 // a, n a row
	bound      []float64 // b
	slack      []float64 // ε
	multiplier []float64 // of the active rows, in the order of active
	active     []int
	isActive   []bool
	gram       []float64 // NᵀWN + diag(ε) of the active rows, packed lower triangle
	cholesky   []float64 // its factor, packed alike
	coupling   []float64 // NᵀWa of the row that is added
	r          []float64
	change     []float64
}

func newLeastChange(n int) *leastChange {
	return &leastChange{n: n, weight: make([]float64, n), x: make([]float64, n), change: make([]float64, n)}
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

// dot is Σ a_j b_j over the length of a, in four partial sums.
func dot(a, b []float64) float64 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float64
	i := 0
	for ; i+4 <= len(a); i += 4 {
		x, y := a[i:i+4:i+4], b[i:i+4:i+4]
		s0 += x[0] * y[0]
		s1 += x[1] * y[1]
		s2 += x[2] * y[2]
		s3 += x[3] * y[3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return (s0 + s1) + (s2 + s3)
}

// weighted is Σ a_j w_j b_j.
func (p *leastChange) weighted(a, b []float64) float64 {
	b, w := b[:len(a)], p.weight[:len(a)]
	sum := 0.0
	for j, v := range a {
		sum += v * w[j] * b[j]
	}
	return sum
}

// solve leaves the answer in x and reports whether every row without elasticity
// is kept to tolerance and every elastic one as far as its price allows; false
// where rows contradict each other or the pivots ran out. x is then what was
// reached.
func (p *leastChange) solve(tolerance float64, pivots int) bool {
	m := len(p.bound)
	clear(p.x)
	p.active, p.multiplier, p.gram, p.cholesky = p.active[:0], p.multiplier[:0], p.gram[:0], p.cholesky[:0]
	if cap(p.isActive) < m {
		p.isActive = make([]bool, 2*m)
	}
	p.isActive = p.isActive[:m]
	clear(p.isActive)
	for pivots > 0 {
		add, worst := -1, tolerance
		for k := range m {
			if p.isActive[k] {
				continue
			}
			if v := p.bound[k] - dot(p.row(k), p.x); v > worst {
				add, worst = k, v
			}
		}
		if add < 0 {
			return true
		}
		multiplier := 0.0
		for {
			pivots--
			if pivots < 0 {
				return false
			}
			full, ok := p.pivot(add, &multiplier)
			if !ok {
				return false
			}
			if full {
				break
			}
		}
	}
	return false
}

// pivot moves towards row add as far as the multipliers stay positive: full when
// the row is reached, and then active; otherwise the active row in the way is
// dropped. ok is false where the active rows contradict row add.
func (p *leastChange) pivot(add int, multiplier *float64) (full, ok bool) {
	q := len(p.active)
	a := p.row(add)
	p.coupling, p.r = p.coupling[:0], p.r[:0]
	for _, k := range p.active {
		p.coupling = append(p.coupling, p.weighted(p.row(k), a))
	}
	p.r = append(p.r, p.coupling...)
	p.substitute(p.r)
	size := p.weighted(a, a) + p.slack[add]
	curvature := size
	for i, c := range p.coupling {
		curvature -= p.r[i] * c
	}
	// Change of x per unit of the multiplier: W(a − N r).
	copy(p.change, a)
	for i, k := range p.active {
		r := p.r[i]
		for j, v := range p.row(k) {
			p.change[j] -= r * v
		}
	}
	for j := range p.change {
		p.change[j] *= p.weight[j]
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
		violation := p.bound[add] - dot(a, p.x) - p.slack[add]**multiplier
		reach = math.Max(0, violation/curvature)
	}
	t := math.Min(partial, reach)
	if math.IsInf(t, 1) {
		return false, false
	}
	for i := range q {
		p.multiplier[i] = math.Max(0, p.multiplier[i]-t*p.r[i])
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

// activate appends row k, whose products with the active rows are in coupling and
// with itself size, to the active rows and to the Cholesky factor of their Gram
// matrix NᵀWN + diag(ε).
func (p *leastChange) activate(k int, size, multiplier float64) {
	q := len(p.active)
	p.gram = append(p.gram, p.coupling...)
	p.gram = append(p.gram, size)
	p.active, p.multiplier = append(p.active, k), append(p.multiplier, multiplier)
	p.isActive[k] = true
	p.factor(q)
}

// deactivate drops the active row at place i.
func (p *leastChange) deactivate(i int) {
	q := len(p.active)
	p.isActive[p.active[i]] = false
	p.active = append(p.active[:i], p.active[i+1:]...)
	p.multiplier = append(p.multiplier[:i], p.multiplier[i+1:]...)
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
			sum := p.gram[triangle(i)+j] - dot(row[:j], other[:j])
			if i == j {
				// Active rows are independent (pivot admits no others), so only
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
		r[i] = (r[i] - dot(row[:i], r)) / row[i]
	}
	for i := len(r) - 1; i >= 0; i-- {
		row := p.cholesky[triangle(i):triangle(i+1)]
		r[i] /= row[i]
		for l, v := range row[:i] {
			r[l] -= v * r[i]
		}
	}
}
