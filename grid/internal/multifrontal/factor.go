package multifrontal

import (
	"math"
	"slices"
)

const (
	// threshold is the smallest stable ratio of a pivot to the other entries of its column.
	threshold = 0.01
	// singular is the scaled pivot below which the matrix counts as singular.
	singular = 1e-14
	// equilibrations make every row's largest entry nearly one.
	equilibrations = 6
)

// Factor is a factorisation. The next one reuses its memory.
type Factor struct {
	s             *Structure
	scale         []float64
	omitted       []bool
	fronts        []eliminated
	contributions []contribution
	stack         []float64 // matrices of contributions not yet assembled
	top           int
	place         []int32 // by variable: position in the current front
	dense         []float64
	index         []int32
	work          []float64
	// Negative and Zero count the negative and zero eigenvalues.
	Negative, Zero int
	// Delayed counts delayed variables, once for every front.
	Delayed int
}

// eliminated holds the columns of L of one front. Column k holds its rows from k on; pivots of order two have two
// columns.
type eliminated struct {
	vars  []int32 // of the pivots, then of the rest
	count int     // pivots
	l     []float64
	// pair marks the first column of a pivot of order two. Its inverse has the diagonal d, the next d, and
	// offDiagonal.
	pair           []bool
	d, offDiagonal []float64
}

// contribution is the Schur complement that a front passes to its parent: the lower part by columns, on the stack.
type contribution struct {
	vars    []int32
	delayed int // count, first in vars
	start   int // on the stack
}

// NewFactor allocates a factorisation for matrices of a structure.
func NewFactor(s *Structure) *Factor {
	return &Factor{s: s, scale: make([]float64, s.n), fronts: make([]eliminated, len(s.fronts)), contributions: make([]contribution, len(s.fronts)),
		place: make([]int32, s.n), work: make([]float64, s.n)}
}

// Factor factors the matrix with these values of its entries. out marks variables whose rows and columns are
// omitted, whose entries must be zero; nil for none. Solve leaves 0 there.
func (f *Factor) Factor(values []float64, out []bool) {
	f.omitted = out
	f.equilibrate(values)
	f.Negative, f.Zero = 0, 0
	f.Delayed, f.top = 0, 0
	for _, k := range f.s.order {
		f.eliminate(int(k), values)
	}
}

// equilibrate computes the scaling S for which the largest entry of every row of SAS is nearly one.
func (f *Factor) equilibrate(values []float64) {
	s := f.s
	for i := range f.scale {
		f.scale[i] = 1
	}
	for range equilibrations {
		clear(f.work)
		for e, a := range values {
			i, j := s.row[e], s.col[e]
			v := math.Abs(a) * f.scale[i] * f.scale[j]
			f.work[i], f.work[j] = max(f.work[i], v), max(f.work[j], v)
		}
		for i, v := range f.work[:s.n-s.border] { // the border is not scaled
			if v > 0 {
				f.scale[i] /= math.Sqrt(v)
			}
		}
	}
}

// eliminate factors one front.
func (f *Factor) eliminate(k int, values []float64) {
	s, fr, out := f.s, &f.s.fronts[k], &f.fronts[k]
	f.index = f.index[:0]
	if !fr.border {
		f.index = f.remaining(f.index, fr.vars)
	}
	for _, c := range fr.children {
		f.index = append(f.index, f.contributions[c].vars[:f.contributions[c].delayed]...)
	}
	candidates := len(f.index)
	if fr.border {
		f.index = append(f.index, fr.vars...)
	} else {
		f.index = f.remaining(f.index, fr.below)
	}
	m := len(f.index)
	for i, v := range f.index {
		f.place[v] = int32(i)
	}
	if cap(f.dense) < m*m {
		f.dense = make([]float64, m*m)
	}
	a := f.dense[:m*m]
	clear(a)
	for _, e := range fr.entries {
		i, j := s.row[e], s.col[e]
		if values[e] == 0 {
			continue
		}
		v := values[e] * f.scale[i] * f.scale[j]
		x, y := int(f.place[i]), int(f.place[j])
		a[min(x, y)*m+max(x, y)] += v
	}
	top := f.top
	for _, c := range fr.children {
		child := &f.contributions[c]
		n := len(child.vars)
		top = min(top, child.start)
		for j, vj := range child.vars {
			y := int(f.place[vj])
			column := f.stack[child.start+j*n : child.start+j*n+n]
			for i := j; i < n; i++ {
				x := int(f.place[child.vars[i]])
				if x >= y {
					a[y*m+x] += column[i]
				} else {
					a[x*m+y] += column[i]
				}
			}
		}
	}
	t := dense{a, m, f.index}
	out.pair, out.d, out.offDiagonal = out.pair[:0], out.d[:0], out.offDiagonal[:0]
	next, end := 0, candidates
	for next < end {
		n := t.pivot(next, end, fr.parent < 0)
		if n == 0 {
			break
		}
		f.eliminatePivot(&t, out, next, n)
		next += n
	}
	out.count = next
	out.vars = append(out.vars[:0], f.index...)
	if cap(out.l) < next*m {
		out.l = make([]float64, next*m)
	}
	out.l = out.l[:next*m]
	copy(out.l, a[:next*m])
	p := &f.contributions[k]
	p.vars = append(p.vars[:0], f.index[next:]...)
	p.delayed = candidates - next
	f.Delayed += p.delayed
	n := m - next
	p.start, f.top = top, top+n*n // replaces its children
	if len(f.stack) < f.top {
		f.stack = append(make([]float64, 0, max(f.top, f.s.stack, len(f.stack)+len(f.stack)/4)), f.stack[:top]...)
		f.stack = f.stack[:cap(f.stack)]
	}
	for j := range n {
		copy(f.stack[top+j*n+j:top+(j+1)*n], a[(next+j)*m+next+j:(next+j+1)*m])
	}
}

