package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg/draw"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// highlighted is the method whose traces and points the figures single out.
const highlighted = "gpc"

// caseFigures are for each case the paper's four panels: terminal regret, semantic
// coordinate, closed-loop trajectory, speed-quality frontier; then what the first episode of
// its trace looks like over time.
func (r *Records) caseFigures(name string) []*Figure {
	var figures []*Figure
	// A gap to a reference may be negative: no logarithmic axis holds it.
	if evals := r.of(name); len(evals) > 0 && evals[0].Reached == nil {
		figures = append(figures, r.regretFigure(name, evals), r.frontierFigure(name, evals))
	}
	if t := r.shown(name); t != nil {
		figures = append(figures, priorityFigure(*t))
		figures = append(figures, r.traceFigures(t)...)
	}
	figures = append(figures, r.seriesFigures(name)...)
	return slices.DeleteFunc(figures, func(f *Figure) bool { return f == nil })
}

// shown is the trace of a case that its figures are of: the highlighted method's, or else the
// first; nil where there is none with a decision.
func (r *Records) shown(name string) *Trace {
	wanted := func(t Trace) bool { return len(t.Episodes) > 0 && len(t.Episodes[0].Lines) > 0 }
	if t := r.trace(name, func(t Trace) bool { return wanted(t) && t.Header.Method == highlighted }); t != nil {
		return t
	}
	return r.trace(name, wanted)
}

// trace is the first trace of a case that is wanted; nil: none is.
func (r *Records) trace(name string, wanted func(t Trace) bool) *Trace {
	for i, t := range r.Traces {
		if t.Header.Case == name && wanted(t) {
			return &r.Traces[i]
		}
	}
	return nil
}

// regretFloor is what a regret of zero is drawn at on the logarithmic axis, %.
const regretFloor = 1e-4

// regretFigure is panel (a): the terminal regret of every method with its
// standard error, and the paper's values beside them. A method has a line of its own.
func (r *Records) regretFigure(name string, evals []closedloop.Result) *Figure {
	f := newFigure(name+"-regret", name+": terminal regret", "terminal regret, %", "")
	f.logX()
	var labels []string
	for _, e := range evals {
		regret := float64(e.RegretPct)
		if r.method(name, e.Method).Group == domain.GroupExact || math.IsNaN(regret) {
			continue
		}
		y := -float64(len(labels)) // downwards
		labels = append(labels, e.Method)
		c := colour(0)
		if e.Method == highlighted {
			c = colour(1)
		}
		lo, hi := regret-float64(e.RegretSEM), regret+float64(e.RegretSEM)
		f.line("", c, false, []float64{math.Max(regretFloor, lo), math.Max(regretFloor, hi)}, []float64{y, y})
		f.point("", c, draw.CircleGlyph{}, math.Max(regretFloor, regret), y)
		if p := r.paper(name, e.Method); !math.IsNaN(p.Regret) {
			f.point("", colour(grey), draw.CrossGlyph{}, p.Regret, y)
		}
	}
	if len(labels) < 2 {
		return nil
	}
	f.rows(labels)
	f.caption = fmt.Sprintf("Cost above the optimum over safe episodes, mean ± s.e.m.; below %g %% drawn there.", regretFloor)
	if len(r.cases[name].Paper) > 0 {
		f.caption += " Crosses are the paper's."
	}
	return f
}

// frontierFigure is panel (d): decision time against regret.
func (r *Records) frontierFigure(name string, evals []closedloop.Result) *Figure {
	f := newFigure(name+"-frontier", name+": speed and quality", "median decision time, ms", "terminal regret, %")
	f.logX()
	f.logY()
	drawn := 0
	for _, e := range evals {
		regret, ms := float64(e.RegretPct), float64(e.Latency.P50)/1e3
		// Ablations stand in the table; here they would only hide each other.
		group := r.method(name, e.Method).Group
		if group == domain.GroupExact || group == domain.GroupAblation || math.IsNaN(regret) || !(ms > 0) {
			continue
		}
		regret = math.Max(regretFloor, regret)
		c := colour(0)
		if group == domain.GroupOwn {
			c = colour(1)
		}
		f.point(e.Method, c, draw.CircleGlyph{}, ms, regret)
		if p := r.paper(name, e.Method); !math.IsNaN(p.Regret) {
			f.point(e.Method+" (paper)", colour(grey), draw.CrossGlyph{}, p.Milliseconds, p.Regret)
		}
		drawn++
	}
	if drawn < 2 {
		return nil
	}
	f.caption = "Left is faster, lower is better. Exact methods and ablations stand in the table"
	if len(r.cases[name].Paper) > 0 {
		f.caption += "; crosses are the paper's, on its own hardware"
	}
	f.caption += "."
	return f
}

