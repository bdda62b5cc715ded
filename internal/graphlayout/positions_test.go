package graphlayout

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

// ladder is a network of two rows of n buses, with a branch across at each.
func ladder(n int) (branches []domain.ChartBranch) {
	for i := range n {
		branches = append(branches, domain.ChartBranch{From: i, To: n + i})
		if i > 0 {
			branches = append(branches, domain.ChartBranch{From: i - 1, To: i}, domain.ChartBranch{From: n + i - 1, To: n + i})
		}
	}
	return branches
}

// Buses stand where the branches want them, apart from each other, and always at the same positions.
func TestPositions(t *testing.T) {
	const n = 12
	at := Of(2*n, ladder(n))
	if !slices.Equal(at, Of(2*n, ladder(n))) {
		t.Error("one network has two maps")
	}
	d := distances(2*n, ladder(n))
	stress, pairs := 0.0, 0.0
	lo, hi := [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{math.Inf(-1), math.Inf(-1)}
	for i, p := range at {
		for k, v := range p {
			lo[k], hi[k] = min(lo[k], v), max(hi[k], v)
		}
		for j, q := range at[:i] {
			apart := math.Hypot(p[0]-q[0], p[1]-q[1])
			if off := apart/d[i][j] - 1; apart > 0.2 {
				stress, pairs = stress+off*off, pairs+1
			} else {
				t.Errorf("buses %d and %d stand on each other", i, j)
			}
		}
	}
	if stress /= pairs; !(stress < 0.03) {
		t.Errorf("the stress is %v", stress)
	}
	if hi[0]-lo[0] < hi[1]-lo[1] {
		t.Errorf("the map reaches from %v to %v", lo, hi)
	}
	for n, branches := range map[int][]domain.ChartBranch{0: nil, 1: nil, 2: nil, 3: {{From: 0, To: 1}, {From: 1, To: 0}}, 4: {{From: 0, To: 1}, {From: 2, To: 3}}} {
		all := Of(n, branches)
		if len(all) != n {
			t.Errorf("%d positions of %d buses", len(all), n)
		}
		for i, p := range all {
			if math.IsNaN(p[0]+p[1]) || math.IsInf(p[0]+p[1], 0) {
				t.Errorf("bus %d of %d is at %v", i, n, p)
			}
		}
	}
}
