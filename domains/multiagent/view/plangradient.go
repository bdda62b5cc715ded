package view

import (
	"math"
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domains/multiagent/rollout"
	"github.com/gpc-engine/gpc/domains/multiagent/world"
	"github.com/gpc-engine/gpc/tensor"
)

// PlanObjectives implements domain.PlanGradient: the mean over the plan of the terms of
// Assess, and in that of the goal what is expected after the last step on the straight
// way home. It is what the solver minimises and the planner searches by, as far as a
// view tells. The goal is where it is, without a detour: a plan as long as this one goes
// around by itself.
func (v *View) PlanObjectives(s, plan, c, J []float64) {
	var e sight
	v.decode(s, c, &e)
	p := &v.system.Params
	w := v.planWeights(c)
	at := pose{Cos: 1, V: e.speed}
	before := e.previous
	clear(J)
	var always float64
	for k := range world.LookAhead {
		u := [world.ActionSize]float64{plan[2*k], plan[2*k+1]}
		sin, cos := halfTurn(u[1] * p.Dt / 2)
		at.Step(p.Dt, p.Limits.VMin, p.Limits.VMax, u[0], sin, cos)
		dx, dy := at.X-e.goal[0], at.Y-e.goal[1]
		J[0] += w.goal * (dx*dx + dy*dy)
		for n := range e.count {
			b := &e.bodies[n]
			x, y := b.at(k + 1)
			if t := v.soft.Buffer - (math.Hypot(at.X-x, at.Y-y) - b.radius); t > 0 {
				cost, _ := rollout.Huber(w.closeness, t, v.soft.Knee)
				J[1] += cost
			}
		}
		J[2] += w.effort * (u[0]*u[0] + u[1]*u[1])
		da, dw := u[0]-before[0], u[1]-before[1]
		always += w.smooth * (da*da + dw*dw)
		before = u
	}
	rest, _, _ := v.rest(w.goal, e.goal).At(at.X, at.Y)
	J[0] += rest
	for i := range J {
		J[i] += always
	}
}

// planWeights weigh the terms of a plan's objectives, the mean over its steps included.
type planWeights struct{ goal, closeness, effort, smooth float64 }

func (v *View) planWeights(c []float64) planWeights {
	l, share := &v.system.Params.Lambda, c[viewShare]
	return planWeights{
		goal:      l[world.GoalTerm] * share * share / world.LookAhead,
		closeness: 3 * share * v.soft.Stiffness / world.LookAhead,
		effort:    l[world.EffortTerm] * c[viewCrowd] / world.LookAhead,
		smooth:    l[world.SmoothnessTerm] / float64(v.system.Params.H) / world.LookAhead,
	}
}

// rest is what is expected after a plan, straight home at full speed.
func (v *View) rest(stage float64, goal [2]float64) *rollout.Ending {
	p := &v.system.Params
	return &rollout.Ending{Goal: goal, Stage: stage, Stride: p.Dt * p.Limits.VMax, Scale: 1}
}

// planBlock is the memory of sixteen plans among the same bodies.
type planBlock struct {
	robot                  rollout.Motion[float32]
	penalty                rollout.Penalty[float32]
	goal, discs            []float32
	count                  int // discs of a step
	plan, path, grad, back []float32
	tracked, closeness     rollout.Vector[float32] // costs
	low, safe              rollout.Vector[float32]
	c                      []float64
	sight                  sight
}

// engine rolls out on this CPU. That there is none a planner says, before it asks a map.
var engine = sync.OnceValue(func() *rollout.Engine {
	e, err := rollout.New()
	if err != nil {
		panic("view: " + err.Error())
	}
	return e
})

var planBlocks = sync.Pool{New: func() any {
	const size = world.LookAhead
	return &planBlock{
		goal: make([]float32, size), discs: make([]float32, size*viewBodies*rollout.DiscFields),
		plan: make([]float32, rollout.PlanSize(size)), path: make([]float32, rollout.PathSize(size)),
		grad: make([]float32, rollout.PlanSize(size)), back: make([]float32, rollout.PlanSize(size)), c: make([]float64, viewContext),
	}
}}

// PlanGradientBatch implements domain.PlanGradient: consecutive rows of one context and
// priority are rolled out and differentiated sixteen at a time.
func (v *View) PlanGradientBatch(b domain.Batch) {
	w := planBlocks.Get().(*planBlock)
	defer planBlocks.Put(w)
	same := func(data []float32, stride, size, i, k int) bool {
		return stride == 0 || slices.Equal(data[i*stride:][:size], data[k*stride:][:size])
	}
	for from := 0; from < b.Rows; {
		if from == 0 || !same(b.C, b.CStride, viewContext, from-1, from) {
			v.placeBodies(w, b.C[from*b.CStride:][:viewContext])
		}
		to := from + 1
		for to < b.Rows && to < from+rollout.Lanes && same(b.C, b.CStride, viewContext, from, to) && same(b.Sigma, b.SigmaStride, 3, from, to) {
			to++
		}
		v.planBlock(w, &b, from, to)
		from = to
	}
}

// placeBodies writes where the bodies of a context are after each step.
func (v *View) placeBodies(w *planBlock, c []float32) {
	tensor.Widen(w.c, c)
	var s [viewMeasured]float64
	v.decode(s[:], w.c, &w.sight)
	w.count = w.sight.count
	w.discs = w.discs[:0]
	for k := range world.LookAhead {
		for n := range w.count {
			o := &w.sight.bodies[n]
			x, y := o.at(k + 1)
			w.discs = append(w.discs, float32(x), float32(y), float32(o.radius))
		}
	}
}

