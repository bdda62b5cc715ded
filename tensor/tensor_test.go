package tensor

import (
	"math"
	"testing"
)

func TestFinite(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if Finite([]float64{1, bad, 2}) || Finite([]float32{1, 2, float32(bad)}) {
			t.Errorf("a row with %v is finite", bad)
		}
	}
	if !Finite([]float64{0, math.MaxFloat64, -math.MaxFloat64}) || !Finite([]float32{math.MaxFloat32, -math.MaxFloat32}) || !Finite[float32](nil) {
		t.Error("a row of numbers is not finite")
	}
}

// The difference is taken in float64, where float32 would overflow or lose it.
func TestSquaredDistance(t *testing.T) {
	a, b := []float32{math.MaxFloat32, 1}, []float32{-math.MaxFloat32, 1 + 1.0/(1<<23), 7}
	const d = 2 * math.MaxFloat32
	if got, want := SquaredDistance(a, b), d*d+math.Pow(2, -46); got != want {
		t.Errorf("‖a − b‖² is %v, want %v", got, want)
	}
	if got := SquaredDistance(a[1:], b[1:]); got != math.Pow(2, -46) {
		t.Errorf("‖a − b‖² is %v, want 2⁻⁴⁶", got)
	}
}
