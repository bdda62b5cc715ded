package rollout

import "math"

// Robot is one robot at a decision, as Joint and the planner describe it.
type Robot struct {
	X, Y, Theta, V float64
	Previous       [PlanFields]float64 // action of the step before
	Goal           [2]float64
}

// Motion converts a robot for the kernels.
func (r *Robot) Motion(dt, vLo, vHi, effort, smooth float64) Motion[float32] {
	sin, cos := math.Sincos(r.Theta)
	f := func(x float64) Vector[float32] { return Repeat(float32(x)) }
	return Motion[float32]{
		X: f(r.X), Y: f(r.Y), Cos: f(cos), Sin: f(sin), V: f(r.V), A: f(r.Previous[0]), Omega: f(r.Previous[1]),
		Dt: f(dt), VLo: f(vLo), VHi: f(vHi), GoalX: f(r.Goal[0]), GoalY: f(r.Goal[1]), Effort: f(effort), Smooth: f(smooth),
	}
}

// Joint is a prediction problem of several robots, ready for whole blocks, or of one among discs that hold the others
// on their fixed plans too, the block-coordinate form. The caller fills it once per decision.
type Joint struct {
	Steps  int
	Robots []Motion[float32]
	// Lateral, if set, makes the robots double integrators, whose actions are (ax, ay): it is their motion along y, and
	// Robots is that along x, both straight ahead, from X and V on.
	Lateral []Motion[float32]
	// Goal[i][k] weighs robot i's squared goal distance after step k, the terminal
	// term included.
	Goal [][]float32
	// Discs[i] is [step][disc][x, y, radii and safety distance] for robot i.
	Discs [][]float32
	Count int // discs per step
	// Pair[i][j], j < i, are the radii and safety distance of two robots.
	Pair    [][]float32
	Penalty Penalty[float32]
	Ending  *Ending // what is expected to be paid after the first robot's last step; nil: nothing
}

// Workspace is the memory of one goroutine's evaluations.
type Workspace struct {
	paths, grads []float32
	axes         [][2]axis // of every double integrator
}

// axis is the part along one axis of a block of a double integrator's plans, that of a unicycle that drives straight
// ahead.
type axis struct{ plan, path, grad, out []float32 }

// NewWorkspace holds evaluations of so many robots and steps.
func NewWorkspace(robots, steps int) *Workspace {
	return &Workspace{paths: make([]float32, robots*PathSize(steps)), grads: make([]float32, robots*2*steps*Lanes)}
}

// Scores is what an evaluation says of a block, one number per lane. A candidate
// whose cost is not finite has no cost and no margins (NaN) and no safe step.
type Scores[T real] struct {
	Cost Vector[T]
	Low  Vector[T] // smallest margin of all kinds, up to Reach, m
	Safe Vector[T] // leading steps whose margins are all at least Penalty.Hard
	// Kinds are the smallest margins of each kind, up to Reach: EgoDiscs, OtherDiscs,
	// Pairs.
	Kinds [MarginKinds]Vector[T]
}

// Result is the Scores of every Evaluator.
type Result = Scores[float32]

// Kinds of margins.
const (
	EgoDiscs   = iota // the first robot to its discs
	OtherDiscs        // the other robots to theirs
	Pairs             // robot to robot
	MarginKinds
)

func (r *Scores[T]) reset(steps int) {
	*r = Scores[T]{Safe: Repeat(T(steps))}
	for kind := range r.Kinds {
		r.Kinds[kind] = Repeat[T](Reach)
	}
}

// settle derives Low and takes back what a candidate was given whose cost is not
// finite.
func (r *Scores[T]) settle() {
	for l := range Lanes {
		r.Low[l] = min(r.Kinds[EgoDiscs][l], r.Kinds[OtherDiscs][l], r.Kinds[Pairs][l])
		if r.Cost[l]-r.Cost[l] != 0 {
			nan := T(math.NaN())
			r.Cost[l], r.Low[l], r.Safe[l] = nan, nan, 0
			for kind := range r.Kinds {
				r.Kinds[kind][l] = nan
			}
		}
	}
}

