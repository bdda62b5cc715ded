package report

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"gonum.org/v1/plot/vg"
)

// arena is what a trace's header says of a case with disc robots among disc
// obstacles.
type arena struct {
	Dt         float64    `json:"dt"`
	GoalRadius float64    `json:"goal_radius"`
	Workspace  [4]float64 `json:"workspace"`
}

type arenaScene struct {
	Agents []struct {
		P    [2]float64 `json:"p"`
		R    float64    `json:"r"`
		Goal [2]float64 `json:"goal"`
	} `json:"agents"`
	Obstacles []struct {
		C [2]float64 `json:"c"`
		V [2]float64 `json:"v"`
		R float64    `json:"r"`
	} `json:"obstacles"`
}

// arenaState is the width of one robot's part of a trace's s: x, y, θ, v.
const arenaState = 4

// readArena returns the geometry of a trace's first episode, if it has one.
func readArena(t Trace) (a arena, s arenaScene, ok bool) {
	if json.Unmarshal(t.Header.Params, &a) != nil || a.GoalRadius <= 0 || a.Dt <= 0 || a.Workspace[0] >= a.Workspace[1] || len(t.Episodes) == 0 {
		return a, s, false
	}
	if json.Unmarshal(t.Episodes[0].Scene, &s) != nil || len(s.Agents) == 0 {
		return a, s, false
	}
	for _, l := range t.Episodes[0].Lines {
		if len(l.S) < arenaState*len(s.Agents) {
			return a, s, false
		}
	}
	return a, s, len(t.Episodes[0].Lines) > 0
}

// move advances the obstacles by one step, mirrored at the workspace's edge.
func (a *arena) move(s *arenaScene) {
	for j := range s.Obstacles {
		o := &s.Obstacles[j]
		for k := range 2 {
			lo, hi := a.Workspace[2*k]+o.R, a.Workspace[2*k+1]-o.R
			o.C[k] += a.Dt * o.V[k]
			if o.C[k] > hi {
				o.C[k], o.V[k] = 2*hi-o.C[k], -o.V[k]
			} else if o.C[k] < lo {
				o.C[k], o.V[k] = 2*lo-o.C[k], -o.V[k]
			}
		}
	}
}

func circle(x, y, r float64) (xs, ys []float64) { return ellipse(x, y, r, r, 36) }

// ellipse is a closed outline of so many edges.
func ellipse(x, y, a, b float64, edges int) (xs, ys []float64) {
	for k := range edges + 1 {
		s, c := math.Sincos(2 * math.Pi * float64(k) / float64(edges))
		xs, ys = append(xs, x+a*c), append(ys, y+b*s)
	}
	return xs, ys
}

// scene draws obstacles where they are, goals, and paths up to a step.
func (a *arena) scene(f *Figure, t Trace, s *arenaScene, until int) {
	f.plot.X.Min, f.plot.X.Max, f.plot.Y.Min, f.plot.Y.Max = a.Workspace[0], a.Workspace[1], a.Workspace[2], a.Workspace[3]
	f.equalAspect()
	for _, o := range s.Obstacles {
		xs, ys := circle(o.C[0], o.C[1], o.R)
		f.fill(colour(6), xs, ys)
	}
	lines := t.Episodes[0].Lines
	for i, r := range s.Agents {
		xs, ys := []float64{r.P[0]}, []float64{r.P[1]}
		for _, l := range lines[:until] {
			xs, ys = append(xs, l.S[arenaState*i]), append(ys, l.S[arenaState*i+1])
		}
		f.line("", colour(i), false, xs, ys)
		bx, by := circle(xs[len(xs)-1], ys[len(ys)-1], r.R)
		f.fill(colour(i), bx, by)
		gx, gy := circle(r.Goal[0], r.Goal[1], a.GoalRadius)
		f.line("", colour(i), true, gx, gy)
	}
}

// arenaFigure is the first episode's paths among the obstacles, where those stand
// at its end.
func arenaFigure(t Trace, a arena, s arenaScene) *Figure {
	f := newFigure(t.Header.Case+"-trajectory", t.Header.Case+": joint trajectories of one episode", "x, m", "y, m")
	f.Height = f.Width
	for range t.Episodes[0].Lines {
		a.move(&s)
	}
	a.scene(f, t, &s, len(t.Episodes[0].Lines))
	return f
}

// arenaTraces are the goal distance of every robot and the smallest margin over
// the first episode.
func arenaTraces(t Trace) []*Figure {
	a, s, ok := readArena(t)
	if !ok {
		return nil
	}
	distances := newFigure(t.Header.Case+"-distances", t.Header.Case+": distance to the goal", "time, s", "distance, m")
	margins := newFigure(t.Header.Case+"-margins", t.Header.Case+": smallest margin of each step", "time, s", "margin, m")
	lines := t.Episodes[0].Lines
	time, margin := make([]float64, len(lines)), make([]float64, len(lines))
	for k, l := range lines {
		time[k], margin[k] = a.Dt*float64(l.T+1), float64(l.Margin)
	}
	for i, r := range s.Agents {
		d := make([]float64, len(lines))
		for k, l := range lines {
			d[k] = math.Hypot(l.S[arenaState*i]-r.Goal[0], l.S[arenaState*i+1]-r.Goal[1])
		}
		label := fmt.Sprintf("robot %d", i)
		if i == 0 {
			label = "ego"
		}
		distances.line(label, colour(i), false, time, d)
	}
	margins.line("", colour(0), false, time, margin)
	margins.line("collision", colour(1), true, []float64{0, time[len(time)-1]}, []float64{0, 0})
	return []*Figure{distances, margins}
}

// arenaFrames is the most frames of an animation, and arenaDelay the time between
// them in hundredths of a second.
const (
	arenaFrames = 60
	arenaDelay  = 12
)

// animateArena writes the first episode as a looping GIF.
func animateArena(ctx context.Context, t Trace, a arena, s arenaScene, path string) error {
	m := movie{ctx: ctx}
	lines := t.Episodes[0].Lines
	every := (len(lines) + arenaFrames - 1) / arenaFrames
	for k := range lines {
		a.move(&s)
		if k%every != 0 && k != len(lines)-1 {
			continue
		}
		f := newFigure("frame", fmt.Sprintf("%s, %s: %.1f s", t.Header.Case, t.Header.Method, a.Dt*float64(k+1)), "x, m", "y, m")
		f.Width, f.Height = 5*vg.Inch, 5*vg.Inch
		a.scene(f, t, &s, k+1)
		m.add(f, 72, arenaDelay)
	}
	return m.write(t, path, 150)
}
