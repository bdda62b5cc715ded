package backendtest

import (
	"fmt"
	"math"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/tensor"
)

var eigCounts = []int{1, 2, 3, 5}

// metrics draws pullback metrics: JᵀJ + λI of a random Jacobian with n+3 rows.
func metrics(seed uint64, batch, n int) tensor.Matrix {
	rng := newRand(seed)
	g := tensor.New(batch, n*n)
	for b := range batch {
		jac := make([]float64, (n+3)*n)
		for i := range jac {
			jac[i] = rng.NormFloat64() / math.Sqrt(float64(n))
		}
		tensor.Narrow(g.Row(b), ref.PullbackMetric(jac, n, 0.01))
	}
	return g
}

func runEig(b backend.Backend, g tensor.Matrix, n, k int) (values, vectors tensor.Matrix, err error) {
	values, vectors = output(g.Rows, k), output(g.Rows, n*k)
	return values, vectors, b.EigTopK(g, n, k, values, vectors)
}

// eigenpairs checks values against the reference, and vectors by residual,
// orthogonality and sign; single vectors are compared where their eigenvalue is
// apart from all others.
func eigenpairs(g []float32, n, k int, values, vectors []float32) error {
	full, basis := ref.EigTopK(row64(g), n, n)
	scale := math.Max(math.Abs(full[0]), math.Abs(full[n-1]))
	if scale == 0 {
		scale = 1
	}
	v := row64(vectors)
	column := func(j int) []float64 {
		c := make([]float64, n)
		for i := range c {
			c[i] = v[i*k+j]
		}
		return c
	}
	for j := range k {
		if err := tolEigValue.number(float64(values[j]), full[j], scale); err != nil {
			return fmt.Errorf("value %d: %w", j, err)
		}
		if j > 0 && values[j] > values[j-1] {
			return fmt.Errorf("values %d and %d ascend: %v, %v", j-1, j, values[j-1], values[j])
		}
		c := column(j)
		for i := range n {
			gv := 0.0
			for l := range n {
				gv += float64(g[i*n+l]) * c[l]
			}
			if err := tolEigResidual.number(gv-float64(values[j])*c[i], 0, scale); err != nil {
				return fmt.Errorf("vector %d, entry %d: %w", j, i, err)
			}
		}
		for l := 0; l <= j; l++ {
			product, want := 0.0, 0.0
			for i, x := range column(l) {
				product += x * c[i]
			}
			if l == j {
				want = 1
			}
			if err := tolEigOrthogonal.number(product, want, 1); err != nil {
				return fmt.Errorf("vectors %d and %d: %w", l, j, err)
			}
		}
		leader := 0
		for i := range c {
			if math.Abs(c[i]) > math.Abs(c[leader]) {
				leader = i
			}
		}
		if !(c[leader] > 0) {
			return fmt.Errorf("vector %d: its largest-magnitude entry is %v, want it positive", j, c[leader])
		}
		want := make([]float64, n)
		for i := range want {
			want[i] = basis[i*n+j]
		}
		gap := eigenGap(full, j) / scale
		if gap > gapMargin && signLead(want) > signMargin {
			for i := range c {
				if err := tolEigVector.number(c[i], want[i], 1/gap); err != nil {
					return fmt.Errorf("vector %d, entry %d: %w", j, i, err)
				}
			}
		}
	}
	return nil
}

// eigenGap is the distance of eigenvalue j to its nearest neighbour.
func eigenGap(values []float64, j int) float64 {
	gap := math.Inf(1)
	for i, v := range values {
		if i != j {
			gap = math.Min(gap, math.Abs(v-values[j]))
		}
	}
	return gap
}

// signLead is by how much the largest-magnitude entry leads over the largest of
// the other sign: below rounding, the sign convention is a coin toss.
func signLead(v []float64) float64 {
	up, down := 0.0, 0.0
	for _, x := range v {
		up, down = math.Max(up, x), math.Max(down, -x)
	}
	return math.Abs(up - down)
}

func checkEig(t testing.TB, open Open) {
	b := opened(t, open, 0)
	for i, n := range latentSizes {
		for j, k := range eigCounts {
			if k > n {
				continue
			}
			batch := batchSizes[(i+j)%len(batchSizes)]
			if n <= 5 && j == 0 {
				batch = bigBatch
			}
			g := metrics(uint64(600+10*i+j), batch, n)
			values, vectors, err := runEig(b, g, n, k)
			if err != nil {
				t.Errorf("n = %d, k = %d: %v", n, k, err)
				continue
			}
			for r := range batch {
				if err := eigenpairs(g.Row(r), n, k, values.Row(r), vectors.Row(r)); err != nil {
					t.Errorf("n = %d, k = %d, matrix %d of %d: %v", n, k, r, batch, err)
					break
				}
			}
		}
	}
}

