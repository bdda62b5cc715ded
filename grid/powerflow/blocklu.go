package powerflow

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/internal/elimination"
)

// blockLU factorises a sparse matrix of 2×2 blocks whose pattern is symmetric,
// without pivoting between blocks: A = (I + L)·D·(I + U) up to the order of
// elimination. The pattern, the order and the place every update goes to are
// found once; factorise and solve then run over index lists and allocate
// nothing.
type blockLU struct {
	n     int
	place []int32 // position in the order, by vertex
	// The blocks left of step k have indices start[k]..start[k+1]: row[…] is the
	// position of the other vertex.
	start []int32
	row   []int32
	// data holds the blocks, four numbers each, row-major: the n diagonal ones,
	// then for each index t above the one right of the diagonal (upper), then
	// the ones below (lower), so that a triangular solve reads its half alone.
	data []float64
	// inverse holds the inverted pivots.
	inverse []float64
	// target lists, step by step, row by row, the blocks the updates go to.
	target []int32
	rhs    []float64
}

func (f *blockLU) upper(t int32) int32 { return int32(f.n) + t }
func (f *blockLU) lower(t int32) int32 { return int32(f.n+len(f.row)) + t }

// rightOf are the blocks right of step k's diagonal, and columnOf those below it.
func (f *blockLU) rightOf(k int) []float64 {
	return f.data[4*f.upper(f.start[k]) : 4*f.upper(f.start[k+1])]
}
func (f *blockLU) columnOf(k int) []float64 {
	return f.data[4*f.lower(f.start[k]) : 4*f.lower(f.start[k+1])]
}

// newBlockLU analyses the matrix whose off-diagonal blocks are (i, j) and
// (j, i) for each edge; edges may repeat.
func newBlockLU(n int, edges [][2]int) *blockLU {
	order := elimination.MinimumDegree(n, edges, nil)
	f := &blockLU{n: n, place: make([]int32, n), start: make([]int32, n+1)}
	for v, k := range order.Position {
		f.place[v] = int32(k)
	}
	for k, column := range order.Below {
		for _, r := range column {
			f.row = append(f.row, int32(r))
		}
		f.start[k+1] = int32(len(f.row))
	}
	f.data = make([]float64, 4*(n+2*len(f.row)))
	f.inverse = make([]float64, 4*n)
	f.rhs = make([]float64, 2*n)
	for k := range n {
		neighbours := f.row[f.start[k]:f.start[k+1]]
		for _, i := range neighbours {
			for _, j := range neighbours {
				f.target = append(f.target, f.find(i, j))
			}
		}
	}
	return f
}

// find is the block of row position i and column position j.
func (f *blockLU) find(i, j int32) int32 {
	if i == j {
		return i
	}
	k, later := min(i, j), max(i, j)
	index, ok := slices.BinarySearch(f.row[f.start[k]:f.start[k+1]], later)
	if !ok {
		panic("powerflow: a block outside the pattern")
	}
	t := f.start[k] + int32(index)
	if i < j {
		return f.upper(t)
	}
	return f.lower(t)
}

// block is the index of the block at vertices (i, j), for data[4*index:].
func (f *blockLU) block(i, j int32) int32 { return f.find(f.place[i], f.place[j]) }

// factorise replaces the matrix in data by its factors. It returns false when a
// pivot block is singular or not a number.
func (f *blockLU) factorise() bool {
	data, target := f.data, f.target
	for k := range f.n {
		d := data[4*k : 4*k+4 : 4*k+4]
		det := d[0]*d[3] - d[1]*d[2]
		scale := math.Abs(d[0]*d[3]) + math.Abs(d[1]*d[2])
		if !(math.Abs(det) > 1e-14*scale) || math.IsInf(scale, 1) {
			return false
		}
		inv := f.inverse[4*k : 4*k+4 : 4*k+4]
		inv[0], inv[1], inv[2], inv[3] = d[3]/det, -d[1]/det, -d[2]/det, d[0]/det
		i0, i1, i2, i3 := inv[0], inv[1], inv[2], inv[3]
		from, to := int(f.start[k]), int(f.start[k+1])
		m := to - from
		right, column := f.rightOf(k), f.columnOf(k)
		if vectors {
			eliminateAVX2(column, right, data, target[:m*m], (*[4]float64)(inv))
			target = target[m*m:]
			continue
		}
		for a := 0; a < m; a++ {
			l := column[4*a : 4*a+4 : 4*a+4]
			l0, l1 := l[0]*i0+l[1]*i2, l[0]*i1+l[1]*i3
			l2, l3 := l[2]*i0+l[3]*i2, l[2]*i1+l[3]*i3
			l[0], l[1], l[2], l[3] = l0, l1, l2, l3
			for b, t := range target[:m] {
				u := right[4*b : 4*b+4 : 4*b+4]
				x := data[4*t : 4*t+4 : 4*t+4]
				x[0] -= l0*u[0] + l1*u[2]
				x[1] -= l0*u[1] + l1*u[3]
				x[2] -= l2*u[0] + l3*u[2]
				x[3] -= l2*u[1] + l3*u[3]
			}
			target = target[m:]
		}
	}
	return true
}

