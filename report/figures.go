package report

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot/vg/draw"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// highlighted is the method whose traces and points the figures single out.
const highlighted = "gpc"

// Figures builds every figure that the records support.
func (r *Records) Figures() []*Figure {
	var figures []*Figure
	for _, k := range kinds {
		if k.figures != nil {
			figures = append(figures, k.figures(r)...)
		}
	}
	return figures
}

// evaluationFigures are for each case the paper's four panels: terminal regret,
// semantic coordinate, closed-loop trajectory, speed-quality frontier.
func (r *Records) evaluationFigures() []*Figure {
	var figures []*Figure
	for _, name := range r.named() {
		if t := r.arena(name); t != nil {
			figures = append(append(figures, TrajectoryFigure(*t)), arenaTraces(*t)...)
			continue
		}
		// A gap to a reference may be negative: no logarithmic axis holds it.
		if evals := r.of(name); len(evals) > 0 && evals[0].Reached != nil {
			continue
		}
		figures = append(figures, r.regretFigure(name, r.of(name)))
		if t := r.trace(name, func(t Trace) bool { return t.Header.Method == highlighted }); t != nil {
			figures = append(figures, PriorityFigure(*t), TrajectoryFigure(*t))
		}
		figures = append(figures, r.frontierFigure(name, r.of(name)))
	}
	return slices.DeleteFunc(figures, func(f *Figure) bool { return f == nil })
}

// arena is the first trace of a case with robots among obstacles.
func (r *Records) arena(name string) *Trace {
	return r.trace(name, func(t Trace) bool { _, _, ok := readArena(t); return ok })
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
// standard error, and the paper's values beside them.
func (r *Records) regretFigure(name string, evals []closedloop.Result) *Figure {
	f := newFigure(name+"-regret", name+": terminal regret", "", "terminal regret, % (mean ± s.e.m.)")
	f.logY()
	var labels []string
	for _, e := range evals {
		regret := float64(e.RegretPct)
		if r.method(name, e.Method).Group == domain.GroupExact || math.IsNaN(regret) {
			continue
		}
		x := float64(len(labels))
		labels = append(labels, e.Method)
		c := colour(0)
		if e.Method == highlighted {
			c = colour(1)
		}
		f.errorBar(c, x, math.Max(regretFloor, regret-float64(e.RegretSEM)), regret+float64(e.RegretSEM))
		f.point("", c, draw.CircleGlyph{}, x, math.Max(regretFloor, regret))
		if p := r.paper(name, e.Method); !math.IsNaN(p.Regret) {
			f.point("paper", colour(6), draw.CrossGlyph{}, x, p.Regret)
		}
	}
	if len(labels) == 0 {
		return nil
	}
	f.plot.NominalX(labels...)
	f.plot.X.Tick.Label.Rotation = 0.5
	f.plot.X.Tick.Label.XAlign, f.plot.X.Tick.Label.YAlign = draw.XRight, draw.YCenter
	f.plot.X.Min, f.plot.X.Max = -0.6, float64(len(labels))-0.2
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
			f.point(e.Method+" (paper)", colour(6), draw.CrossGlyph{}, p.Milliseconds, p.Regret)
		}
		drawn++
	}
	if drawn == 0 {
		return nil
	}
	f.plot.X.Min, f.plot.X.Max = f.plot.X.Min/2, f.plot.X.Max*8
	return f
}

// PriorityFigure is panel (b): the semantic coordinate σ along the episodes of a
// trace, the mean over episodes as a line and each episode faintly.
func PriorityFigure(t Trace) *Figure {
	if len(t.Episodes) == 0 {
		return nil
	}
	f := newFigure(t.Header.Case+"-priority", t.Header.Case+": semantic coordinate", "decision t", "σ")
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
	return f
}

// plane is what a trace's header says of a planar case with a moving ellipse.
type plane struct {
	Ellipse struct {
		A   float64    `json:"a"`
		B   float64    `json:"b"`
		C0  [2]float64 `json:"c0"`
		Rho [2]float64 `json:"rho"`
	} `json:"ellipse"`
	Goal  [2]float64 `json:"q_goal"`
	Safe0 [2]float64 `json:"q_safe0"`
}

