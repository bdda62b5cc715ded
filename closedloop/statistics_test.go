package closedloop

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The standard error of a ratio is the spread of the ratios of many such samples.
func TestRatioAndError(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n, repeats = 50, 4000
	var ratios []float64
	said := 0.0
	for range repeats {
		var a, b []float64
		for range n {
			y := 1 + 4*rng.Float64()
			a, b = append(a, 0.9*y+0.2*rng.NormFloat64()), append(b, y)
		}
		r, sem := ratioAndError(a, b)
		ratios = append(ratios, r)
		said += sem / repeats
	}
	mean, sem := meanAndError(ratios)
	spread := sem * math.Sqrt(repeats)
	if math.Abs(mean-0.9) > 1e-3 || math.Abs(said/spread-1) > 0.05 {
		t.Errorf("ratio %v, standard error %v; want 0.9 and %v", mean, said, spread)
	}
	if r, sem := ratioAndError([]float64{3}, []float64{2}); r != 1.5 || !math.IsNaN(sem) {
		t.Errorf("one pair gives %v ± %v, want 1.5 and none", r, sem)
	}
}
