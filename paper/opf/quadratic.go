package opf

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/paper/opf/internal/dots"
	"github.com/gpc-engine/gpc/tensor"
)

// leastChange finds the smallest change x of n variables, xᵀW⁻¹x, that keeps
//
//	lo ≤ x ≤ hi   and   a_k·x ≥ b_k   for every row k,
//
// with lo ≤ 0 ≤ hi. A row is elastic: it may be violated by s at the price s²/ε, so that
// rows which contradict each other have an answer, and a unique one.
//
// The method exchanges constraints in blocks: whatever is violated is held, and whatever is
// held by a multiplier of the wrong sign is free, all of it at once (J. J. Júdice, F. M.
// Pires, Comput. Oper. Res. 21, 1994; L. F. Portugal, J. J. Júdice, L. N. Vicente, Math.
// Comp. 63, 1994, for nonnegative least squares). Where that leaves no fewer of them it may go
// round in circles: then only the worst are held, and after a while of that a dual active set
// takes over: the multipliers go to those of the held constraints as equalities until the
// first is zero and its constraint is free again (D. Goldfarb, A. Idnani, Math. Program. 27,
// 1983), and the dual grows with every step, so that no set of held constraints comes again.
// Variables at a bound are eliminated through the form of W: what is factorised is as large as
// the rows that bind.
//
// Constraints are numbered: variable j is j, at the bound that its side says, row k is n+k.
type leastChange struct {
	metric *metric
	lo, hi []float64
	x      []float64
	slack  float64   // ε of every row
	side   []int8    // of a variable: −1 at lo, +1 at hi, 0 between
	force  []float64 // multiplier of a variable at a bound
	push   []float64 // multipliers that the dual active set has come to, by constraint, ≥ 0

	rows    []float64 // a, n a row
	bound   []float64 // b
	binds   []bool
	lambda  []float64 // multiplier, 0 where the row does not bind
	image   []float64 // Uᵀa, rank a row
	seat    []int     // place of each row among those that have bound, −1: it has not; most rows never do
	met     []float64 // these rows one after another
	gram    []float64 // Σ_j D_j a_kj a_lj of these, packed lower triangle; without modes over the free variables only
	apart   []bool    // variables that gram leaves out
	columns []float64 // entries of these rows at some variables
	along   []float64 // a·x

	fixed  []int     // variables at a bound
	active []int     // rows that bind
	at     []float64 // their entries at the fixed variables, len(fixed) a row
	scaled []float64 // one of them times D
	modes  []float64 // L⁻¹ of what U sees of the rows' free entries, rank a row
	inner  []float64 // Cholesky factor L of I + U_BᵀD_B⁻¹U_B
	pull   []float64 // L⁻¹ of what the fixed variables pull
	schur  []float64 // Cholesky factor of the rows' system
	answer []float64
	broken []int
	excess []float64 // by how much each is
	worst  int       // of the broken
}

func newLeastChange(n int) *leastChange {
	vector := func() []float64 { return make([]float64, n) }
	return &leastChange{lo: vector(), hi: vector(), x: vector(), force: vector(), side: make([]int8, n), apart: make([]bool, n)}
}

// reset forgets all rows; no variable is at a bound but those that have one value.
func (p *leastChange) reset() {
	p.forget()
	clear(p.side)
	clear(p.apart)
	clear(p.x)
}

// forget forgets all rows; variables at a bound stay there until solve frees them.
func (p *leastChange) forget() {
	p.rows, p.bound, p.binds, p.lambda, p.image = p.rows[:0], p.bound[:0], p.binds[:0], p.lambda[:0], p.image[:0]
	p.seat, p.met, p.gram = p.seat[:0], p.met[:0], p.gram[:0]
	for j, side := range p.side {
		p.apart[j] = p.metric.rank == 0 && side != 0
	}
}

// add appends a row with its bound, for the caller to fill; known completes it.
func (p *leastChange) add(bound float64) []float64 {
	n := len(p.x)
	p.rows = slices.Grow(p.rows, n)[:len(p.rows)+n]
	p.bound, p.binds, p.lambda = append(p.bound, bound), append(p.binds, false), append(p.lambda, 0)
	return p.rows[len(p.rows)-n:]
}

