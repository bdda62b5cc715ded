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

	rows     []float64 // a, n a row
	bound    []float64 // b
	binds    []bool
	lambda   []float64 // multiplier, 0 where the row does not bind
	image    []float64 // Uᵀa, rank a row
	seat     []int     // place of each row among those that have bound, −1: it has not; most rows never do
	met      []float64 // these rows one after another
	gram     []float64 // Σ_j D_j a_kj a_lj of these, packed lower triangle; without modes over the free variables only
	excluded []bool    // variables that gram leaves out
	columns  []float64 // entries of these rows at some variables
	values   []float64 // a·x

	fixed      []int     // variables at a bound
	active     []int     // rows that bind
	entries    []float64 // their entries at the fixed variables, len(fixed) a row
	scaled     []float64 // one of them times D
	modes      []float64 // L⁻¹ of what U sees of the rows' free entries, rank a row
	inner      []float64 // Cholesky factor L of I + U_BᵀD_B⁻¹U_B
	pull       []float64 // L⁻¹ of what the fixed variables pull
	schur      []float64 // Cholesky factor of the rows' system
	answer     []float64
	violations []int
	excess     []float64 // by how much each is
	worst      int       // of the violations
}

func newLeastChange(n int) *leastChange {
	vector := func() []float64 { return make([]float64, n) }
	return &leastChange{lo: vector(), hi: vector(), x: vector(), force: vector(), side: make([]int8, n), excluded: make([]bool, n)}
}

// reset forgets all rows; no variable is at a bound but those that have one value.
func (p *leastChange) reset() {
	p.forget()
	clear(p.side)
	clear(p.excluded)
	clear(p.x)
}

// forget forgets all rows; variables at a bound stay there until solve frees them.
func (p *leastChange) forget() {
	p.rows, p.bound, p.binds = p.rows[:0], p.bound[:0], p.binds[:0]
	p.lambda, p.image = p.lambda[:0], p.image[:0]
	p.seat, p.met, p.gram = p.seat[:0], p.met[:0], p.gram[:0]
	for j, side := range p.side {
		p.excluded[j] = p.metric.rank == 0 && side != 0
	}
}

// add appends a row with its bound, for the caller to fill; complete takes it in.
func (p *leastChange) add(bound float64) []float64 {
	n := len(p.x)
	p.rows = slices.Grow(p.rows, n)[:len(p.rows)+n]
	p.bound, p.binds, p.lambda = append(p.bound, bound), append(p.binds, false), append(p.lambda, 0)
	return p.rows[len(p.rows)-n:]
}

