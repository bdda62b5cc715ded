package powerflow

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/internal/simd/dense"
)

// responses serve power flows with the base factors after buses have switched between PV and PQ. A switch replaces a
// row of the base Jacobian A·B, the identity's by that of the reactive balance or the other way round. D are the
// changes of all rows, those of the branch that is out and of the switched buses. As in correction.apply, the solution of
// the changed Jacobian is B⁻¹(x − A⁻¹E·(I + D(A·B)⁻¹E)⁻¹·DB⁻¹x). What belongs to the base is kept.
type responses struct {
	buses        []int32 // that may switch
	number       []int32 // by bus, among these
	rows         [][]entry
	left         []sparse    // dᵢB⁻¹ for the changes dᵢ of their rows; empty until they are needed
	right        []sparse    // A⁻¹eⱼ
	products     [][]float64 // of these, by i and j; NaN until they are needed
	x            []float64   // zeros, two numbers a position
	lower, upper []half      // of use
	path         []int32     // of these
	positions    []int32     // of halves
	terms        []laneTerm  // by number; zero between steps
}

// laneTerm is of a bus that has switched in lanes.
type laneTerm struct {
	used              bool
	products, factors [lanes]float64 // of the bus's left vector, and of its right one
}

// entry is an entry of a row, by its place among the unknowns.
type entry struct {
	column int32
	value  float64
}

// sparse is a vector of two numbers a position, of those that are not zero.
type sparse struct {
	positions []int32
	values    []float64
}

func (v *sparse) times(x []float64) (sum float64) {
	for i, k := range v.positions {
		sum += v.values[2*i]*x[2*k] + v.values[2*i+1]*x[2*k+1]
	}
	return sum
}

// add adds a multiple to x.
func (v *sparse) add(factor float64, x []float64) {
	for i, k := range v.positions {
		x[2*k] += factor * v.values[2*i]
		x[2*k+1] += factor * v.values[2*i+1]
	}
}

// columns are the products with the columns of halves.
func (v *sparse) columns(halves []half) (sum [columns]float64) {
	for i, k := range v.positions {
		h, a, b := &halves[k], v.values[2*i], v.values[2*i+1]
		for j := range sum {
			sum[j] += a*h[j] + b*h[columns+j]
		}
	}
	return sum
}

// newResponses has the changes of rows at the base.
func (o *Outages) newResponses() *responses {
	s := o.s
	r := &responses{number: make([]int32, s.net.Buses()), x: make([]float64, 2*s.lu.n), lower: make([]half, s.lu.n), upper: make([]half, s.lu.n)}
	for k, b := range s.unknown {
		if r.number[b] = -1; s.kind[b] != network.PV && s.atLimit[b] == 0 {
			continue
		}
		v2, column := o.base.Vm[b]*o.base.Vm[b], int32(2*k)
		r.number[b] = int32(len(r.buses))
		r.buses = append(r.buses, b)
		r.rows = append(r.rows, []entry{{column, o.p[b] - s.gd[b]*v2}, {column + 1, o.q[b] - s.bd[b]*v2 - 1}})
	}
	for k := range s.pairs {
		p := &s.pairs[k]
		if p.block < 0 {
			continue
		}
		u, v := o.v[p.i], o.v[p.j]
		c, d := u[0]*v[0]+u[1]*v[1], u[1]*v[0]-u[0]*v[1]
		add := func(i, j int32, n, h float64) {
			if m := r.number[i]; m >= 0 {
				column := 2 * s.position[j]
				r.rows[m] = append(r.rows[m], entry{column, -n}, entry{column + 1, h})
			}
		}
		add(p.i, p.j, p.gij*c+p.bij*d, p.gij*d-p.bij*c)
		add(p.j, p.i, p.gji*c-p.bji*d, -p.gji*d-p.bji*c)
	}
	for m, b := range r.buses {
		for i := range r.rows[m] {
			if s.kind[b] != network.PV { // at its limit in the base
				r.rows[m][i].value *= -1
			}
		}
	}
	n := len(r.buses)
	r.left, r.right = make([]sparse, n), make([]sparse, n)
	r.products, r.terms = make([][]float64, n), make([]laneTerm, n)
	return r
}

// use computes a bus's vectors.
func (r *responses) use(s *Solver, m int32) {
	left, right := &r.left[m], &r.right[m]
	if left.positions != nil {
		return
	}
	for _, k := range r.path {
		r.lower[k], r.upper[k] = half{}, half{}
	}
	r.positions = r.positions[:0]
	for _, e := range r.rows[m] {
		r.positions = append(r.positions, e.column/2)
	}
	r.path = s.lu.path(r.path[:0], r.positions)
	r.lower[s.position[r.buses[m]]][columns] = 1
	for _, e := range r.rows[m] {
		r.upper[e.column/2][columns*(e.column%2)] = e.value
	}
	s.lu.halves(r.lower, r.upper, r.path)
	n := len(r.path)
	*left, *right = sparse{make([]int32, 0, n), make([]float64, 0, 2*n)}, sparse{make([]int32, 0, n), make([]float64, 0, 2*n)}
	for _, k := range r.path {
		left.positions, left.values = append(left.positions, k), append(left.values, r.upper[k][0], r.upper[k][columns])
		if l := &r.lower[k]; l[0] != 0 || l[columns] != 0 {
			right.positions, right.values = append(right.positions, k), append(right.values, l[0], l[columns])
		}
	}
}

