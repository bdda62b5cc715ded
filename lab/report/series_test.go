package report

import (
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/draw"
	"github.com/gpc-engine/gpc/lab/testrecords"
)

// overTime is an evaluation of the paper's regime with a series whose J_total is level.
func overTime(method string, level float64) closedloop.Result {
	r := testrecords.Run("opf30", method, PaperRegime, 1, 2)
	r.Seed = 11
	band := func(at float64) closedloop.Band {
		return closedloop.Band{Mean: closedloop.Vector{at, at}, P10: closedloop.Vector{at - 1, at - 1}, P90: closedloop.Vector{at + 1, at + 1}}
	}
	s := &closedloop.Series{Interval: 5, Episodes: 2, Total: band(level), Weighted: band(level / 3)}
	for i := range 3 {
		s.J, s.Sigma = append(s.J, band(float64(i)*level)), append(s.Sigma, band(1./3))
	}
	r.Series = s
	return r
}

// Records with a series are drawn over time, the methods over each other, with what the paper's
// figure is beside them; where an exact method is among them, by how much the others are above
// it.
func TestEvaluationsAreDrawnOverTime(t *testing.T) {
	in := New("here", known())
	Put(in, overTime("navigator", 361), overTime("mo-opf", 360), overTime("mpc", 360.5), overTime("hold", 370))
	figures := map[string]*draw.Figure{}
	for _, f := range in.seriesFigures("opf30") {
		figures[f.Name] = f
		if _, err := f.SVG(); err != nil {
			t.Error(err)
		}
	}
	for name, says := range map[string]string{
		"opf30-paper-total":       "fig. case2-jtotal",
		"opf30-paper-above":       "same episodes",
		"opf30-paper-objective-1": "fig. case2-objectives",
		"opf30-paper-objective-3": "Episodes of seed 11: mo-opf 2, navigator 2, mpc 2.",
		"opf30-paper-weights":     "means of mo-opf and mpc",
	} {
		if f := figures[name]; f == nil || !strings.Contains(f.Caption, says) {
			t.Errorf("%s is not there, or does not say %q: %+v", name, says, f)
		}
	}
	if len(figures) != 6 {
		t.Errorf("%d figures, want 6", len(figures))
	}
	if f := figures["opf30-paper-above"]; f != nil && (f.Plot.Y.Min > 0.5 || f.Plot.Y.Max < 1 || f.Plot.Y.Max > 2) {
		t.Errorf("the differences of 0.5 and 1 are drawn from %v to %v", f.Plot.Y.Min, f.Plot.Y.Max)
	}
	other := overTime("mpc", 360.5)
	other.Seed = 12
	Set(in, []closedloop.Result{overTime("mo-opf", 360), overTime("navigator", 361), other})
	for _, f := range in.seriesFigures("opf30") {
		if f.Name == "opf30-paper-above" && strings.Count(string(require.Get(f.SVG())(t)), "mpc") > 0 {
			t.Error("a method on other episodes is set against the exact one")
		}
	}
}