// negative says whether the determinant of the factorised matrix is below 0.
func (f *blockLU) negative() bool {
	sign := false
	for k := range f.n {
		d := f.inverse[4*k : 4*k+4 : 4*k+4]
		sign = sign != (d[0]*d[3] < d[1]*d[2])
	}
	return sign
}

// solve overwrites rhs, two numbers a position, with the solution.
func (f *blockLU) solve() {
	f.forward()
	f.backward()
}

// forward overwrites rhs with (I + L)⁻¹ of it. Positions whose numbers are still zero cost nothing.
func (f *blockLU) forward() {
	x := f.rhs
	if vectors {
		forwardAVX2(f.start, f.row, f.data[4*f.lower(0):], x)
		return
	}
	for k := range f.n {
		y0, y1 := x[2*k], x[2*k+1]
		if y0 == 0 && y1 == 0 {
			continue
		}
		column := f.columnOf(k)
		for a, r := range f.row[f.start[k]:f.start[k+1]] {
			l := column[4*a : 4*a+4 : 4*a+4]
			x[2*r] -= l[0]*y0 + l[1]*y1
			x[2*r+1] -= l[2]*y0 + l[3]*y1
		}
	}
}

// backward overwrites rhs with (D + U)⁻¹ of it.
func (f *blockLU) backward() {
	x := f.rhs
	if vectors {
		backwardAVX2(f.start, f.row, f.data[4*f.upper(0):], f.inverse, x)
		return
	}
	for k := f.n - 1; k >= 0; k-- {
		var sums [4]float64
		right := f.rightOf(k)
		for b, r := range f.row[f.start[k]:f.start[k+1]] {
			u := (*[4]float64)(right[4*b:])
			sums[0] += u[0] * x[2*r]
			sums[1] += u[1] * x[2*r+1]
			sums[2] += u[2] * x[2*r]
			sums[3] += u[3] * x[2*r+1]
		}
		y0, y1 := x[2*k]-(sums[0]+sums[1]), x[2*k+1]-(sums[2]+sums[3])
		inv := f.inverse[4*k : 4*k+4 : 4*k+4]
		x[2*k], x[2*k+1] = inv[0]*y0+inv[1]*y1, inv[2]*y0+inv[3]*y1
	}
}

// path appends, in ascending order, the positions on the paths of some to the root of the elimination tree, which it overwrites.
// A position's parent is the first position that it is connected to. Their elimination touches no other position.
func (f *blockLU) path(list, positions []int32) []int32 {
	root := int32(f.n)
	for k := slices.Min(positions); k != root; k = slices.Min(positions) {
		list = append(list, k)
		parent := root
		if f.start[k] < f.start[k+1] {
			parent = f.row[f.start[k]]
		}
		for i, p := range positions {
			if p == k {
				positions[i] = parent
			}
		}
	}
	return list
}

// columns is the number of columns of halves: a branch changes at most that many rows.
const columns = 4

// half is the two rows of a position in several columns: the first row of every column, then the second.
type half [2 * columns]float64

// halves overwrites columns of the identity by (I + L)⁻¹ and by (D + U)⁻ᵀ of them. Only positions of the path are
// not zero.
func (f *blockLU) halves(lowerHalves, upperHalves []half, path []int32) {
	if vectors {
		halvesAVX2(lowerHalves, upperHalves, path, f.start, f.row, f.data[4*f.upper(0):], f.data[4*f.lower(0):], f.inverse)
		return
	}
	for _, k := range path {
		y, z, i := &lowerHalves[k], &upperHalves[k], (*[4]float64)(f.inverse[4*k:])
		for c := range columns {
			z[c], z[columns+c] = i[0]*z[c]+i[2]*z[columns+c], i[1]*z[c]+i[3]*z[columns+c]
		}
		right, column := f.rightOf(int(k)), f.columnOf(int(k))
		for a, r := range f.row[f.start[k]:f.start[k+1]] {
			u, l := (*[4]float64)(right[4*a:]), (*[4]float64)(column[4*a:])
			x, v := &lowerHalves[r], &upperHalves[r]
			for c := range columns {
				x[c] -= l[0]*y[c] + l[1]*y[columns+c]
				x[columns+c] -= l[2]*y[c] + l[3]*y[columns+c]
				v[c] -= u[0]*z[c] + u[2]*z[columns+c]
				v[columns+c] -= u[1]*z[c] + u[3]*z[columns+c]
			}
		}
	}
}

