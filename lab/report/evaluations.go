package report

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/lab/certificate"
	"github.com/gpc-engine/gpc/lab/draw"
	"github.com/gpc-engine/gpc/lab/published"
)

// evaluationSections are the tables of every case that was evaluated.
func (r *Records) evaluationSections() []Section {
	var out []Section
	for _, name := range r.CaseNames() {
		first := len(out)
		if evals := r.Plain(name); len(evals) > 0 && evals[0].GoalReached != nil {
			out = append(out, r.goalSection(name, evals))
			for _, e := range evals {
				if e.Method == r.leading(name) && len(e.Unsafe) > 0 {
					out = append(out, unsafeSection(e))
				}
			}
		} else if len(evals) > 0 {
			out = append(out, r.evaluationSection(name, evals))
		}
		if evals := r.InRegimes(name); len(evals) > 0 {
			out = append(out, r.regimeSection(name, evals))
		}
		if evals := r.EvaluationsWhere(name, func(e *closedloop.Result) bool { return e.Noise > 0 && e.Regime == "" }); len(evals) > 0 {
			out = append(out, r.noiseSection(name, evals))
		}
		if len(out) == first { // a trace alone
			out = append(out, Section{title: name, Note: "A trace without an evaluation's record."})
		}
		out[first].figures = r.caseFigures(name)
		for i := range r.Traces {
			if t := &r.Traces[i]; t.Header.Case == name {
				out[first].traces = append(out[first].traces, t)
			}
		}
	}
	return out
}

// opening is the first sentence of a case's note: what its problem is.
func (r *Records) opening(name string) string {
	about := r.About(name)
	if about == "" {
		return ""
	}
	return strings.ToUpper(about[:1]) + about[1:] + ". "
}

// runRow is a run as tables show it: the fields of its record, those of the paper's row of its method, and what is
// derived of both.
type runRow struct {
	*closedloop.Result
	Paper               published.Row
	PaperRegret         string                       // with its standard error
	Seeds               string                       // behind the name of a learned method
	Kept, SafeInterval  string                       // safe episodes, and the interval of their share
	Dispatches, Draws   string                       // within every limit; left out
	RegretHalf, GapHalf closedloop.Number            // of the intervals of their means
	Spread              *closedloop.RegretStatistics // nil without values
	FailPct             float64                      // %
	Times               string                       // of its decisions
	Less                []string                     // what it costs above another method: mean, median, n
}

// row is a run in a table beside another method.
func (r *Records) row(e *closedloop.Result, paper published.Row, beside string) runRow {
	row := runRow{
		Result: e, Paper: paper, PaperRegret: regretGiven(paper), Seeds: r.seeds(e), Kept: SafeOf(e), SafeInterval: fmt.Sprintf("[%.4f, %.4f]", e.CI95.Safe[0], e.CI95.Safe[1]),
		Dispatches: Dispatches(e), Draws: Excluded(e), RegretHalf: HalfWidth(e.RegretSEM, e.RegretN), GapHalf: HalfWidth(e.GapSEM, e.RegretN),
		FailPct: 100 * (1 - float64(e.Safe)), Less: r.CostAbove(e, beside), Times: Times("%.4f", &e.Latency),
	}
	if e.Regret.N > 0 {
		row.Spread = &e.Regret
	}
	return row
}

// besideLeading are rows beside a case's leading method.
func (r *Records) besideLeading(name string, evals []closedloop.Result) (rows []runRow) {
	for i := range evals {
		rows = append(rows, r.row(&evals[i], r.Paper(name, evals[i].Method), r.leading(name)))
	}
	return rows
}

// lessColumns are what a run costs above a method.
func lessColumns(method string) Columns {
	return Columns{{"cost less `" + method + "`'s, % [95 %]", "{Less.0}"}, {"median", "{Less.1}"}, {"n", "{Less.2}"}}
}

// Columns of runs in several tables.
var (
	regretColumns = Columns{{"regret %", "{RegretPct %.4f} ± {RegretHalf? %.4f}"}, {"n", "{RegretN}"}, {"median", "{Spread.Median %.4f}"}, {"p90", "{Spread.P90 %.4f}"}}
	keptColumns   = Columns{{"safe", "{Kept}"}, {"95 % interval", "{SafeInterval}"}}
	timeColumns   = Columns{{TimesHeading, "{Times}"}}
)

