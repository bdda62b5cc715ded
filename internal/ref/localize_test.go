package ref_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/internal/ref"
)

func distance(a, b []float64) float64 {
	d := 0.0
	for i := range a {
		d += (a[i] - b[i]) * (a[i] - b[i])
	}
	return math.Sqrt(d)
}

func TestAffineProjectionOfAPointInTheHullIsThePoint(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	for range 100 {
		codes := normals(rng, 4, 7)
		q, w := make([]float64, 7), []float64{0.5, 0.75, -0.5, 0.25}
		for j, z := range codes {
			for i := range q {
				q[i] += w[j] * z[i]
			}
		}
		if d := distance(ref.AffineProjection(q, codes), q); d > 1e-4 {
			t.Errorf("a point of the hull moved by %g", d)
		}
	}
}

func TestAffineProjectionIsOrthogonalToTheHull(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	for range 100 {
		codes, q := normals(rng, 4, 9), normal(rng, 9)
		p := ref.AffineProjection(q, codes)
		for j := 1; j < 4; j++ {
			cross := 0.0
			for i := range q {
				cross += (q[i] - p[i]) * (codes[j][i] - codes[0][i])
			}
			if math.Abs(cross) > 1e-4 {
				t.Errorf("the residual has the product %g with a direction of the hull", cross)
			}
		}
	}
}

func TestAffineProjectionDegenerate(t *testing.T) {
	z := []float64{1, 2}
	if p := ref.AffineProjection([]float64{9, 9}, [][]float64{z}); p[0] != 1 || p[1] != 2 {
		t.Errorf("one code gives %v, want the code", p)
	}
	if p := ref.AffineProjection(z, [][]float64{z, z, z}); p[0] != 1 || p[1] != 2 {
		t.Errorf("codes equal to the query give %v, want the query", p)
	}
	// More codes than dimensions, some repeated: the ridge keeps it solvable.
	if p := ref.AffineProjection([]float64{0.2, 0.3}, [][]float64{{0, 0}, {1, 0}, {0, 1}, {1, 0}, {0, 0}}); distance(p, []float64{0.2, 0.3}) > 1e-4 {
		t.Errorf("a point inside repeated codes gives %v", p)
	}
}

func TestLocalizeReturnsTheNearestConsistentCode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		codes, decoded := normals(rng, 40, 3), normals(rng, 40, 2)
		x, z := normal(rng, 2), normal(rng, 3)
		tau := rapid.Float64Range(0, 3).Draw(t, "tau")
		l := ref.Localize(codes, decoded, x, z, tau, 1)
		for i := range codes {
			r := distance(decoded[i], x) * distance(decoded[i], x)
			switch {
			case l.Consistent && r <= tau && distance(codes[i], z) < distance(codes[l.Nearest], z):
				t.Fatalf("code %d is consistent and nearer than %d", i, l.Nearest)
			case !l.Consistent && (r <= tau || r < l.Residual-1e-12):
				t.Fatalf("code %d has residual %v; reported none below %v, smallest %v", i, r, tau, l.Residual)
			}
		}
		if l.Consistent && !(l.Residual <= tau) {
			t.Fatalf("residual %v of a consistent code, tau %v", l.Residual, tau)
		}
		if distance(l.Z, codes[l.Nearest]) != 0 {
			t.Fatalf("without refinement the point is %v, want the code %v", l.Z, codes[l.Nearest])
		}
		refined := ref.Localize(codes, decoded, x, z, tau, 5)
		if refined.Nearest != l.Nearest || refined.Consistent != l.Consistent {
			t.Fatalf("refinement changed the nearest code")
		}
		if !l.Consistent && distance(refined.Z, l.Z) != 0 {
			t.Fatalf("a point was refined with no consistent code")
		}
		if l.Consistent && distance(refined.Z, z) > distance(l.Z, z)+1e-6 {
			t.Fatalf("the affine hull is farther from the query than its nearest code")
		}
	})
}

func TestNearestTiesGoToTheLowerIndex(t *testing.T) {
	codes := [][]float64{{1, 0}, {0, 1}, {-1, 0}, {0, 0.5}, {0, 1}}
	index, d := ref.NearestCodes(codes, []float64{0, 0}, 5)
	for i, want := range []int{3, 0, 1, 2, 4} {
		if index[i] != want {
			t.Fatalf("order %v, want 3 0 1 2 4", index)
		}
	}
	if d[0] != 0.25 || d[4] != 1 {
		t.Errorf("squared distances %v", d)
	}
	if l := ref.Localize(codes, codes, []float64{0, 0}, []float64{0, 0}, 2, 1); l.Nearest != 3 {
		t.Errorf("nearest %d, want 3", l.Nearest)
	}
	if index, d := ref.NearestCodes(codes, []float64{math.NaN(), 0}, 1); index[0] != -1 || !math.IsNaN(d[0]) {
		t.Errorf("a NaN query gives %v %v, want −1 and NaN", index, d)
	}
	if l := ref.Localize(codes, codes, []float64{0, math.Inf(1)}, []float64{0, 0}, 2, 1); l.Nearest != -1 || l.Consistent || !math.IsNaN(l.Z[0]) {
		t.Errorf("an infinite observation gives %+v, want −1, NaN, not consistent", l)
	}
}
