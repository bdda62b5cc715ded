package multifrontal

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// pattern fills in a random graph of blocks: the blocks below each one's diagonal.
func pattern(r *rand.Rand, blocks int, edges [][2]int) [][]int {
	meets := make([]map[int]bool, blocks)
	for i := range meets {
		meets[i] = map[int]bool{}
	}
	for _, e := range edges {
		meets[min(e[0], e[1])][max(e[0], e[1])] = true
	}
	below := make([][]int, blocks)
	for k := range blocks {
		for j := range meets[k] {
			below[k] = append(below[k], j)
		}
		slices.Sort(below[k])
		for a, j := range below[k] {
			for _, i := range below[k][a+1:] {
				meets[j][i] = true
			}
		}
	}
	return below
}

// kkt is a random matrix of saddle points: in each block half the variables have zeros on the
// diagonal, or weights of up to eleven orders of magnitude.
func kkt(r *rand.Rand, blocks, size int) (below [][]int, row, col []int32, values []float64, whole *mat.SymDense) {
	var edges [][2]int
	for k := 1; k < blocks; k++ {
		edges = append(edges, [2]int{r.IntN(k), k})
	}
	for range blocks / 2 {
		if i, j := r.IntN(blocks), r.IntN(blocks); i != j {
			edges = append(edges, [2]int{min(i, j), max(i, j)})
		}
	}
	slices.SortFunc(edges, func(a, b [2]int) int { return (a[1]-b[1])*blocks + a[0] - b[0] })
	edges = slices.Compact(edges)
	below = pattern(r, blocks, edges)
	whole = mat.NewSymDense(size*blocks, nil)
	add := func(i, j int, v float64) {
		row, col, values = append(row, int32(i)), append(col, int32(j)), append(values, v)
		whole.SetSym(i, j, v)
	}
	entry := func(i, j int) float64 {
		dual := func(v int) bool { return v%size%2 == 1 }
		switch {
		case i == j && dual(i):
			return 0
		case i == j:
			return math.Pow(10, 11*r.Float64()-1)
		case dual(i) && dual(j):
			return 0
		case dual(i) != dual(j):
			return 10 * r.NormFloat64()
		}
		return 0.1 * r.NormFloat64()
	}
	for b := range blocks {
		for i := range size {
			for j := range i + 1 {
				add(size*b+i, size*b+j, entry(size*b+i, size*b+j))
			}
		}
	}
	for _, e := range edges {
		for i := range size {
			for j := range size {
				add(size*e[1]+i, size*e[0]+j, entry(size*e[1]+i, size*e[0]+j))
			}
		}
	}
	return
}

// The solution's residual is small beside what rounding leaves of each row, and the inertia is
// that of the eigenvalues.
func TestFactorOfSaddlePoints(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	delayed := 0
	for trial := range 60 {
		blocks := 2 + r.IntN(30)
		below, row, col, values, whole := kkt(r, blocks, 4)
		s := Analyse(slices.Repeat([]int{4}, len(below)), 4, below, row, col)
		f := NewFactor(s)
		f.Factor(values, nil)
		delayed += f.Delayed
		n := 4 * blocks
		if want := n / 2; f.Negative != want || f.Zero != 0 {
			t.Errorf("trial %d: %d negative and %d zero pivots, want %d and none", trial, f.Negative, f.Zero, want)
		}
		want, x, b := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range want {
			want[i] = r.NormFloat64()
		}
		s.Multiply(values, want, b)
		copy(x, b)
		f.Solve(x)
		back := make([]float64, n)
		s.Multiply(values, x, back)
		for i := range b {
			size := 0.0
			for j := range n {
				size += math.Abs(whole.At(i, j) * x[j])
			}
			if d := math.Abs(back[i] - b[i]); !(d <= 1e-10*(size+1)) {
				t.Errorf("trial %d: row %d is off by %g of %g", trial, i, d, size)
				break
			}
		}
		// A second factorisation in the same memory, of the negative of the matrix.
		for e := range values {
			values[e] = -values[e]
		}
		f.Factor(values, nil)
		copy(x, b)
		f.Solve(x)
		s.Multiply(values, x, back)
		if f.Negative != n/2 || !(math.Abs(back[0]-b[0]) <= 1e-6*(1+math.Abs(b[0]))) {
			t.Errorf("trial %d: the negative has %d negative pivots, row 0 %g, want %d, %g", trial, f.Negative, back[0], n/2, b[0])
		}
	}
	if delayed == 0 {
		t.Error("no variable was delayed: the test has nothing of it")
	}
}

// Inertia with indefinite primal blocks is that of the eigenvalues.
func TestInertia(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for trial := range 60 {
		below, row, col, values, whole := kkt(r, 2+r.IntN(12), 3)
		for e := range values {
			values[e] = r.NormFloat64()
			whole.SetSym(int(row[e]), int(col[e]), values[e])
		}
		f := NewFactor(Analyse(slices.Repeat([]int{3}, len(below)), 3, below, row, col))
		f.Factor(values, nil)
		var eigen mat.EigenSym
		if !eigen.Factorize(whole, false) {
			t.Fatal("no eigenvalues")
		}
		negative := 0
		for _, v := range eigen.Values(nil) {
			if v < 0 {
				negative++
			}
		}
		if f.Negative != negative || f.Zero != 0 {
			t.Errorf("trial %d: %d negative and %d zero pivots, %d negative eigenvalues", trial, f.Negative, f.Zero, negative)
		}
	}
}

// A matrix without full rank is said to have none.
func TestSingularMatrix(t *testing.T) {
	row, col := []int32{0, 1, 1, 2, 2, 2}, []int32{0, 0, 1, 0, 1, 2}
	f := NewFactor(Analyse([]int{3}, 3, [][]int{nil}, row, col))
	f.Factor([]float64{1, 2, 4, 0, 0, 3}, nil)
	if f.Zero != 1 || f.Negative != 0 {
		t.Errorf("%d zero and %d negative pivots of diag(1 2; 2 4), 3, want 1 and 0", f.Zero, f.Negative)
	}
	// One that is not finite is factored without a pivot that compares.
	f.Factor([]float64{math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()}, nil)
}

// What fronts leave waits for their parents only: the fronts come subtree by subtree, so that
// what waits is a small part of all, and nothing is left at the end.
func TestContributionsWaitBriefly(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	below, row, col, values, _ := kkt(r, 300, 4)
	s := Analyse(slices.Repeat([]int{4}, len(below)), 4, below, row, col)
	all, place := 0, make([]int, len(s.fronts))
	for i, k := range s.order {
		place[k] = i
		all += len(s.fronts[k].below) * len(s.fronts[k].below)
	}
	for k, f := range s.fronts {
		if f.parent >= 0 && place[f.parent] <= place[k] {
			t.Errorf("front %d comes after its parent %d", k, f.parent)
		}
	}
	if len(s.order) != len(s.fronts) || s.stack > all/4 {
		t.Errorf("%d of %d fronts in order, %d numbers wait at once of %d in all, want at most a quarter",
			len(s.order), len(s.fronts), s.stack, all)
	}
	f := NewFactor(s)
	f.Factor(values, nil)
	if f.top != 0 || len(f.stack) > 2*s.stack {
		t.Errorf("%d numbers are left and %d were held, want 0 and at most twice %d", f.top, len(f.stack), s.stack)
	}
}