// planBlock writes the derivatives of rows from until to, and their objectives where
// they are wanted.
func (v *View) planBlock(w *planBlock, b *domain.Batch, from, to int) {
	const last = world.LookAhead - 1
	p, weights := &v.system.Params, v.planWeights(w.c)
	var sigma [3]float64
	tensor.Widen(sigma[:], b.Sigma[from*b.SigmaStride:][:len(sigma)])
	repeat := func(x float64) rollout.Vector[float32] { return rollout.Repeat(float32(x)) }
	m := &w.robot
	*m = rollout.Motion[float32]{
		Cos: repeat(1), A: repeat(w.sight.previous[0]), Omega: repeat(w.sight.previous[1]),
		Dt: repeat(p.Dt), VLo: repeat(p.Limits.VMin), VHi: repeat(p.Limits.VMax),
		Effort: repeat(sigma[2] * weights.effort), Smooth: repeat((sigma[0] + sigma[1] + sigma[2]) * weights.smooth),
	}
	// Without σ, which multiplies the slopes below: what it costs is wanted by itself.
	w.penalty = rollout.Penalty[float32]{Square: repeat(weights.closeness), Buffer: repeat(v.soft.Buffer), Knee: repeat(v.soft.Knee)}
	stage := sigma[0] * weights.goal
	for k := range w.goal {
		w.goal[k] = float32(stage)
	}
	for l := range rollout.Lanes {
		r := min(from+l, to-1)
		s, u := b.S[r*b.SStride:][:viewMeasured], b.U[r*b.UStride:][:len(w.plan)/rollout.Lanes]
		d := s[viewDistance] * s[viewDistance]
		m.V[l], m.GoalX[l], m.GoalY[l] = s[viewSpeed], d*s[viewGoal], d*s[viewGoal+1]
		for k, x := range u {
			w.plan[k*rollout.Lanes+l] = x
		}
	}
	engine := engine()
	engine.Track(w.plan, w.path, w.goal, world.LookAhead, m, &w.tracked)
	clear(w.grad)
	clear(w.closeness[:])
	engine.Discs(w.path, w.discs, w.count, world.LookAhead, &w.penalty, &w.closeness, &w.low, &w.safe, w.grad)
	for i := range w.grad {
		w.grad[i] *= float32(sigma[1])
	}
	// The goal's slope, and all of the first position's, which the speed before it acts by.
	var goalX, goalY, rest rollout.Vector[float64]
	for l := range to - from {
		end := w.path[last*rollout.PathFields*rollout.Lanes:]
		cost, gx, gy := v.rest(1, [2]float64{float64(m.GoalX[l]), float64(m.GoalY[l])}).At(float64(end[rollout.X*rollout.Lanes+l]), float64(end[rollout.Y*rollout.Lanes+l]))
		rest[l], goalX[l], goalY[l] = cost, -stage*gx, -stage*gy
		w.grad[2*last*rollout.Lanes+l] += float32(stage * gx)
		w.grad[(2*last+1)*rollout.Lanes+l] += float32(stage * gy)
	}
	engine.Back(w.plan, w.path, w.grad, w.goal, world.LookAhead, m, w.back)
	for l := range to - from {
		var px, py, away float64
		for k := range world.LookAhead {
			at := w.path[k*rollout.PathFields*rollout.Lanes:]
			dx, dy := float64(at[rollout.X*rollout.Lanes+l]-m.GoalX[l]), float64(at[rollout.Y*rollout.Lanes+l]-m.GoalY[l])
			away += dx*dx + dy*dy
			goalX[l] -= 2 * stage * dx
			goalY[l] -= 2 * stage * dy
			px += float64(w.grad[2*k*rollout.Lanes+l]) + 2*stage*dx
			py += float64(w.grad[(2*k+1)*rollout.Lanes+l]) + 2*stage*dy
		}
		r := from + l
		s, u, gs, gu := b.S[r*b.SStride:][:viewMeasured], b.U[r*b.UStride:], b.GS[r*b.GSStride:][:viewMeasured], b.GU[r*b.GUStride:]
		for k := range len(w.plan) / rollout.Lanes {
			gu[k] = w.back[k*rollout.Lanes+l]
		}
		root, cos, sin := float64(s[viewDistance]), float64(s[viewGoal]), float64(s[viewGoal+1])
		clear(gs)
		gs[viewDistance] = float32(2 * root * (goalX[l]*cos + goalY[l]*sin))
		gs[viewGoal], gs[viewGoal+1] = float32(root*root*goalX[l]), float32(root*root*goalY[l])
		// The speed moves the first position by itself and, where it is inside its limits,
		// all that follows as Δt times the first acceleration does.
		perMean := p.Dt / 2 * (px*float64(w.path[rollout.Cos*rollout.Lanes+l]) + py*float64(w.path[rollout.Sin*rollout.Lanes+l]))
		effort, smooth := float64(m.Effort[l]), float64(m.Smooth[l])
		direct := 2*effort*float64(u[0]) + 2*smooth*(float64(u[0])-w.sight.previous[0]) - 2*smooth*float64(u[2]-u[0])
		gs[viewSpeed] = float32(perMean + (float64(gu[0])-direct)/p.Dt)
		if b.J == nil {
			continue
		}
		var spent, changed float64
		before := [2]float64{w.sight.previous[0], w.sight.previous[1]}
		for k := range world.LookAhead {
			a, omega := float64(u[2*k]), float64(u[2*k+1])
			spent += a*a + omega*omega
			changed += (a-before[0])*(a-before[0]) + (omega-before[1])*(omega-before[1])
			before = [2]float64{a, omega}
		}
		J := b.J[r*b.JStride:]
		J[0] = float32(weights.goal*(away+rest[l]) + weights.smooth*changed)
		J[1] = w.closeness[l] + float32(weights.smooth*changed)
		J[2] = float32(weights.effort*spent + weights.smooth*changed)
	}
}