func (r *Records) evaluationSection(name string, evals []closedloop.Result) Section {
	s := Section{
		title:      name,
		parts:      []string{"safe"},
		Note:       r.opening(name) + fmt.Sprintf("Unseen episodes. Regret over the n completed, safe episodes, its mean with the 95 %% interval by Student's t. Cost less `%s`'s: on the episodes in which both are safe.%s", r.leading(name), r.regretNote(name)),
		Provenance: originOf(evals),
		Rows: Table(slices.Concat(
			Columns{{"method", "{Method}{Seeds}"}}, regretColumns, Columns{{"regret % (paper)", "{PaperRegret}"}}, lessColumns(r.leading(name)), keptColumns,
			Columns{{"fail %", "{FailPct %.1f}"}, {"fail % (paper)", "{Paper.Fail}"}, {"least margin", "{MarginMin %.1e}"}}, timeColumns,
			Columns{{"ms (paper)", "{Paper.Milliseconds}"}, {"mean ‖Δz‖", "{Displacement %.1e}"}}), r.besideLeading(name, evals)),
	}
	s.Absent = r.Absent(name, slices.DeleteFunc(r.Unrecorded(name, evals), func(m string) bool {
		return math.IsNaN(r.Paper(name, m).Regret) // the paper's figures are of other scenes
	}))
	return s
}

// regretNote says where the paper's regrets of a case are from; "" where it has none.
func (r *Records) regretNote(name string) string {
	for _, p := range r.Cases[name].Paper {
		if !math.IsNaN(p.Regret) {
			return " (paper): tab. analytical, 100 trajectories, ± its standard error (s.e.m.), times on its own hardware; its MPC horizon is not stated."
		}
	}
	return ""
}

// goalSection is the table of a case whose episodes have goals (tab.
// multiagent-navigation and multiagent-navigation-margins).
func (r *Records) goalSection(name string, evals []closedloop.Result) Section {
	columns := slices.Concat(Columns{
		{"method", "{Method}{Seeds}"}, {"episodes", "{Episodes}"}, {"safe", "{Safe %.4f}"}, {"95 % interval", "{SafeInterval}"}, {"safe % (paper)", "{Paper.Safe}"},
		{"collision-free", "{CollisionFree %.4f}"}, {"collision-free % (paper)", "{Paper.Collision}"}, {"reached", "{GoalReached %.4f}"}, {"at end", "{AtEnd %.4f}"},
		{"gap %", "{GapPct %.3f} ± {GapHalf? %.3f}"}, {"n", "{RegretN}"}, {"median", "{Spread.Median %.3f}"}, {"p90", "{Spread.P90 %.3f}"}, {"gap % (paper)", "{Paper.Gap}"},
	}, lessColumns(r.leading(name)), Columns{{"scene margin", "{MarginMean %.3f}"}, {"± s.e.m.", "{MarginSEM %.3f}"}, {"margin (paper)", "{Paper.Margin}"}})
	for _, kind := range slices.Sorted(maps.Keys(evals[0].MarginsMean)) {
		columns = append(columns, [2]string{kind, "{MarginsMean." + kind + " %.3f}"})
	}
	columns = append(columns, timeColumns...)
	s := Section{
		title:      name,
		parts:      []string{"gap %", "scene margin"},
		Note:       r.opening(name) + fmt.Sprintf("Unseen episodes. Safe: every robot reached its goal and no margin was violated. Gap: 100 (Σ cost − Σ reference)/Σ reference over the n episodes in which both the method and the 384-candidate reference are safe, with its 95 %% interval by Student's t; median and 90 %% quantile are of the same episodes one by one. Cost less `%s`'s: on the episodes in which those two are safe. Margins: means over episodes of the smallest, m. The paper's: 100 episodes, one unreachable moving scene left out.", r.leading(name)),
		Provenance: originOf(evals),
		Rows:       Table(columns, r.besideLeading(name, evals)),
	}
	s.Absent = r.Absent(name, r.Unrecorded(name, evals))
	return s
}

// unsafeSection names every episode in which a method was not safe.
func unsafeSection(e closedloop.Result) Section {
	return Section{
		title: fmt.Sprintf("%s: unsafe episodes of %s", e.Case, e.Method),
		Note:  fmt.Sprintf("%d of %d, with what is known of the cause.", len(e.Unsafe), e.Episodes),
		Rows:  Table(Columns{{"seed", fmt.Sprint(e.Seed)}, {"episode", "{Episode}"}, {"cause", "{Cause}"}}, e.Unsafe),
	}
}

func (r *Records) noiseSection(name string, evals []closedloop.Result) Section {
	return Section{
		title:      name + " with measurement noise",
		Note:       "The measured state is disturbed; margins and costs are of the true state. The noise is in units of each state's own scale. Regret over the n safe episodes, its mean with the 95 % interval by Student's t.",
		Provenance: originOf(evals),
		Rows: Table(slices.Concat(Columns{{"noise", "{Noise}"}, {"method", "{Method}"}}, regretColumns, keptColumns,
			Columns{{"least margin", "{MarginMin %.1e}"}}, timeColumns), r.besideLeading(name, evals)),
	}
}

