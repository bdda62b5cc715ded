package report

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/lab/draw"
	"gonum.org/v1/gonum/stat"
)

// algorithmTwo is the paper's online algorithm, whole; planner is what Case 2 has in its place.
const (
	AlgorithmTwo = "navigator"
	Planner      = "planner"
)

// leading is the method of a case whose traces and points the figures single out, and beside
// which the others stand: the first of its list.
func (r *Records) leading(name string) string {
	if methods := r.Cases[name].Methods; len(methods) > 0 {
		return methods[0].Name
	}
	return AlgorithmTwo
}

// caseFigures are for each case the paper's four panels: terminal regret, semantic
// coordinate, closed-loop trajectory, speed-quality frontier; then what the first episode of
// its trace looks like over time.
func (r *Records) caseFigures(name string) []*draw.Figure {
	var figures []*draw.Figure
	// A gap to a reference may be negative: no logarithmic axis holds it.
	if evals := r.Plain(name); len(evals) > 0 && evals[0].GoalReached == nil {
		figures = append(figures, r.regretFigure(name, evals), r.frontierFigure(name, evals))
	}
	if t := r.ShownTrace(name); t != nil {
		figures = append(figures, r.priorityFigure(t))
		figures = append(figures, r.traceFigures(t)...)
	}
	figures = append(figures, r.rolloutFigures(name)...)
	figures = append(figures, r.seriesFigures(name)...)
	return slices.DeleteFunc(figures, func(f *draw.Figure) bool { return f == nil })
}