// correction is what an outage changes of the base Jacobian.
type correction struct {
	changes [maxOut]change
	count   int                       // of these
	inverse [maxRows][maxRows]float64 // base Jacobian, in their rows and columns
	matrix  [maxRows][maxRows]float64 // (I + C·Z)⁻¹C of apply
	// The buses whose kind is not the base's, in the order in which they switched, and the factors of their part of the matrix.
	switched []int32
	factors  dense.LU
	// response is what a unit at the row of each switched bus does at the branch's rows, times the upper factor's inverse. effect
	// is the lower one's inverse times what a unit at each of the branch's rows does at the switched buses.
	response, effect [maxRows][]float64
	y                []float64
}

// reset has no switched bus.
func (c *correction) reset() {
	c.switched = c.switched[:0]
	for i := range c.response {
		c.response[i], c.effect[i] = c.response[i][:0], c.effect[i][:0]
	}
	c.factors.Resize(0)
}

// follow factors the matrix of the buses whose kind is not the base's, and that of the branches' rows in what remains. It
// returns false where that is singular.
func (o *Outages) follow() bool {
	s, r, c := o.s, o.responses, o.correction
	if slices.ContainsFunc(c.switched, func(m int32) bool { b := r.buses[m]; return s.kind[b] == o.kinds[b] }) {
		c.reset()
	}
	factored := len(c.switched)
	for m, b := range r.buses {
		if s.kind[b] != o.kinds[b] && !slices.Contains(c.switched, int32(m)) {
			r.use(s, int32(m))
			c.switched = append(c.switched, int32(m))
		}
	}
	for k := range c.count {
		c := &c.changes[k]
		for i := 1; i < c.n; i += 2 {
			if c.entries[i] = c.reactive[i]; s.kind[s.unknown[c.row[i]/2]] != network.PQ {
				c.entries[i] = [columns]float64{}
			}
		}
	}
	rows, n := columns*c.count, len(c.switched)
	c.factors.Resize(n)
	for t, m := range c.switched {
		row, first, isNew := c.factors.Row(t), factored, t >= factored
		if isNew {
			first = 0
			for i := range c.count {
				response, effect := r.right[m].columns(c.changes[i].upper), r.left[m].columns(c.changes[i].lower)
				for j := range columns {
					k := columns*i + j
					c.response[k], c.effect[k] = append(c.response[k], response[j]), append(c.effect[k], effect[j])
				}
			}
		}
		if r.products[m] == nil && n > 1 {
			r.products[m] = slices.Repeat([]float64{math.NaN()}, len(r.buses))
		}
		products, isSpread := r.products[m], false
		for j := first; j < n; j++ {
			i := c.switched[j]
			if products != nil && products[i] == products[i] {
				row[j] = products[i]
				continue
			}
			if !isSpread {
				r.left[m].add(1, r.x)
				isSpread = true
			}
			if row[j] = r.right[i].times(r.x); products != nil {
				products[i] = row[j]
			}
		}
		if isSpread {
			r.left[m].clear(r.x)
		}
		if isNew {
			row[t]++
		}
	}
	c.factors.Factor(factored)
	for i := range rows {
		c.factors.UpperTransposed(c.response[i], factored)
		c.factors.Lower(c.effect[i], factored)
	}
	remaining := c.inverse
	for j, response := range c.response[:rows] {
		for i, effect := range c.effect[:rows] {
			remaining[j][i] -= dot(response, effect)
		}
	}
	return c.factor(&remaining)
}

// clear zeroes the positions of v in x.
func (v *sparse) clear(x []float64) {
	for _, k := range v.positions {
		x[2*k], x[2*k+1] = 0, 0
	}
}

// mismatch is that of the solver, without what no step is taken for.
func (o *Outages) mismatch() (worst float64, bus int) {
	s, size := o.s, negligible*cmp.Or(o.opt.Tolerance, DefaultTolerance)
	if !vectors || s.dead != nil || s.rounded || len(s.unknown)+len(s.net.References) != len(s.position) {
		return s.mismatch(size)
	}
	worst, sum := mismatchAVX2(s.position, s.kind, s.ps, s.qs, s.p, s.q, s.lu.rhs, size)
	if sum != sum {
		worst = sum
	}
	return worst, 0
}

// release puts the voltages of buses that have returned to their set-points in the rectangular ones.
func (o *Outages) release() {
	s := o.s
	for _, b := range o.responses.buses {
		if s.released[b] > 0 && s.kind[b] == network.PV {
			sin, cos := math.Sincos(s.va[b])
			o.rows.v[b] = [2]float64{s.vm[b] * cos, s.vm[b] * sin}
		}
	}
}
