package multifrontal

import (
	"math"
	"slices"
)

const (
	// threshold is how small a pivot may be beside the other entries of its column.
	threshold = 0.01
	// singular is the scaled pivot below which one is none.
	singular = 1e-14
	// equilibrations make every row's largest entry nearly one.
	equilibrations = 6
)

// Factor is a factorisation. It keeps its memory from one to the next.
type Factor struct {
	s      *Structure
	scale  []float64
	out    []bool
	done   []eliminated
	passed []contribution
	stack  []float64 // the matrices of contributions that wait for their parents
	top    int
	place  []int32 // of a variable in the front at work
	dense  []float64
	index  []int32
	work   []float64
	// Negative and Zero count the eigenvalues of these signs.
	Negative, Zero int
	// Delayed counts the variables that went on to a parent, once for every front.
	Delayed int
}

// eliminated are the columns of L of one front. Column k holds its rows from k on; pivots of
// order two have two columns.
type eliminated struct {
	vars  []int32 // of the pivots, then of the rest
	count int     // pivots
	l     []float64
	// pair says that a column is the first of a pivot of order two, whose inverse has the
	// diagonal d, the other one's d and off.
	pair   []bool
	d, off []float64
}

// contribution is what a front leaves to its parent: the lower part by columns, on the stack.
type contribution struct {
	vars    []int32
	delayed int // the first of vars
	at      int // on the stack
}

// NewFactor has room for matrices of a structure.
func NewFactor(s *Structure) *Factor {
	return &Factor{s: s, scale: make([]float64, s.n), done: make([]eliminated, len(s.fronts)), passed: make([]contribution, len(s.fronts)),
		place: make([]int32, s.n), work: make([]float64, s.n)}
}

// Factor factors the matrix with these values of its entries, without the rows and columns of the
// variables that are left out, whose entries have to be zero; nil for none. Solve leaves 0 there.
func (f *Factor) Factor(values []float64, out []bool) {
	f.out = out
	f.equilibrate(values)
	f.Negative, f.Zero, f.Delayed, f.top = 0, 0, 0, 0
	for _, k := range f.s.order {
		f.eliminate(int(k), values)
	}
}

// equilibrate finds the scaling S for which SAS has rows whose largest entry is nearly one.
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
		for i, v := range f.work[:s.n-s.border] { // the border's scale stays one
			if v > 0 {
				f.scale[i] /= math.Sqrt(v)
			}
		}
	}
}

// eliminate factors one front.
func (f *Factor) eliminate(k int, values []float64) {
	s, fr, out := f.s, &f.s.fronts[k], &f.done[k]
	f.index = f.index[:0]
	if !fr.stays {
		f.index = f.left(f.index, fr.vars)
	}
	for _, c := range fr.children {
		f.index = append(f.index, f.passed[c].vars[:f.passed[c].delayed]...)
	}
	candidates := len(f.index)
	if fr.stays {
		f.index = append(f.index, fr.vars...)
	} else {
		f.index = f.left(f.index, fr.below)
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
		from := &f.passed[c]
		n := len(from.vars)
		top = min(top, from.at)
		for j, vj := range from.vars {
			y := int(f.place[vj])
			column := f.stack[from.at+j*n : from.at+j*n+n]
			for i := j; i < n; i++ {
				x := int(f.place[from.vars[i]])
				if x >= y {
					a[y*m+x] += column[i]
				} else {
					a[x*m+y] += column[i]
				}
			}
		}
	}
	t := dense{a, m, f.index}
	out.pair, out.d, out.off = out.pair[:0], out.d[:0], out.off[:0]
	at, left := 0, candidates
	for at < left {
		n := t.pivot(at, left, fr.parent < 0)
		if n == 0 {
			break
		}
		f.take(&t, out, at, n)
		at += n
	}
	out.count = at
	out.vars = append(out.vars[:0], f.index...)
	if cap(out.l) < at*m {
		out.l = make([]float64, at*m)
	}
	out.l = out.l[:at*m]
	copy(out.l, a[:at*m])
	p := &f.passed[k]
	p.vars = append(p.vars[:0], f.index[at:]...)
	p.delayed = candidates - at
	f.Delayed += p.delayed
	n := m - at
	p.at, f.top = top, top+n*n // in the place of its children
	if len(f.stack) < f.top {
		f.stack = append(make([]float64, 0, max(f.top, f.s.stack, len(f.stack)+len(f.stack)/4)), f.stack[:top]...)
		f.stack = f.stack[:cap(f.stack)]
	}
	for j := range n {
		copy(f.stack[top+j*n+j:top+(j+1)*n], a[(at+j)*m+at+j:(at+j+1)*m])
	}
}

// left appends the variables that are not left out.
func (f *Factor) left(list, vars []int32) []int32 {
	for _, v := range vars {
		if f.out == nil || !f.out[v] {
			list = append(list, v)
		}
	}
	return list
}

// Schur is what the factorisation leaves of the border: its Schur complement, the lower part by
// columns, n a column for n variables. It holds until the next factorisation.
func (f *Factor) Schur() []float64 { return f.stack[:f.top] }

// dense is a front, its lower part by columns: entry (i, j), i ≥ j, is a[j·m+i].
type dense struct {
	a    []float64
	m    int
	vars []int32
}

