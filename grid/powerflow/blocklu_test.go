package powerflow

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestFactorsSolve: on random graphs, the residuals of the solved system and of the
// solved transposed system are those of rounding.
func TestFactorsSolve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n")
		count := rapid.IntRange(0, 3*n).Draw(t, "edges")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		var edges [][2]int
		for range count {
			i, j := rng.IntN(n), rng.IntN(n)
			if i != j {
				edges = append(edges, [2]int{i, j})
			}
		}
		f := newBlockLU(n, edges)
		dense := make([][]float64, 2*n)
		for i := range dense {
			dense[i] = make([]float64, 2*n)
		}
		set := func(i, j int32) {
			x := f.data[4*f.block(i, j):]
			for a := range 2 {
				for b := range 2 {
					v := rng.NormFloat64()
					if i == j && a == b {
						v += 30 // diagonally dominant: no pivoting is needed
					}
					x[2*a+b] = v
					dense[2*i+int32(a)][2*j+int32(b)] = v
				}
			}
		}
		for i := range n {
			set(int32(i), int32(i))
		}
		for _, e := range edges {
			set(int32(e[0]), int32(e[1]))
			set(int32(e[1]), int32(e[0]))
		}
		rhs := make([]float64, 2*n)
		for i := range rhs {
			rhs[i] = rng.NormFloat64()
			f.rhs[2*f.place[i/2]+int32(i%2)] = rhs[i]
		}
		if !f.factorise() {
			t.Fatal("a dominant matrix was called singular")
		}
		f.solve()
		for i, row := range dense {
			r := -rhs[i]
			for j, a := range row {
				r += a * f.rhs[2*f.place[j/2]+int32(j%2)]
			}
			if !(math.Abs(r) < 1e-12) {
				t.Fatalf("row %d: residual %g", i, r)
			}
		}
		beside := make([]float64, 2*RightHandSides*n)
		each := make([][]float64, RightHandSides)
		for k := range each {
			each[k] = make([]float64, 2*n)
			for i := range rhs {
				if (i+k)%3 == 0 { // zeros are passed over
					each[k][i] = rng.NormFloat64()
				}
				beside[RightHandSides*(2*int(f.place[i/2])+i%2)+k] = each[k][i]
			}
		}
		part := append([]float64(nil), beside...)
		var all, some []int32
		for k := range int32(n) {
			if all = append(all, k); rng.IntN(4) == 0 {
				some = append(some, k)
			}
		}
		f.solveTransposed(beside, f.closure(all))
		for k := range each {
			for j := range dense {
				r := -each[k][j]
				for i, row := range dense {
					r += row[j] * beside[RightHandSides*(2*int(f.place[i/2])+i%2)+k]
				}
				if !(math.Abs(r) < 1e-12) {
					t.Fatalf("column %d: residual %g of the transposed system", j, r)
				}
			}
		}
		f.solveTransposed(part, f.closure(some))
		for _, k := range some {
			for i := 2 * RightHandSides * k; i < 2*RightHandSides*(k+1); i++ {
				if part[i] != beside[i] {
					t.Fatalf("position %d has %g among some, %g among all", k, part[i], beside[i])
				}
			}
		}
	})
}

// TestSingularPivotIsSeen: also when it is not a number.
func TestSingularPivotIsSeen(t *testing.T) {
	for _, block := range [][4]float64{{1, 2, 2, 4}, {0, 0, 0, 0}, {math.NaN(), 0, 0, 1}, {math.Inf(1), 0, 0, 1}} {
		f := newBlockLU(1, nil)
		copy(f.data, block[:])
		if f.factorise() {
			t.Errorf("%v was factorised", block)
		}
	}
}

// TestATreeHasNoFill: minimum degree eliminates leaves first.
func TestATreeHasNoFill(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const n = 200
	var edges [][2]int
	for i := 1; i < n; i++ {
		edges = append(edges, [2]int{i, rng.IntN(i)})
	}
	if f := newBlockLU(n, edges); len(f.row) != n-1 {
		t.Errorf("%d blocks a side for a tree of %d edges", len(f.row), n-1)
	}
}