// remaining appends the variables that are not omitted.
func (f *Factor) remaining(list, vars []int32) []int32 {
	for _, v := range vars {
		if f.omitted == nil || !f.omitted[v] {
			list = append(list, v)
		}
	}
	return list
}

// Schur is the border's Schur complement, the lower part by columns, n a column for n variables. It is valid until
// the next factorisation.
func (f *Factor) Schur() []float64 { return f.stack[:f.top] }

// dense is a front, its lower part by columns: entry (i, j), i ≥ j, is a[j·m+i].
type dense struct {
	a    []float64
	m    int
	vars []int32
}

func (t dense) entry(i, j int) float64 {
	if i < j {
		i, j = j, i
	}
	return t.a[j*t.m+i]
}

// swap exchanges two variables.
func (t dense) swap(i, j int) {
	if i == j {
		return
	}
	if i > j {
		i, j = j, i
	}
	a, m := t.a, t.m
	t.vars[i], t.vars[j] = t.vars[j], t.vars[i]
	for c := range i { // rows of earlier columns, eliminated ones too
		a[c*m+i], a[c*m+j] = a[c*m+j], a[c*m+i]
	}
	for k := i + 1; k < j; k++ {
		a[i*m+k], a[k*m+j] = a[k*m+j], a[i*m+k]
	}
	for r := j + 1; r < m; r++ {
		a[i*m+r], a[j*m+r] = a[j*m+r], a[i*m+r]
	}
	a[i*m+i], a[j*m+j] = a[j*m+j], a[i*m+i]
}

// largest is the largest entry of a column without the diagonal and the row except. It also returns the position and
// size of the largest among the candidates.
func (t dense) largest(c, first, end, except int) (largest float64, partner int, candidate float64) {
	partner = -1
	entry := first*t.m + c
	for place := first; place < c; place++ { // the row before the diagonal, all candidates
		if v := math.Abs(t.a[entry]); place != except {
			largest = max(largest, v)
			if partner < 0 || v > candidate {
				partner, candidate = place, v
			}
		}
		entry += t.m
	}
	column := t.a[c*t.m : c*t.m+t.m]
	for i := c + 1; i < end; i++ {
		if v := math.Abs(column[i]); i != except {
			largest = max(largest, v)
			if partner < 0 || v > candidate {
				partner, candidate = i, v
			}
		}
	}
	for _, v := range column[max(end, c+1):] {
		largest = max(largest, math.Abs(v))
	}
	return largest, partner, candidate
}

// pivot moves a stable pivot of order one or two to position first and returns its order, 0 where no candidate is
// stable. At a root the best candidate is always taken.
func (t dense) pivot(first, end int, root bool) int {
	best, bestShare := first, -1.0
	for c := first; c < end; c++ {
		largest, partner, candidate := t.largest(c, first, end, -1)
		d := math.Abs(t.entry(c, c))
		if d >= threshold*largest && d > singular {
			t.swap(first, c)
			return 1
		}
		if share := d / (largest + singular); share > bestShare {
			best, bestShare = c, share
		}
		if partner < 0 || candidate <= singular {
			continue
		}
		// The inverse of [a b; b e] times the largest entries beside it bounds L.
		x, b, y := t.entry(c, c), t.entry(partner, c), t.entry(partner, partner)
		ownLargest, _, _ := t.largest(c, first, end, partner)
		partnerLargest, _, _ := t.largest(partner, first, end, c)
		det := math.Abs(float64(x*y) - float64(b*b))
		if det <= singular*singular || max(float64(math.Abs(y)*ownLargest)+float64(math.Abs(b)*partnerLargest), float64(math.Abs(b)*ownLargest)+float64(math.Abs(x)*partnerLargest))*threshold > det {
			continue
		}
		t.swap(first, c)
		if partner == first {
			partner = c
		}
		t.swap(first+1, partner)
		return 2
	}
	if !root {
		return 0
	}
	t.swap(first, best)
	return 1
}

