package closedloop

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// seriesOf describes episodes whose decisions have these objectives, under (w, 1 − w).
func seriesOf(steps int, w float64, order []int, episodes ...[][2]float64) *Series {
	spec := &domain.Spec{Steps: steps, Objectives: make([]domain.Variable, 2)}
	a := newSeries(spec, spec.Steps)
	for _, number := range order {
		e := &EpisodeRecord{Episode: number}
		for _, j := range episodes[number] {
			e.Lines = append(e.Lines, Line{J: Vector{j[0], j[1]}, Sigma: Vector{w, 1 - w}})
		}
		a.add(e)
	}
	return a.result()
}

// A series has the mean and the quantiles over episodes at each point, whatever order they
// come in, and a point of several decisions has their mean.
func TestSeriesIsOverEpisodes(t *testing.T) {
	var episodes [][][2]float64
	var order []int
	for e := range 11 {
		episodes = append(episodes, [][2]float64{{float64(e), 1}, {float64(2 * e), 3}})
		order = append(order, e)
	}
	s := seriesOf(2, 0.25, order, episodes...)
	if s.Interval != 1 || s.Episodes != 11 || len(s.J) != 2 || len(s.Sigma) != 2 {
		t.Fatalf("%+v", s)
	}
	for name, v := range map[string][2]Vector{
		"mean of J₁":    {s.J[0].Mean, {5, 10}},
		"p10 of J₁":     {s.J[0].P10, {1, 2}},
		"p90 of J₁":     {s.J[0].P90, {9, 18}},
		"total":         {s.Total.Mean, {6, 13}},
		"weighted":      {s.Weighted.Mean, {0.25*5 + 0.75, 0.25*10 + 0.75*3}},
		"priority":      {s.Sigma[1].P90, {0.75, 0.75}},
		"p90 of σ₁J₁+…": {s.Weighted.P90, {0.25*9 + 0.75, 0.25*18 + 0.75*3}},
	} {
		if !slices.Equal(v[0], v[1]) {
			t.Errorf("%s is %v, want %v", name, v[0], v[1])
		}
	}
	slices.Reverse(order)
	text := func(s *Series) string { return string(require.Get(json.Marshal(s))(t)) }
	if a, b := text(s), text(seriesOf(2, 0.25, order, episodes...)); a != b {
		t.Errorf("in another order %s, not %s", b, a)
	}

	long := make([][2]float64, 3*seriesPoints-1)
	for k := range long {
		long[k][0] = float64(k)
	}
	s = seriesOf(len(long), 1, []int{0}, long)
	if s.Interval != 3 || len(s.Total.Mean) != seriesPoints || s.Total.Mean[1] != 4 || s.Total.Mean[seriesPoints-1] != float64(len(long))-1.5 {
		t.Errorf("points of %d decisions: %v", s.Interval, s.Total.Mean)
	}
}

// What is no number is left out, an episode that ends early counts as far as it goes, and a
// number of an episode beyond the bound does not count.
func TestSeriesOfBrokenEpisodes(t *testing.T) {
	nan := math.NaN()
	s := seriesOf(3, 0.5, []int{0, 1, 2}, [][2]float64{{1, 0}, {3, 0}, {5, 0}}, [][2]float64{{3, nan}}, nil)
	if want := (Vector{2, 3, 5}); !slices.Equal(s.J[0].Mean, want) {
		t.Errorf("J₁ is %v, want %v", s.J[0].Mean, want)
	}
	if s.J[1].Mean[0] != 0 || s.Total.Mean[0] != 1 || s.Episodes != 2 {
		t.Errorf("%d episodes, J₂ %v, total %v", s.Episodes, s.J[1].Mean, s.Total.Mean)
	}
	a := newSeries(&domain.Spec{Steps: 1, Objectives: make([]domain.Variable, 1)}, 1)
	a.add(&EpisodeRecord{Episode: seriesEpisodes, Lines: []Line{{J: Vector{1}, Sigma: Vector{1}}}})
	if a.result() != nil {
		t.Error("an episode beyond the bound counts")
	}
}

// Means have eight digits and quantiles four, at any size.
func TestSeriesAreRounded(t *testing.T) {
	for _, unit := range []float64{1, 1e-6, 1e9} {
		v := 0.1234567891 * unit
		s := seriesOf(1, 0.5, []int{0}, [][2]float64{{v, v}})
		for name, c := range map[string][2]float64{"mean": {s.J[0].Mean[0], 0.12345679 * unit}, "p10": {s.J[0].P10[0], 0.1235 * unit}, "p90": {s.J[1].P90[0], 0.1235 * unit}} {
			if math.Abs(c[0]/c[1]-1) > 1e-14 {
				t.Errorf("the %s of %g is %.12g, want %.12g", name, v, c[0], c[1])
			}
		}
	}
}
