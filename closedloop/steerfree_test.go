package closedloop

import (
	"math"
	"testing"
)

// A preference under which the optimum costs next to nothing has no regret: a share of nothing would be
// a number of thirty digits, and the mean over all preferences would be that number.
func TestANearlyFreeOptimumHasNoRegret(t *testing.T) {
	s := Steering{Front: []FrontPoint{
		{W: []float64{1, 0}, J: []Number{1, 4}, OracleJ: []Number{1, 4}, RegretPct: 3, Compared: 1},
		{W: []float64{0, 1}, J: []Number{4, 1}, OracleJ: []Number{4, 0}, RegretPct: 1e27, Compared: 1},
	}}
	s.free([]float64{2, 1e-28})
	s.Summarize()
	if p := s.Front[1]; !p.Free || !math.IsNaN(float64(p.RegretPct)) {
		t.Errorf("a free optimum has the regret %v %%", p.RegretPct)
	}
	if s.Front[0].Free || s.MeanRegretPct != 3 || s.WorstRegretPct != 3 {
		t.Errorf("mean %v, worst %v, want those of the other preference, 3", s.MeanRegretPct, s.WorstRegretPct)
	}
}