// known takes in the row that add gave, filled, and returns its number.
func (p *leastChange) known() int {
	k, m := len(p.bound)-1, p.metric
	a := p.row(k)
	at := len(p.image)
	p.image = slices.Grow(p.image, m.rank)[:at+m.rank]
	image := p.image[at:]
	clear(image)
	if m.rank > 0 {
		for j, v := range a {
			if v != 0 {
				tensor.Axpy(v, m.mode(j), image)
			}
		}
	}
	p.seat = append(p.seat, -1)
	return k
}

// meet gives a row that binds for the first time its place, and its products with those before it.
func (p *leastChange) meet(k int) {
	a, count := p.row(k), len(p.met)/len(p.x)
	p.seat[k] = count
	p.met = append(p.met, a...)
	for j, v := range a {
		if p.force[j] = p.metric.diagonal[j] * v; p.apart[j] {
			p.force[j] = 0
		}
	}
	p.gram = slices.Grow(p.gram, count+1)[:triangle(count+1)]
	dots.Rows(p.force, p.met, len(p.x), p.gram[triangle(count):])
}

// product is gram's of two rows that have bound.
func (p *leastChange) product(k, l int) float64 {
	k, l = p.seat[k], p.seat[l]
	return p.gram[triangle(max(k, l))+min(k, l)]
}

func (p *leastChange) row(k int) []float64 { return p.rows[k*len(p.x) : (k+1)*len(p.x)] }

// blockTries is how many exchanges of blocks in a row may leave no fewer constraints wrong;
// after the first of them those are held that are violated by at least the share worstShare of
// the most.
const (
	blockTries = 5
	worstShare = 0.1
)

// solve leaves the answer for the rows at hand in x, every constraint kept to tolerance
// as far as its price allows. It goes on from the constraints that are held.
func (p *leastChange) solve(tolerance float64) {
	least, left := math.MaxInt, blockTries
	for left > 0 {
		p.equalities()
		share := 0.0
		if left < blockTries {
			share = worstShare
		}
		p.violated(tolerance, share)
		for c := range len(p.x) + len(p.bound) {
			if p.multiplier(c) < 0 {
				p.broken = append(p.broken, c)
			}
		}
		if len(p.broken) == 0 {
			return
		}
		if left--; len(p.broken) < least {
			least, left = len(p.broken), blockTries
		}
		for _, c := range p.broken {
			p.exchange(c)
		}
	}
	p.solveDual(tolerance)
}

// solveDual is the dual active set.
func (p *leastChange) solveDual(tolerance float64) {
	p.push = resized(p.push, len(p.x)+len(p.bound))
	clear(p.push)
	p.ascend()
	for alone := false; p.violated(tolerance, 0); {
		if alone { // in company none of them was held in the end
			p.broken = append(p.broken[:0], p.worst)
		}
		for _, c := range p.broken {
			p.exchange(c)
		}
		p.ascend()
		held := slices.ContainsFunc(p.broken, p.holds)
		if !held && alone {
			return // rounding is all that is left of the violation
		}
		alone = !held
	}
}

// violated lists the constraints that x violates by more than the tolerance, those by at least
// a share of the most, and reports whether there are any.
func (p *leastChange) violated(tolerance, share float64) bool {
	p.broken, p.excess = p.broken[:0], p.excess[:0]
	most := 0.0
	look := func(c int, by float64) {
		if by > tolerance {
			p.broken, p.excess = append(p.broken, c), append(p.excess, by)
			if by > most {
				most, p.worst = by, c
			}
		}
	}
	for j, x := range p.x {
		if p.side[j] == 0 {
			look(j, math.Max(p.lo[j]-x, x-p.hi[j]))
		}
	}
	p.along = resized(p.along, len(p.bound))
	dots.Rows(p.x, p.rows, len(p.x), p.along)
	for k, binds := range p.binds {
		if !binds {
			look(len(p.x)+k, p.bound[k]-p.along[k])
		}
	}
	kept := p.broken[:0]
	for i, by := range p.excess {
		if by >= share*most {
			kept = append(kept, p.broken[i])
		}
	}
	p.broken = kept
	return len(p.broken) > 0
}

