package batchnav

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

func TestChoice(t *testing.T) {
	nan, inf, spec := math.NaN(), math.Inf(1), &domain.Spec{MarginTolerance: 0.1}
	for name, c := range map[string]struct {
		cost, margin []float64
		index        int
		feasible     bool
		count        int
	}{
		"least cost":                {[]float64{3, 1, 2}, []float64{0, 0, 0}, 1, true, 3},
		"tie":                       {[]float64{3, 1, 1}, []float64{0, 0, 9}, 1, true, 3},
		"cheaper but infeasible":    {[]float64{3, 1, 2}, []float64{0, -1, 0}, 2, true, 2},
		"within the tolerance":      {[]float64{3, 1, 2}, []float64{0, -0.05, 0}, 1, true, 3},
		"no cost":                   {[]float64{nan, 5, inf}, []float64{0, 0, 0}, 1, true, 2},
		"no margin":                 {[]float64{1, 2, 3}, []float64{nan, nan, 0}, 2, true, 1},
		"none feasible":             {[]float64{1, 2, 3}, []float64{-3, -1, -1}, 1, false, 0},
		"none feasible, one lost":   {[]float64{1, 2, 3}, []float64{nan, -inf, -2}, 2, false, 0},
		"nothing is known of any":   {[]float64{1, 2, 3}, []float64{nan, nan, nan}, 0, false, 0},
		"wide margin without costs": {[]float64{nan, nan, nan}, []float64{1, 3, 2}, 1, false, 0},
	} {
		b := domain.PlanBatch{Plans: tensor.New(3, 1), Projected: []float64{10, 11, 12}, Cost: c.cost, Margin: c.margin}
		got := choose(&b, []domain.Source{domain.SourceLocalized, domain.SourcePrevious, domain.SourcePrevious}, spec)
		if got.Index != c.index || got.Feasible != c.feasible || got.FeasibleCount != c.count || got.U[0] != b.Projected[c.index] {
			t.Errorf("%s: candidate %d, feasible %v of %d, plan %v, want %d, %v of %d", name, got.Index, got.Feasible, got.FeasibleCount, got.U, c.index, c.feasible, c.count)
		}
	}
	b := domain.PlanBatch{Plans: tensor.New(4, 1), Projected: make([]float64, 4), Cost: []float64{3, 4, 8, 1}, Margin: []float64{0, 0, 0, -1}}
	got := choose(&b, []domain.Source{domain.SourceNoise, domain.SourceNoise, domain.SourcePrevious, domain.SourceNoise}, spec)
	want := [domain.Sources]SourceStatistics{domain.SourceNoise: {Candidates: 3, Feasible: 2, BestCost: 3, MeanCost: 3.5}, domain.SourcePrevious: {Candidates: 1, Feasible: 1, BestCost: 8, MeanCost: 8}}
	if got.Sources != want || got.LocalizedCost != 4 || got.Source != domain.SourceNoise {
		t.Errorf("sources %+v, the localized code costs %v, the winner is from %v, want %+v, 4 and noise", got.Sources, got.LocalizedCost, got.Source, want)
	}
}

// The nearest point is the one that exceeds its bounds the least, as a share of the front, of those that are feasible and not dominated. It
// is the same in any unit. What comes first outweighs the rest, whatever else it costs; an objective that all points have alike counts for
// nothing, and one without a bound neither.
func TestTheNearestPointExceedsItsBoundsTheLeast(t *testing.T) {
	inf := math.Inf(1)
	for _, unit := range []float64{1, 1e3, 1e-3} {
		f := Front{Ideal: []float64{0, 0, 5 * unit}, Nadir: []float64{10 * unit, 4 * unit, 5 * unit}}
		for _, j := range [][2]float64{{0, 4}, {3, 2}, {6, 1}, {10, 0}} {
			f.Points = append(f.Points, FrontPoint{J: []float64{j[0] * unit, j[1] * unit, 5 * unit}, Feasible: true})
		}
		f.Points = append(f.Points, FrontPoint{J: []float64{0, 0, 0}}, FrontPoint{J: []float64{0, 0, 0}, Feasible: true, Dominated: true})
		for _, c := range []struct {
			bounds []float64
			first  []int
			want   int
		}{
			{[]float64{0, inf, 0}, nil, 0}, {[]float64{inf, 0, 0}, nil, 3}, {[]float64{inf, inf, inf}, nil, 0},
			{[]float64{2, 1, 9}, nil, 1},         // over by 0.75, 0.1 + 0.25, 0.4 and 0.8
			{[]float64{4, 0.5, 0}, nil, 2},       // 0.875, 0.375, 0.2 + 0.125 and 0.6
			{[]float64{2, 1, 9}, []int{0, 1}, 0}, // the first as far as it goes
			{[]float64{2, 1, 9}, []int{1, 0}, 2}, // the second, then the first
			{[]float64{6, 0, 0}, []int{1, 0, 2}, 3},
		} {
			bounds := []float64{c.bounds[0] * unit, c.bounds[1] * unit, c.bounds[2] * unit}
			if got := f.nearest(bounds, c.first...); got != c.want {
				t.Errorf("bounds %v, first %v: point %d, want %d", bounds, c.first, got, c.want)
			}
		}
		f.Points = f.Points[4:]
		if got := f.nearest([]float64{1, 1, 1}); got != -1 {
			t.Errorf("of no point: %d", got)
		}
	}
}
