package view

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
	"github.com/gpc-engine/gpc/tensor"
)

// Base writes the plan that goes home regardless of who stands there, by feedback
// along the way points: what is decoded is how to depart from it.
func (v *View) Base(s, c, plan []float64) {
	var e sight
	var path [world.LookAhead + 1]pose
	v.decode(s, c, &e)
	v.pursue(&e, &manoeuvre{}, plan, &path)
}

// stageInput is what the objectives of one action depend on.
type stageInput struct {
	speed, distance, wayCos, waySin float64
	a, omega                        float64
	c                               []float64
}

// stageSlopes are the derivatives of σᵀJ.
type stageSlopes struct{ speed, distance, wayCos, waySin, a, omega float64 }

// stage writes the objectives of one action and, where g is not nil, the
// derivatives of σᵀJ. With Δ = Δt·v̄·(cos ωΔt/2, sin ωΔt/2) the way of one step in
// the robot's frame, and per robot as in the planner's score,
//
//	J_goal   = λ_g·share²·‖d·(cos, sin of the way) − Δ‖²
//	J_safety = 3·share·stiffness·Σ_bodies huber(buffer − h(Δ))
//	J_effort = λ_e·(a² + ω²)·crowd
//
// and λ_v·Σ min(h, 0)² + λ_Δ/H·‖u − u_prev‖² is added to each. In the goal term the
// goal stands at its distance but in the direction of the way there, so that among
// walls the way round costs what it costs in the open; without a detour it is the
// squared goal distance. The factor 3 makes the planner's score that of w = (1/3,
// 1/3, 1/3).
func (v *View) stage(input *stageInput, sigma []float64, J *[3]float64, g *stageSlopes) {
	p := &v.system.Params
	l := &p.Lambda
	dt, c := p.Dt, input.c
	share, crowd := c[viewShare], c[viewCrowd]
	m := v.move(input.speed, input.a, input.omega)
	x, y := m.next.X, m.next.Y
	// Goal.
	weight := l[world.GoalTerm] * share * share
	gx, gy := input.distance*input.wayCos-x, input.distance*input.waySin-y
	J[0] = weight * (gx*gx + gy*gy)
	// Safety and violation: px, py is the slope in the position reached.
	stiffness := 3 * share * v.soft.Stiffness
	buffer, knee := v.soft.Buffer, v.soft.Knee
	var penalty, violation, penaltyX, penaltyY, violationX, violationY float64
	for b := range viewBodies {
		f := c[viewBodyAt+b*bodySize:][:bodySize]
		if f[bodyRadius] <= 0 {
			break
		}
		now := expand(f[bodyKnots], f[bodyKnots+1])
		later := expand(f[bodyKnots+2], f[bodyKnots+3])
		t := 1 / float64(knotSteps[1])
		dx, dy := x-now[0]-t*(later[0]-now[0]), y-now[1]-t*(later[1]-now[1])
		square := dx*dx + dy*dy
		if r := f[bodyRadius] + buffer; square >= r*r {
			continue
		}
		d := math.Sqrt(square) + 1e-9
		h := d - f[bodyRadius]
		cost, slope := rollout.Huber(1, buffer-h, knee)
		penalty += cost
		slope /= -d
		penaltyX += slope * dx
		penaltyY += slope * dy
		if h < 0 {
			violation += h * h
			violationX += 2 * h * dx / d
			violationY += 2 * h * dy / d
		}
	}
	da, dw := input.a-c[viewPrevious], input.omega-c[viewPrevious+1]
	smooth := l[world.SmoothnessTerm] / float64(p.H)
	always := l[world.ViolationTerm]*violation + smooth*(da*da+dw*dw)
	J[1] = stiffness*penalty + always
	effort := l[world.EffortTerm] * crowd
	J[2] = effort*(input.a*input.a+input.omega*input.omega) + always
	J[0] += always
	if g == nil {
		return
	}
	total := sigma[0] + sigma[1] + sigma[2]
	goal := 2 * sigma[0] * weight
	px := -goal*gx + sigma[1]*stiffness*penaltyX + total*l[world.ViolationTerm]*violationX
	py := -goal*gy + sigma[1]*stiffness*penaltyY + total*l[world.ViolationTerm]*violationY
	g.distance = goal * (gx*input.wayCos + gy*input.waySin)
	g.wayCos, g.waySin = goal*gx*input.distance, goal*gy*input.distance
	perMean := dt * (px*m.cos + py*m.sin)
	g.speed = perMean / 2
	g.a = 2*sigma[2]*effort*input.a + 2*total*smooth*da
	if m.next.V > p.Limits.VMin && m.next.V < p.Limits.VMax {
		g.speed += perMean / 2
		g.a += perMean * dt / 2
	}
	g.omega = dt*m.mean*(py*m.cos-px*m.sin)*dt/2 + 2*sigma[2]*effort*input.omega + 2*total*smooth*dw
}