// Evaluate rolls out a block of joint plans, [robot][step][a, ω][lane], and
// writes result. Where out is not nil it gets the derivatives of the cost in the
// plans, in their layout.
func (e *Engine) Evaluate(j *Joint, plans []float32, w *Workspace, result *Result, out []float32) {
	n, plan := len(j.Robots), PlanSize(j.Steps)
	path, grad := PathSize(j.Steps), 2*j.Steps*Lanes
	require("plans", len(plans), n*plan)
	require("workspace", len(w.paths), n*path)
	result.reset(j.Steps)
	derivatives := out != nil
	part := func(i int) []float32 {
		if !derivatives {
			return nil
		}
		return w.grads[i*grad : (i+1)*grad]
	}
	if derivatives {
		require("derivatives", len(out), n*plan)
		clear(w.grads[:n*grad])
	}
	for i := range n {
		p := w.paths[i*path : (i+1)*path]
		e.track(j, i, plans[i*plan:(i+1)*plan], p, w, &result.Cost)
		e.Discs(p, j.Discs[i], j.Count, j.Steps, &j.Penalty, &result.Cost, &result.Kinds[min(i, OtherDiscs)], &result.Safe, part(i))
		for k := range i {
			e.Pair(p, w.paths[k*path:(k+1)*path], j.Pair[i][k], j.Steps, &j.Penalty, &result.Cost, &result.Kinds[Pairs], &result.Safe, part(i), part(k))
		}
	}
	if j.Ending != nil && j.Steps > 0 {
		end, offset := w.paths[path-PathFields*Lanes:], grad-2*Lanes
		for l := range Lanes {
			cost, gx, gy := j.Ending.At(float64(end[X*Lanes+l]), float64(end[Y*Lanes+l]))
			result.Cost[l] += float32(cost)
			if derivatives {
				w.grads[offset+l] += float32(gx)
				w.grads[offset+Lanes+l] += float32(gy)
			}
		}
	}
	result.settle()
	if derivatives {
		for i := range n {
			e.back(j, i, plans[i*plan:(i+1)*plan], w.paths[i*path:(i+1)*path], part(i), w, out[i*plan:(i+1)*plan])
		}
	}
}

// track rolls robot i of a joint problem out; a double integrator along one axis after the other.
func (e *Engine) track(j *Joint, i int, plan, path []float32, w *Workspace, cost *Vector[float32]) {
	if j.Lateral == nil {
		e.Track(plan, path, j.Goal[i], j.Steps, &j.Robots[i], cost)
		return
	}
	for len(w.axes) <= i {
		w.axes = append(w.axes, [2]axis{})
	}
	for c, m := range [2]*Motion[float32]{&j.Robots[i], &j.Lateral[i]} {
		a := &w.axes[i][c]
		if len(a.plan) < len(plan) {
			*a = axis{make([]float32, len(plan)), make([]float32, len(path)), make([]float32, len(plan)), make([]float32, len(plan))}
		}
		copyRows(a.plan, PlanFields, 0, plan, PlanFields, c)
		e.Track(a.plan, a.path, j.Goal[i], j.Steps, m, cost)
		copyRows(path, PathFields, c, a.path, PathFields, 0)
	}
}

// back is the reverse mode of track.
func (e *Engine) back(j *Joint, i int, plan, path, grad []float32, w *Workspace, out []float32) {
	if j.Lateral == nil {
		e.Back(plan, path, grad, j.Goal[i], j.Steps, &j.Robots[i], out)
		return
	}
	for c, m := range [2]*Motion[float32]{&j.Robots[i], &j.Lateral[i]} {
		a := &w.axes[i][c]
		copyRows(a.grad, 2, 0, grad, 2, c)
		e.Back(a.plan, a.path, a.grad, j.Goal[i], j.Steps, m, a.out)
		copyRows(out, PlanFields, c, a.out, PlanFields, 0)
	}
}

// copyRows copies one field of every step.
func copyRows(dst []float32, fields, field int, source []float32, sourceFields, sourceField int) {
	for k := range min(len(dst)/fields, len(source)/sourceFields) / Lanes {
		copy(dst[(k*fields+field)*Lanes:][:Lanes], source[(k*sourceFields+sourceField)*Lanes:])
	}
}