// regimeSection is the table of a case whose test scenes come in regimes.
func (r *Records) regimeSection(name string, evals []closedloop.Result) Section {
	var rows []runRow
	for i := range evals {
		rows = append(rows, r.row(&evals[i], r.paperRowOf(&evals[i]), r.leading(name)))
	}
	s := Section{
		title: name,
		keys:  3, parts: []string{"gap %", "fallbacks"},
		Note:       r.opening(name) + fmt.Sprintf("Unseen trajectories. Kept are the trajectories without a violation, with their 95 %% interval; dispatches are those that keep every limit on the plant, and those of one trajectory are not independent. The gap is 100 (Σ cost − Σ oracle)/Σ oracle over the n trajectories kept, the others left out, with the 95 %% interval over trajectories by Student's t; median and 90 %% quantile are of the same trajectories one by one. Cost less `%s`'s: on the trajectories that both keep. Excluded are draws for which the oracle itself finds a step without a solution, decided before any method ran. Fallbacks are decisions that the exact solver took over.", r.leading(name)),
		Provenance: originOf(evals),
		Rows: Table(slices.Concat(Columns{
			{"regime", "{Regime}"}, {"noise", "{Noise}"}, {"method", "{Method}{Seeds}"}, {"kept", "{Kept}"}, {"95 % interval", "{SafeInterval}"},
			{"dispatches", "{Dispatches}"}, {"feasible % (paper)", "{Paper.Feasible}"}, {"gap %", "{GapPct %.4f} ± {GapHalf? %.4f}"}, {"n", "{RegretN}"},
			{"median", "{Spread.Median %.4f}"}, {"p90", "{Spread.P90 %.4f}"}, {"gap % (paper)", "{Paper.Gap}"},
		}, lessColumns(r.leading(name)), Columns{
			{"fallbacks", "{Fallback} of {Decisions}"}, {"draws excluded", "{Draws}"}, {"least margin", "{MarginMin %.1e}"}}, timeColumns, Columns{
			{"(paper)", "{Paper.Milliseconds}"}, {"localize µs", "{Shares.Localize %.1f}"}, {"step µs", "{Shares.Step %.1f}"}, {"project µs", "{Shares.Project %.1f}"},
		}), rows),
	}
	s.Absent = r.Absent(name, r.lackedLikePaper(name))
	return s
}

// Dispatches is how many decisions kept every limit.
func Dispatches(e *closedloop.Result) string {
	return fmt.Sprintf("%d/%d", e.Decisions-e.Violations, e.Decisions)
}

// Excluded is how many draws of scenes were left out, of all.
func Excluded(e *closedloop.Result) string {
	return fmt.Sprintf("%d of %d", e.Excluded, e.Episodes+e.Excluded)
}

func (r *Records) steeringSections() []Section {
	all := Of[closedloop.Steering](r)
	if len(all) == 0 {
		return nil
	}
	summary := Section{
		title: "Steering by a fixed preference",
		Note:  "One map of each case, no retraining. Regret is over the exact optimum of the same episodes under the same preference; hypervolumes are to the nadir of both fronts stretched by a tenth of the range, as shares of the box from there to their ideal.",
		Rows:  closedloop.SteeringSummaryRows(all...),
	}
	return append([]Section{summary}, each(func(v closedloop.Steering) Section {
		return Section{title: fmt.Sprintf("%s: %s under each preference", v.Case, v.Method), figures: r.steeringFigures(v), Rows: closedloop.SteeringRows(&v)}
	})(r)...)
}

// steeringFigures show the front traced by one map and the exact one: two
// objectives in one figure; of three, the first and the second each against the
// third, where a line joins the two points of each preference.
func (r *Records) steeringFigures(s closedloop.Steering) []*draw.Figure {
	if len(s.Front) == 0 {
		return nil
	}
	switch len(s.Front[0].J) {
	case 2:
		f := draw.New(frontName(&s), s.Case+": one map steered by a fixed preference", r.summed(s.Case, 0), r.summed(s.Case, 1))
		var x, y []float64
		for _, p := range s.Front {
			x, y = append(x, float64(p.OracleJ[0])), append(y, float64(p.OracleJ[1]))
		}
		f.Line("exact front", draw.Colour(draw.Grey), false, x, y)
		x, y = nil, nil
		for _, p := range s.Front {
			x, y = append(x, float64(p.J[0])), append(y, float64(p.J[1]))
		}
		f.Points(s.Method, r.methodColour(s.Case, s.Method), draw.Disc, x, y)
		f.Caption = frontCaption
		return []*draw.Figure{f}
	case 3:
		figures := []*draw.Figure{r.pairedFront(&s, 0), r.pairedFront(&s, 1)}
		return slices.DeleteFunc(figures, func(f *draw.Figure) bool { return f == nil })
	}
	return nil
}