// closure lists, in ascending order, positions and all that solveTransposed reads on the way back to them.
func (f *blockLU) closure(positions []int32) (list []int32) {
	needed := make([]bool, f.n)
	for _, k := range positions {
		needed[k] = true
	}
	for k := range f.n {
		if needed[k] {
			list = append(list, int32(k))
			for _, r := range f.row[f.start[k]:f.start[k+1]] {
				needed[r] = true
			}
		}
	}
	return list
}

// RightHandSides is the number of right-hand sides of solveTransposed: their sums are independent, and the factors
// are read once.
const RightHandSides = 4

// solveTransposed overwrites right-hand sides of the transposed system with the solutions at the positions of back,
// a closure. The other positions are undefined. x has a position's first number of every right-hand side, then the
// second. Positions whose numbers are still zero cost nothing.
func (f *blockLU) solveTransposed(x []float64, back []int32) {
	for k := range f.n {
		y := (*[2 * RightHandSides]float64)(x[2*RightHandSides*k:])
		if y[0] == 0 && y[1] == 0 && y[2] == 0 && y[3] == 0 && y[4] == 0 && y[5] == 0 && y[6] == 0 && y[7] == 0 {
			continue
		}
		inv := (*[4]float64)(f.inverse[4*k:])
		a0, a1, a2, a3 := inv[0]*y[0]+inv[2]*y[4], inv[0]*y[1]+inv[2]*y[5], inv[0]*y[2]+inv[2]*y[6], inv[0]*y[3]+inv[2]*y[7]
		b0, b1, b2, b3 := inv[1]*y[0]+inv[3]*y[4], inv[1]*y[1]+inv[3]*y[5], inv[1]*y[2]+inv[3]*y[6], inv[1]*y[3]+inv[3]*y[7]
		*y = [2 * RightHandSides]float64{a0, a1, a2, a3, b0, b1, b2, b3}
		right := f.rightOf(k)
		for b, r := range f.row[f.start[k]:f.start[k+1]] {
			u := (*[4]float64)(right[4*b:])
			v := (*[2 * RightHandSides]float64)(x[2*RightHandSides*r:])
			v[0] -= u[0]*a0 + u[2]*b0
			v[1] -= u[0]*a1 + u[2]*b1
			v[2] -= u[0]*a2 + u[2]*b2
			v[3] -= u[0]*a3 + u[2]*b3
			v[4] -= u[1]*a0 + u[3]*b0
			v[5] -= u[1]*a1 + u[3]*b1
			v[6] -= u[1]*a2 + u[3]*b2
			v[7] -= u[1]*a3 + u[3]*b3
		}
	}
	for i := len(back) - 1; i >= 0; i-- {
		k := back[i]
		y := (*[2 * RightHandSides]float64)(x[2*RightHandSides*k:])
		a0, a1, a2, a3, b0, b1, b2, b3 := y[0], y[1], y[2], y[3], y[4], y[5], y[6], y[7]
		column := f.columnOf(int(k))
		for a, r := range f.row[f.start[k]:f.start[k+1]] {
			l := (*[4]float64)(column[4*a:])
			v := (*[2 * RightHandSides]float64)(x[2*RightHandSides*r:])
			a0 -= l[0]*v[0] + l[2]*v[4]
			a1 -= l[0]*v[1] + l[2]*v[5]
			a2 -= l[0]*v[2] + l[2]*v[6]
			a3 -= l[0]*v[3] + l[2]*v[7]
			b0 -= l[1]*v[0] + l[3]*v[4]
			b1 -= l[1]*v[1] + l[3]*v[5]
			b2 -= l[1]*v[2] + l[3]*v[6]
			b3 -= l[1]*v[3] + l[3]*v[7]
		}
		*y = [2 * RightHandSides]float64{a0, a1, a2, a3, b0, b1, b2, b3}
	}
}