// Objectives writes the stage objectives of an action.
func (v *View) Objectives(s, u, c, J []float64) {
	input := stageInput{s[viewSpeed], s[viewDistance] * s[viewDistance], s[viewWay], s[viewWay+1], u[0], u[1], c}
	v.stage(&input, nil, (*[3]float64)(J), nil)
}

// Gradient writes the derivatives of σᵀJ in s and u.
func (v *View) Gradient(s, u, c, sigma, gs, gu []float64) {
	var J [3]float64
	var g stageSlopes
	root := s[viewDistance]
	input := stageInput{s[viewSpeed], root * root, s[viewWay], s[viewWay+1], u[0], u[1], c}
	v.stage(&input, sigma, &J, &g)
	clear(gs)
	gs[viewSpeed], gs[viewDistance] = g.speed, 2*root*g.distance
	gs[viewWay], gs[viewWay+1] = g.wayCos, g.waySin
	gu[0], gu[1] = g.a, g.omega
}

// GradientBatch is domain.Derivatives.Rows.
func (v *View) GradientBatch(b domain.Batch) {
	var s, gs [viewMeasured]float64
	var c [viewContext]float64
	var J, sigma [3]float64
	var u, gu [world.ActionSize]float64
	last := -1
	for r := range b.Rows {
		tensor.Widen(s[:], b.S[r*b.SStride:][:len(s)])
		tensor.Widen(u[:], b.U[r*b.UStride:][:len(u)])
		tensor.Widen(sigma[:], b.Sigma[r*b.SigmaStride:][:len(sigma)])
		if last != r*b.CStride {
			last = r * b.CStride
			tensor.Widen(c[:], b.C[last:][:len(c)])
		}
		if b.J != nil {
			v.Objectives(s[:], u[:], c[:], J[:])
			tensor.Narrow(b.J[r*b.JStride:], J[:])
		}
		v.Gradient(s[:], u[:], c[:], sigma[:], gs[:], gu[:])
		tensor.Narrow(b.GS[r*b.GSStride:], gs[:])
		tensor.Narrow(b.GU[r*b.GUStride:], gu[:])
	}
}

// Indicators writes δ of goal (half at two metres), safety (1 where the smallest
// margin is zero or less) and effort (mean square of the previous action relative
// to its limits: what is being spent).
func (v *View) Indicators(s, u, c, delta []float64) {
	d := s[viewDistance] * s[viewDistance]
	delta[0] = d * d / (d*d + world.GoalScale)
	delta[1] = math.Exp(-math.Max(s[viewClearance], 0) / world.MarginScale)
	l := &v.system.Params.Limits
	a, omega := c[viewPrevious]/math.Max(l.AMax, -l.AMin), c[viewPrevious+1]/l.OmegaMax
	delta[2] = math.Min((a*a+omega*omega)/2, 1)
}