// ShownTrace is the trace of a case that its figures are of: the leading method's, or else the
// first; nil where there is none with a decision.
func (r *Records) ShownTrace(name string) *Trace {
	wanted := func(t Trace) bool { return len(t.Episodes) > 0 && len(t.Episodes[0].Lines) > 0 }
	if t := r.trace(name, func(t Trace) bool { return wanted(t) && t.Header.Method == r.leading(name) }); t != nil {
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
func (r *Records) regretFigure(name string, evals []closedloop.Result) *draw.Figure {
	f := draw.New(name+"-regret", name+": terminal regret", draw.Log("terminal regret", "%"), draw.Axis{})
	var labels []string
	for _, e := range evals {
		regret := float64(e.RegretPct)
		if r.Method(name, e.Method).Group == domain.GroupExact || math.IsNaN(regret) {
			continue
		}
		y := -float64(len(labels)) // downwards
		labels = append(labels, e.Method)
		c := r.methodColour(name, e.Method)
		lo, hi := regret-float64(e.RegretSEM), regret+float64(e.RegretSEM)
		f.Line("", c, false, []float64{math.Max(regretFloor, lo), math.Max(regretFloor, hi)}, []float64{y, y})
		f.Point("", c, draw.Disc, math.Max(regretFloor, regret), y)
		if p := r.Paper(name, e.Method); !math.IsNaN(p.Regret) {
			f.Point("", draw.Colour(draw.Grey), draw.Cross, p.Regret, y)
		}
	}
	if len(labels) < 2 {
		return nil
	}
	f.Rows(labels)
	f.Caption = fmt.Sprintf("Cost above the optimum over safe episodes, mean ± s.e.m.; below %g %% drawn there.", regretFloor)
	if len(r.Cases[name].Paper) > 0 {
		f.Caption += " Crosses are the paper's."
	}
	return f
}

// frontierFigure is panel (d): decision time against regret.
func (r *Records) frontierFigure(name string, evals []closedloop.Result) *draw.Figure {
	f := draw.New(name+"-frontier", name+": speed and quality", draw.Log("median decision time", "ms"), draw.Log("terminal regret", "%"))
	drawn := 0
	for _, e := range evals {
		regret, ms := float64(e.RegretPct), float64(e.Latency.P50)/1e3
		// Ablations stand in the table; here they would only hide each other.
		group := r.Method(name, e.Method).Group
		if group == domain.GroupExact || group == domain.GroupAblation || math.IsNaN(regret) || !(ms > 0) {
			continue
		}
		regret = math.Max(regretFloor, regret)
		f.Point(e.Method, r.methodColour(name, e.Method), draw.Disc, ms, regret)
		if p := r.Paper(name, e.Method); !math.IsNaN(p.Regret) {
			f.Point(e.Method+" (paper)", draw.Colour(draw.Grey), draw.Cross, p.Milliseconds, p.Regret)
		}
		drawn++
	}
	if drawn < 2 {
		return nil
	}
	f.Caption = "Left is faster, lower is better. Exact methods and ablations stand in the table"
	if len(r.Cases[name].Paper) > 0 {
		f.Caption += "; crosses are the paper's, on its own hardware"
	}
	f.Caption += "."
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

// fewEpisodes of a trace have a line each in the figure of the priority; of more, quantiles are shaded.
const fewEpisodes = 5

// priorityFigure is panel (b): the semantic coordinate σ along the episodes of a trace, its mean over them and what lies
// between the 10 and 90 % quantiles; nil where it never changes.
func (r *Records) priorityFigure(t *Trace) *draw.Figure {
	if steady(*t) {
		return nil
	}
	f := draw.New(t.Header.Case+"-priority", t.Header.Case+": priority σ of "+t.Header.Method, draw.Axis{}, draw.Along("priority σ", "share"))
	f.Plot.Y.Min, f.Plot.Y.Max = 0, 1
	longest := 0
	for _, ep := range t.Episodes {
		longest = max(longest, len(ep.Lines))
	}
	var time []float64
	time, f.X = r.clock(t.Header.Case, longest)
	for i := range t.Episodes[0].Lines[0].Sigma {
		var b closedloop.Band
		for k := range longest {
			var at []float64
			for _, ep := range t.Episodes {
				if k >= len(ep.Lines) {
					continue
				}
				l := &ep.Lines[k]
				if i >= len(l.Sigma) {
					f.Fail(fmt.Errorf("trace of %s, line %d has %d priorities, want %d", t.Header.Case, l.Line, len(l.Sigma), i+1))
					return f
				}
				at = append(at, l.Sigma[i])
			}
			slices.Sort(at)
			b.Mean = append(b.Mean, stat.Mean(at, nil))
			b.P10, b.P90 = append(b.P10, stat.Quantile(0.1, stat.LinInterp, at, nil)), append(b.P90, stat.Quantile(0.9, stat.LinInterp, at, nil))
		}
		if len(t.Episodes) < fewEpisodes {
			for _, ep := range t.Episodes {
				var ys []float64
				for _, l := range ep.Lines {
					ys = append(ys, l.Sigma[i])
				}
				f.Line("", draw.Faint(draw.Colour(i)), false, time[:len(ys)], ys)
			}
			b.P10, b.P90 = nil, nil
		}
		f.Band(r.objective(t.Header.Case, "σ", i), draw.Colour(i), false, time, b.Mean, b.P10, b.P90)
	}
	f.Caption = fmt.Sprintf("The priority σ that decisions of %s were scored with", t.Header.Method)
	if n := len(t.Episodes); n >= fewEpisodes {
		f.Caption += fmt.Sprintf(": the mean over %d episodes, and between the 10 and 90 %% quantiles shaded", n)
	} else if n > 1 {
		f.Caption += fmt.Sprintf(": the mean over %d episodes, and each of them faintly", n)
	}
	f.Caption += "."
	return f
}

// othersShown is how many more episodes leave a trail in a trajectory of one body.
const othersShown = 11

// traceFigures are panel (c) and what the first episode is like over time: what its case draws
// of it, with distances to goals; where it draws nothing, the states; then actions and margin.
func (r *Records) traceFigures(t *Trace) (figures []*draw.Figure) {
	first := &t.Episodes[0]
	name, of := t.Header.Case, fmt.Sprintf("Episode %d of %s, seed %d", first.Episode, t.Header.Method, t.Header.Seed)
	m, err := r.motion(t, first)
	robots := 0
	if m != nil && err == nil {
		figures = append(figures, r.trajectoryFigure(t, m))
		robots = m.Robots()
		time, clock := r.clock(name, len(m.Shapes))
		figures = append(figures, r.distanceFigure(name, name, name, of, m, time, clock))
	}
	for _, p := range r.panels(t) {
		if m != nil && err == nil && p.Title == "states" {
			continue
		}
		nameRobots(&p, robots)
		f := p.Figure(name+"-"+p.Name, name+": "+strings.TrimSuffix(p.Title+", "+p.Unit, ", "))
		f.Caption = of + "."
		if err != nil {
			f.Caption += fmt.Sprintf(" It cannot be replayed here: %v.", err)
		}
		figures = append(figures, f)
	}
	return figures
}

// distanceFigure is how far every body is from its goal, of a file and a title that begin so; nil where none has one.
func (r *Records) distanceFigure(name, file, title, of string, m *draw.Motion, time []float64, clock draw.Axis) *draw.Figure {
	bodies, d := m.Distances()
	if len(bodies) == 0 {
		return nil
	}
	p := draw.Panel{Axis: "distance", Unit: "m", Time: time, Clock: clock, Values: d}
	for _, body := range bodies {
		p.Names = append(p.Names, r.bodyName(name, body, len(bodies)))
	}
	f := p.Figure(file+"-distances", title+": distance to the goal")
	f.Caption = of + ": between the centres of a body and its goal."
	return f
}

// trajectoryFigure is panel (c): the end of the first episode with the way to it; of a single
// body, faintly, the ways of other episodes too.
func (r *Records) trajectoryFigure(t *Trace, m *draw.Motion) *draw.Figure {
	name, last := t.Header.Case, m.Until(r.seconds(t.Header.Case))
	whole := "at its end"
	if last < len(m.Shapes)-1 {
		whole = "shortly after arrival"
	}
	f := m.Figure(name+"-trajectory", name+": closed-loop trajectory", last)
	f.Caption = fmt.Sprintf("Episode %d of %s, seed %d, %s; pale outlines are bodies on the way, goals are dashed, trails are where bodies have been.", t.Episodes[0].Episode, t.Header.Method, t.Header.Seed, whole)
	trails := 0
	for _, s := range m.Shapes[0] {
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
			other.Trails(f, len(other.Shapes)-1, true)
			drawn++
		}
	}
	if drawn > 0 {
		f.Caption += fmt.Sprintf(" Faintly, the trails of %d more episodes, whose scenes differ.", drawn)
	}
	return f
}

// methodTints are the colours of methods by their places in tints, the same in every drawing.
var methodTints = map[string]int{
	AlgorithmTwo: 0, Planner: 0, "direct": 1, "refine-64": 2, "refine-512": 3, "polish": 4, "mpc": 5, "mpc8": 5,
	WarmSolver: draw.Grey, "oracle": draw.Grey, "mo-opf": draw.Grey, "refine-4096": draw.Brown,
}

// methodColour is that of a method; a variant has the colour of the whole method.
func (r *Records) methodColour(name, method string) color.RGBA {
	for base := method; base != ""; base = base[:max(0, strings.LastIndexAny(base, "-+"))] {
		if i, ok := methodTints[base]; ok {
			return draw.Colour(i)
		}
	}
	if r.Method(name, method).Group == domain.GroupExact {
		return draw.Colour(draw.Grey)
	}
	return draw.Colour(draw.Brown)
}