// eliminatePivot eliminates a pivot of order n at position place.
func (f *Factor) eliminatePivot(t *dense, out *eliminated, place, n int) {
	a, m := t.a, t.m
	if n == 1 {
		d := a[place*m+place]
		if math.Abs(d) <= singular {
			f.Zero++
			d = math.Copysign(singular, d)
		} else if d < 0 {
			f.Negative++
		}
		inverse := 1 / d
		out.pair, out.d, out.offDiagonal = append(out.pair, false), append(out.d, inverse), append(out.offDiagonal, 0)
		column := a[place*m : place*m+m]
		for j := place + 1; j < m; j++ {
			x := column[j]
			if x == 0 {
				continue
			}
			l := float64(x * inverse)
			to := a[j*m+j : j*m+m]
			from := column[j:m]
			to = to[:len(from)]
			for i, v := range from {
				to[i] -= float64(l * v)
			}
		}
		for i := place + 1; i < m; i++ {
			column[i] *= inverse
		}
		return
	}
	x, b, y := a[place*m+place], a[place*m+place+1], a[(place+1)*m+place+1]
	det := float64(x*y) - float64(b*b)
	switch {
	case det < 0:
		f.Negative++
	case x < 0:
		f.Negative += 2
	}
	ix, ib, iy := y/det, -b/det, x/det
	out.pair, out.d, out.offDiagonal = append(out.pair, true, false), append(out.d, ix, iy), append(out.offDiagonal, ib, 0)
	first, second := a[place*m:place*m+m], a[(place+1)*m:(place+1)*m+m]
	for j := place + 2; j < m; j++ {
		p, q := first[j], second[j]
		if p == 0 && q == 0 {
			continue
		}
		lp, lq := float64(p*ix)+float64(q*ib), float64(p*ib)+float64(q*iy)
		to := a[j*m+j : j*m+m]
		u, w := first[j:m], second[j:m]
		to, w = to[:len(u)], w[:len(u)]
		for i := range u {
			to[i] -= float64(lp*u[i]) + float64(lq*w[i])
		}
	}
	for i := place + 2; i < m; i++ {
		p, q := first[i], second[i]
		first[i], second[i] = float64(p*ix)+float64(q*ib), float64(p*ib)+float64(q*iy)
	}
	first[place+1] = 0 // the pivot's own entry is in its inverse
}

// Solve writes A⁻¹·x over x, for a matrix without a border.
func (f *Factor) Solve(x []float64) {
	f.Forward(x)
	f.Backward(x)
}

// Forward writes D⁻¹L⁻¹·x over x. The border's part becomes the right-hand side of the Schur complement.
func (f *Factor) Forward(x []float64) {
	for i, v := range f.scale {
		x[i] *= v
		if f.omitted != nil && f.omitted[i] {
			x[i] = 0
		}
	}
	for k := range f.fronts {
		e := &f.fronts[k]
		m := len(e.vars)
		for c := range e.count {
			v := x[e.vars[c]]
			if v == 0 {
				continue
			}
			for i := c + 1; i < m; i++ {
				x[e.vars[i]] -= float64(e.l[c*m+i] * v)
			}
		}
	}
	for k := range f.fronts {
		e := &f.fronts[k]
		for c := 0; c < e.count; c++ {
			i := e.vars[c]
			if !e.pair[c] {
				x[i] *= e.d[c]
				continue
			}
			j := e.vars[c+1]
			p, q := x[i], x[j]
			x[i], x[j] = float64(e.d[c]*p)+float64(e.offDiagonal[c]*q), float64(e.offDiagonal[c]*p)+float64(e.d[c+1]*q)
			c++
		}
	}
}

// Backward writes L⁻ᵀ·x over x, whose border's part is its solution.
func (f *Factor) Backward(x []float64) {
	for _, e := range slices.Backward(f.fronts) {
		m := len(e.vars)
		for c := e.count - 1; c >= 0; c-- {
			v := x[e.vars[c]]
			for i := c + 1; i < m; i++ {
				v -= float64(e.l[c*m+i] * x[e.vars[i]])
			}
			x[e.vars[c]] = v
		}
	}
	for i, v := range f.scale {
		x[i] *= v
	}
}