type planeScene struct {
	Q0 [2]float64 `json:"q0"`
	P  []float64  `json:"p"`
}

func (p *plane) outline(at float64) (xs, ys []float64) {
	e := &p.Ellipse
	return ellipse(e.C0[0]+e.Rho[0]*at, e.C0[1]+e.Rho[1]*at, e.A, e.B, 72)
}

// readPlane returns the planar geometry of a trace, if it has one.
func readPlane(t Trace) (p plane, ok bool) {
	return p, json.Unmarshal(t.Header.Params, &p) == nil && p.Ellipse.A > 0 && p.Ellipse.B > 0
}

// TrajectoryFigure is panel (c): paths in the plane with the ellipse where it
// begins and ends; robots among obstacles; for a case without a plane, the states
// against time.
func TrajectoryFigure(t Trace) *Figure {
	if len(t.Episodes) == 0 {
		return nil
	}
	if a, s, ok := readArena(t); ok {
		return arenaFigure(t, a, s)
	}
	p, ok := readPlane(t)
	if !ok {
		return stateFigure(t)
	}
	f := newFigure(t.Header.Case+"-trajectory", t.Header.Case+": closed-loop trajectories", "q₁, m", "q₂, m")
	var first planeScene
	if err := json.Unmarshal(t.Episodes[0].Scene, &first); err != nil || len(first.P) == 0 {
		f.fail(fmt.Errorf("trace of %s: the first scene has no operating parameter", t.Header.Case))
		return f
	}
	for e := min(12, len(t.Episodes)) - 1; e >= 0; e-- {
		ep := t.Episodes[e]
		var s planeScene
		if err := json.Unmarshal(ep.Scene, &s); err != nil {
			f.fail(fmt.Errorf("trace of %s, episode %d: %w", t.Header.Case, ep.Episode, err))
			return f
		}
		xs, ys := []float64{s.Q0[0]}, []float64{s.Q0[1]}
		for _, l := range ep.Lines {
			xs, ys = append(xs, l.S[0]), append(ys, l.S[1])
		}
		c := faint(colour(0))
		if e == 0 {
			c = colour(0)
		}
		f.line("", c, false, xs, ys)
	}
	// The ellipse moves: where it is at four times, and the first path's place at
	// the same times in the same colour.
	lines := t.Episodes[0].Lines
	for k, c := range []int{6, 3, 1, 4} {
		at := min((k+1)*len(lines)/4, len(lines)) - 1
		if at < 0 || at >= len(first.P) {
			continue
		}
		xs, ys := p.outline(first.P[at])
		f.line(fmt.Sprintf("t = %d", at), colour(c), false, xs, ys)
		f.point("", colour(c), draw.CircleGlyph{}, lines[at].S[0], lines[at].S[1])
	}
	f.point("goal", colour(2), draw.PyramidGlyph{}, p.Goal[0], p.Goal[1])
	f.point("recovery", colour(4), draw.SquareGlyph{}, p.Safe0[0], p.Safe0[1])
	f.equalAspect()
	return f
}

func stateFigure(t Trace) *Figure {
	f := newFigure(t.Header.Case+"-trajectory", t.Header.Case+": closed-loop states", "decision t", "state")
	for i := range t.Episodes[0].Lines[0].S {
		for e, ep := range t.Episodes[:min(6, len(t.Episodes))] {
			var xs, ys []float64
			for _, l := range ep.Lines {
				xs, ys = append(xs, float64(l.T)), append(ys, l.S[i])
			}
			label := ""
			if e == 0 {
				label = fmt.Sprintf("s%d", i+1)
			}
			f.line(label, colour(i), e > 0, xs, ys)
		}
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
		f.line("exact front", colour(6), false, x, y)
		for _, p := range s.Front {
			f.point("", colour(1), draw.CircleGlyph{}, float64(p.J[0]), float64(p.J[1]))
		}
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
		f.line("", faint(colour(6)), false, []float64{x[0][i], x[1][i]}, []float64{y[0][i], y[1][i]})
	}
	f.points("exact", colour(6), draw.RingGlyph{}, x[0], y[0])
	f.points(s.Method, colour(1), draw.CircleGlyph{}, x[1], y[1])
	return f
}
