package opf

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/tensor"
)

// The answer keeps its constraints and satisfies the optimality conditions: x =
// W Nᵀλ with λ ≥ 0, complementary.
func TestLeastChangeIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, m := rapid.IntRange(1, 8).Draw(t, "n"), rapid.IntRange(0, 20).Draw(t, "m")
		p := newLeastChange(n)
		quarter := func(label string, k int) float64 { return float64(rapid.IntRange(-k, k).Draw(t, label)) / 4 }
		// W = I/4 + RRᵀ of a few columns.
		p.inverse = make([]float64, n*n)
		for j := range n {
			p.inverse[j*n+j] = 0.25
		}
		for range 2 {
			column := make([]float64, n)
			for j := range column {
				column[j] = quarter("w", 4)
			}
			for i := range n {
				for j := range n {
					p.inverse[i*n+j] += column[i] * column[j]
				}
			}
		}
		inside := make([]float64, n) // constraints are drawn so that this point keeps them
		for j := range inside {
			inside[j] = quarter("x", 8)
			p.lo[j], p.hi[j] = inside[j]-math.Abs(quarter("below", 6)), inside[j]+math.Abs(quarter("above", 6))+0.25
		}
		elastic := rapid.Bool().Draw(t, "elastic")
		for range m {
			row := p.add(0, 0)
			size := 0.0
			for j := range row {
				row[j] = quarter("a", 4) // rows nearly but not quite parallel are not asked for
				size += row[j] * row[j]
			}
			if size == 0 {
				row[0] = 1
			}
			k := len(p.bound) - 1
			p.bound[k] = tensor.Dot(row, inside) - math.Abs(quarter("room", 4))
			if elastic {
				p.slack[k] = 1e-3
				p.bound[k] += math.Abs(quarter("raise", 12))
			}
		}
		if !p.solve(1e-9, 2000) {
			t.Fatalf("not solved: %d rows of %d variables", m, n)
		}
		force := make([]float64, n) // Nᵀλ
		for i, c := range p.active {
			if p.multiplier[i] < 0 {
				t.Fatalf("multiplier %v", p.multiplier[i])
			}
			unit := make([]float64, n)
			for j := range force {
				clear(unit)
				unit[j] = 1
				force[j] += p.multiplier[i] * p.along(c, unit)
			}
			if gap := p.violation(c) - p.elasticity(c)*p.multiplier[i]; math.Abs(gap) > 1e-6 {
				t.Fatalf("active constraint %d is off its bound by %v", c, gap)
			}
		}
		for j := range n {
			if want := tensor.Dot(p.inverse[j*n:(j+1)*n], force); math.Abs(want-p.x[j]) > 1e-6*(1+math.Abs(want)) {
				t.Fatalf("x[%d] is %v, WNᵀλ is %v", j, p.x[j], want)
			}
		}
		for c := range 2*n + m {
			if !p.isActive[c] && p.violation(c) > 1e-8 {
				t.Fatalf("constraint %d is violated by %v", c, p.violation(c))
			}
		}
	})
}

func TestLeastChangeReportsContradiction(t *testing.T) {
	p := newLeastChange(1)
	p.inverse, p.lo[0], p.hi[0] = []float64{1}, -5, 5
	p.add(1, 0)[0] = 1
	p.add(1, 0)[0] = -1
	if p.solve(1e-9, 100) {
		t.Fatalf("x ≥ 1 and −x ≥ 1 solved by %v", p.x)
	}
	p.slack[0], p.slack[1] = 1e-3, 1e-3
	if !p.solve(1e-9, 100) || math.Abs(p.x[0]) > 1e-9 {
		t.Fatalf("elastic: x = %v, want the middle", p.x)
	}
}