// complete takes in the row that add gave, filled, and returns its number.
func (p *leastChange) complete() int {
	k, m := len(p.bound)-1, p.metric
	a := p.row(k)
	offset := len(p.image)
	p.image = slices.Grow(p.image, m.rank)[:offset+m.rank]
	image := p.image[offset:]
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
		if p.force[j] = p.metric.diagonal[j] * v; p.excluded[j] {
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
	least, tries := math.MaxInt, blockTries
	for tries > 0 {
		p.equalities()
		share := 0.0
		if tries < blockTries {
			share = worstShare
		}
		p.violated(tolerance, share)
		for c := range len(p.x) + len(p.bound) {
			if p.multiplier(c) < 0 {
				p.violations = append(p.violations, c)
			}
		}
		if len(p.violations) == 0 {
			return
		}
		if tries--; len(p.violations) < least {
			least, tries = len(p.violations), blockTries
		}
		for _, c := range p.violations {
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
	for single := false; p.violated(tolerance, 0); {
		if single { // in company none of them was held in the end
			p.violations = append(p.violations[:0], p.worst)
		}
		for _, c := range p.violations {
			p.exchange(c)
		}
		p.ascend()
		holds := slices.ContainsFunc(p.violations, p.holds)
		if !holds && single {
			return // rounding is all that is left of the violation
		}
		single = !holds
	}
}

// violated lists the constraints that x violates by more than the tolerance, those by at least
// a share of the most, and reports whether there are any.
func (p *leastChange) violated(tolerance, share float64) bool {
	p.violations, p.excess = p.violations[:0], p.excess[:0]
	most := 0.0
	look := func(c int, excess float64) {
		if excess > tolerance {
			p.violations, p.excess = append(p.violations, c), append(p.excess, excess)
			if excess > most {
				most, p.worst = excess, c
			}
		}
	}
	for j, x := range p.x {
		if p.side[j] == 0 {
			look(j, math.Max(p.lo[j]-x, x-p.hi[j]))
		}
	}
	p.values = resized(p.values, len(p.bound))
	dots.Rows(p.x, p.rows, len(p.x), p.values)
	for k, binds := range p.binds {
		if !binds {
			look(len(p.x)+k, p.bound[k]-p.values[k])
		}
	}
	large := p.violations[:0]
	for i, excess := range p.excess {
		if excess >= share*most {
			large = append(large, p.violations[i])
		}
	}
	p.violations = large
	return len(p.violations) > 0
}

// ascend takes the multipliers to those of the held constraints as equalities, x with
// them, freeing every constraint whose multiplier would turn.
func (p *leastChange) ascend() {
	for {
		p.equalities()
		step, first, freed := 1.0, -1, false
		for c, push := range p.push {
			multiplier := p.multiplier(c)
			switch {
			case multiplier >= 0:
			case push == 0: // new, and not needed beside the others
				p.exchange(c)
				freed = true
			case push < step*(push-multiplier):
				step, first = push/(push-multiplier), c
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
		p.exclude()
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

	p.entries, p.modes, p.scaled = resized(p.entries, q*b), resized(p.modes, q*r), resized(p.scaled, b)
	p.schur, p.answer = resized(p.schur, q*q), resized(p.answer, q)
	for i, k := range p.active {
		a, row := p.row(k), p.schur[i*q:i*q+i+1]
		pull := 0.0
		for _, j := range p.fixed {
			pull += a[j] * p.x[j]
		}
		p.answer[i] = p.bound[k] - pull
		for l, other := range p.active[:i+1] {
			row[l] = p.product(k, other)
		}
		if r > 0 {
			entries, modal := p.entries[i*b:(i+1)*b], p.modes[i*r:(i+1)*r]
			copy(modal, p.image[k*r:(k+1)*r])
			for f, j := range p.fixed {
				entries[f] = a[j]
				p.scaled[f] = m.diagonal[j] * a[j]
				tensor.Axpy(-a[j], m.mode(j), modal)
			}
			lower(p.inner, modal)
			p.answer[i] -= tensor.Dot(modal, p.pull)
			for l := range row {
				row[l] = row[l] - tensor.Dot(p.scaled, p.entries[l*b:(l+1)*b]) + tensor.Dot(modal, p.modes[l*r:(l+1)*r])
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
		modal := 0.0
		if r > 0 {
			modal = tensor.Dot(m.mode(j), p.pull)
		}
		if p.side[j] == 0 {
			p.x[j] = m.diagonal[j]*f + modal
		} else {
			p.force[j] = (p.x[j]-modal)/m.diagonal[j] - f
		}
	}
}

// exclude takes the fixed variables out of gram and the free ones in.
func (p *leastChange) exclude() {
	var variables [4]int
	count := 0
	for j, side := range p.side {
		if (side != 0) == p.excluded[j] {
			continue
		}
		p.excluded[j] = side != 0
		variables[count] = j
		if count++; count == len(variables) {
			p.turn(variables[:])
			count = 0
		}
	}
	p.turn(variables[:count])
}

// turn takes variables out of gram that are excluded, and in that are not.
func (p *leastChange) turn(variables []int) {
	n := len(p.x)
	q := len(p.met) / n
	p.columns = resized(p.columns, len(variables)*q)
	for f, j := range variables {
		for k := range q {
			p.columns[f*q+k] = p.met[k*n+j]
		}
	}
	var factors [4]float64
	for k := range q {
		for f, j := range variables {
			factors[f] = p.metric.diagonal[j] * p.columns[f*q+k]
			if p.excluded[j] {
				factors[f] = -factors[f]
			}
		}
		dots.Add(p.gram[triangle(k):triangle(k+1)], factors[:len(variables)], p.columns, q)
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
	for block := 0; block < n; block += 4 {
		for i := block; i < n; i++ {
			row := a[i*n : i*n+i+1]
			if i >= block+4 {
				s.Four(row[:block], a[block*n:], n)
				for k := range s { // as tensor.Dot sums what is behind
					other, v := a[(block+k)*n+block:], &s[k]
					for l, x := range row[block : block+k] {
						v[0] += x * other[l]
					}
					row[block+k] = (row[block+k] - ((v[0] + v[1]) + (v[2] + v[3]))) / other[k]
				}
				continue
			}
			for j := block; j < i; j++ {
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