// ascend takes the multipliers to those of the held constraints as equalities, x with
// them, freeing every constraint whose multiplier would turn.
func (p *leastChange) ascend() {
	for {
		p.equalities()
		step, first, freed := 1.0, -1, false
		for c, push := range p.push {
			to := p.multiplier(c)
			switch {
			case to >= 0:
			case push == 0: // new, and not needed beside the others
				p.exchange(c)
				freed = true
			case push < step*(push-to):
				step, first = push/(push-to), c
			}
		}
		if freed {
			continue
		}
		for c := range p.push {
			p.push[c] += step * (p.multiplier(c) - p.push[c])
		}
		if first < 0 {
			return
		}
		p.push[first] = 0
		p.exchange(first)
	}
}

// multiplier is what the present equalities say of constraint c: negative where it
// should be free, 0 where it is, or has no sign.
func (p *leastChange) multiplier(c int) float64 {
	if n := len(p.x); c >= n {
		return p.lambda[c-n]
	}
	if p.side[c] == 0 || p.lo[c] == p.hi[c] {
		return 0
	}
	return -float64(p.side[c]) * p.force[c]
}

func (p *leastChange) holds(c int) bool {
	if n := len(p.x); c >= n {
		return p.binds[c-n]
	}
	return p.side[c] != 0
}

// exchange holds constraint c where it was free, or frees it.
func (p *leastChange) exchange(c int) {
	switch n := len(p.x); {
	case c >= n:
		p.binds[c-n] = !p.binds[c-n]
	case p.side[c] != 0:
		p.side[c] = 0
	case p.x[c] < p.lo[c]:
		p.side[c] = -1
	default:
		p.side[c] = 1
	}
}

// equalities finds x with the variables that have a side at their bounds and the rows that
// bind kept, the price of their elasticity paid; and the multipliers: lambda of the
// rows, force of the variables at a bound.
//
// With x = W(Aᵀλ + μ), μ on the fixed variables B, and t = Uᵀ(Aᵀλ + μ):
//
//	x_j = D_j (Aᵀλ)_j + U_j·t   where free,   μ_j = (x_j − U_j·t)/D_j − (Aᵀλ)_j   where fixed
//	(I + U_BᵀD_B⁻¹U_B) t = U_Fᵀ(Aᵀλ)_F + U_BᵀD_B⁻¹x_B
func (p *leastChange) equalities() {
	m, r := p.metric, p.metric.rank
	p.fixed, p.active = p.fixed[:0], p.active[:0]
	for j := range p.x {
		if p.lo[j] == p.hi[j] {
			p.side[j] = -1
		}
		switch p.side[j] {
		case -1:
			p.x[j] = p.lo[j]
		case +1:
			p.x[j] = p.hi[j]
		default:
			continue
		}
		p.fixed = append(p.fixed, j)
	}
	for k, binds := range p.binds {
		p.lambda[k] = 0
		if binds {
			p.active = append(p.active, k)
		}
	}
	if r == 0 {
		p.setApart()
	}
	for _, k := range p.active {
		if p.seat[k] < 0 {
			p.meet(k)
		}
	}
	q, b := len(p.active), len(p.fixed)
	p.inner, p.pull = resized(p.inner, r*r), resized(p.pull, r)
	clear(p.inner)
	clear(p.pull)
	for i := range r {
		p.inner[i*r+i] = 1
	}
	for _, j := range p.fixed {
		u, inverse := m.mode(j), 1/m.diagonal[j]
		tensor.Axpy(inverse*p.x[j], u, p.pull)
		for i, v := range u {
			tensor.Axpy(inverse*v, u[:i+1], p.inner[i*r:])
		}
	}
	cholesky(p.inner, r)
	lower(p.inner, p.pull)

	p.at, p.modes, p.scaled = resized(p.at, q*b), resized(p.modes, q*r), resized(p.scaled, b)
	p.schur, p.answer = resized(p.schur, q*q), resized(p.answer, q)
	for i, k := range p.active {
		a, row := p.row(k), p.schur[i*q:i*q+i+1]
		held := 0.0
		for _, j := range p.fixed {
			held += a[j] * p.x[j]
		}
		p.answer[i] = p.bound[k] - held
		for l, other := range p.active[:i+1] {
			row[l] = p.product(k, other)
		}
		if r > 0 {
			at, seen := p.at[i*b:(i+1)*b], p.modes[i*r:(i+1)*r]
			copy(seen, p.image[k*r:(k+1)*r])
			for f, j := range p.fixed {
				at[f] = a[j]
				p.scaled[f] = m.diagonal[j] * a[j]
				tensor.Axpy(-a[j], m.mode(j), seen)
			}
			lower(p.inner, seen)
			p.answer[i] -= tensor.Dot(seen, p.pull)
			for l := range row {
				row[l] = row[l] - tensor.Dot(p.scaled, p.at[l*b:(l+1)*b]) + tensor.Dot(seen, p.modes[l*r:(l+1)*r])
			}
		}
		row[i] += p.slack
	}
	cholesky(p.schur, q)
	lower(p.schur, p.answer)
	upper(p.schur, p.answer)

	clear(p.force)
	for i, k := range p.active {
		p.lambda[k] = p.answer[i]
		tensor.Axpy(p.answer[i], p.modes[i*r:(i+1)*r], p.pull)
	}
	dots.Add(p.force, p.lambda, p.rows, len(p.x))
	upper(p.inner, p.pull)
	for j, f := range p.force {
		along := 0.0
		if r > 0 {
			along = tensor.Dot(m.mode(j), p.pull)
		}
		if p.side[j] == 0 {
			p.x[j] = m.diagonal[j]*f + along
		} else {
			p.force[j] = (p.x[j]-along)/m.diagonal[j] - f
		}
	}
}

