package opf

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/tensor"
)

// The answer keeps its constraints and satisfies the optimality conditions: x =
// W(Aᵀλ + μ) with λ ≥ 0 complementary to the rows, their elasticity paid, and μ to the
// bounds of x.
func TestLeastChangeIsOptimal(t *testing.T) {
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
				p.solve(1e-10) // the rest comes to an answer
			}
			row := p.add(quarter("bound", 8))
			for j := range row {
				row[j] = quarter("a", 4)
			}
			p.known()
		}
		p.solve(1e-10)
		for range rapid.IntRange(0, 2).Draw(t, "again") { // other bounds, some rows without one
			p.again()
			boxes()
			for k := range p.bound {
				if rapid.Bool().Draw(t, "bounds") {
					p.bound[k] = quarter("bound", 8)
				}
			}
			p.drop()
			p.solve(1e-10)
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

// Rows that contradict each other share what neither can have.
func TestLeastChangeOfAContradiction(t *testing.T) {
	p := newLeastChange(1)
	p.metric, p.slack, p.lo[0], p.hi[0] = &metric{diagonal: []float64{1}}, 1e-3, -5, 5
	p.reset()
	p.add(1)[0] = 1
	p.known()
	p.add(1)[0] = -1
	p.known()
	p.solve(1e-9)
	if math.Abs(p.x[0]) > 1e-9 || math.Abs(p.lambda[0]-1000) > 1e-6 || math.Abs(p.lambda[1]-1000) > 1e-6 {
		t.Errorf("x = %v with the multipliers %v, want the middle", p.x, p.lambda)
	}
}
