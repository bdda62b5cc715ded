package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"gonum.org/v1/plot/vg/draw"
)

// SteeringRows lays a steering's front out as a table, the header first.
func SteeringRows(s *closedloop.Steering) [][]string {
	list := func(v []closedloop.Number) string {
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = x.Text("%.4f")
		}
		return strings.Join(parts, ", ")
	}
	rows := [][]string{{"w", "Σ J", "exact Σ J", "regret %", "compared", "violations"}}
	for _, p := range s.Front {
		rows = append(rows, []string{preference(p.W), list(p.J), list(p.OracleJ), regretText(p.RegretPct), fmt.Sprintf("%d/%d", p.Compared, p.Episodes), fmt.Sprint(p.Violations)})
	}
	return rows
}

// SteeringSummaryRows has a row for each sweep, the header first: how far the front that
// the method traces is from the exact one, and how much of its length it covers.
func SteeringSummaryRows(sweeps ...closedloop.Steering) [][]string {
	rows := [][]string{{"case", "method", "preferences", "episodes compared", "mean regret %", "worst", "at w", "hypervolume", "exact", "Σ J from – to (exact)"}}
	for _, s := range sweeps {
		s.Summarize() // a record of an earlier version holds the front alone
		compared, episodes := 0, 0
		for _, p := range s.Front {
			compared, episodes = compared+p.Compared, episodes+p.Episodes
		}
		spans := make([]string, len(s.JRange))
		for j := range spans {
			own, exact := s.JRange[j], s.OracleJRange[j]
			spans[j] = fmt.Sprintf("%.6g – %.6g (%.6g – %.6g)", own[0], own[1], exact[0], exact[1])
		}
		rows = append(rows, []string{
			s.Case, "`" + s.Method + "`", fmt.Sprint(len(s.Front)), fmt.Sprintf("%d/%d", compared, episodes), regretText(s.MeanRegretPct), regretText(s.WorstRegretPct), preference(s.WorstW),
			s.Hypervolume.Text("%.5f"), s.ExactHypervolume.Text("%.5f"), strings.Join(spans, "; "),
		})
	}
	return rows
}

// longRegret is a regret, %, that is written in powers of ten.
const longRegret = 1e5

// regretText has four decimals, or powers of ten where these would be a long row of digits.
func regretText(v closedloop.Number) string {
	if math.Abs(float64(v)) >= longRegret {
		return v.Text("%.3g")
	}
	return v.Text("%.4f")
}

func preference(w []float64) string {
	parts := make([]string, len(w))
	for i, x := range w {
		parts[i] = fmt.Sprintf("%.3g", x)
	}
	return strings.Join(parts, ", ")
}

func (r *Records) steeringSections() []Section {
	if len(r.Steerings) == 0 {
		return nil
	}
	summary := Section{
		title: "Steering by a fixed preference",
		Note:  "One map of each case, no retraining. Regret is over the exact optimum of the same episodes under the same preference; hypervolumes are to the nadir of both fronts stretched by a tenth of the range, as shares of the box from there to their ideal.",
		Rows:  SteeringSummaryRows(r.Steerings...),
	}
	return append([]Section{summary}, each(r.Steerings, func(v closedloop.Steering) Section {
		return Section{title: fmt.Sprintf("%s: %s under each preference", v.Case, v.Method), figures: r.steeringFigures(v), Rows: SteeringRows(&v)}
	})...)
}

// steeringFigures show the front traced by one map and the exact one: two
// objectives in one figure; of three, the first and the second each against the
// third, where a line joins the two points of each preference.
func (r *Records) steeringFigures(s closedloop.Steering) []*Figure {
	if len(s.Front) == 0 {
		return nil
	}
	switch len(s.Front[0].J) {
	case 2:
		f := newFigure(frontName(&s), s.Case+": one map steered by a fixed preference", r.summed(s.Case, 0), r.summed(s.Case, 1))
		var x, y []float64
		for _, p := range s.Front {
			x, y = append(x, float64(p.OracleJ[0])), append(y, float64(p.OracleJ[1]))
		}
		f.line("exact front", colour(grey), false, x, y)
		x, y = nil, nil
		for _, p := range s.Front {
			x, y = append(x, float64(p.J[0])), append(y, float64(p.J[1]))
		}
		f.points(s.Method, r.methodColour(s.Case, s.Method), draw.CircleGlyph{}, x, y)
		f.caption = frontCaption
		return []*Figure{f}
	case 3:
		figures := []*Figure{r.pairedFront(&s, 0), r.pairedFront(&s, 1)}
		return slices.DeleteFunc(figures, func(f *Figure) bool { return f == nil })
	}
	return nil
}

// summed is the axis of an objective summed over an episode.
func (r *Records) summed(name string, i int) axis {
	return axis{"Σ " + r.objective(name, "J", i), r.unitOfObjective(name, i)}
}

// frontName is that of a front's figure: of the case, and of a method that is not the
// case's own.
func frontName(s *closedloop.Steering) string {
	if s.Method == AlgorithmTwo || s.Method == Planner {
		return s.Case + "-front"
	}
	return s.Case + "-" + s.Method + "-front"
}

// pairedFront draws objective j against the third, preference by preference. The
// axis of j is logarithmic where it falls by decades, as an objective may near its
// own optimum.
func (r *Records) pairedFront(s *closedloop.Steering, j int) *Figure {
	f := newFigure(fmt.Sprintf("%s-%d", frontName(s), j+1), s.Case+": one map steered by a fixed preference", r.summed(s.Case, j), r.summed(s.Case, 2))
	var x, y [2][]float64 // exact, steered
	for _, p := range s.Front {
		px, py := [2]float64{float64(p.OracleJ[j]), float64(p.J[j])}, [2]float64{float64(p.OracleJ[2]), float64(p.J[2])}
		if !(min(px[0], px[1]) > 0) || math.IsNaN(py[0]+py[1]) {
			continue // zero has no place on the axis, and a preference without a comparison none at all
		}
		for k := range x {
			x[k], y[k] = append(x[k], px[k]), append(y[k], py[k])
		}
	}
	if len(x[0]) == 0 {
		return nil
	}
	if decade := 10.0; max(slices.Max(x[0]), slices.Max(x[1])) > decade*min(slices.Min(x[0]), slices.Min(x[1])) {
		f.logX()
	}
	for i := range x[0] {
		f.line("", faint(colour(grey)), false, []float64{x[0][i], x[1][i]}, []float64{y[0][i], y[1][i]})
	}
	f.points("exact", colour(grey), draw.RingGlyph{}, x[0], y[0])
	f.points(s.Method, r.methodColour(s.Case, s.Method), draw.CircleGlyph{}, x[1], y[1])
	f.caption = frontCaption + " A line joins the two of one preference."
	return f
}

// frontCaption is that of every front.
const frontCaption = "Objectives summed over an episode, in the mean, one point for each preference: what the map reaches, and the exact optimum."

// checkSteering says what of a front is of another size than its first point.
func checkSteering(s *closedloop.Steering) error {
	for i, p := range s.Front {
		if n := len(s.Front[0].J); len(p.J) != n || len(p.OracleJ) != n || n == 0 {
			return fmt.Errorf("front[%d] has %d values of j and %d of oracle_j, want %d", i, len(p.J), len(p.OracleJ), max(1, n))
		}
	}
	return nil
}