// steady reports whether the priority never changes.
func steady(t Trace) bool {
	for _, ep := range t.Episodes {
		for _, l := range ep.Lines {
			if !slices.Equal(l.Sigma, t.Episodes[0].Lines[0].Sigma) {
				return false
			}
		}
	}
	return true
}

// priorityFigure is panel (b): the semantic coordinate σ along the episodes of a
// trace, the mean over episodes as a line and each episode faintly; nil where it never changes.
func priorityFigure(t Trace) *Figure {
	if steady(t) {
		return nil
	}
	f := newFigure(t.Header.Case+"-priority", t.Header.Case+": priority σ of single episodes", "decision t", "σ")
	f.plot.Y.Min, f.plot.Y.Max = 0, 1
	m := len(t.Episodes[0].Lines[0].Sigma)
	for i := range m {
		var mean, count []float64
		for e, ep := range t.Episodes {
			var xs, ys []float64
			for _, l := range ep.Lines {
				if i >= len(l.Sigma) {
					f.fail(fmt.Errorf("trace of %s, line %d has %d priorities, want %d", t.Header.Case, l.Line, len(l.Sigma), m))
					return f
				}
				xs, ys = append(xs, float64(l.T)), append(ys, l.Sigma[i])
				for len(mean) <= l.T {
					mean, count = append(mean, 0), append(count, 0)
				}
				mean[l.T] += l.Sigma[i]
				count[l.T]++
			}
			if e < 20 {
				f.line("", faint(colour(i)), false, xs, ys)
			}
		}
		xs := make([]float64, len(mean))
		for k := range mean {
			xs[k], mean[k] = float64(k), mean[k]/count[k]
		}
		f.line(fmt.Sprintf("σ%d", i+1), colour(i), false, xs, mean)
	}
	f.caption = fmt.Sprintf("The priority σ that decisions of %s were scored with", t.Header.Method)
	if n := len(t.Episodes); n > 1 {
		f.caption += fmt.Sprintf(": the mean over %d episodes, and faintly the first %d", n, min(n, 20))
	}
	f.caption += "."
	return f
}

// othersShown is how many more episodes leave a trail in a trajectory of one body, and
// ghosts how many pictures of the way a trajectory shows.
const (
	othersShown = 11
	ghosts      = 5
)

// traceFigures are panel (c) and what the first episode is like over time: what its case draws
// of it, with distances to goals; where it draws nothing, the states; then actions and margin.
func (r *Records) traceFigures(t *Trace) (figures []*Figure) {
	first := &t.Episodes[0]
	name, of := t.Header.Case, fmt.Sprintf("Episode %d of %s, seed %d", first.Episode, t.Header.Method, t.Header.Seed)
	m, err := r.motion(t, first)
	if m != nil && err == nil {
		figures = append(figures, r.trajectoryFigure(t, m))
		if bodies, d := m.distances(); len(bodies) > 0 {
			p := panel{name: "distances", title: "distance to the goal", axis: "distance", unit: "m", time: make([]float64, len(d[0])), values: d}
			for i := range bodies {
				p.names = append(p.names, fmt.Sprintf("body %d", bodies[i]+1))
			}
			for k := range p.time {
				p.time[k] = float64(k)
			}
			if s := r.seconds(t); s > 0 {
				p.timeUnit = "s"
				for k := range p.time {
					p.time[k] *= s
				}
			}
			f := p.figure(name+"-distances", name+": distance to the goal", len(p.time))
			f.caption = of + ": between the centres of a body and its goal."
			figures = append(figures, f)
		}
	}
	for _, p := range r.panels(t) {
		if m != nil && err == nil && p.title == "states" {
			continue
		}
		f := p.figure(name+"-"+p.name, name+": "+strings.TrimSuffix(p.title+", "+p.unit, ", "), len(p.time))
		f.caption = of + "."
		if err != nil {
			f.caption += fmt.Sprintf(" It cannot be replayed here: %v.", err)
		}
		figures = append(figures, f)
	}
	return figures
}

