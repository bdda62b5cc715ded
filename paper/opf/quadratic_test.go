package opf

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/tensor"
)

// The answer keeps its constraints and satisfies the optimality conditions: x =
// W(Aᵀλ + μ) with λ ≥ 0 complementary to the rows, their elasticity paid, and μ to the
// bounds of x.
func TestLeastChangeIsOptimal(t *testing.T) {
	checkLeastChange(t, (*leastChange).solve)
}

// So does what takes over where blocks go round in circles, alone.
func TestTheDualActiveSetIsOptimal(t *testing.T) {
	checkLeastChange(t, (*leastChange).solveDual)
}

func checkLeastChange(t *testing.T, solve func(p *leastChange, tolerance float64)) {
	rapid.Check(t, func(t *rapid.T) {
		n, rows := rapid.IntRange(1, 12).Draw(t, "n"), rapid.IntRange(0, 24).Draw(t, "rows")
		quarter := func(label string, k int) float64 { return float64(rapid.IntRange(-k, k).Draw(t, label)) / 4 }
		m := &metric{rank: rapid.IntRange(0, 3).Draw(t, "rank")}
		for range n {
			m.diagonal = append(m.diagonal, 0.25+math.Abs(quarter("d", 4)))
		}
		for range n * m.rank {
			m.modes = append(m.modes, quarter("w", 4))
		}
		p := newLeastChange(n)
		p.metric, p.slack = m, rapid.SampledFrom([]float64{1e-7, 1e-3}).Draw(t, "slack")
		p.reset()
		boxes := func() {
			for j := range n {
				p.lo[j], p.hi[j] = -math.Abs(quarter("below", 6)), math.Abs(quarter("above", 6)) // now and then fixed
			}
		}
		boxes()
		solved := rapid.IntRange(0, rows).Draw(t, "at first")
		for k := range rows {
			if k == solved {
				solve(p, 1e-10) // the rest comes to an answer
			}
			row := p.add(quarter("bound", 8))
			for j := range row {
				row[j] = quarter("a", 4)
			}
			p.complete()
		}
		solve(p, 1e-10)
		for range rapid.IntRange(0, 2).Draw(t, "again") { // other bounds
			boxes()
			for k := range p.bound {
				p.bound[k] = quarter("bound", 8)
			}
			solve(p, 1e-10)
		}
		force, largest := make([]float64, n), 1.0
		for k, lambda := range p.lambda {
			violation := p.bound[k] - tensor.Dot(p.row(k), p.x)
			if lambda < 0 || violation-p.slack*lambda > 1e-7 || lambda > 0 && math.Abs(violation-p.slack*lambda) > 1e-7 {
				t.Fatalf("row %d is violated by %v with the multiplier %v", k, violation, lambda)
			}
			tensor.Axpy(lambda, p.row(k), force)
			largest = math.Max(largest, lambda)
		}
		for j, side := range p.side {
			if side != 0 {
				force[j] += p.force[j]
				if p.lo[j] < p.hi[j] && float64(side)*p.force[j] > 0 {
					t.Fatalf("x[%d] is held at %v by %v", j, p.x[j], p.force[j])
				}
			}
			if p.x[j] < p.lo[j]-1e-9 || p.x[j] > p.hi[j]+1e-9 {
				t.Fatalf("x[%d] = %v outside [%v, %v]", j, p.x[j], p.lo[j], p.hi[j])
			}
		}
		w := m.dense()
		for j := range n {
			if want := tensor.Dot(w[j*n:(j+1)*n], force); math.Abs(want-p.x[j]) > 1e-10*largest {
				t.Fatalf("x[%d] is %v, W(Aᵀλ + μ) is %v", j, p.x[j], want)
			}
		}
	})
}

// denseChange solves the program of leastChange by its dual, min ½λᵀ(AWAᵀ + E)λ − bᵀλ over
// λ ≥ 0 with the bounds of x as rows: an active set of one constraint a pivot, every system
// solved from nothing (C. L. Lawson, R. J. Hanson, Solving Least Squares Problems, 1974).
// Rows that no program breaks by more than their own bound may be left out by the caller.
func denseChange(m *metric, slack float64, lo, hi, rows, bound []float64) []float64 {
	n := len(lo)
	var a [][]float64 // W times the normals, and the normals
	var normal [][]float64
	var b, e []float64
	w := m.dense()
	add := func(v []float64, bound, slack float64) {
		wv := make([]float64, n)
		for i := range n {
			wv[i] = tensor.DotInOrder(w[i*n:(i+1)*n], v)
		}
		a, normal, b, e = append(a, wv), append(normal, v), append(b, bound), append(e, slack)
	}
	for j := range n {
		v, opposite := make([]float64, n), make([]float64, n)
		v[j], opposite[j] = 1, -1
		add(v, lo[j], 0)
		add(opposite, -hi[j], 0)
	}
	for k, v := range bound {
		add(rows[k*n:(k+1)*n], v, slack)
	}
	lambda, x, left := make([]float64, len(b)), make([]float64, n), make([]bool, len(b))
	var held []int
	point := func() {
		clear(x)
		for c, v := range lambda {
			tensor.Axpy(v, a[c], x)
		}
	}
	for {
		point()
		worst, at := 1e-12, -1
		for c := range b {
			if v := b[c] - tensor.DotInOrder(normal[c], x); v > worst && lambda[c] == 0 && !left[c] {
				worst, at = v, c
			}
		}
		if at < 0 {
			return x
		}
		held = append(held, at)
		for entering := true; ; entering = false {
			q := len(held)
			gram, to := mat.NewDense(q, q, nil), mat.NewVecDense(q, nil)
			for i, c := range held {
				for l, d := range held {
					gram.Set(i, l, tensor.DotInOrder(a[c], normal[d]))
				}
				gram.Set(i, i, gram.At(i, i)+e[c])
				to.SetVec(i, b[c])
			}
			if err := to.SolveVec(gram, to); err != nil && math.IsInf(float64(err.(mat.Condition)), 1) {
				panic("the reference's system is singular")
			}
			if entering && to.AtVec(q-1) <= 0 { // violated by rounding alone
				left[at] = true
				held = held[:q-1]
				break
			}
			step, first := 1.0, -1
			for i, c := range held {
				if v := to.AtVec(i); v <= 0 && (first < 0 || lambda[c]/(lambda[c]-v) < step) {
					step, first = lambda[c]/(lambda[c]-v), i
				}
			}
			for i, c := range held {
				lambda[c] += step * (to.AtVec(i) - lambda[c])
			}
			if first < 0 {
				clear(left)
				break
			}
			lambda[held[first]] = 0
			held = slices.Delete(held, first, first+1)
		}
	}
}

// Rows that contradict each other share what neither can have.
func TestLeastChangeOfAContradiction(t *testing.T) {
	p := newLeastChange(1)
	p.metric, p.slack, p.lo[0], p.hi[0] = &metric{diagonal: []float64{1}}, 1e-3, -5, 5
	p.reset()
	p.add(1)[0] = 1
	p.complete()
	p.add(1)[0] = -1
	p.complete()
	p.solve(1e-9)
	if math.Abs(p.x[0]) > 1e-9 || math.Abs(p.lambda[0]-1000) > 1e-6 || math.Abs(p.lambda[1]-1000) > 1e-6 {
		t.Errorf("x = %v with the multipliers %v, want the middle", p.x, p.lambda)
	}
}
