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
	gram       []float64 // scratch: Cholesky factor of NᵀWN + ε
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

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// weighted is Σ a_j w_j b_j.
func (p *leastChange) weighted(a, b []float64) float64 {
	sum := 0.0
	for j, v := range a {
		sum += v * p.weight[j] * b[j]
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
	p.active, p.multiplier = p.active[:0], p.multiplier[:0]
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
			full, drop, ok := p.pivot(add, &multiplier)
			if !ok {
				return false
			}
			if full {
				p.active, p.multiplier = append(p.active, add), append(p.multiplier, multiplier)
				p.isActive[add] = true
				break
			}
			p.isActive[p.active[drop]] = false
			p.active = append(p.active[:drop], p.active[drop+1:]...)
			p.multiplier = append(p.multiplier[:drop], p.multiplier[drop+1:]...)
		}
	}
	return false
}

// pivot moves towards row add as far as the multipliers stay positive: full when
// the row is reached, otherwise drop is the active row that goes. ok is false
// where the active rows contradict row add.
func (p *leastChange) pivot(add int, multiplier *float64) (full bool, drop int, ok bool) {
	q := len(p.active)
	a := p.row(add)
	p.factor()
	p.r = p.r[:0]
	for _, k := range p.active {
		p.r = append(p.r, p.weighted(p.row(k), a))
	}
	curvature := p.weighted(a, a) + p.slack[add]
	size := curvature
	p.substitute(p.r)
	for i, k := range p.active {
		curvature -= p.r[i] * p.weighted(p.row(k), a)
	}
	// Change of x per unit of the multiplier: W(a − N r).
	copy(p.change, a)
	for i, k := range p.active {
		row := p.row(k)
		for j := range p.change {
			p.change[j] -= p.r[i] * row[j]
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
		return false, -1, false
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
	return reach <= partial, drop, true
}

// factor is the Cholesky factor, lower, of NᵀWN + diag(ε) over the active rows.
func (p *leastChange) factor() {
	q := len(p.active)
	if cap(p.gram) < q*q {
		p.gram = make([]float64, 2*q*q+16)
	}
	p.gram = p.gram[:q*q]
	for i, k := range p.active {
		for j := range i + 1 {
			sum := p.weighted(p.row(k), p.row(p.active[j]))
			if i == j {
				sum += p.slack[k]
			}
			for l := range j {
				sum -= p.gram[i*q+l] * p.gram[j*q+l]
			}
			if i == j {
				// Active rows are independent (pivot admits no others), so only
				// rounding can bring this to zero.
				p.gram[i*q+i] = math.Sqrt(math.Max(sum, 1e-300))
			} else {
				p.gram[i*q+j] = sum / p.gram[j*q+j]
			}
		}
	}
}

// substitute solves (NᵀWN + diag(ε)) r = r in place.
func (p *leastChange) substitute(r []float64) {
	q := len(r)
	for i := range q {
		for l := range i {
			r[i] -= p.gram[i*q+l] * r[l]
		}
		r[i] /= p.gram[i*q+i]
	}
	for i := q - 1; i >= 0; i-- {
		for l := i + 1; l < q; l++ {
			r[i] -= p.gram[l*q+i] * r[l]
		}
		r[i] /= p.gram[i*q+i]
	}
}
