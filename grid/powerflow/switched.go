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
// changes of all rows, those of the branch that is out and of the switched buses. As in Outages.solve, the solution of
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
	// The buses whose kind is not the base's, in the order in which they switched, and the factors of their part of the matrix.
	switched   []int32
	isSwitched []bool
	factors    dense.LU
	// response is what a unit at the row of each switched bus does at the branch's rows, times the upper factor's inverse. effect
	// is the lower one's inverse times what a unit at each of the branch's rows does at the switched buses.
	response, effect [maxRows][]float64
	y                []float64
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
	r.left, r.right, r.products, r.isSwitched = make([]sparse, n), make([]sparse, n), make([][]float64, n), make([]bool, n)
	return r
}

// use computes a bus's vectors.
func (r *responses) use(s *Solver, m int32) {
	if r.products[m] != nil {
		return
	}
	r.products[m] = slices.Repeat([]float64{math.NaN()}, len(r.buses))
	r.path = r.halves(s, m, r.lower, r.upper, r.path)
	left, right := &r.left[m], &r.right[m]
	for _, k := range r.path {
		left.positions, left.values = append(left.positions, k), append(left.values, r.upper[k][0], r.upper[k][columns])
		if l := &r.lower[k]; l[0] != 0 || l[columns] != 0 {
			right.positions, right.values = append(right.positions, k), append(right.values, l[0], l[columns])
		}
	}
}

// halves writes the vectors of a bus in the first columns of halves, which are not zero on a path. It returns the new path.
func (r *responses) halves(s *Solver, m int32, lower, upper []half, path []int32) []int32 {
	for _, k := range path {
		lower[k], upper[k] = half{}, half{}
	}
	r.positions = r.positions[:0]
	for _, e := range r.rows[m] {
		r.positions = append(r.positions, e.column/2)
	}
	path = s.lu.path(path[:0], r.positions)
	lower[s.position[r.buses[m]]][columns] = 1
	for _, e := range r.rows[m] {
		upper[e.column/2][columns*(e.column%2)] = e.value
	}
	s.lu.halves(lower, upper, path)
	return path
}

// reset has no switched bus.
func (r *responses) reset() {
	for _, m := range r.switched {
		r.isSwitched[m] = false
	}
	r.switched = r.switched[:0]
	for i := range r.response {
		r.response[i], r.effect[i] = r.response[i][:0], r.effect[i][:0]
	}
	r.factors.Resize(0)
}

// follow factors the matrix of the buses whose kind is not the base's, and that of the branches' rows in what remains. It
// returns false where that is singular.
func (r *responses) follow(o *Outages) bool {
	s := o.s
	if slices.ContainsFunc(r.switched, func(m int32) bool { b := r.buses[m]; return s.kind[b] == o.kinds[b] }) {
		r.reset()
	}
	factored := len(r.switched)
	for m, b := range r.buses {
		if s.kind[b] != o.kinds[b] && !r.isSwitched[m] {
			r.use(s, int32(m))
			r.isSwitched[m] = true
			r.switched = append(r.switched, int32(m))
		}
	}
	for k := range o.count {
		c := &o.changes[k]
		for i := 1; i < c.n; i += 2 {
			if c.entries[i] = c.reactive[i]; s.kind[s.unknown[c.row[i]/2]] != network.PQ {
				c.entries[i] = [columns]float64{}
			}
		}
	}
	rows := o.rowCount()
	n := len(r.switched)
	r.factors.Resize(n)
	for t, m := range r.switched {
		row, first, isNew := r.factors.Row(t), factored, t >= factored
		if isNew {
			first = 0
			r.right[m].add(1, r.x)
			response := o.branchValues(r.x)
			r.right[m].clear(r.x)
			r.left[m].add(1, r.x)
			var effect [maxRows]float64
			for i := range o.count {
				c, effect := &o.changes[i], effect[columns*i:]
				for _, k := range c.path {
					for i := range columns {
						effect[i] += c.lower[k][i]*r.x[2*k] + c.lower[k][columns+i]*r.x[2*k+1]
					}
				}
			}
			for i := range rows {
				r.response[i], r.effect[i] = append(r.response[i], response[i]), append(r.effect[i], effect[i])
			}
		}
		products, isSpread := r.products[m], isNew
		for j := first; j < n; j++ {
			i := r.switched[j]
			if products[i] != products[i] {
				if !isSpread {
					r.left[m].add(1, r.x)
					isSpread = true
				}
				products[i] = r.right[i].times(r.x)
			}
			row[j] = products[i]
		}
		if isSpread {
			r.left[m].clear(r.x)
		}
		if isNew {
			row[t]++
		}
	}
	r.factors.Factor(factored)
	for i := range rows {
		r.factors.UpperTransposed(r.response[i], factored)
		r.factors.Lower(r.effect[i], factored)
	}
	remaining := o.inverse
	for j, response := range r.response[:rows] {
		for i, effect := range r.effect[:rows] {
			remaining[j][i] -= dot(response, effect)
		}
	}
	return o.factor(&remaining)
}

// clear zeroes the positions of v in x.
func (v *sparse) clear(x []float64) {
	for _, k := range v.positions {
		x[2*k], x[2*k+1] = 0, 0
	}
}

// solve begins a solve with x, which is A⁻¹ times the right-hand side. It takes what the switched buses do out of u, the
// branches' part of B⁻¹x, of a number of rows.
func (r *responses) solve(rows int, x []float64, u *[maxRows]float64) {
	r.y = r.y[:0]
	for _, m := range r.switched {
		r.y = append(r.y, r.left[m].times(x))
	}
	r.factors.Lower(r.y, 0)
	for i, response := range r.response[:rows] {
		u[i] -= dot(response, r.y)
	}
}

// take ends it with the solution y for the branches' rows. It takes the switched rows' part out of x.
func (r *responses) take(rows int, x []float64, y *[maxRows]float64) {
	for i, effect := range r.effect[:rows] {
		for t, v := range effect {
			r.y[t] -= v * y[i]
		}
	}
	r.factors.Upper(r.y)
	for t, m := range r.switched {
		r.right[m].add(-r.y[t], x)
	}
}

// mismatch is that of the solver, without what no step is taken for, with the distance of the voltages that switched to their
// set-points.
func (o *Outages) mismatch() (worst float64, bus int) {
	s, r := o.s, o.responses
	size := negligible * cmp.Or(o.opt.Tolerance, DefaultTolerance)
	if vectors && s.dead == nil && !s.rounded && len(s.unknown)+len(s.net.References) == len(s.position) {
		var sum float64
		if worst, sum = mismatchAVX2(s.position, s.kind, s.ps, s.qs, s.p, s.q, s.lu.rhs, size); sum != sum {
			worst = sum
		}
	} else {
		worst, bus = s.mismatch(size)
	}
	for _, m := range r.switched {
		if b := r.buses[m]; s.kind[b] == network.PV {
			d := s.vset[b]/s.vm[b] - 1
			s.lu.rhs[2*s.position[b]+1] = d
			if math.Abs(d) > worst {
				worst, bus = math.Abs(d), int(b)
			}
		}
	}
	return worst, bus
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