// summed is the axis of an objective summed over an episode.
func (r *Records) summed(name string, i int) draw.Axis {
	return draw.Along("Σ "+r.objective(name, "J", i), r.unitOfObjective(name, i))
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
func (r *Records) pairedFront(s *closedloop.Steering, j int) *draw.Figure {
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
	along := r.summed(s.Case, j)
	if decade := 10.0; max(slices.Max(x[0]), slices.Max(x[1])) > decade*min(slices.Min(x[0]), slices.Min(x[1])) {
		along.Logarithmic = true
	}
	f := draw.New(fmt.Sprintf("%s-%d", frontName(s), j+1), s.Case+": one map steered by a fixed preference", along, r.summed(s.Case, 2))
	for i := range x[0] {
		f.Line("", draw.Faint(draw.Colour(draw.Grey)), false, []float64{x[0][i], x[1][i]}, []float64{y[0][i], y[1][i]})
	}
	f.Points("exact", draw.Colour(draw.Grey), draw.Ring, x[0], y[0])
	f.Points(s.Method, r.methodColour(s.Case, s.Method), draw.Disc, x[1], y[1])
	f.Caption = frontCaption + " A line joins the two of one preference."
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

func certificateSection(c certificate.Certified) Section {
	s := Section{
		title:   c.Certificate.Case + ": the paper's conditions on this map",
		Note:    "Constants are estimated on held-out samples; a condition that does not hold says that the theorem gives no guarantee here, not that the controller failed.",
		figures: recoveryFigures(c),
		Rows:    [][]string{{"condition", "claim", "left", "right", "verdict", "note"}},
	}
	for _, v := range c.Certificate.Conditions {
		verdict := string(v.Verdict)
		if v.Verdict == certificate.DoesNot {
			verdict = strings.ToUpper(verdict)
		}
		s.Rows = append(s.Rows, []string{v.Name, v.Claim, v.Left.Text("%.3g"), v.Right.Text("%.3g"), verdict, v.Note})
	}
	return s
}

// recoveryShown is how many steps of a recovery are drawn.
const recoveryShown = 40

// recoveryFigures show Φ after a perturbation off M* and the predicted
// contraction.
func recoveryFigures(c certificate.Certified) []*draw.Figure {
	r, name := c.Recovery, c.Certificate.Case
	if r == nil {
		return nil
	}
	f := draw.New(name+"-recovery", name+": recovery from a perturbation off M*", draw.Along("latent steps", "count"), draw.Log("Φ", "squared scales of the state"))
	xs := make([]float64, min(recoveryShown, len(r.Median)))
	floor := math.Inf(1)
	for i := range xs {
		xs[i] = float64(i)
		floor = math.Min(floor, float64(r.Median[i]))
	}
	// The prediction goes on falling where the flow has come to rest.
	predicted := slices.Clone(r.Predicted)
	for i, v := range predicted {
		if float64(v) < floor/10 {
			predicted[i] = batchnav.Number(math.NaN())
		}
	}
	for i, s := range []struct {
		label  string
		v      []batchnav.Number
		dashed bool
	}{{"median", r.Median, false}, {"95th percentile", r.P95, false}, {"largest", r.Max, false}, {"predicted", predicted, true}} {
		f.Line(s.label, draw.Colour(i), s.dashed, xs, numbers(s.v)[:len(xs)])
	}
	f.Caption = "Φ = ‖x − D_s(z)‖², how far the decoded state is from the measured one, step by step, where the step begins beside the map; dashed, what the certified contraction predicts."
	return []*draw.Figure{f}
}

func numbers(v []batchnav.Number) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

// checkCertified says what of a recovery is shorter than its median.
func checkCertified(c *certificate.Certified) error {
	if r := c.Recovery; r != nil {
		n := len(r.Median)
		if len(r.P95) < n || len(r.Max) < n || len(r.Predicted) < n {
			return fmt.Errorf("recovery has %d values of median, %d of p95, %d of max and %d of predicted, want as many of each", n, len(r.P95), len(r.Max), len(r.Predicted))
		}
	}
	if c.Certificate == nil {
		return errors.New("certificate is missing")
	}
	return nil
}
