package draw_test

import (
	"fmt"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/draw"
	"github.com/gpc-engine/gpc/lab/draw/drawtest"
)

// An axis has labels however short or long it is, on either scale.
func TestAxesAreReadable(t *testing.T) {
	for _, lo := range []float64{0.011, 0.9, 2.2, 130} { // less than a decade
		for _, ratio := range []float64{1, 1.0001, 1.3, 4, 11, 1e5, 1e12} {
			f := draw.New(fmt.Sprintf("from %g times %g", lo, ratio), "t", draw.Log("x", "m"), draw.Along("y", "m"))
			f.Line("a", draw.Colour(0), false, []float64{lo, lo * ratio}, []float64{-lo, -lo * ratio})
			for _, fault := range drawtest.Faults(f) {
				t.Errorf("%s: %s", f.Name, fault)
			}
		}
	}
}

// A histogram's shares are of all calls.
func TestSharesOfAHistogram(t *testing.T) {
	along := draw.Log("latency", "µs")
	f := draw.Histogram("h", "t", along, []string{"a"}, [][]float64{{1, 1, 1, 10}})
	if f.Plot.Y.Max != 75 {
		t.Errorf("three of four calls are %v %%", f.Plot.Y.Max)
	}
	if draw.Histogram("h", "t", along, nil, nil) != nil {
		t.Error("nothing is drawn")
	}
	for _, fault := range drawtest.Faults(draw.Histogram("h", "t", along, []string{"a"}, [][]float64{{5, 5, 5}})) {
		t.Errorf("one value: %s", fault)
	}
}

// No colour of a film is without a twin on dark paper.
func TestFilmsHaveTwoColours(t *testing.T) {
	var pictures [][]domain.Shape
	for k := range 20 {
		ground := domain.Line(domain.Ground, [2]float64{-1, 0}, [2]float64{1, 0})
		pictures = append(pictures, []domain.Shape{
			ground, domain.Disc(domain.Obstacle, 0, 1, 0.2), domain.Disc(domain.Goal, 0, 0, 0.1), domain.Disc(domain.Body, 1-0.05*float64(k), 0, 0.05),
		})
	}
	time, clock := draw.Clock(0.1, 3)
	panel := draw.Panel{Axis: "margin", Names: []string{"margin"}, Values: [][]float64{{1, 2, 3}}, Time: time, Clock: clock, Limit: true}
	for _, film := range []*draw.Film{draw.Pictures(require.Get(draw.NewMotion(pictures))(t), 0.1), draw.TimeLines([]draw.Panel{panel}, 2, 0.1)} {
		for _, fault := range drawtest.Untwinned(require.Get(film.SVG())(t)) {
			t.Error(fault)
		}
	}
}
