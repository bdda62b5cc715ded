package powerflow

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/network"
)

// responses serve power flows with the base factors after buses have switched between PV and PQ. A switch replaces a
// row of the base Jacobian A·B, the identity's by that of the reactive balance or the other way round. With the
// changes D of all rows, those of the branch that is out and of the switched buses, the solution of the changed
// Jacobian is B⁻¹(x − A⁻¹E·(I + D(A·B)⁻¹E)⁻¹·DB⁻¹x), as in Outages.solve. What belongs to the base is kept.
type responses struct {
	buses    []int32 // that may switch
	number   []int32 // by bus, among these
	rows     [][]entry
	left     []sparse    // dᵢB⁻¹ for the changes dᵢ of their rows; empty until they are needed
	right    []sparse    // A⁻¹eⱼ
	of       [][]float64 // their products, by j and i; NaN until they are needed
	switched []switchedBus
	x        []float64 // zeros, two numbers a position
	visited  []bool    // by position
}

// switchedBus is a bus whose kind is not the base's, in the matrix I + D(A·B)⁻¹E of all switched ones, from which the
// branch's rows are eliminated.
type switchedBus struct {
	number int32
	lower  []float64 // its row of the matrix' L, without the diagonal
	upper  []float64 // its column of U
	// At the branch's rows: what the outage changes in the bus's change of its row; the branch's part of A⁻¹e times
	// B⁻¹; the matrix' entries left of it, and above it after the elimination.
	change, response, row, column [columns]float64
	y                             float64
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

// smallestPivot is the smallest pivot of the matrix of switched buses, relative to its entry.
const smallestPivot = 1e-6

// newResponses has the changes of rows at the base, which the solver holds.
func (s *Solver) newResponses() *responses {
	r := &responses{number: make([]int32, s.net.Buses()), x: make([]float64, 2*s.lu.n), visited: make([]bool, s.lu.n)}
	for k, b := range s.unknown {
		if r.number[b] = -1; s.kind[b] != network.PV && s.atLimit[b] == 0 {
			continue
		}
		v2, column := s.vm[b]*s.vm[b], int32(2*k)
		r.number[b] = int32(len(r.buses))
		r.buses = append(r.buses, b)
		r.rows = append(r.rows, []entry{{column, s.p[b] - s.gd[b]*v2}, {column + 1, s.q[b] - s.bd[b]*v2 - 1}})
	}
	for k := range s.pairs {
		p, c, d := &s.pairs[k], s.nn[k], s.h[k]
		if p.block < 0 {
			continue
		}
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
	r.left, r.right, r.of = make([]sparse, n), make([]sparse, n), make([][]float64, n)
	return r
}

// use computes a bus's vectors.
func (r *responses) use(s *Solver, m int32) {
	if r.of[m] != nil {
		return
	}
	r.of[m] = slices.Repeat([]float64{math.NaN()}, len(r.buses))
	k := s.position[r.buses[m]]
	r.x[2*k+1] = 1
	r.right[m] = r.eliminate(s, []int32{k}, func(k int32, l []float64, _ *[4]float64, x, y []float64) {
		for a, row := range s.lu.row[s.lu.start[k]:s.lu.start[k+1]] {
			b := l[8*a+4 : 8*a+8 : 8*a+8]
			y[2*row] -= b[0]*x[0] + b[1]*x[1]
			y[2*row+1] -= b[2]*x[0] + b[3]*x[1]
		}
	})
	var positions []int32
	for _, e := range r.rows[m] {
		r.x[e.column] = e.value
		positions = append(positions, e.column/2)
	}
	r.left[m] = r.eliminate(s, positions, func(k int32, u []float64, i *[4]float64, x, y []float64) {
		x[0], x[1] = i[0]*x[0]+i[2]*x[1], i[1]*x[0]+i[3]*x[1]
		for a, row := range s.lu.row[s.lu.start[k]:s.lu.start[k+1]] {
			b := u[8*a : 8*a+4 : 8*a+4]
			y[2*row] -= b[0]*x[0] + b[2]*x[1]
			y[2*row+1] -= b[1]*x[0] + b[3]*x[1]
		}
	})
}

// eliminate calls step at all positions on the paths of these to the root, with the position's blocks, inverse pivot
// and numbers, and takes the vector out of x.
func (r *responses) eliminate(s *Solver, positions []int32, step func(k int32, blocks []float64, inverse *[4]float64, x, y []float64)) (v sparse) {
	lu := s.lu
	for _, k := range positions {
		for !r.visited[k] {
			r.visited[k] = true
			v.positions = append(v.positions, k)
			if lu.start[k] == lu.start[k+1] {
				break
			}
			k = lu.row[lu.start[k]]
		}
	}
	slices.Sort(v.positions)
	for _, k := range v.positions {
		step(k, lu.data[4*(lu.n+2*int(lu.start[k])):], (*[4]float64)(lu.inverse[4*k:]), r.x[2*k:2*k+2], r.x)
		r.visited[k] = false
	}
	for _, k := range v.positions {
		v.values = append(v.values, r.x[2*k], r.x[2*k+1])
		r.x[2*k], r.x[2*k+1] = 0, 0
	}
	return v
}

// follow factors the matrix of the buses whose kind is not the base's; false for a singular one.
func (r *responses) follow(o *Outages, c *change, factors *smallLU) bool {
	s, n := o.s, 0
	in := make([]bool, len(r.buses))
	for n < len(r.switched) {
		m := r.switched[n].number
		if b := r.buses[m]; s.kind[b] == o.kinds[b] {
			break
		}
		in[m] = true
		n++
	}
	r.switched = r.switched[:n]
	for m, b := range r.buses {
		if s.kind[b] != o.kinds[b] && !in[m] {
			r.append(o, int32(m), c, factors)
		}
	}
	for k := n; k < len(r.switched); k++ {
		t := &r.switched[k]
		for i := range k {
			e := &r.switched[i]
			t.upper = append(t.upper, r.entry(e, t)-dot(e.lower, t.upper))
		}
		for i := range k {
			e := &r.switched[i]
			t.lower = append(t.lower, (r.entry(t, e)-dot(t.lower, e.upper))/e.upper[i])
		}
		diagonal := 1 + r.entry(t, t)
		pivot := diagonal - dot(t.lower, t.upper)
		if !(math.Abs(pivot) > smallestPivot*math.Abs(diagonal)) {
			return false
		}
		t.upper = append(t.upper, pivot)
	}
	return true
}

// append adds a bus to the switched ones.
func (r *responses) append(o *Outages, m int32, c *change, factors *smallLU) {
	s, n := o.s, len(r.switched)
	r.use(s, m)
	r.switched = slices.Grow(r.switched, 1)[:n+1]
	t := &r.switched[n]
	*t = switchedBus{number: m, lower: t.lower[:0], upper: t.upper[:0]}
	place := 2*int(s.position[r.buses[m]]) + 1
	for i := range c.n {
		if c.row[i] == place {
			t.change = c.reactive[i]
		}
	}
	if s.kind[r.buses[m]] == network.PV {
		for i := range t.change {
			t.change[i] *= -1
		}
	}
	r.left[m].add(1, r.x)
	for _, k := range o.path {
		for i := range columns {
			t.row[i] += o.lowerHalves[k][i]*r.x[2*k] + o.lowerHalves[k][columns+i]*r.x[2*k+1]
		}
	}
	r.left[m].clear(r.x)
	for j := range columns {
		for i := range columns {
			t.row[j] += t.change[i] * c.inverse[i][j]
		}
	}
	r.right[m].add(1, r.x)
	t.response = o.branchValues(r.x)
	r.right[m].clear(r.x)
	t.column = c.times(&t.response)
	factors.solve(&t.column)
}

// clear zeroes the positions of v in x.
func (v *sparse) clear(x []float64) {
	for _, k := range v.positions {
		x[2*k], x[2*k+1] = 0, 0
	}
}

// entry is that of the matrix at row i and column j, without the identity's.
func (r *responses) entry(i, j *switchedBus) float64 {
	x := r.of[j.number][i.number]
	if math.IsNaN(x) {
		r.right[j.number].add(1, r.x)
		for k := range r.switched {
			if x := &r.of[j.number][r.switched[k].number]; math.IsNaN(*x) {
				*x = r.left[r.switched[k].number].times(r.x)
			}
		}
		r.right[j.number].clear(r.x)
		x = r.of[j.number][i.number]
	}
	for k := range columns {
		x += i.change[k]*j.response[k] - i.row[k]*j.column[k]
	}
	return x
}

// solve takes the switched rows' part out of x, which is A⁻¹ times the right-hand side. u is the branch's part of B⁻¹x,
// and y the solution for the branch's rows, which it corrects.
func (r *responses) solve(x []float64, u, y *[columns]float64) {
	for i := range r.switched {
		t := &r.switched[i]
		t.y = r.left[t.number].times(x)
		for k := range columns {
			t.y += t.change[k]*u[k] - t.row[k]*y[k]
		}
		for j, l := range t.lower {
			t.y -= l * r.switched[j].y
		}
	}
	for i := len(r.switched) - 1; i >= 0; i-- {
		t := &r.switched[i]
		t.y /= t.upper[i]
		for k, v := range t.upper[:i] {
			r.switched[k].y -= v * t.y
		}
		for k := range columns {
			y[k] -= t.column[k] * t.y
		}
		r.right[t.number].add(-t.y, x)
	}
}

// mismatch is that of the solver with the distance of the voltages that switched to their set-points.
func (r *responses) mismatch(s *Solver) (worst float64, bus int) {
	worst, bus = s.mismatch()
	for i := range r.switched {
		if b := r.buses[r.switched[i].number]; s.kind[b] == network.PV {
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
func (r *responses) release(s *Solver) {
	for _, b := range r.buses {
		if s.released[b] > 0 && s.kind[b] == network.PV {
			sin, cos := math.Sincos(s.va[b])
			s.e[b], s.f[b] = s.vm[b]*cos, s.vm[b]*sin
		}
	}
}