// advance moves the robot by one action and everything else by one step of its
// known path, into the robot's new frame.
func (v *View) advance(e *sight, u []float64) {
	next := v.move(e.speed, u[0], u[1]).next
	move := func(q *[2]float64) {
		dx, dy := q[0]-next.X, q[1]-next.Y
		q[0], q[1] = next.Cos*dx+next.Sin*dy, next.Cos*dy-next.Sin*dx
	}
	e.speed, e.previous = next.V, [world.ActionSize]float64{u[0], u[1]}
	move(&e.goal)
	for w := range e.ways {
		move(&e.ways[w])
	}
	for n := range e.count {
		b := &e.bodies[n]
		var knots [viewKnots][2]float64
		for k, step := range knotSteps {
			if k+1 < viewKnots {
				knots[k][0], knots[k][1] = b.position(step + 1)
				continue
			}
			// Beyond what is known it goes on as it does before.
			q, r := &b.knots[k], &b.knots[k-1]
			t := 1 / float64(step-knotSteps[k-1])
			knots[k] = [2]float64{q[0] + t*(q[0]-r[0]), q[1] + t*(q[1]-r[1])}
		}
		for k := range knots {
			move(&knots[k])
		}
		b.knots = knots
	}
}

// Step is the plant's step as far as a view tells: the robot moves, the bodies go
// on along their known paths, and the way points stay where they are.
func (v *View) Step(s, c, u, sNext, cNext []float64) {
	var e sight
	v.decode(s, c, &e)
	v.advance(&e, u)
	v.encode(&e, sNext, cNext)
}

// margin is the smallest margin after an action.
func (v *View) margin(e *sight, u []float64) float64 {
	next := v.move(e.speed, u[0], u[1]).next
	low := world.NoMargin
	for n := range e.count {
		b := &e.bodies[n]
		cx, cy := b.position(1)
		low = math.Min(low, math.Hypot(cx-next.X, cy-next.Y)-b.radius)
	}
	return low
}

// motion is where one action takes a robot, in the frame it had before.
type motion struct {
	next           pose
	cos, sin, mean float64 // mean heading and speed on the way
}

func (v *View) move(speed, a, omega float64) motion {
	p := &v.system.Params
	m := motion{next: pose{Cos: 1, V: speed}}
	m.sin, m.cos = rollout.HalfTurn(omega * p.Dt / 2)
	_, _, m.mean = m.next.Step(p.Dt, p.Limits.VMin, p.Limits.VMax, a, m.sin, m.cos)
	return m
}

// Margins writes the smallest margin after the action.
func (v *View) Margins(s, c, u, m []float64) {
	var e sight
	v.decode(s, c, &e)
	m[0] = v.margin(&e, u)
}

// Project moves an action into box and slew bound, exactly, and reports whether
// the next position keeps every margin. It does not look for another action: a
// plan is made safe by the planner, which sees all of it.
func (v *View) Project(s, c, u []float64) bool {
	var e sight
	v.decode(s, c, &e)
	v.system.Params.Limits.Nearest(u, e.previous[:])
	return v.margin(&e, u) >= 0
}

// ProjectPlan is domain.ProblemAbilities.ProjectPlan: Project changes an action by box and
// slew bound alone.
func (v *View) ProjectPlan(s, c, plan []float64) {
	previous := c[viewPrevious : viewPrevious+world.ActionSize]
	for k := 0; k < len(plan); k += world.ActionSize {
		u := plan[k : k+world.ActionSize]
		v.system.Params.Limits.Nearest(u, previous)
		previous = u
	}
}

// LearnedDistance is how far from its goal a robot is whose plans are learned, m:
// nearer, the optimum is a manoeuvre for centimetres that no map can tell from noise.
const LearnedDistance = 3.0

// Selects is domain.ProblemAbilities.Selects.
func (v *View) Selects(s, c []float64) bool {
	return s[viewDistance]*s[viewDistance] >= LearnedDistance
}

// Fallback brakes as hard as the slew bound allows and stops turning.
func (v *View) Fallback(s, c, u []float64) {
	clear(u)
	if speed := s[viewSpeed]; !math.IsNaN(speed) && !math.IsInf(speed, 0) {
		u[0] = -speed / v.system.Params.Dt
	}
	v.system.Params.Limits.Nearest(u, c[viewPrevious:viewPrevious+world.ActionSize])
}