// trajectoryFigure is panel (c): the end of the first episode with the way to it; of a single
// body, faintly, the ways of other episodes too.
func (r *Records) trajectoryFigure(t *Trace, m *motion) *Figure {
	name, last := t.Header.Case, m.until(r.seconds(t))
	var at []int
	for g := range ghosts {
		at = append(at, m.arrival*g/ghosts)
	}
	whole := "at its end"
	if last < len(m.shapes)-1 {
		whole = "shortly after arrival"
	}
	f := m.figure(name+"-trajectory", name+": closed-loop trajectory", last, at...)
	f.caption = fmt.Sprintf("Episode %d of %s, seed %d, %s; pale outlines are bodies on the way, goals are dashed, trails are where bodies have been.", t.Episodes[0].Episode, t.Header.Method, t.Header.Seed, whole)
	trails := 0
	for _, s := range m.shapes[0] {
		if s.Role == domain.Body && len(s.Path) == 1 {
			trails++
		}
	}
	if trails != 1 {
		return f
	}
	drawn := 0
	for e := 1; e < len(t.Episodes) && drawn < othersShown; e++ {
		if other, err := r.motion(t, &t.Episodes[e]); err == nil && other != nil {
			other.trails(f, len(other.shapes)-1, true)
			drawn++
		}
	}
	if drawn > 0 {
		f.caption += fmt.Sprintf(" Faintly, the trails of %d more episodes, whose scenes differ.", drawn)
	}
	return f
}

func numbers(v []batchnav.Number) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

// recoveryShown is how many steps of a recovery are drawn.
const recoveryShown = 40

// recoveryFigure shows Φ after a perturbation off M* and the predicted
// contraction.
func recoveryFigures(c batchnav.Certified) []*Figure {
	r, name := c.Recovery, c.Certificate.Case
	if r == nil {
		return nil
	}
	f := newFigure(name+"-recovery", name+": recovery from a perturbation off M*", "latent step", "Φ = ‖x − D_s(z)‖²")
	f.logY()
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
		f.line(s.label, colour(i), s.dashed, xs, numbers(s.v)[:len(xs)])
	}
	f.caption = "How far the decoded state is from the measured one, step by step, where the step begins beside the map; dashed, what the certified contraction predicts."
	return []*Figure{f}
}

// steeringFigures show the front traced by one map and the exact one: two
// objectives in one figure; of three, the first and the second each against the
// third, where a line joins the two points of each preference.
func steeringFigures(s closedloop.Steering) []*Figure {
	if len(s.Front) == 0 {
		return nil
	}
	switch len(s.Front[0].J) {
	case 2:
		f := newFigure(frontName(&s), s.Case+": one map steered by a fixed preference", "Σ J₁", "Σ J₂")
		var x, y []float64
		for _, p := range s.Front {
			x, y = append(x, float64(p.OracleJ[0])), append(y, float64(p.OracleJ[1]))
		}
		f.line("exact front", colour(grey), false, x, y)
		x, y = nil, nil
		for _, p := range s.Front {
			x, y = append(x, float64(p.J[0])), append(y, float64(p.J[1]))
		}
		f.points(s.Method, colour(1), draw.CircleGlyph{}, x, y)
		f.caption = frontCaption
		return []*Figure{f}
	case 3:
		figures := []*Figure{pairedFront(&s, 0, "Σ J₁"), pairedFront(&s, 1, "Σ J₂")}
		return slices.DeleteFunc(figures, func(f *Figure) bool { return f == nil })
	}
	return nil
}

// frontName is that of a front's figure: of the case, and of a method that is not the
// case's own.
func frontName(s *closedloop.Steering) string {
	if s.Method == highlighted {
		return s.Case + "-front"
	}
	return s.Case + "-" + s.Method + "-front"
}

// pairedFront draws objective j against the third, preference by preference. The
// axis of j is logarithmic where it falls by decades, as an objective may near its
// own optimum.
func pairedFront(s *closedloop.Steering, j int, axis string) *Figure {
	f := newFigure(fmt.Sprintf("%s-%d", frontName(s), j+1), s.Case+": one map steered by a fixed preference", axis, "Σ J₃")
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
	f.points(s.Method, colour(1), draw.CircleGlyph{}, x[1], y[1])
	f.caption = frontCaption + " A line joins the two of one preference."
	return f
}

// frontCaption is that of every front.
const frontCaption = "Objectives summed over an episode, in the mean, one point for each preference: what the map reaches, and the exact optimum."