func (t dense) at(i, j int) float64 {
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
	for c := range i { // rows of columns before, eliminated ones too
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

// largest is the largest entry of a column beside the diagonal and the row but, over all that is
// left, and the place and size of the largest among the candidates.
func (t dense) largest(c, at, left, but int) (all float64, partner int, among float64) {
	partner = -1
	entry := at*t.m + c
	for place := at; place < c; place++ { // the row before the diagonal, all candidates
		if v := math.Abs(t.a[entry]); place != but {
			all = max(all, v)
			if partner < 0 || v > among {
				partner, among = place, v
			}
		}
		entry += t.m
	}
	column := t.a[c*t.m : c*t.m+t.m]
	for i := c + 1; i < left; i++ {
		if v := math.Abs(column[i]); i != but {
			all = max(all, v)
			if partner < 0 || v > among {
				partner, among = i, v
			}
		}
	}
	for _, v := range column[max(left, c+1):] {
		all = max(all, math.Abs(v))
	}
	return all, partner, among
}

// pivot brings a stable pivot of order one or two to place at and returns its order, 0 where
// there is none among the candidates. At a root every candidate goes: the best is taken.
func (t dense) pivot(at, left int, root bool) int {
	best, bestShare := -1, -1.0
	for c := at; c < left; c++ {
		all, partner, among := t.largest(c, at, left, -1)
		d := math.Abs(t.at(c, c))
		if d >= threshold*all && d > singular {
			t.swap(at, c)
			return 1
		}
		if share := d / (all + singular); share > bestShare {
			best, bestShare = c, share
		}
		if partner < 0 || among <= singular {
			continue
		}
		// The inverse of [a b; b e] times the largest entries beside it bounds L.
		x, b, y := t.at(c, c), t.at(partner, c), t.at(partner, partner)
		mine, _, _ := t.largest(c, at, left, partner)
		other, _, _ := t.largest(partner, at, left, c)
		det := math.Abs(float64(x*y) - float64(b*b))
		if det <= singular*singular || max(float64(math.Abs(y)*mine)+float64(math.Abs(b)*other), float64(math.Abs(b)*mine)+float64(math.Abs(x)*other))*threshold > det {
			continue
		}
		t.swap(at, c)
		if partner == at {
			partner = c
		}
		t.swap(at+1, partner)
		return 2
	}
	if !root {
		return 0
	}
	t.swap(at, best)
	return 1
}

// take eliminates a pivot of order n at place at.
func (f *Factor) take(t *dense, out *eliminated, at, n int) {
	a, m := t.a, t.m
	if n == 1 {
		d := a[at*m+at]
		if math.Abs(d) <= singular {
			f.Zero++
			d = math.Copysign(singular, d)
		} else if d < 0 {
			f.Negative++
		}
		inverse := 1 / d
		out.pair, out.d, out.off = append(out.pair, false), append(out.d, inverse), append(out.off, 0)
		column := a[at*m : at*m+m]
		for j := at + 1; j < m; j++ {
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
		for i := at + 1; i < m; i++ {
			column[i] *= inverse
		}
		return
	}
	x, b, y := a[at*m+at], a[at*m+at+1], a[(at+1)*m+at+1]
	det := float64(x*y) - float64(b*b)
	switch {
	case det < 0:
		f.Negative++
	case x < 0:
		f.Negative += 2
	}
	ix, ib, iy := y/det, -b/det, x/det
	out.pair, out.d, out.off = append(out.pair, true, false), append(out.d, ix, iy), append(out.off, ib, 0)
	first, second := a[at*m:at*m+m], a[(at+1)*m:(at+1)*m+m]
	for j := at + 2; j < m; j++ {
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
	for i := at + 2; i < m; i++ {
		p, q := first[i], second[i]
		first[i], second[i] = float64(p*ix)+float64(q*ib), float64(p*ib)+float64(q*iy)
	}
	first[at+1] = 0 // the pivot's own entry is in its inverse
}

// Solve writes A⁻¹·x over x, for a matrix without a border.
func (f *Factor) Solve(x []float64) {
	f.Forward(x)
	f.Backward(x)
}

// Forward writes D⁻¹L⁻¹·x over x. Where there is a border, its part becomes the right-hand side of
// the Schur complement.
func (f *Factor) Forward(x []float64) {
	for i, v := range f.scale {
		x[i] *= v
		if f.out != nil && f.out[i] {
			x[i] = 0
		}
	}
	for k := range f.done {
		e := &f.done[k]
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
	for k := range f.done {
		e := &f.done[k]
		for c := 0; c < e.count; c++ {
			i := e.vars[c]
			if !e.pair[c] {
				x[i] *= e.d[c]
				continue
			}
			j := e.vars[c+1]
			p, q := x[i], x[j]
			x[i], x[j] = float64(e.d[c]*p)+float64(e.off[c]*q), float64(e.off[c]*p)+float64(e.d[c+1]*q)
			c++
		}
	}
}

// Backward writes L⁻ᵀ·x over x, in which the border's part is its solution.
func (f *Factor) Backward(x []float64) {
	for _, e := range slices.Backward(f.done) {
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
