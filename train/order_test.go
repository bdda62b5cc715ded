package train

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestCosineSchedule(t *testing.T) {
	if r := cosine(0.5, 0, 100); r != 0.5 {
		t.Errorf("first rate %v", r)
	}
	if r := cosine(0.5, 50, 100); math.Abs(r-0.25) > 1e-15 {
		t.Errorf("rate at half time %v, want half", r)
	}
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(1, 1000).Draw(t, "total")
		step := rapid.IntRange(0, total-1).Draw(t, "step")
		a, b := cosine(1, step, total), cosine(1, step+1, total)
		if !(a > b) || !(b >= 0) {
			t.Fatalf("rates %v, %v at step %d of %d: want them to fall to 0", a, b, step, total)
		}
	})
}
