package train

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/tensor"
)

// Over many steps the drawn, weighted neighbours average to the whole
// neighbourhood's kernel.
func TestDrawnNeighboursAreUnbiased(t *testing.T) {
	s := toySet(t, toyOptions(cpu(t), 20))
	for _, perStep := range []int{1, 3} {
		n, err := newNeighbourhood(s.Training.X, s.Train, 5, perStep)
		if err != nil {
			t.Fatal(err)
		}
		row := s.Train[11]
		sum := map[int32]float64{}
		const draws = 40000
		for step := range draws {
			n.drawEpoch([]int32{row}, 1, 9, step)
			ids, kernel := n.drawnFor(0, 1)
			if len(ids) != perStep {
				t.Fatalf("%d neighbours drawn, want %d", len(ids), perStep)
			}
			for j, id := range ids {
				if j > 0 && id == ids[j-1] {
					t.Fatal("one neighbour drawn twice in a step")
				}
				sum[id] += float64(kernel[j]) / draws
			}
		}
		if len(sum) != 5 {
			t.Fatalf("%d different neighbours drawn, want 5", len(sum))
		}
		from := int(n.position[row]) * 5
		for j := range 5 {
			id, want := n.index[from+j], float64(n.kernel[from+j])
			if id == row {
				t.Fatal("a row is its own neighbour")
			}
			// Standard error of the mean of κ/m·k·Bernoulli(m/κ).
			p := float64(perStep) / 5
			sigma := want / p * math.Sqrt(p*(1-p)/draws)
			if math.Abs(sum[id]-want) > 5*sigma {
				t.Errorf("%d per step: mean weight %v of neighbour %d, kernel %v ± %v", perStep, sum[id], j, want, sigma)
			}
		}
	}
}

func TestNearestWithCoincidingRows(t *testing.T) {
	points := tensor.New(6, 1)
	copy(points.Data, []float32{1, 1, 1, 1, 5, 1})
	index, dist2, err := nearest(points, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		for j := range 2 {
			id, d := index[2*i+j], dist2[2*i+j]
			if id == int32(i) || id < 0 {
				t.Errorf("row %d has the neighbour %d", i, id)
			}
			if i != 4 && d != 0 {
				t.Errorf("row %d: distance² %v to row %d", i, d, id)
			}
		}
	}
}

func TestChosenCodesAreDistinctAndCounted(t *testing.T) {
	points := tensor.New(500, 3)
	for i := range points.Data {
		points.Data[i] = float32(math.Sin(float64(i * i)))
	}
	for _, count := range []int{0, 1, 37, 499, 500, 900} {
		codes := require.Get(chooseCodes(points, count, 3))(t)
		want := count
		if count == 0 || count > 500 {
			want = 500
		}
		if len(codes) != want || len(slices.Compact(slices.Clone(codes))) != want || !slices.IsSorted(codes) {
			t.Errorf("%d codes asked for, %d chosen", count, len(codes))
		}
	}
}
