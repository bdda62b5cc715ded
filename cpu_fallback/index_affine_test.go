package cpufallback

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/tensor"
)

// The weights are those of the constrained problem: they sum to one, and the
// gradient (G + r·I)·w is the same in every component (the multiplier).
func TestAffineWeightsSatisfyTheKKTConditions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		k := rapid.IntRange(2, MaxNeighbours).Draw(t, "k")
		n := rapid.IntRange(1, 40).Draw(t, "n")
		scale := math.Pow(10, rapid.Float64Range(-6, 6).Draw(t, "scale"))
		q := make([]float32, n)
		codes := tensor.New(k, n)
		for j := range q {
			q[j] = float32(rng.NormFloat64() * scale)
		}
		for i := range codes.Data {
			codes.Data[i] = q[i%n] + float32(rng.NormFloat64()*scale)
		}
		if rapid.Bool().Draw(t, "duplicates") {
			copy(codes.Row(k-1), codes.Row(0))
		}
		out := make([]float32, n)
		p := newAffineProjection(n)
		if !p.affine(q, k, codes.Row, out) {
			t.Fatal("no projection")
		}
		w := p.weights[:k]
		sum, trace := 0.0, 0.0
		gram := make([]float64, k*k)
		for i := range k {
			sum += w[i]
			for j := range k {
				for c := range n {
					gram[i*k+j] += (float64(codes.Row(i)[c]) - float64(q[c])) * (float64(codes.Row(j)[c]) - float64(q[c]))
				}
			}
			trace += gram[i*k+i]
		}
		if !(math.Abs(sum-1) < 1e-9) {
			t.Fatalf("weights sum to %v", sum)
		}
		largest := 0.0
		for _, v := range w {
			largest = max(largest, math.Abs(v))
		}
		first := 0.0
		for i := range k {
			g := affineRidge * trace / float64(k) * w[i]
			for j := range k {
				g += gram[i*k+j] * w[j]
			}
			if i == 0 {
				first = g
			}
			if !(math.Abs(g-first) <= 1e-11*trace*largest) {
				t.Fatalf("multiplier %v in component %d, %v in the first (trace %v)", g, i, first, trace)
			}
		}
		for c := range n {
			point, size := 0.0, 0.0
			for i := range k {
				point += w[i] * float64(codes.Row(i)[c])
				size += math.Abs(w[i] * float64(codes.Row(i)[c]))
			}
			if !(math.Abs(float64(out[c])-point) <= 1e-7*size) {
				t.Fatalf("coordinate %d is %v, want %v", c, out[c], point)
			}
		}
	})
}

func TestAPointOfAFlatPatchIsRecovered(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	const n, flat, k = 16, 3, 10
	basis := tensor.New(flat, n)
	for i := range basis.Data {
		basis.Data[i] = float32(rng.NormFloat64())
	}
	draw := func(out []float32) {
		clear(out)
		for i := range flat {
			t := float32(rng.Float64() - 0.5)
			for j, v := range basis.Row(i) {
				out[j] += t * v
			}
		}
	}
	codes := tensor.New(k, n)
	for i := range k {
		draw(codes.Row(i))
	}
	q, z := make([]float32, n), make([]float32, n)
	draw(q)
	if !newAffineProjection(n).affine(q, k, codes.Row, z) {
		t.Fatal("no projection")
	}
	worst := 0.0
	for j := range q {
		worst = max(worst, math.Abs(float64(q[j]-z[j])))
	}
	if !(worst < 1e-4) {
		t.Fatalf("off by %v", worst)
	}
}

func TestCodesThatAreAllTheQueryGiveTheNearest(t *testing.T) {
	q := []float32{0.3, -2, 1e-7}
	out := make([]float32, 3)
	if newAffineProjection(3).affine(q, 4, func(int) []float32 { return q }, out) || !slices.Equal(out, q) {
		t.Fatalf("got %v, want %v itself", out, q)
	}
}
