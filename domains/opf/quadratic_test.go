package opf

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The answer keeps its rows and satisfies the optimality conditions: x = W Nᵀλ
// with λ ≥ 0, complementary.
func TestLeastChangeIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, m := rapid.IntRange(1, 8).Draw(t, "n"), rapid.IntRange(0, 20).Draw(t, "m")
		p := newLeastChange(n)
		for j := range p.weight {
			p.weight[j] = rapid.Float64Range(0.1, 4).Draw(t, "w")
		}
		inside := make([]float64, n) // rows are drawn so that this point keeps them
		for j := range inside {
			inside[j] = rapid.Float64Range(-2, 2).Draw(t, "x")
		}
		elastic := rapid.Bool().Draw(t, "elastic")
		for range m {
			row := p.add(0, 0)
			size := 0.0
			for j := range row {
				row[j] = float64(rapid.IntRange(-4, 4).Draw(t, "a")) / 4 // rows nearly but not quite parallel are not asked for
				size += row[j] * row[j]
			}
			if size < 1e-2 {
				row[0] = 1
			}
			k := len(p.bound) - 1
			p.bound[k] = dot(row, inside) - rapid.Float64Range(0, 1).Draw(t, "room")
			if elastic {
				p.slack[k] = 1e-3
				p.bound[k] += rapid.Float64Range(0, 3).Draw(t, "raise")
			}
		}
		if !p.solve(1e-9, 1000) {
			t.Fatalf("not solved: %d rows of %d variables", m, n)
		}
		want := make([]float64, n)
		for i, k := range p.active {
			if p.multiplier[i] < 0 {
				t.Fatalf("multiplier %v", p.multiplier[i])
			}
			for j := range want {
				want[j] += p.weight[j] * p.multiplier[i] * p.row(k)[j]
			}
			if gap := p.bound[k] - dot(p.row(k), p.x) - p.slack[k]*p.multiplier[i]; math.Abs(gap) > 1e-6 {
				t.Fatalf("active row %d is off its bound by %v", k, gap)
			}
		}
		for j := range want {
			if math.Abs(want[j]-p.x[j]) > 1e-6 {
				t.Fatalf("x[%d] is %v, WNᵀλ is %v", j, p.x[j], want[j])
			}
		}
		for k := range m {
			if !p.isActive[k] && p.bound[k]-dot(p.row(k), p.x) > 1e-8 {
				t.Fatalf("row %d is violated by %v", k, p.bound[k]-dot(p.row(k), p.x))
			}
		}
	})
}

func TestLeastChangeReportsContradiction(t *testing.T) {
	p := newLeastChange(1)
	p.weight[0] = 1
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