// degenerate lists matrices with repeated eigenvalues and other corners.
func degenerate(n int) map[string][]float32 {
	identity := func(scale float32) []float32 {
		g := make([]float32, n*n)
		for i := range n {
			g[i*n+i] = scale
		}
		return g
	}
	// I + vvᵀ: one eigenvalue 1 + n, the others 1; and I − vvᵀ/n, one zero.
	ones, projector := identity(1), identity(1)
	for i := range ones {
		ones[i]++
		projector[i] -= 1 / float32(n)
	}
	graded := identity(0)
	for i := range n {
		graded[i*n+i] = float32(math.Pow(10, -float64(i)/4))
	}
	negative := identity(-1)
	negative[0] = -3
	blocks := identity(2)
	for i := 0; i+1 < n; i += 2 {
		blocks[i*n+i+1], blocks[(i+1)*n+i] = 1, 1
	}
	return map[string][]float32{
		"zero": identity(0), "identity": identity(1), "λI, the metric of a zero Jacobian": identity(1e-4), "tiny": identity(1e-30), "huge": identity(1e15),
		"one above the rest": ones, "projector": projector, "graded diagonal": graded, "negative": negative, "repeated blocks": blocks,
	}
}

func checkEigDegenerate(t testing.TB, open Open) {
	b := opened(t, open, 0)
	for _, n := range latentSizes {
		k := min(n, 3)
		for name, g := range degenerate(n) {
			m := tensor.Matrix{Rows: 1, Cols: n * n, Stride: n * n, Data: g}
			values, vectors, err := runEig(b, m, n, k)
			if err != nil {
				t.Errorf("n = %d, %s: %v", n, name, err)
				continue
			}
			if err := eigenpairs(g, n, k, values.Data, vectors.Data); err != nil {
				t.Errorf("n = %d, %s: %v", n, name, err)
			}
		}
		// A NaN or an infinity in one matrix of a batch: NaN values and zero vectors
		// there, the others bitwise as without it.
		g := metrics(uint64(700+n), 33, n)
		cleanValues, cleanVectors, err := runEig(b, g, n, k)
		require.OK(t, err)
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			const at = 20
			broken := g.Clone()
			broken.Row(at)[n*n-1] = float32(bad)
			values, vectors, err := runEig(b, broken, n, k)
			if err != nil {
				t.Errorf("n = %d, %v entry: %v", n, bad, err)
				continue
			}
			for r := range g.Rows {
				if r == at {
					for j, v := range values.Row(r) {
						if v == v {
							t.Errorf("n = %d, %v entry: value %d is %v, want NaN", n, bad, j, v)
						}
					}
					for j, v := range vectors.Row(r) {
						if v != 0 {
							t.Errorf("n = %d, %v entry: vector entry %d is %v, want 0", n, bad, j, v)
						}
					}
				} else if err := identical(all(values.Row(r), vectors.Row(r)), all(cleanValues.Row(r), cleanVectors.Row(r))); err != nil {
					t.Errorf("n = %d, %v in matrix %d changed matrix %d: %v", n, bad, at, r, err)
				}
			}
		}
		// One matrix for the whole batch, gaps between the outputs' rows.
		one := tensor.Broadcast(g.Row(0), 5)
		wide, wideVectors := strided(output(5, k)), strided(output(5, n*k))
		if err := b.EigTopK(one, n, k, wide, wideVectors); err != nil {
			t.Errorf("n = %d, broadcast: %v", n, err)
			continue
		}
		for r := range 5 {
			if err := eigenpairs(g.Row(0), n, k, wide.Row(r), wideVectors.Row(r)); err != nil {
				t.Errorf("n = %d, broadcast, row %d: %v", n, r, err)
			}
		}
		if !gapsUntouched(wide) || !gapsUntouched(wideVectors) {
			t.Errorf("n = %d: the gaps between the rows of an output were written", n)
		}
	}
}

func checkEigShapes(t testing.TB, open Open) {
	b := opened(t, open, 0)
	g := metrics(790, 4, 3)
	for what, call := range map[string]func() error{
		"k = 0":              func() error { return b.EigTopK(g, 3, 0, tensor.New(4, 0), tensor.New(4, 0)) },
		"k > n":              func() error { return b.EigTopK(g, 3, 4, tensor.New(4, 4), tensor.New(4, 12)) },
		"n of another size":  func() error { return b.EigTopK(g, 4, 2, tensor.New(4, 2), tensor.New(4, 8)) },
		"rows of the values": func() error { return b.EigTopK(g, 3, 2, tensor.New(3, 2), tensor.New(4, 6)) },
		"narrow vectors":     func() error { return b.EigTopK(g, 3, 2, tensor.New(4, 2), tensor.New(4, 5)) },
	} {
		wantError(t, "EigTopK, "+what, call)
	}
}