// setApart takes the fixed variables out of gram and the free ones in.
func (p *leastChange) setApart() {
	var turned [4]int
	count := 0
	for j, side := range p.side {
		if (side != 0) == p.apart[j] {
			continue
		}
		p.apart[j] = side != 0
		turned[count] = j
		if count++; count == len(turned) {
			p.turn(turned[:])
			count = 0
		}
	}
	p.turn(turned[:count])
}

// turn takes variables out of gram that are apart, and in that are not.
func (p *leastChange) turn(variables []int) {
	n := len(p.x)
	q := len(p.met) / n
	p.columns = resized(p.columns, len(variables)*q)
	for f, j := range variables {
		for k := range q {
			p.columns[f*q+k] = p.met[k*n+j]
		}
	}
	var by [4]float64
	for k := range q {
		for f, j := range variables {
			by[f] = p.metric.diagonal[j] * p.columns[f*q+k]
			if p.apart[j] {
				by[f] = -by[f]
			}
		}
		dots.Add(p.gram[triangle(k):triangle(k+1)], by[:len(variables)], p.columns, q)
	}
}

func resized(v []float64, n int) []float64 { return slices.Grow(v[:0], n)[:n] }

// triangle is where row i of a packed lower triangle begins.
func triangle(i int) int { return i * (i + 1) / 2 }

// cholesky replaces the lower triangle of a positive definite n×n matrix by its factor, four
// columns of all rows after another: a row's entries wait for each other, those of different
// rows do not.
func cholesky(a []float64, n int) {
	var s dots.Sums
	for at := 0; at < n; at += 4 {
		for i := at; i < n; i++ {
			row := a[i*n : i*n+i+1]
			if i >= at+4 {
				s.Four(row[:at], a[at*n:], n)
				for k := range s { // as tensor.Dot sums what is behind
					other, v := a[(at+k)*n+at:], &s[k]
					for l, x := range row[at : at+k] {
						v[0] += x * other[l]
					}
					row[at+k] = (row[at+k] - ((v[0] + v[1]) + (v[2] + v[3]))) / other[k]
				}
				continue
			}
			for j := at; j < i; j++ {
				row[j] = (row[j] - tensor.Dot(row[:j], a[j*n:j*n+j])) / a[j*n+j]
			}
			// Only rounding can bring this to zero.
			row[i] = math.Sqrt(math.Max(row[i]-tensor.Dot(row[:i], row[:i]), 1e-300))
		}
	}
}

// lower and upper solve with a Cholesky factor and its transpose, in place.
func lower(factor, v []float64) {
	n := len(v)
	for i := range v {
		row := factor[i*n : i*n+i+1]
		v[i] = (v[i] - tensor.Dot(row[:i], v[:i])) / row[i]
	}
}

func upper(factor, v []float64) {
	n := len(v)
	for i := n - 1; i >= 0; i-- {
		row := factor[i*n : i*n+i+1]
		v[i] /= row[i]
		tensor.Axpy(-v[i], row[:i], v)
	}
}
