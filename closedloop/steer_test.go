package closedloop

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestHypervolumeOfAStaircase(t *testing.T) {
	got := hypervolume2([][2]float64{{1, 3}, {2, 1}, {2.5, 2}, {5, 0}}, [2]float64{4, 4})
	// {1,3} gives 3×1, {2,1} another 2×2; {2.5,2} is dominated, {5,0} is outside.
	if want := 7.0; math.Abs(got-want) > 1e-12 {
		t.Fatalf("hypervolume %v, want %v", got, want)
	}
}

func TestHypervolumeGrowsWithMorePointsWhateverTheirOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Float64Range(0, 1), 2, 20).Draw(t, "x")
		var points [][2]float64
		for i := 0; i+1 < len(xs); i += 2 {
			points = append(points, [2]float64{xs[i], xs[i+1]})
		}
		ref := [2]float64{1, 1}
		whole := hypervolume2(points, ref)
		if part := hypervolume2(points[1:], ref); part > whole+1e-12 {
			t.Fatalf("%v without a point, %v with it", part, whole)
		}
		reversed := make([][2]float64, len(points))
		for i, p := range points {
			reversed[len(points)-1-i] = p
		}
		if r := hypervolume2(reversed, ref); math.Abs(r-whole) > 1e-12 {
			t.Fatalf("order changes %v to %v", whole, r)
		}
	})
}

// Points on a grid: the volume by counting cells.
func TestHypervolume3CountsCells(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 5
		var points [][3]float64
		for range rapid.IntRange(0, 6).Draw(t, "points") {
			var p [3]float64
			for j := range p {
				p[j] = float64(rapid.IntRange(0, size+1).Draw(t, "coordinate"))
			}
			points = append(points, p)
		}
		cells := 0.0
		for x := range size {
			for y := range size {
				for z := range size {
					for _, p := range points {
						if p[0] <= float64(x) && p[1] <= float64(y) && p[2] <= float64(z) {
							cells++
							break
						}
					}
				}
			}
		}
		if v := hypervolume3(points, [3]float64{size, size, size}); math.Abs(v-cells) > 1e-9 {
			t.Fatalf("volume %v, %v cells", v, cells)
		}
	})
}

func TestAFrontEqualToTheExactOneHasRatioOne(t *testing.T) {
	s := Steering{}
	for _, j := range [][]Number{{1, 4}, {2, 2}, {4, 1}} {
		s.Front = append(s.Front, FrontPoint{W: []float64{0.5, 0.5}, J: j, OracleJ: j, RegretPct: 0.5, Compared: 1})
	}
	s.Summarize()
	if s.HypervolumeRatio != 1 || s.MeanRegretPct != 0.5 || s.WorstRegretPct != 0.5 {
		t.Errorf("ratio %v, mean %v, worst %v", s.HypervolumeRatio, s.MeanRegretPct, s.WorstRegretPct)
	}
	// In units of the box {0, 1}, {1/3, 1/3}, {1, 0} to a reference of 1.1.
	if want := (1.1*0.1 + (1.1-1.0/3)*(1-1.0/3) + 0.1/3) / 1.21; math.Abs(float64(s.Hypervolume)-want) > 1e-12 {
		t.Errorf("hypervolume %v, want %v", s.Hypervolume, want)
	}
}

// What a sweep says of itself is of its own front: the worst preference, the range of
// each objective, and that a front within the exact one encloses less.
func TestASweepIsSummarized(t *testing.T) {
	s := Steering{Front: []FrontPoint{
		{W: []float64{1, 0}, J: []Number{1.5, 4}, OracleJ: []Number{1, 4}, RegretPct: 3, Compared: 1},
		{W: []float64{0, 1}, J: []Number{4, 2}, OracleJ: []Number{4, 1}, RegretPct: 1, Compared: 1},
	}}
	s.Summarize()
	if s.WorstRegretPct != 3 || !slices.Equal(s.WorstW, []float64{1, 0}) || s.MeanRegretPct != 2 {
		t.Errorf("worst %v at %v, mean %v", s.WorstRegretPct, s.WorstW, s.MeanRegretPct)
	}
	if !slices.Equal(s.JRange, [][2]Number{{1.5, 4}, {2, 4}}) || !slices.Equal(s.OracleJRange, [][2]Number{{1, 4}, {1, 4}}) {
		t.Errorf("ranges %v and %v", s.JRange, s.OracleJRange)
	}
	if !(s.HypervolumeRatio > 0 && s.HypervolumeRatio < 1) {
		t.Errorf("hypervolume ratio %v", s.HypervolumeRatio)
	}
	s.Front = append(s.Front, FrontPoint{W: []float64{0.5, 0.5}, J: []Number{Number(math.NaN()), Number(math.NaN())}, OracleJ: []Number{Number(math.NaN()), Number(math.NaN())}, RegretPct: Number(math.NaN())})
	for range s.Front { // wherever it stands
		s.Summarize()
		if !math.IsNaN(float64(s.MeanRegretPct)) || !math.IsNaN(float64(s.WorstRegretPct)) || math.IsNaN(float64(s.HypervolumeRatio)) {
			t.Errorf("a preference without a comparison: mean %v, worst %v, hypervolume ratio %v", s.MeanRegretPct, s.WorstRegretPct, s.HypervolumeRatio)
		}
		s.Front = append(s.Front[1:], s.Front[0])
	}
}

// There are shares of boxes of two and of three objectives, whatever their units, and of no other number.
func TestHypervolumesAreSharesOfBoxesOfTwoAndThree(t *testing.T) {
	for m := 1; m <= 4; m++ {
		for _, unit := range []Number{1, 1e-3, 1e3} {
			box, one := make([][2]Number, m), make([]Number, m)
			for j := range box {
				box[j], one[j] = [2]Number{-2 * unit, 3 * unit}, -2*unit
			}
			got, known := float64(Hypervolume([][]Number{one}, box)), m == 2 || m == 3
			if known != !math.IsNaN(got) || known && math.Abs(got-1) > 1e-12 {
				t.Errorf("%d objectives, unit %g: the ideal point has %g of the box", m, float64(unit), got)
			}
			for j := range one {
				one[j] = 0.5 * unit // the middle
			}
			if got, want := float64(Hypervolume([][]Number{one}, box)), math.Pow(0.6/1.1, float64(m)); known && math.Abs(got-want) > 1e-12 {
				t.Errorf("%d objectives, unit %g: the middle has %g of the box, want %g", m, float64(unit), got, want)
			}
		}
	}
}
