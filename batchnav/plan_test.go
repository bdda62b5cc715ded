package batchnav

import (
	"math"
	"slices"
	"testing"
)

// The better plan is the safe one, then one that keeps the limits, then of two that keep them the cheaper, of two that do not the one that fails later,
// then the one of the larger margin. None is better than itself.
func TestTheBetterPlan(t *testing.T) {
	safe, dear := plan{steps: 3, fails: 3, cost: 1, margin: 0.1}, plan{steps: 3, fails: 3, cost: 2, margin: 0.9}
	narrow, dearNarrow := plan{steps: 3, fails: 3, narrow: true}, plan{steps: 3, fails: 3, narrow: true, cost: 1}
	late, early, wide := plan{steps: 3, fails: 2, margin: -9, cost: 5}, plan{steps: 3, fails: 1, margin: -2}, plan{steps: 3, fails: 1, margin: -1, cost: 9}
	order := []*plan{&safe, &dear, &narrow, &dearNarrow, &late, &wide, &early}
	for i, a := range order {
		for j, b := range order {
			if a.better(b) != (i < j) {
				t.Errorf("plan %d is better than %d: %t", i, j, a.better(b))
			}
		}
		if a.safe() != (i < 2) || a.keepsLimits() != (i < 4) {
			t.Errorf("plan %d is safe: %t, keeps its limits: %t", i, a.safe(), a.keepsLimits())
		}
	}
	var none plan
	if none.keepsLimits() || none.safe() {
		t.Error("no plan is safe")
	}
	p := plan{s: []float64{1, 2}, narrow: true, solved: true, fails: 1, steps: 9}
	p.take([]float64{1, 2, 3, 4}, 2)
	if p.steps != 2 || !p.safe() || p.solved || len(p.s) != 0 || !slices.Equal(p.actions, []float64{1, 2, 3, 4}) {
		t.Errorf("%+v", p)
	}
	p.prepend([]float64{8, 9}, []float64{5}, []float64{6})
	if p.steps != 3 || p.fails != 3 || !slices.Equal(p.actions, []float64{8, 9, 1, 2, 3, 4}) || !slices.Equal(p.s, []float64{5}) || !slices.Equal(p.c, []float64{6}) {
		t.Errorf("%+v", p)
	}
	p.continueWith([]float64{1, 2}, 2)
	if p.steps != 2 || !p.safe() || !slices.Equal(p.actions, []float64{0, 0, 1, 2}) || len(p.s) != 1 || !math.IsNaN(p.s[0]) {
		t.Errorf("%+v", p)
	}
	for _, c := range []struct {
		a, b, tolerance float64
		want            bool
	}{{1, 1, 0, true}, {1, 1.5, 0.5, true}, {1.5, 1, 0.5, true}, {1, 1.6, 0.5, false}, {1.6, 1, 0.5, false}, {math.NaN(), 1, 9, false}} {
		if equalWithin([]float64{3, c.a}, []float64{3, c.b}, []float64{0, c.tolerance}) != c.want {
			t.Errorf("%+v", c)
		}
	}
}
